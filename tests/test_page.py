"""The page of a report: what it holds, that nothing in it runs but ours, and that it works in a
browser, as a file and while it is served."""

import html
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import numpy as np
import pytest

from discover_rl import report, stats, studies
from discover_rl.report import comparisons, data, live, page, payload
from discover_rl.types import UserError
from tests.records import declare, fill, put

EVIL = '</script><img src=x onerror="window.hacked=1"><!--'
EVIL_ARM = EVIL.replace("/", "")  # which is a folder's name, too
GRID = {
    "task": ["Hopper-v5", "My-v0"],
    "algorithm": "td3",
    "strategy": ["none", "gaussian", "discover"],
}

DIVERGED = {"event": "diverged", "step": 551, "quantity": "critic loss"}
ARMS = ["none", "discover", "noisynet", "coherent"]


def built(study, out, kept=None):
    everything = data.load(study, out)
    shown = page.content(everything, comparisons.analyse(everything), kept=kept)
    return page.document(study.name, shown)


def shown_in(text):
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found)


def rising(out, study, points=23):
    """Runs that rise to levels of their own, of which the last cell's last seed failed."""
    for i, cell in enumerate(study.cells):
        for seed in cell.seeds:
            put(out, cell, seed, [(10.0 * i + seed) * k / points for k in range(points)])
    put(out, cell, seed, [50.0] * 12, end=False, event=DIVERGED)


# What it holds


def test_the_data_are_what_the_report_says(tmp_path):
    study = declare(GRID, seeds=3)
    rising(tmp_path, study)
    found = shown_in(built(study, tmp_path))
    everything = data.load(study, tmp_path)
    assert found["standing"] == everything.standing == "18 runs: 17 done, 1 failed"
    (group,) = found["groups"]
    assert [line["label"] for line in group["lines"]] == GRID["strategy"]
    for (_, where), cell in zip(group["panels"][0]["lines"], everything.cells[:3], strict=True):
        own = found["cells"][where]
        assert found["grids"][own["grid"]] == cell.steps.tolist()
        for window in (1, 5, 10):
            for kind, curve in cell.smoothed(window).items():
                drawn = own["curves"][str(window)][kind]
                for row, right in zip(drawn, curve[1:4], strict=True):
                    np.testing.assert_allclose(row, right, atol=0.02)
    assert found["failed"]["rows"][0][2][0] == "critic loss is not finite (step 551)"
    assert [row[0][0] for row in found["missing"]["rows"]] == ["My-v0/td3/discover"]
    assert len(found["runs"]) == 18
    assert found["runs"][0]["commit"] == "abc123"
    assert found["codes"][found["runs"][0]["code"]]["numpy"] == "2.4"


def test_curves_say_how_many_runs_go_on(tmp_path):
    study = declare(GRID, seeds=3)
    rising(tmp_path, study)
    own = shown_in(built(study, tmp_path))["cells"][-1]["curves"]["1"]
    assert set(own["runs"]) == {2, 3}
    assert own["ends"]
    assert shown_in(built(study, tmp_path))["cells"][0]["curves"]["1"]["runs"] == 3


@pytest.mark.parametrize(
    ("text", "key"),
    [("−12.5 ± 3.0", -12.5), ("1,200 [800, never]", 1200.0), ("[−3, 4]", -3.0), ("–", None)],
)
def test_what_columns_of_numbers_are_sorted_by(text, key):
    assert payload._key(text) == key


def test_the_same_records_give_the_same_page(tmp_path):
    study, kept = declare(GRID), {}
    rising(tmp_path, study)
    first = built(study, tmp_path, kept)
    assert built(study, tmp_path) == first
    assert built(study, tmp_path, kept) == first  # from what was kept, too
    put(tmp_path, study.cells[0], 0, [7.0] * 23)
    second = built(study, tmp_path, kept)
    assert second != first
    assert second == built(study, tmp_path)


def test_a_report_has_the_page(tmp_path):
    study = declare(GRID | {"task": "My-v0", "strategy": "none"})
    written = report.write(study, tmp_path)
    assert tmp_path / "report/index.html" in written.files
    assert (tmp_path / "report/index.html").read_text() == built(study, tmp_path)


def test_a_thousand_long_runs_make_a_page_of_a_few_megabytes(tmp_path, monkeypatch):
    monkeypatch.setitem(data.BANDS, "iqm", stats.half_sd_band)  # as many numbers, sooner
    grid = {"task": [f"Task{i}-v0" for i in range(25)], "algorithm": "td3"}
    study = declare(grid | {"strategy": ["none", "gaussian", "ou", "discover"]}, seeds=10)
    header = {"run": {"settings": {f"setting{i}": i / 7 for i in range(30)}}, "code": {"a": "1"}}
    steps, rng = np.arange(1001) * 1000, np.random.default_rng(0)
    cells = []
    for cell in study.cells:
        runs = [
            data.RunInfo(it, seed, "done", 10**6, "", header)
            for it, seed in zip(cell.names, cell.seeds, strict=True)
        ]
        cells.append(data.Results(cell, runs, steps, rng.normal(3000, 900, (10, 1001))))
    everything = data.Data(study, cells)
    monkeypatch.setattr(comparisons, "compare", lambda group: [])
    text = built_of(everything)
    assert len(everything.runs) == 1000
    assert len(text.encode()) < 4e6
    found = shown_in(text)
    assert all(len(grid) <= data.POINTS and grid[-1] == 10**6 for grid in found["grids"])
    assert len(found["setups"]) == 1


def built_of(everything):
    shown = page.content(everything, comparisons.analyse(everything))
    return page.document(everything.study.name, shown)


# Nothing in it runs but ours


def wicked(out):
    """A study whose every word is out to run something."""
    arms = f'[[arm]]\nname = {json.dumps(EVIL_ARM)}\nstrategy = "discover"\n'
    arms += '[[arm]]\nname = "other"\nstrategy = "gaussian"\n'
    grid = {"task": EVIL, "algorithm": "td3"}
    made = declare(grid, more=arms)
    study = studies.Study(EVIL, EVIL, made.steps, made.cells)
    fill(out, study)
    event = {"event": "crashed", "step": 5, "reason": EVIL}
    put(out, study.cells[0], 0, [1.0, 2.0], end=False, event=event)
    file = out / study.cells[0].names[1] / "record.jsonl"
    first, _, rest = file.read_text().partition("\n")
    header = json.loads(first) | {"commit": EVIL, "code": {EVIL: EVIL}}
    header["run"]["settings"] = {EVIL: EVIL, "__proto__": "x"}
    file.write_text(json.dumps(header) + "\n" + rest)
    return study


def test_nothing_from_records_is_markup(tmp_path):
    study = wicked(tmp_path)
    text = built(study, tmp_path)
    assert "<img" not in text
    assert text.count("</script>") == 2
    assert html.escape(EVIL) in text  # the title
    found = shown_in(text)
    assert found["study"] == found["about"] == found["runs"][0]["task"] == EVIL
    assert EVIL in found["runs"][0]["reason"]


def test_the_policy_allows_our_style_and_script_and_nothing_else(tmp_path):
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


# In a browser


@pytest.fixture(scope="module")
def browser():
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no Chromium here (apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def study_file(tmp_path_factory):
    """A page of a study, with two algorithms, as a file."""
    out = tmp_path_factory.mktemp("study")
    study = declare(GRID | {"algorithm": ["td3", "ppo"]}, seeds=3)
    rising(out, study)
    (out / "index.html").write_text(built(study, out))
    return out / "index.html"


def opened(browser, address, **options):
    """The page, and all that it asked for or complained of."""
    sheet = browser.new_context(viewport={"width": 1200, "height": 900}, **options).new_page()
    heard = []
    sheet.on("console", lambda it: heard.append(it.text))
    sheet.on("pageerror", lambda it: heard.append(str(it)))
    sheet.on("request", lambda it: heard.append(it.url))
    sheet.goto(address)
    assert heard.pop(0) == address
    return sheet, heard


@pytest.fixture
def sheet(browser, study_file):
    sheet, heard = opened(browser, study_file.as_uri(), color_scheme="light")
    yield sheet
    sheet.context.close()
    assert set(heard) <= {"data:,", study_file.as_uri()}


def lines(sheet):
    """Labels of the lines in each panel."""
    return [
        [line.get_attribute("data-label") for line in panel.query_selector_all("g.line")]
        for panel in sheet.query_selector_all("#charts svg")
    ]


def strokes(sheet):
    return [it.get_attribute("d") for it in sheet.query_selector_all("#charts .stroke")]


def test_a_click_on_the_legend_hides_a_line(sheet):
    assert lines(sheet) == [GRID["strategy"]] * 2
    axis = sheet.locator("#charts .tick").all_text_contents()
    button = sheet.locator("#legend").get_by_role("button", name="discover")
    button.click()
    assert lines(sheet) == [["none", "gaussian"]] * 2
    assert button.get_attribute("aria-pressed") == "false"
    assert sheet.locator("#charts .tick").all_text_contents() != axis  # the axis adapts
    sheet.keyboard.press("Enter")  # the focus is where it was
    assert lines(sheet) == [GRID["strategy"]] * 2


def test_choosing_changes_the_curves(sheet):
    every = strokes(sheet)
    sheet.select_option("#task", "My-v0")
    one = strokes(sheet)
    assert len(every) == 6
    assert len(one) == 3
    assert sheet.locator("figcaption").inner_text() == "My-v0"
    for word in ("Mean ± ½ sd", "10"):
        before = sheet.locator("#charts svg").inner_html()
        sheet.get_by_role("button", name=word, exact=True).click()
        assert sheet.locator("#charts svg").inner_html() != before
    sheet.get_by_role("button", name="ppo", exact=True).click()
    assert len(strokes(sheet)) == 6
    sheet.locator("figure").get_by_role("button", name="Hopper-v5").click()
    assert sheet.locator("#task").input_value() == "Hopper-v5"


def test_pointing_and_arrow_keys_read_the_curves(sheet):
    sheet.select_option("#task", "Hopper-v5")
    chart = sheet.locator("#charts svg")
    chart.hover(position={"x": 600, "y": 100})
    tip = sheet.locator("#tip")
    text = tip.inner_text()
    assert re.search(r"step \d", text)
    assert re.search(r"discover\s+[\d.]+\s+\[[\d.]+, [\d.]+\]\s+3 runs", text)
    sheet.mouse.move(2, 2)
    assert tip.is_hidden()
    chart.focus()
    sheet.keyboard.press("ArrowRight")
    assert "step 0\n" in tip.inner_text()
    sheet.keyboard.press("ArrowRight")
    assert "step 50\n" in tip.inner_text()
    sheet.keyboard.press("Escape")
    assert tip.is_hidden()


def test_a_click_on_a_head_sorts(sheet):
    sheet.select_option("#task", "My-v0")
    table = sheet.locator("#table-td3-2")
    head = table.get_by_role("button", name="mean")

    def column():
        texts = table.locator("tbody tr td:nth-child(6)").all_inner_texts()
        return [float(it.replace("−", "-")) for it in texts if it != "–"]

    head.click()
    assert column() == sorted(column(), reverse=True)
    cell = table.locator("thead th").nth(5)
    assert cell.get_attribute("aria-sort") == "descending"
    head.click()
    assert column() == sorted(column())
    assert cell.get_attribute("aria-sort") == "ascending"
    assert len(set(column())) > 3


def test_the_verdict_is_seen_at_once(browser, tmp_path):
    """Scores of which everything that is said is long."""
    study = declare({"task": "Hopper-v5", "algorithm": "ppo", "strategy": ARMS}, 1_000_000, 10)
    rng = np.random.default_rng(0)
    for cell in study.cells[:-1]:
        for seed in cell.seeds:
            top = rng.normal(2500, 900) + 400 * (cell.strategy == "noisynet")
            put(tmp_path, cell, seed, (top * np.linspace(0, 1, 51)).tolist())
    put(tmp_path, study.cells[1], 9, [1.0, 2.0], end=False, event=DIVERGED)
    (tmp_path / "index.html").write_text(built(study, tmp_path))
    sheet, _ = opened(browser, (tmp_path / "index.html").as_uri())
    table = sheet.locator("#table-ppo-1")
    heads = table.locator("thead th").all_inner_texts()
    assert heads[:3] == ["task", "arm", "verdict"]
    assert "resamples that never reach it" in heads
    assert ", never]" in table.inner_text()
    assert "no difference can be claimed where runs failed, as 1 here did" in table.inner_text()
    assert table.evaluate("it => it.scrollWidth <= it.parentElement.clientWidth")
    legend = sheet.locator("#legend").get_by_role("button")
    drawn = {it.inner_text().split("\n")[0]: it.locator("svg").count() for it in legend.all()}
    assert drawn == {"none": 1, "discover": 1, "noisynet": 1, "coherent": 0}
    assert "“none”: 10 runs; " in sheet.locator("#caption").inner_text()
    assert "“coherent”: not begun." in sheet.locator("#caption").inner_text()
    sheet.context.close()


def test_runs_are_filtered_and_open(sheet):
    sheet.fill("#filter", "my-v0 failed")
    assert sheet.locator("#counted").inner_text() == "1 of 36 runs"
    sheet.locator(".expand").click()
    assert "critic loss is not finite" in sheet.locator("tr.details").inner_text()
    assert "numpy" in sheet.locator("tr.details").inner_text()


def test_light_and_dark(sheet):
    def looks():
        ask = "e => [getComputedStyle(document.body).backgroundColor, getComputedStyle(e).stroke]"
        return sheet.eval_on_selector("[data-label=gaussian] .stroke", ask)

    light = looks()
    sheet.get_by_role("button", name="Change to dark colours").click()
    dark = looks()
    assert all(a != b for a, b in zip(light, dark, strict=True))
    sheet.reload()
    assert looks() == dark
    sheet.get_by_role("button", name="Change to light colours").click()
    assert looks() == light
    sheet.evaluate("localStorage.clear()")
    sheet.emulate_media(color_scheme="dark")
    sheet.reload()
    assert looks() == dark
    sheet.emulate_media(media="print")
    assert looks() == light


@pytest.mark.parametrize("width", [360, 700])
def test_it_fits_a_phone(sheet, width):
    sheet.set_viewport_size({"width": width, "height": 700})
    for task in ("", "My-v0"):
        sheet.select_option("#task", task)
        over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert sheet.evaluate(over) == 0


def test_wicked_names_are_shown_and_do_nothing(browser, tmp_path):
    study = wicked(tmp_path / "out")
    (tmp_path / "index.html").write_text(built(study, tmp_path / "out"))
    sheet, heard = opened(browser, (tmp_path / "index.html").as_uri())
    assert sheet.locator("h1").inner_text() == EVIL
    for button in sheet.locator(".expand").all():
        button.click()
    assert EVIL in sheet.locator("tr.details").nth(1).inner_text()
    sheet.locator("#charts svg").hover(position={"x": 60, "y": 50})
    assert EVIL_ARM in sheet.locator("#tip").inner_text()
    assert sheet.evaluate("window.hacked") is None
    assert sheet.locator("img").count() == 0
    assert [it for it in heard if it != "data:,"] == []
    sheet.context.close()


@pytest.mark.parametrize("size", [12_345.0, 123_456.0])
def test_long_readings_fit_a_phone(browser, tmp_path, size):
    study = declare(GRID | {"task": "My-v0"}, seeds=10)
    fill(tmp_path, study, lambda cell, seed: -size * (seed + 1))
    (tmp_path / "index.html").write_text(built(study, tmp_path))
    sheet, _ = opened(browser, (tmp_path / "index.html").as_uri())
    sheet.set_viewport_size({"width": 360, "height": 700})
    sheet.locator("#charts svg").hover(position={"x": 200, "y": 100})
    assert "10 runs" in sheet.locator("#tip").inner_text()
    for box in (sheet.locator("#tip").bounding_box(), sheet.locator("#tip table").bounding_box()):
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
    sheet.context.close()


# While it is served


@pytest.fixture
def served(tmp_path):
    """A study's file, its folder, and the address at which another process serves it."""
    file, out = tmp_path / "live.toml", tmp_path / "out"
    file.write_text(
        'steps = 1000\n[grid]\ntask = "My-v0"\nalgorithm = "td3"\nstrategy = ["none", "discover"]\n'
    )
    study = studies.load(str(file))
    fill(out, study)
    put(out, study.cells[0], 0, [1.0, 2.0], end=False)
    command = [sys.executable, "-m", "discover_rl", "watch", str(file), "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = next(line.split()[0] for line in process.stdout if line.startswith("http"))
        yield study, out, address
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130


def asked(address, **headers):
    """Status and text of an answer."""
    request = urllib.request.Request(address, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_watching_is_for_this_machine_and_this_page_alone(served):
    study, out, address = served
    status, text = asked(address)
    assert status == 200
    assert shown_in(text)["study"] == "live"
    assert asked(f"{address}data.json")[0] == 200
    record = out / study.names[0] / "record.jsonl"
    for path in (record, "/live.toml", "/../live.toml", "/%2e%2e/live.toml", "/?x"):
        assert asked(f"{address.rstrip('/')}{path}")[0] == 404, path
    assert asked(address, Host="evil.example")[0] == 403
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", int(address.rstrip("/").rpartition(":")[2])), 5)


def test_a_page_that_is_watched_shows_what_is_new_and_keeps_what_was_chosen(served, browser):
    study, out, address = served
    sheet, heard = opened(browser, address)
    assert [it.count("L") for it in strokes(sheet)] == [1, 11]  # each on steps of its own
    sheet.locator("#legend").get_by_role("button", name="discover").click()
    sheet.fill("#filter", "none")
    assert sheet.locator("#runs-table tbody td").nth(2).inner_text() == "500"
    put(out, study.cells[0], 0, [1.0, 2.0, 99.0])  # it grew, and came to its end
    sheet.locator("#states", has_text="2 done").wait_for()
    assert sheet.locator("#runs-table tbody td").nth(2).inner_text() == "1,000"
    assert sheet.locator("#filter").input_value() == "none"
    assert lines(sheet) == [["none"]]
    chart = sheet.locator("#charts svg")
    chart.hover(position={"x": chart.bounding_box()["width"] - 15, "y": 100})
    assert "step 1,000" in sheet.locator("#tip").inner_text()
    assert sheet.locator("#live").inner_text() == "live"
    assert {it for it in heard if it != "data:,"} == {f"{address}data.json"}
    sheet.context.close()


def test_trouble_with_records_is_said_and_passes(tmp_path):
    study = declare(GRID)
    fill(tmp_path, study)
    maker = live.Maker(study, tmp_path)
    good, file = maker.made, tmp_path / study.names[0] / "record.jsonl"
    text = file.read_text()
    file.write_text("no record\n")
    maker.look()
    assert "is damaged" in maker.made.trouble
    assert maker.made.shown == good.shown
    file.write_text(text)
    maker.look()
    assert maker.made == good


def test_a_port_that_is_taken_is_one_sentence(tmp_path):
    with socket.create_server((live.HOST, 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"Port {port} cannot be had"):
            live.serve(declare(GRID), tmp_path, port, pytest.fail)
