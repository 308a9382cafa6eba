"""Reports: scores over all tasks, and when the baseline's score was reached."""

import pytest

from discover_rl import report
from discover_rl.report import comparison_figures, statistics, summary
from discover_rl.report.statistics import Reached
from discover_rl.storage import files
from tests.helpers.records import DIVERGED, analysed, declare, write_record, write_records

TASKS = ["Hopper-v5", "Swimmer-v5", "My-v0"]
THREE = {"task": TASKS, "algorithm": "td3", "strategy": ["gaussian", "none", "discover"]}


def better(cell, seed):
    return 100.0 + seed + 50 * (cell.strategy == "discover")


def cells(study, strategy, *tasks):
    return [cell for cell in study.cells if cell.strategy == strategy and cell.task in tasks]


def pair(found, label):
    return next(one for one in found.pairs if one.label == label)


@pytest.mark.parametrize("failing", [False, True])
def test_one_rival_without_runs_takes_nothing_from_another(tmp_path, failing):
    study = declare(THREE, seeds=5)
    write_records(tmp_path, study, better)
    for cell in cells(study, "none", *TASKS[1:]):
        files.remove(tmp_path / cell.name)
        for seed in cell.seeds if failing else ():
            write_record(tmp_path, cell, seed, [1.0, 2.0], end=False, event=DIVERGED)
    everything, (found,) = analysed(study, tmp_path)
    whole = pair(found, "discover")
    assert (whole.common.panels, whole.common.name) == (TASKS, "all (3 tasks)")
    assert whole.difference == statistics.difference(
        whole.common.scores["discover"], whole.common.scores["gaussian"]
    )
    assert pair(found, "none").difference is None  # one task is no whole
    text = summary.text(everything, [found])
    line = next(
        line for line in text.splitlines() if "“discover” − “gaussian”, all (3 tasks)" in line
    )
    assert "“discover” is better; a run scores above one of “gaussian” with" in line
    assert "“none” − “gaussian”, all (1 of 3 tasks): nothing can be said over all tasks" in text
    assert "“none” (finished runs in 1 of 3 only)" in text  # of the figures
    assert found.overall.scores.keys() == {"gaussian", "discover"}
    assert comparison_figures.aggregate(found) is not None


def test_a_pair_has_its_own_tasks_and_says_which(tmp_path):
    """Four runs are too few for a claim; the two others have five everywhere."""
    study = declare(THREE, seeds=5)
    write_records(tmp_path, study, better)
    (lost,) = cells(study, "discover", "Swimmer-v5")
    files.remove(tmp_path / lost.name / "seed-4")
    everything, (found,) = analysed(study, tmp_path)
    assert pair(found, "none").common.name == "all (3 tasks)"
    own = pair(found, "discover")
    assert own.common.panels == ["Hopper-v5", "My-v0"]
    assert own.runs == (5, 5)
    text = summary.text(everything, [found])
    line = next(
        line for line in text.splitlines() if "“discover” − “gaussian”, all (2 of 3 tasks)" in line
    )
    assert "Without Swimmer-v5 (fewer than 5 finished runs of “discover”)." in line
    drawn = comparison_figures.improvement(found)
    assert drawn is not None
    assert b"all (2 of 3 tasks)" in drawn["svg"]
    assert b"all (3 tasks)" in drawn["svg"]


def test_nothing_is_claimed_over_tasks_where_runs_failed(tmp_path):
    study = declare(THREE, seeds=6)
    write_records(tmp_path, study, better)
    (cell,) = cells(study, "discover", "Hopper-v5")
    write_record(tmp_path, cell, 5, [1.0, 2.0], end=False, event=DIVERGED)
    everything, (found,) = analysed(study, tmp_path)
    own = pair(found, "discover")
    assert (own.common.name, own.failed) == ("all (3 tasks)", 1)
    text = summary.text(everything, [found])
    line = next(line for line in text.splitlines() if "“discover” − “gaussian”, all" in line)
    assert "no difference can be claimed where runs failed, as 1 here did" in line


def test_scores_that_are_only_drawn_say_what_they_are_normalised_by(tmp_path):
    study = declare(THREE, seeds=3)
    write_records(tmp_path, study, better)
    everything, (found,) = analysed(study, tmp_path)
    assert comparison_figures.aggregate(found) is not None
    text = summary.text(everything, [found])
    assert "Nothing can be said over all tasks. It takes 5 finished runs of both sides" in text
    assert "normalised, (0 is, 1 is):\n\n- 0: measured" in text


# Sample efficiency


TWO = {"task": "My-v0", "algorithm": "td3", "strategy": ["gaussian", "discover"]}


def rising(out, study, spread):
    """All rise alike; the baseline's runs end at levels that differ."""
    for cell in study.cells:
        for seed in cell.seeds:
            top = 100.0 + spread * (seed - 2) * (cell.strategy == "gaussian")
            write_record(out, cell, seed, [min(top, 4.0 * i) for i in range(41)])


@pytest.mark.parametrize("spread", [0.0, 20.0])
def test_the_baselines_own_uncertainty_is_in_the_interval(tmp_path, spread):
    study = declare(TWO, seeds=5)
    rising(tmp_path, study, spread)
    _, (found,) = analysed(study, tmp_path)
    (compared,) = found.comparisons
    assert compared.reached is not None
    step, low, high, _ = compared.reached
    if spread:
        assert low < step
        assert high is None  # its runs all end at 100, which may not be enough
    else:
        assert low == step == high


def test_brackets_are_explained_in_words_and_on_the_figure(tmp_path):
    study = declare(TWO, seeds=5)
    rising(tmp_path, study, 0.0)
    everything, (found,) = analysed(study, tmp_path)
    text = summary.text(everything, [found])
    assert "Brackets: its 95 % bootstrap interval, runs of both sides resampled" in text
    drawn = comparison_figures.efficiency(found)
    assert drawn is not None
    assert b"bars: 95 % intervals" in drawn["svg"]


@pytest.mark.parametrize(("seeds", "enough"), [(4, False), (5, True)])
def test_too_few_runs_are_a_sentence_and_no_step(tmp_path, seeds, enough):
    study = declare(TWO, seeds=seeds)
    rising(tmp_path, study, 0.0)
    everything, (found,) = analysed(study, tmp_path)
    text = summary.text(everything, [found])
    few = "Too few runs to say when the final score of “gaussian” is reached; it takes 5 finished"
    assert (f"{few} runs of both sides: “discover” on My-v0 (4 and 4)." in text) != enough
    assert ("- “discover” on My-v0: " in text) == enough
    assert (comparison_figures.efficiency(found) is not None) == enough


@pytest.mark.parametrize(
    ("reached", "text"),
    [
        (Reached(12_000, 8_000, 20_000, 1.0), "12,000 [8,000, 20,000]"),
        (
            Reached(12_000, 8_000, None, 0.9),
            "12,000 [8,000, never], not reached in 10 % of resamples",
        ),
        (
            Reached(0, 0, None, 0.7),
            "0 (before any training) [0, never], not reached in 30 % of resamples",
        ),
        (Reached(0, 0, 0, 1.0), "0 (before any training) [0, 0]"),
        (Reached(None, 8_000, None, 0.4), "not reached [8,000, never]"),
        (Reached(None, None, None, 0.0), "not reached"),
    ],
)
def test_steps_in_words(reached, text):
    assert summary.reached_text(reached) == text


def test_the_page_says_it_too(tmp_path):
    study = declare(TWO, seeds=5)
    rising(tmp_path, study, 20.0)
    report.write(study, tmp_path)
    page = (tmp_path / "report/index.html").read_text()
    assert "runs of both sides resampled" in page
    assert "never], not reached in" in page
