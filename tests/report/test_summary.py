"""Reports: runs that are not over, steps and probabilities, in words, tables and figures; and that
none of it misleads."""

import csv
import io
import math

import pytest

from discover_rl import report
from discover_rl.report import (
    colours,
    comparison_figures,
    comparisons,
    data,
    formatting,
    learning_curves,
    statistics,
    summary,
    tables,
)
from tests.helpers.records import DIVERGED, analysed, declare, write_record, write_records

GRID = {"task": "My-v0", "algorithm": "ppo", "strategy": ["none", "discover", "psne", "coherent"]}


def rising(out, study, seeds=5):
    """Two arms are done, the third is half way, the last has not begun."""
    for cell in study.cells[:3]:
        half = cell.strategy == "psne"
        ours = cell.strategy == "discover"
        for seed in range(seeds):
            top = 40.0 + 8 * seed + 3 * ours
            scores = [min(top, 5.0 * (1 + ours) * i) for i in range(23)]
            write_record(out, cell, seed, scores, end=not half)


@pytest.fixture
def partial(tmp_path):
    study = declare(GRID, seeds=5)
    rising(tmp_path, study)
    return study, tmp_path


# Runs that are not over


def test_curves_of_runs_that_are_not_over_say_so_and_there_is_no_line_without_a_curve(partial):
    everything, (found,) = analysed(*partial)
    counts = [results.count for results in everything.cells]
    assert counts == ["5 runs", "5 runs", "5 runs, none done", "not begun"]
    (panel,) = found.group.panels
    one = learning_curves.single(found.group, panel, "iqm", {})["svg"].decode()
    all_ = learning_curves.grid(found.group, "iqm", {})["svg"].decode()
    for svg in (one, all_):
        assert "coherent (not begun)" in svg
        assert colours.STRATEGIES["psne"].colour.lower() in svg
        assert colours.STRATEGIES["coherent"].colour.lower() not in svg  # it has no curve
    assert "psne (5 runs, none done)" in one
    assert "“psne”: 5 runs, none done; “coherent”: not begun" in all_


def test_runs_in_the_same_state_are_one_line(partial):
    everything, _ = analysed(*partial)
    (paragraph,) = summary.missing(everything)
    assert paragraph.splitlines()[2:] == [
        "- My-v0/ppo/psne, seeds 0–4: waiting, step 550",
        "- My-v0/ppo/coherent, seeds 0–4: waiting, step 0",
    ]
    assert formatting.seeds([7, 0, 2, 1]) == "seeds 0–2, 7"
    assert formatting.seeds([3]) == "seed 3"


# In words


def test_the_baseline_comes_first_and_its_score_is_explained(partial):
    everything, (found,) = analysed(*partial)
    text = summary.text(everything, [found])
    lines = text.splitlines()
    own = next(i for i, line in enumerate(lines) if line.startswith("- “none” itself on My-v0: "))
    assert lines[own + 1].startswith("- “discover” on My-v0: ")
    step = found.own["My-v0"].step
    assert f"itself on My-v0: {step:,} [" in lines[own]
    assert "smoothed over 2 evaluations, first reaches that of the final scores of “none”" in text
    assert "means of the last 2 evaluations." in text


def test_names_in_sentences_are_quoted(partial):
    study, out = partial
    written = report.write(study, out)
    page = (out / "report/index.html").read_text()
    for text in (written.summary, (out / "report/summary.md").read_text(), page):
        assert "compared with “none” (the baseline)" in text
        assert "“discover” − “none” on My-v0" in text
        for misread in ("with none ", "none's", "of none,", "− none", "of none "):
            assert misread not in text
    for name in ("improvement", "efficiency"):
        assert "of “none”" in (out / f"report/curves/ppo-{name}.svg").read_text()


@pytest.mark.parametrize(
    ("failed", "end"),
    [(1, "; 1 run, which failed, is not in it"), (2, "; 2 runs, which failed, are not in it")],
)
def test_failed_runs_are_mentioned(failed, end):
    assert summary.reached_text(statistics.Reached(10, 5, 20, 1.0), failed).endswith(end)


# The probability of improvement


def test_probabilities_are_in_words_and_in_a_table_of_one_task(partial):
    study, out = partial
    everything, (found,) = analysed(study, out)
    lines = found.group.panels[0].lines
    better = statistics.improvement(lines["discover"].final, lines["none"].final, data.FINE)
    sentence = f"a run scores above one of “none” with probability {100 * better.value:.0f} % ["
    assert sentence in summary.text(everything, [found])
    report.write(study, out)
    file = out / "report/tables/ppo-comparisons.csv"
    rows = list(csv.DictReader(io.StringIO(file.read_text())))
    assert [row["line"] for row in rows] == ["discover", "psne", "coherent"]
    sides = (everything.cells[1].final, everything.cells[0].final)
    first = rows[0]
    for name, interval in (
        ("iqm_difference", statistics.difference(*sides, resampling=data.FINE)),
        ("mean_difference", (sides[0].mean() - sides[1].mean(), None, None)),
        ("probability", better),
    ):
        for bound, right in zip(("", "_low", "_high"), interval, strict=True):
            if right is not None:
                assert float(first[name + bound]) == pytest.approx(right), name + bound
    assert float(first["mean_difference_low"]) < float(first["mean_difference_high"])
    assert int(first["baseline_steps"]) == found.own["My-v0"].step
    assert int(first["steps"]) < int(first["baseline_steps"])
    assert first["verdict"] in ("better", "worse", "undecided")
    assert rows[1]["probability"] == rows[1]["steps"] == rows[1]["verdict"] == ""


def test_a_level_that_is_never_reached_is_infinite_in_the_csv(tmp_path):
    study = declare(GRID | {"strategy": ["none", "discover"]}, seeds=5)
    write_records(tmp_path, study, lambda cell, seed: seed - 50.0 * (cell.strategy == "discover"))
    _, (found,) = analysed(study, tmp_path)
    (row,) = csv.DictReader(io.StringIO(comparisons.as_csv(found)))
    assert math.isinf(float(row["steps"]))
    assert float(row["steps_reached"]) == 0.0
    assert row["verdict"] == "worse"


def test_comparisons_of_an_earlier_report_are_removed(partial):
    study, out = partial
    report.write(study, out)
    old = out / "report/tables/td3-comparisons.csv"
    mine = out / "report/tables/my-comparisons.csv"
    for file in (old, mine):
        file.write_text("task\n")
    report.write(study, out)
    assert not old.exists()
    assert mine.exists()


# Figures


@pytest.mark.parametrize("failing", [False, True])
def test_what_may_not_be_claimed_is_grey_and_hollow(tmp_path, failing):
    study = declare(GRID | {"strategy": ["none", "discover"]}, seeds=6)
    rising(tmp_path, study, seeds=6)
    if failing:
        write_record(tmp_path, study.cells[1], 5, [1.0, 2.0], end=False, event=DIVERGED)
    _, (found,) = analysed(study, tmp_path)
    for draw in (comparison_figures.improvement, comparison_figures.efficiency):
        drawn = draw(found)
        assert drawn is not None
        svg = drawn["svg"].decode()
        assert ("#0072b2" in svg) != failing  # DISCOVER's colour
        assert (comparison_figures.UNSURE in svg) == failing


def test_figures_explain_their_marks_and_name_their_axes(partial):
    _, (found,) = analysed(*partial)
    drawn = comparison_figures.efficiency(found)
    assert drawn is not None
    svg = drawn["svg"].decode()
    for text in ("▷ not reached by then", "▶ at a bar's end", "the end of training", "-- steps --"):
        assert text in svg, text
    assert "stroke-dasharray" in svg  # the end of training
    better = comparison_figures.improvement(found)
    assert better is not None
    assert "-- probability --" in better["svg"].decode()


@pytest.mark.parametrize(("level", "gap"), [(4000.0, False), (500.0, True)])
def test_the_gap_is_left_out_where_most_scores_are_beyond_it(tmp_path, level, gap):
    study = declare(GRID | {"task": ["Hopper-v5", "Walker2d-v5"], "strategy": ["none", "discover"]})
    write_records(tmp_path, study, lambda cell, seed: level * 2 + seed)
    _, (found,) = analysed(study, tmp_path)
    drawn = comparison_figures.aggregate(found)
    assert drawn is not None
    svg = drawn["svg"].decode()
    assert ("optimality gap" in svg) == gap
    assert "1 is the reference's score, not a ceiling" in svg


@pytest.mark.parametrize(
    ("second", "sentence"),
    [
        ("Their-v0", "1 is the best run of this study, 0 the worst, task by task"),
        ("Hopper-v5", "1 is the reference's score or, without a reference, the best run of this"),
    ],
)
def test_the_figure_says_what_1_is_where_there_is_no_reference(tmp_path, second, sentence):
    study = declare(GRID | {"task": ["My-v0", second], "strategy": ["none", "discover"]})
    write_records(tmp_path, study)
    _, (found,) = analysed(study, tmp_path)
    drawn = comparison_figures.aggregate(found)
    assert drawn is not None
    assert sentence in drawn["svg"].decode()


# Tables


def test_columns_of_words_are_on_the_left_and_iqm_comes_before_the_mean(partial):
    _, (found,) = analysed(*partial)
    details = tables.details(found)
    assert details.head[:6] == ["task", "arm", "runs", "IQM", "95 % interval of IQM", "mean"]
    assert "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|" in tables.markdown(details)
    assert r"{@{} llrrrrrrrr @{}}" in tables.latex(details)
    assert formatting.latex("“a”") == "``a''"
