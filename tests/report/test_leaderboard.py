"""The leaderboard of a suite, of made-up records whose answers are known."""

import json

import pytest
from typer.testing import CliRunner

from discover_rl import report
from discover_rl.cli.main import app
from discover_rl.core.types import UserError
from discover_rl.report import across, leaderboard
from discover_rl.studies import estimate, plan, speed
from discover_rl.system import hardware
from tests.helpers.records import analysed, declare, write_record, write_records

TASKS = ["MountainCarContinuous-v0", "discover_rl:SparseHopper-v0", "Hopper-v5"]
GRID = {"task": TASKS, "algorithm": "td3"}
ARMS = """
[[arm]]
name = "greedy"
strategy = "none"

[[arm]]
name = "white-0.3"
strategy = "gaussian"
"strategy.sigma" = 0.3

[[arm]]
name = "corner"
strategy = "corner"
"""


@pytest.fixture
def made(tmp_path):
    """Greedy runs find nothing. Corner's solve every task from half of the run on, white noise's
    one sparse task in three seeds of five, late."""
    study = declare(GRID, steps=1000, seeds=5, more=ARMS)
    for cell in study.cells:
        solved = across.references()[cell.task].high
        for seed in cell.seeds:
            found = {"greedy": 11, "corner": 5, "white-0.3": 8}[cell.arm]
            if cell.arm == "white-0.3" and (cell.task != TASKS[0] or seed > 2):
                found = 11
            write_record(tmp_path, cell, seed, [0.0] * found + [solved] * (11 - found))
    return study, tmp_path


def test_arms_are_ranked_by_suite_score(made):
    _, (analysis,) = analysed(*made)
    corner, white, greedy = leaderboard.rows(analysis, {"none": 1e-4, "corner": 1.5e-4})
    assert [row.label for row in (corner, white, greedy)] == ["corner", "white-0.3", "greedy"]
    assert corner.score.value == pytest.approx(1)
    assert corner.area.value == pytest.approx(0.55, abs=0.01)  # there from step 500, a slope before
    assert greedy.score.value <= 0
    assert (corner.found, white.found, greedy.found) == (10, 3, 0)
    assert {row.runs for row in (corner, white, greedy)} == {10}  # Hopper-v5 is dense
    assert (corner.half, white.half) == (500, float("inf"))
    assert (corner.cost, white.cost, greedy.cost) == (pytest.approx(1.5), None, 1)
    assert (corner.settings, white.settings) == ("", "sigma=0.3")


def test_the_page_is_made_by_one_command_and_says_what_was_tuned(made, tmp_path):
    _, out = made
    file = tmp_path / "study.toml"
    grid = "\n".join(f"{name} = {json.dumps(it)}" for name, it in GRID.items())
    head = 'about = "A suite"\ntuned = "Nothing was tuned."\nsteps = 1000\nseeds = 5\n'
    file.write_text(f"{head}[grid]\n{grid}\n{ARMS}")
    page = tmp_path / "board.md"
    result = CliRunner().invoke(
        app, ["report", str(file), "--out", str(out), "--leaderboard", str(page)]
    )
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert "| 1 | corner | 1.000 [1.000, 1.000] |" in text
    assert "| 100 % (10 of 10) | 500 |" in text
    assert "| 30 % (3 of 10) | never |" in text
    assert "5 of 5, 500" in text  # task by task
    assert "Nothing was tuned." in text
    assert "it has not been measured there" in text
    assert (tmp_path / "board-td3.png").read_bytes()[:4] == b"\x89PNG"
    assert "(board-td3.png)" in text
    assert not (out / "report").exists()  # it writes the page alone


def test_a_new_arm_is_a_new_row(made, tmp_path):
    _, out = made
    more = ARMS + '[[arm]]\nname = "mine"\nstrategy = "pink"\n'
    study = declare(GRID, steps=1000, seeds=5, more=more)
    for cell in study.cells[-3:]:
        for seed in cell.seeds:
            write_record(out, cell, seed, [0.0] * 11)
    report.write_leaderboard(study, out, tmp_path / "board.md")
    assert "| mine |" in (tmp_path / "board.md").read_text()


def test_costs_are_those_that_were_measured_for_the_cohorts(made, monkeypatch, tmp_path):
    study, out = made
    monkeypatch.setattr(hardware, "cache_folder", lambda: tmp_path / "cache")
    plan.agreed(study, out)
    seconds = {"none": 1.0, "gaussian": 1.0, "corner": 2.0}
    timings = estimate.Timings()
    for job in plan.kept(study, out):
        name = speed.kind(job)
        timings.get(name, lambda name=name, job=job: {name: seconds[job.runs[0].strategy]})
    report.write_leaderboard(study, out, tmp_path / "board.md")
    text = (tmp_path / "board.md").read_text()
    assert "| 500 | 2.00 | by default |" in text


def test_dense_tasks_have_none(tmp_path):
    study = declare({"task": ["Hopper-v5", "Swimmer-v5"], "algorithm": "td3", "strategy": "none"})
    write_records(tmp_path, study)
    with pytest.raises(UserError, match="two sparse tasks"):
        report.write_leaderboard(study, tmp_path, tmp_path / "board.md")
    with pytest.raises(UserError, match=r"end in \.md"):
        report.write_leaderboard(study, tmp_path, tmp_path / "board.html")
