"""Published results: they are whole and as declared, and the documentation has their numbers."""

import importlib.util
import re
from pathlib import Path

import pytest

from discover_rl import config, studies
from discover_rl.report import comparisons, data, summary, tables
from discover_rl.storage.records import Record, record_path

ROOT = Path(__file__).parents[1]
STUDIES = {path.stem: path for path in sorted((ROOT / "results").glob("*.toml"))}
TWO_VERSIONS = ("ppo-hopper-head",)
"""Studies of which a later version of the program made the rest, to the bit as the earlier had
begun it."""
SHARED = {"td3-swimmer-rivals": "td3-swimmer"}
"""Studies some of whose runs are another study's: the records of all are in that one's folder."""
FOLDERS = {name: ROOT / "results" / SHARED.get(name, name) for name in STUDIES}


def runs_of_another(name: str) -> list[str]:
    """The runs of the study whose folder this one shares."""
    return studies.load(STUDIES[SHARED[name]]).names if name in SHARED else []


def has_begun(name: str) -> bool:
    """Whether there is a record of a run that is this study's alone."""
    own = set(studies.load(STUDIES[name]).names) - set(runs_of_another(name))
    return any(record_path(FOLDERS[name], run).exists() for run in own)


def recorded_run(record: Record) -> dict:
    """The run that a record's first line describes, with the names that settings have now."""
    assert record.header is not None
    run = record.header["run"]
    return {**run, "settings": config.current_names(run["settings"])}


PUBLISHED = [name for name in STUDIES if has_begun(name)]


def imported(path: Path):
    """The module of a script."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reproduce():
    return imported(ROOT / "results" / "reproduce.py")


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
    others = runs_of_another(name)
    codes = {False: set(), True: set()}
    for run in study.runs:
        record = Record(record_path(FOLDERS[name], run.name))
        assert record.header is not None
        assert recorded_run(record) == run.to_json()
        assert record.over, run.name
        codes[run.name in others].add(record.header["code"]["source"])
        if record.failure is None:
            steps = [line["step"] for line in record.evaluations]
            assert steps == list(range(0, run.steps + 1, run.eval.every))
            assert all(len(line["returns"]) == 10 for line in record.evaluations)
    assert len(codes[False]) == 1 + (name in TWO_VERSIONS)  # else one program made all of them
    assert len(codes[True]) == (name in SHARED)  # and one made those of the other study


@pytest.mark.parametrize("name", PUBLISHED)
def test_pages_show_the_numbers_that_records_give(name):
    study = studies.load(STUDIES[name])
    everything = data.load(study, FOLDERS[name])
    (analysis,) = comparisons.analyse(everything)
    pages = ROOT / "docs" / "results"
    page = (pages / f"{name}.md").read_text()
    table = [line for line in tables.files(analysis)[".md"].decode().splitlines() if "|" in line]
    assert len(table) > 2
    for line in table:
        assert line in page
    elsewhere = f" --out results/{SHARED[name]}" if name in SHARED else ""
    assert f"discover run results/{name}.toml{elsewhere}\n" in page
    if "discover" not in {cell.arm for cell in study.cells}:
        return
    text = next(part for part in summary.sentences(analysis) if "discover” −" in part)
    found = re.search(r"“discover” − [^:]+: ([+−][\d.]+ \[[^]]+\])", text)
    assert found is not None
    for file in (pages / "README.md", ROOT / "README.md"):
        assert found[1] in " ".join(file.read_text().split())


def test_pages_show_what_each_component_is_worth():
    name = "td3-swimmer-components"
    (analysis,) = comparisons.analyse(data.load(studies.load(STUDIES[name]), FOLDERS[name]))
    found = re.findall(r": ([+−][\d.]+ \[[^]]+\]), 10", " ".join(summary.sentences(analysis)))
    assert len(found) == 3
    for page in (f"{name}.md", "README.md"):
        text = (ROOT / "docs" / "results" / page).read_text()
        assert all(difference in text for difference in found)


@pytest.mark.parametrize(
    ("name", "until", "arms"), [("td3-swimmer", 720_000, 3), ("td3-swimmer-rivals", 200_000, 4)]
)
def test_an_attempt_that_was_cut_short_is_kept_and_reported(name, until, arms):
    study, folder = studies.load(STUDIES[name]), ROOT / "results" / f"{name}-cut"
    tried = [cell for cell in study.cells if (folder / cell.name).is_dir()]
    assert len(tried) == arms
    for run in (run for cell in tried for run in cell.runs):
        record = Record(record_path(folder, run.name))
        assert recorded_run(record) == run.to_json()
        steps = [line["step"] for line in record.evaluations]
        wanted = list(range(0, until + 1, run.eval.every))
        assert steps[: len(wanted)] == wanted
        assert all(len(line["returns"]) == 10 for line in record.evaluations)
    page = " ".join((ROOT / "docs" / "results" / f"{name}.md").read_text().split())
    for results in data.load(study, folder, until).cells:
        if results.cell.name in {cell.name for cell in tried}:
            assert f"{results.final.mean():.1f} ± {results.final.std(ddof=1):.1f}" in page


@pytest.mark.parametrize("name", TWO_VERSIONS)
def test_a_later_version_repeats_to_the_bit_what_an_earlier_one_had_begun(name):
    begun = [*(ROOT / "results" / f"{name}-cut").rglob("record.jsonl")]
    assert len(begun) == 10
    for path in begun:
        record = Record(path)
        run = path.parent.relative_to(ROOT / "results" / f"{name}-cut").as_posix()
        whole = Record(record_path(FOLDERS[name], run))
        assert record.header is not None
        assert whole.header is not None
        assert record.header["code"]["source"] != whole.header["code"]["source"]
        assert len(record.evaluations) >= 9
        for before, now in zip(record.evaluations, whole.evaluations, strict=False):
            assert before["returns"] == now["returns"]


CHECKS = {
    path.stem: path
    for folder in ("checks", "screening")
    for path in sorted((ROOT / "results" / folder).glob("*.toml"))
}
"""Studies that are shorter than the paper's, and those that only look."""


@pytest.mark.parametrize("name", CHECKS)
def test_records_of_a_check_are_whole_and_as_declared(name):
    study, folder = studies.load(CHECKS[name]), CHECKS[name].with_suffix("")
    assert study.about
    assert all(len(cell.seeds) >= 5 for cell in study.cells)
    for run in study.runs:
        record = Record(record_path(folder, run.name))
        if record.header is not None:
            assert recorded_run(record) == run.to_json()
            assert record.over, run.name


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("sac-mountaincar", "sac-mountaincar"),
        ("td3-mountaincar", "td3-mountaincar"),
        ("td3-dm-control", "td3-dm-control"),
        ("td3-pendulum", "td3-dm-control"),
        ("pendulum-large", "td3-dm-control"),
        ("td3-sparse-hopper", "td3-sparse-hopper"),
        ("seek-mountaincar", "seek-screening"),
        ("td3-bf16", "../performance"),
    ],
)
def test_pages_of_checks_show_the_numbers_that_records_give(name, page):
    folder = CHECKS[name].with_suffix("").relative_to(ROOT).as_posix()
    page = (ROOT / "docs" / "results" / f"{page}.md").read_text()
    for analysis in comparisons.analyse(data.load(studies.load(CHECKS[name]), ROOT / folder)):
        details = tables.files(analysis)[".md"].decode().partition("in detail")[2]
        assert "|" in details
        for line in details.splitlines():
            assert "|" not in line or line in page
    for command in ("run", "report"):
        assert f"discover {command} {folder}.toml --out {folder}\n" in page


def test_the_page_of_seek_shows_what_its_runs_were_paid_while_they_trained():
    script, name = imported(ROOT / "docs" / "results" / "paid.py"), "seek-mountaincar"
    study, folder = studies.load(CHECKS[name]), CHECKS[name].with_suffix("")
    lines = script.table(study, folder, None)
    assert "\n".join(lines) in (ROOT / "docs" / "results" / "seek-screening.md").read_text()
    less = [line.split(" | ")[3:] for line in script.table(study, folder, "corner")]
    at = [cell.arm for cell in study.cells].index("seek") + 2
    assert less[at] == ["3,000", "−4.8 [−18.9, 3.6]", "−26.2 [−42.4, −10.1] |"]


def test_the_page_of_gsde_shows_the_numbers_that_records_give():
    beside = imported(ROOT / "docs" / "results" / "beside_sb3.py")
    page = (ROOT / "docs" / "results" / "gsde.md").read_text()
    for study in beside.STUDIES:
        assert beside.row(study) + "\n" in page


def test_pages_show_figures_that_are_there():
    for page in (ROOT / "docs" / "results").glob("*.md"):
        for target in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text()):
            assert (page.parent / target).is_file(), f"{page.name}: {target}"


def test_what_is_trained_again_is_compared(reproduce, capsys):
    stored = {0: [[10.0, 10.0], [10.0, 10.0]], 20: [[90.0, 110.0], [70.0, 90.0], [100.0, 100.0]]}
    assert reproduce.agree(stored, stored)
    assert capsys.readouterr().out.count("the same to the last bit") == 2
    close = {0: [[10.0, 10.01], [10.0, 10.0]], 20: [[80.0, 110.0], [70.0, 90.0], [100.0, 90.0]]}
    assert reproduce.agree(stored, close)
    assert capsys.readouterr().out.count("agrees") == 2
    assert not reproduce.agree(stored, close | {0: [[10.3, 10.3], [10.3, 10.3]]})
    assert not reproduce.agree(stored, close | {20: [[200.0, 210.0]] * 3})
    assert capsys.readouterr().out.count("DIFFERS") == 2
    assert not reproduce.agree(stored, {0: stored[0]})
    assert not reproduce.agree({}, {})


@pytest.mark.slow
def test_the_beginning_of_runs_is_trained_and_no_more(reproduce, tmp_path):
    text = (STUDIES["ppo-hopper"]).read_text()
    text = text.replace("1_000_000", "4_000").replace("20_000", "500").replace("= 10\n", "= 2\n")
    text = text.replace('"envpool"', '"gymnasium"').replace("Hopper-v5", "Pendulum-v1")
    # So many epochs that a rollout takes longer than it takes to ask for a stop.
    text += '"horizon" = 128\n"minibatches" = 8\n"epochs" = 200\n'
    (tmp_path / "small.toml").write_text(text)
    runs = studies.load(tmp_path / "small.toml").cells[0].runs
    reproduce.train_beginning(runs, tmp_path / "out", 1000)
    found = reproduce.evaluations(runs, tmp_path / "out", 1000)
    assert list(found) == [0, 500, 1000]
    assert all(len(seeds) == 2 and len(seeds[0]) == 2 for seeds in found.values())
    assert not Record(record_path(tmp_path / "out", runs[0].name)).evaluated(2000)
