"""The area under the curve: what it is, and that it is claimed by the rules of final scores."""

import csv
import io

import pytest

from discover_rl.report import comparisons, data, statistics, summary, tables
from tests.helpers.records import analysed, declare, write_record

GRID = {"task": "My-v0", "algorithm": "td3", "strategy": ["gaussian", "discover"]}


@pytest.fixture
def sooner(tmp_path):
    """Two arms that end alike; DISCOVER is there after a fifth of the run, noise half way."""
    study = declare(GRID, steps=1000, seeds=5)
    for cell in study.cells:
        rises = 2 if cell.strategy == "discover" else 5
        for seed in cell.seeds:
            write_record(tmp_path, cell, seed, [0.0] * rises + [100.0 + seed] * (11 - rises))
    return study, tmp_path


def test_it_is_the_mean_return_over_the_run(sooner):
    gaussian, discover = data.load(*sooner).cells
    # From 100 to 200 steps, and from 400 to 500, the trapezoid has half of the height.
    assert discover.area == pytest.approx([0.85 * (100 + seed) for seed in range(5)])
    assert gaussian.area == pytest.approx([0.55 * (100 + seed) for seed in range(5)])


def test_evaluations_that_are_not_evenly_spaced_count_by_their_steps():
    assert statistics.mean_over([0, 10, 40], [0.0, 1.0, 1.0]) == 0.875
    assert statistics.mean_over([7], [3.0]) == 3.0


def test_arms_that_start_to_learn_at_different_steps_are_compared_over_the_same_steps(tmp_path):
    study = declare(GRID, steps=1000, seeds=5)
    for cell, warmup in zip(study.cells, (0, 500), strict=True):
        scores = [0.0] * 6 + [100.0] * 5 if warmup else [100.0] * 11
        write_record(tmp_path, cell, 0, scores, settings={"warmup": warmup})
    early, late = data.load(study, tmp_path).cells
    assert early.final.tolist() == late.final.tolist()
    assert (early.area.item(), late.area.item()) == (100.0, 45.0)  # to begin late has its price


def test_arms_that_end_alike_may_differ_in_area_and_this_is_said(sooner):
    everything, (found,) = analysed(*sooner)
    (compared,) = found.comparisons
    assert compared.difference.value == 0
    assert (compared.claim, compared.area_claim) == (0, 1)
    lines = found.group.panels[0].lines
    areas = lines["discover"].area, lines["gaussian"].area
    assert compared.area == statistics.difference(*areas, resampling=data.FINE)
    assert found.best == {"My-v0": None}
    assert found.best_area == {"My-v0": "discover"}
    text = summary.text(everything, [found])
    assert "no difference can be claimed; a run" in text
    assert f"Area under the curve: {summary.interval_text(compared.area)}: “discover” is" in text
    assert "Of 1 comparison of final scores, 0 came out one way, and of as many of areas 1" in text
    (row,) = csv.DictReader(io.StringIO(comparisons.as_csv(found)))
    assert (row["verdict"], row["area_verdict"]) == ("undecided", "better")
    assert float(row["area_difference_low"]) == compared.area.low


def test_the_rules_of_claims_hold_for_it_too(sooner):
    _, (found,) = analysed(*sooner)
    (compared,) = found.comparisons
    assert compared._replace(runs=(4, 5)).area_claim == 0
    assert compared._replace(failed=1).area_claim == 0


def test_tables_have_both(sooner):
    _, (found,) = analysed(*sooner)
    texts = {suffix: content.decode() for suffix, content in tables.files(found).items()}
    assert "**86.70 ± 1.34**" in texts[".md"]
    assert r"\textbf{86.70 $\pm$ 1.34}" in texts["-area.tex"]
    rows = list(csv.DictReader(io.StringIO(texts[".csv"])))
    assert [float(row["area_mean"]) for row in rows] == pytest.approx([56.1, 86.7])
    assert [row["area_bold"] for row in rows] == ["False", "True"]


def test_several_tasks_are_compared_by_it_too(tmp_path):
    study = declare(GRID | {"task": ["Hopper-v5", "Swimmer-v5"]}, steps=1000, seeds=5)
    for cell in study.cells:
        rises = 2 if cell.strategy == "discover" else 5
        for seed in cell.seeds:
            write_record(tmp_path, cell, seed, [0.0] * rises + [100.0 + seed] * (11 - rises))
    everything, (found,) = analysed(study, tmp_path)
    (pair,) = found.pairs
    assert pair.difference.value == 0
    assert pair.area.low > 0
    assert "Area under the curve, normalised: " in summary.text(everything, [found])
