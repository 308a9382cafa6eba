"""Reports of sparse tasks: the suite's score, which runs found the reward, and when."""

import csv

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
    assert float(rows["none"][1]) <= 0
    assert rows["none"][3] == "0 of 6"


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
