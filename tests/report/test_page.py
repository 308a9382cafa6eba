"""The page of a report: what it holds, that nothing but its own script runs, and serving it."""

import html
import re
import socket
import urllib.error
import urllib.request

import numpy as np
import pytest

from discover_rl import report
from discover_rl.core.types import UserError
from discover_rl.report import bands, comparisons, data, live, page, payload, statistics
from tests.helpers.records import declare, write_record, write_records
from tests.report.pages import EVIL, GRID, built, data_in, document, malicious, rising

# What it holds


def test_the_data_are_what_the_report_says(tmp_path):
    study = declare(GRID, seeds=3)
    rising(tmp_path, study)
    found = data_in(built(study, tmp_path))
    everything = data.load(study, tmp_path)
    assert found["progress"] == everything.progress == "18 runs: 17 done, 1 failed"
    (group,) = found["groups"]
    assert [line["label"] for line in group["lines"]] == GRID["strategy"]
    for (_, where), cell in zip(group["panels"][0]["lines"], everything.cells[:3], strict=True):
        own = found["cells"][where]
        assert found["grids"][own["grid"]] == cell.steps.tolist()
        assert found["windows"][0] == 1
        for window in found["windows"]:
            for kind, curve in cell.smoothed(window).items():
                drawn = own["curves"][str(window)][kind]
                for row, right in zip(drawn, curve[1:4], strict=True):
                    np.testing.assert_allclose(row, right, atol=0.02)
    assert found["failed"]["rows"][0][2][0] == "critic loss is not finite (step 551)"
    assert [row[0][0] for row in found["missing"]["rows"]] == ["My-v0/td3/discover"]
    assert len(found["runs"]) == 18
    assert found["runs"][0]["commit"] == "abc123"
    assert found["codes"][found["runs"][0]["code"]]["numpy"] == "2.4"


@pytest.mark.parametrize(
    ("evaluations", "windows", "usual"), [(10, [1], 1), (30, [1, 3], 3), (200, [1, 5, 10], 5)]
)
def test_windows_are_offered_that_runs_have_evaluations_for(tmp_path, evaluations, windows, usual):
    study = declare(GRID | {"task": ["My-v0"], "strategy": ["none"]}, steps=10_000, seeds=2)
    write_records(tmp_path, study, points=evaluations)
    found = data_in(built(study, tmp_path))
    assert (found["windows"], found["window"]) == (windows, usual)


def test_curves_say_how_many_runs_go_on(tmp_path):
    study = declare(GRID, seeds=3)
    rising(tmp_path, study)
    own = data_in(built(study, tmp_path))["cells"][-1]["curves"]["1"]
    assert set(own["runs"]) == {2, 3}
    assert own["ends"]
    assert data_in(built(study, tmp_path))["cells"][0]["curves"]["1"]["runs"] == 3


@pytest.mark.parametrize(
    ("text", "key"),
    [("−12.5 ± 3.0", -12.5), ("1,200 [800, never]", 1200.0), ("[−3, 4]", -3.0), ("–", None)],
)
def test_what_columns_of_numbers_are_sorted_by(text, key):
    assert payload._sort_key(text) == key


def test_the_same_records_give_the_same_page(tmp_path):
    study, cache = declare(GRID), {}
    rising(tmp_path, study)
    first = built(study, tmp_path, cache)
    assert built(study, tmp_path) == first
    assert built(study, tmp_path, cache) == first
    write_record(tmp_path, study.cells[0], 0, [7.0] * 23)
    second = built(study, tmp_path, cache)
    assert second != first
    assert second == built(study, tmp_path)


def test_a_report_has_the_page(tmp_path):
    study = declare(GRID | {"task": "My-v0", "strategy": "none"})
    write_records(tmp_path, study)
    written = report.write(study, tmp_path)
    assert tmp_path / "report/index.html" in written.files
    assert (tmp_path / "report/index.html").read_text() == built(study, tmp_path)


@pytest.mark.slow
def test_a_thousand_long_runs_make_a_page_of_a_few_megabytes(tmp_path, monkeypatch):
    monkeypatch.setitem(bands.BANDS, "iqm", statistics.half_sd_band)  # as many numbers, sooner
    grid = {"task": [f"Task{i}-v0" for i in range(25)], "algorithm": "td3"}
    study = declare(grid | {"strategy": ["none", "gaussian", "ou", "discover"]}, seeds=10)
    header = {"run": {"settings": {f"setting{i}": i / 7 for i in range(30)}}, "code": {"a": "1"}}
    steps, rng = np.arange(1001) * 1000, np.random.default_rng(0)
    cells = []
    for cell in study.cells:
        runs = [
            data.RunInfo(name, seed, "done", 10**6, "", header)
            for name, seed in zip(cell.names, cell.seeds, strict=True)
        ]
        cells.append(data.Results(cell, runs, steps, rng.normal(3000, 900, (10, 1001))))
    everything = data.Data(study, cells)
    monkeypatch.setattr(comparisons, "compare", lambda group: [])
    text = document(everything)
    assert len(everything.runs) == 1000
    assert len(text.encode()) < 4e6
    found = data_in(text)
    assert all(len(grid) <= bands.POINTS and grid[-1] == 10**6 for grid in found["grids"])
    assert len(found["setups"]) == 1


# Nothing but the page's own script runs


def test_nothing_from_records_is_markup(tmp_path):
    study = malicious(tmp_path)
    text = built(study, tmp_path)
    assert "<img" not in text
    assert text.count("</script>") == 2
    assert html.escape(EVIL) in text  # the title
    found = data_in(text)
    assert found["study"] == found["about"] == found["runs"][0]["task"] == EVIL
    assert EVIL in found["runs"][0]["reason"]


def test_the_policy_allows_the_pages_style_and_script_and_nothing_else(tmp_path):
    study = declare(GRID)
    text = built(study, tmp_path)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="(.*?)"', text)
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == rules["connect-src"] == "'none'"
    for name, element in (("script-src", "script"), ("style-src", "style")):
        (inside,) = re.findall(rf"<{element}>(.*?)</{element}>", text, re.S)
        assert rules[name] == f"'{page._hash(inside)}'"
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert " style=" not in text
    assert "innerHTML" not in text


# While it is served


def get(address, **headers):
    """Status and text of the answer to a request."""
    request = urllib.request.Request(address, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_watching_is_for_this_machine_and_this_page_alone(served):
    study, out, address = served
    status, text = get(address)
    assert status == 200
    assert data_in(text)["study"] == "live"
    assert get(f"{address}data.json")[0] == 200
    record = out / study.names[0] / "record.jsonl"
    for path in (record, "/live.toml", "/../live.toml", "/%2e%2e/live.toml", "/?x"):
        assert get(f"{address.rstrip('/')}{path}")[0] == 404, path
    assert get(address, Host="evil.example")[0] == 403
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", int(address.rstrip("/").rpartition(":")[2])), 5)


def test_trouble_with_records_is_shown_and_passes(tmp_path):
    study = declare(GRID)
    write_records(tmp_path, study)
    updater = live.Updater(study, tmp_path)
    good, file = updater.latest, tmp_path / study.names[0] / "record.jsonl"
    (tmp_path / "cohorts.json").write_text("no object\n")
    updater.update()
    assert "cohorts.json is damaged" in updater.latest.trouble
    assert updater.latest.content == good.content
    (tmp_path / "cohorts.json").unlink()
    text = file.read_text()
    file.write_text("no record\n")
    updater.update()
    assert not updater.latest.trouble  # the other runs are shown
    assert f"{file}, line 1, is damaged" in updater.latest.content
    file.write_text(text)
    updater.update()
    assert updater.latest == good


def test_a_port_that_is_taken_is_one_sentence(tmp_path):
    with socket.create_server((live.HOST, 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(UserError, match=f"Port {port} cannot be used"):
            live.serve(declare(GRID), tmp_path, port, pytest.fail)
