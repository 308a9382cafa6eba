"""Reports of sparse tasks: the suite's score, which runs found the reward, and when."""

import csv

import numpy as np
import pytest

from discover_rl import report
from discover_rl.report import across, comparison_figures, discovery, learning_curves
from tests.helpers.records import analysed, declare, write_record, write_records

TASKS = ["MountainCarContinuous-v0", "dm_control/hopper-hop-v0", "Hopper-v5"]
GRID = {"task": TASKS, "algorithm": "td3", "strategy": ["none", "corner"]}


@pytest.fixture
def made(tmp_path):
    """Greedy runs find nothing; corner's find the reward half way, but for one seed of the car."""
    study = declare(GRID, steps=1000, seeds=3)
    for cell in study.cells:
        solved = across.references()[cell.task].high
        for seed in cell.seeds:
            finds = cell.strategy == "corner" and (seed or cell.task != TASKS[0])
            write_record(tmp_path, cell, seed, [0.0] * 6 + [solved * bool(finds)] * 5)
    return study, tmp_path


def test_a_reward_is_found_at_the_first_evaluation_that_shows_it(made):
    _, (analysis,) = analysed(*made)
    found = {(it.panel, it.label): it for it in discovery.discoveries(analysis)}
    assert {panel for panel, _ in found} == set(TASKS[:2])  # Hopper's reward is dense
    assert found[TASKS[0], "corner"][2:] == (3, 2, 600.0)
    assert found[TASKS[1], "corner"][2:] == (3, 3, 600.0)
    assert found[TASKS[1], "none"][2:4] == (3, 0)


def test_the_suites_score_is_the_return_divided_by_what_solves_the_task(made):
    _, (analysis,) = analysed(*made)
    assert across.references()["MountainCarContinuous-v0"][:2] == (0, 95)
    assert across.references()["dm_control/hopper-hop-v0"][:2] == (0, 1000)
    assert across.references()["discover_rl:SparseHalfCheetah-v0"][:2] == (0, 1000)
    rows = {row[0].text: [entry.text for entry in row] for row in discovery.suite(analysis).rows}
    score = 1.0  # of six runs, five solve their task, and IQM leaves the sixth out
    assert float(rows["corner"][1]) == pytest.approx(score, abs=0.01)
    assert rows["corner"][3] == "5 of 6"
    assert rows["none"][1] == "−0.001"
    assert rows["none"][3] == "0 of 6"


def test_the_suites_score_is_what_one_works_out_by_hand(tmp_path):
    """Of eight runs the two best and the two worst are left out, whichever task they are of."""
    study = declare(GRID | {"task": TASKS[:2]}, steps=1000, seeds=4)
    returns = {TASKS[0]: [0.0, 19.0, 38.0, 95.0], TASKS[1]: [100.0, 300.0, 500.0, 700.0]}
    for cell in study.cells:
        for seed in cell.seeds:
            write_record(tmp_path, cell, seed, [0.0] + [returns[cell.task][seed]] * 10)
    _, (analysis,) = analysed(study, tmp_path)
    # 0, .2, .4 and 1 of what solves the car; .1, .3, .5 and .7 of what solves the hopper.
    rows = {row[0].text: [entry.text for entry in row] for row in discovery.suite(analysis).rows}
    assert rows["none"][1] == "0.350"  # (.2 + .3 + .4 + .5) / 4
    assert rows["none"][3] == "7 of 8"
    low, high = (float(it) for it in rows["none"][2].strip("[]").split(","))
    # Resampled within tasks: no draw is worse than eight of the worst, or better than the best.
    assert 0.05 <= low < 0.35 < high <= 0.85


def test_what_luck_pays_is_not_found(tmp_path):
    """In finger's turn_hard, some episodes start with the tip at the target."""
    task = "dm_control/finger-turn_hard-v0"
    luck = across.references()[task].luck
    assert luck > 0.05 * across.references()[task].high
    study = declare(GRID | {"task": [TASKS[0], task]}, steps=1000, seeds=1)
    for cell in study.cells:
        lucky = luck if cell.task == task else 0.0
        score = lucky + 50 * (cell.strategy == "corner")
        write_record(tmp_path, cell, 0, [lucky] * 6 + [score] * 5)
    _, (analysis,) = analysed(study, tmp_path)
    found = {(it.panel, it.label): it for it in discovery.discoveries(analysis)}
    assert found[task, "none"][2:4] == (1, 0)
    assert found[task, "corner"][2:] == (1, 1, 600.0)


def test_where_untrained_networks_are_paid_nothing_is_said_to_be_found():
    assert "discover_rl:SparseSwimmer-v0" not in discovery.sparse_tasks()
    assert {"discover_rl:SparseHopper-v0", "dm_control/finger-turn_hard-v0"} < set(
        discovery.sparse_tasks()
    )


def test_a_figure_has_the_share_of_runs_by_step(made):
    _, (analysis,) = analysed(*made)
    first = discovery.first_found_anywhere(analysis, "corner")
    assert sorted(first) == [600.0] * 5 + [np.inf]
    svg = comparison_figures.found(analysis)["svg"]
    assert b"share of runs that found the reward" in svg
    assert b"2 sparse tasks" in svg


def test_the_report_has_both(made, monkeypatch):
    monkeypatch.setattr(comparison_figures, "figures", lambda analysis: {})  # they take long
    for kind in ("single", "grid"):
        monkeypatch.setattr(learning_curves, kind, lambda *_: {})
    study, out = made
    report.write(study, out)
    text = (out / "report" / "tables" / "td3-found.md").read_text()
    assert "suite score" in text
    assert "2 of 3" in text
    lines = (out / "report" / "tables" / "td3-found.csv").read_text().splitlines()
    assert {row["median_step"] for row in csv.DictReader(lines)} == {"600.0", ""}
    page = (out / "report" / "index.html").read_text()
    assert "Reward found" in page
    assert "Suite score" in page


def test_a_study_of_dense_tasks_has_neither(tmp_path):
    study = declare(GRID | {"task": ["Hopper-v5", "Swimmer-v5"]})
    write_records(tmp_path, study)
    _, (analysis,) = analysed(study, tmp_path)
    assert discovery.suite(analysis) is discovery.table(analysis) is None
    assert comparison_figures.found(analysis) is None
