"""Published results: whole, as declared, and what the documentation says of them."""

import importlib.util
import re
from pathlib import Path

import pytest

from discover_rl import store, studies
from discover_rl.report import comparisons, data, summary, tables
from discover_rl.store import Record

ROOT = Path(__file__).parents[1]
STUDIES = {path.stem: path for path in sorted((ROOT / "results").glob("*.toml"))}
PUBLISHED = [name for name in STUDIES if (ROOT / "results" / name).is_dir()]


@pytest.fixture(scope="module")
def reproduce():
    spec = importlib.util.spec_from_file_location("reproduce", ROOT / "results" / "reproduce.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_something_is_published():
    assert PUBLISHED


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_is_long_and_evaluated_often(name):
    study = studies.load(STUDIES[name])
    assert study.about
    for run in study.runs:
        assert run.steps == 1_000_000
        assert run.eval.every <= 20_000
        assert run.eval.episodes == 10
    assert all(len(cell.seeds) >= 10 for cell in study.cells)


@pytest.mark.parametrize("name", PUBLISHED)
def test_no_run_of_a_published_study_is_missing(name):
    study = studies.load(STUDIES[name])
    codes = set()
    for run in study.runs:
        record = Record(store.record_of(ROOT / "results" / name, run.name))
        assert record.header is not None
        assert record.header["run"] == run.to_json()
        assert record.over, run.name
        codes.add(record.header["code"]["source"])
        if record.failure is None:
            steps = [line["step"] for line in record.evaluations]
            assert steps == list(range(0, run.steps + 1, run.eval.every))
            assert all(len(line["returns"]) == 10 for line in record.evaluations)
    assert len(codes) == 1  # the same program made all of them


@pytest.mark.parametrize("name", PUBLISHED)
def test_pages_show_the_numbers_that_records_give(name):
    study = studies.load(STUDIES[name])
    everything = data.load(study, ROOT / "results" / name)
    (analysis,) = comparisons.analyse(everything)
    pages = ROOT / "docs" / "results"
    page = (pages / f"{name}.md").read_text()
    table = [line for line in tables.files(analysis)[".md"].decode().splitlines() if "|" in line]
    assert len(table) > 2
    for line in table:
        assert line in page
    assert f"discover run results/{name}.toml" in page
    told = next(it for it in summary.sentences(analysis) if "discover” −" in it)
    found = re.search(r"“discover” − [^:]+: ([+−][\d.]+ \[[^]]+\])", told)
    assert found is not None
    for file in (pages / "README.md", ROOT / "README.md"):
        assert found[1] in " ".join(file.read_text().split())


def test_an_attempt_that_was_cut_is_kept_and_told_of():
    study = studies.load(STUDIES["td3-swimmer"])
    folder, until = ROOT / "results" / "td3-swimmer-cut", 720_000
    for run in study.runs:
        record = Record(store.record_of(folder, run.name))
        assert record.header is not None
        assert record.header["run"] == run.to_json()
        steps = [line["step"] for line in record.evaluations]
        wanted = list(range(0, until + 1, run.eval.every))
        assert steps[: len(wanted)] == wanted
        assert all(len(line["returns"]) == 10 for line in record.evaluations)
    page = " ".join((ROOT / "docs" / "results" / "td3-swimmer.md").read_text().split())
    for cell in data.load(study, folder, until).cells:
        assert f"{cell.final.mean():.1f} ± {cell.final.std(ddof=1):.1f}" in page


def test_pages_show_figures_that_are_there():
    for page in (ROOT / "docs" / "results").glob("*.md"):
        for target in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text()):
            assert (page.parent / target).is_file(), f"{page.name}: {target}"


def test_what_is_trained_again_is_compared(reproduce, capsys):
    stored = {0: [[10.0, 10.0], [10.0, 10.0]], 20: [[90.0, 110.0], [70.0, 90.0], [100.0, 100.0]]}
    assert reproduce.compared(stored, stored)
    assert capsys.readouterr().out.count("the same to the last bit") == 2
    close = {0: [[10.0, 10.01], [10.0, 10.0]], 20: [[80.0, 110.0], [70.0, 90.0], [100.0, 90.0]]}
    assert reproduce.compared(stored, close)
    assert capsys.readouterr().out.count("agrees") == 2
    assert not reproduce.compared(stored, close | {0: [[10.3, 10.3], [10.3, 10.3]]})
    assert not reproduce.compared(stored, close | {20: [[200.0, 210.0]] * 3})
    assert capsys.readouterr().out.count("DIFFERS") == 2
    assert not reproduce.compared(stored, {0: stored[0]})
    assert not reproduce.compared({}, {})


@pytest.mark.slow
def test_the_beginning_of_runs_is_trained_and_no_more(reproduce, tmp_path, monkeypatch):
    text = (STUDIES["ppo-hopper"]).read_text()
    text = text.replace("1_000_000", "4_000").replace("20_000", "500").replace("= 10\n", "= 2\n")
    text = text.replace('"envpool"', '"gymnasium"').replace("Hopper-v5", "Pendulum-v1")
    # So many epochs that a rollout takes longer than the word that it was enough.
    text += '"horizon" = 128\n"minibatches" = 8\n"epochs" = 200\n'
    (tmp_path / "small.toml").write_text(text)
    runs = studies.load(tmp_path / "small.toml").cells[0].runs
    reproduce.trained(runs, tmp_path / "out", 1000)
    found = reproduce.evaluations(runs, tmp_path / "out", 1000)
    assert list(found) == [0, 500, 1000]
    assert all(len(seeds) == 2 and len(seeds[0]) == 2 for seeds in found.values())
    assert not Record(store.record_of(tmp_path / "out", runs[0].name)).evaluated(2000)
