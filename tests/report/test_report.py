"""Reports: numbers worked out by hand, what is missing, what may be claimed, the same bytes."""

import csv
import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from discover_rl import report, studies
from discover_rl.cli.main import app
from discover_rl.report import bands, data, statistics, summary, tables
from discover_rl.report.resampling import Interval
from tests.helpers.records import analysed, declare, write_record, write_records


def by_strategy(gap, noise=1.0):
    """Scores that are better by a gap where the strategy is DISCOVER."""

    def level(cell, seed):
        return 100 + noise * seed + gap * (cell.strategy == "discover")

    return level


TWO = {"task": "Hopper-v5", "algorithm": "td3", "strategy": ["gaussian", "discover"]}


# Numbers


def test_tables_have_the_numbers_worked_out_by_hand(tmp_path):
    study = declare(TWO, seeds=3, steps=5100)
    # The last ten of 52 evaluations count: 42, 43, …, 51 and a constant, 46.5 and that constant.
    for cell in study.cells:
        for seed in cell.seeds:
            write_record(tmp_path, cell, seed, [i - 40 + 10.0 * seed for i in range(52)])
    everything, (found,) = analysed(study, tmp_path)
    assert everything.cells[0].final.tolist() == [6.5, 16.5, 26.5]
    row = next(csv.DictReader(io.StringIO(tables.as_csv(found))))
    assert (float(row["mean"]), float(row["sd"])) == (16.5, 10.0)  # n − 1
    assert float(row["iqm"]) == 16.5  # of three runs, none is cut off
    interval = statistics.bootstrap([6.5, 16.5, 26.5], resampling=data.FINE)
    assert (float(row["low"]), float(row["high"])) == (interval.low, interval.high)
    assert "| gaussian | 16.5 ± 10.0 |" in tables.markdown(tables.overview(found))
    assert r"gaussian & 16.5 $\pm$ 10.0 \\" in tables.latex(tables.overview(found))
    assert (
        "last 10 evaluations (2 episodes each, every 100 steps) of runs of 5,100 steps"
        in tables.overview(found).caption
    )


def test_every_record_is_read_once(tmp_path, monkeypatch):
    study = declare(TWO, seeds=2)
    write_records(tmp_path, study)
    opened, original = [], Path.open
    monkeypatch.setattr(
        Path,
        "open",
        lambda path, *given, **named: opened.append(path) or original(path, *given, **named),
    )
    read, bytes_of = [], Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda path: read.append(path) or bytes_of(path))
    data.load(study, tmp_path)
    paths = [path for path in {*opened, *read} if path.name == "record.jsonl"]
    assert len(paths) == 4
    for path in paths:
        assert max(opened.count(path), read.count(path)) == 1


def test_short_runs_say_how_many_evaluations_a_score_is_the_mean_of(tmp_path):
    study = declare(TWO)
    write_records(tmp_path, study, points=4)
    _, (found,) = analysed(study, tmp_path)
    assert (
        "mean of the last evaluation (of 4, 2 episodes each) of" in tables.overview(found).caption
    )


def test_scores_and_curves_leave_out_what_comes_before_learning(tmp_path):
    study = declare(TWO, steps=300, more='[set]\n"score.last" = 3')
    (cell, _), scores = study.cells, [-900.0, -900.0, 10.0, 20.0]  # at 0, 100, 200, 300
    for seed in cell.seeds:
        write_record(tmp_path, cell, seed, scores, settings={"warmup": 100})
    results = data.load(study, tmp_path).cells[0]
    assert results.final.tolist() == [15.0, 15.0]
    long = replace(results, steps=np.arange(100), scores=np.repeat([[-900.0, 10.0]], 50, axis=1))
    long = replace(long, first_step=50, runs=results.runs[:1])
    assert long.curves["paper"].value.tolist() == [-900.0] * 50 + [10.0] * 50


@pytest.mark.parametrize(
    ("seeds", "gap", "bold"), [(5, 50.0, True), (5, 1.0, False), (4, 50.0, False)]
)
def test_bold_and_claims_need_an_interval_and_runs_enough(tmp_path, seeds, gap, bold):
    study = declare(TWO, seeds=seeds)
    write_records(tmp_path, study, by_strategy(gap))
    everything, (found,) = analysed(study, tmp_path)
    texts = [page.decode() for page in tables.files(found).values()]
    page = summary.text(everything, [found])
    assert ("**" in texts[0], r"\textbf{15" in texts[1]) == (bold, bold)
    assert ("“discover” is better" in page) == bold
    assert ("no difference can be claimed" in page) != bold


def test_nothing_is_bold_while_a_rival_has_no_finished_run(tmp_path):
    study = declare(TWO | {"strategy": ["none", "gaussian", "discover"]}, seeds=5)
    for cell in study.cells[1:]:
        for seed in cell.seeds:
            write_record(tmp_path, cell, seed, [by_strategy(50)(cell, seed)] * 12)
    everything, (found,) = analysed(study, tmp_path)
    assert found.best == {"Hopper-v5": None}
    assert "“none” − “gaussian” on Hopper-v5: nothing can be said, 0 and 5" in summary.text(
        everything, [found]
    )


def test_reaching_the_baseline_counts_steps(tmp_path):
    study = declare(TWO, seeds=5)
    for cell in study.cells:
        rise = 1 + (cell.strategy == "discover")  # twice as fast
        for seed in cell.seeds:
            write_record(tmp_path, cell, seed, [min(100.0, 5.0 * rise * i) for i in range(23)])
    everything, (found,) = analysed(study, tmp_path)
    (compared,) = found.comparisons
    level = np.mean([min(100.0, 5.0 * i) for i in range(13, 23)])
    curve = statistics.smooth([[min(100.0, 10.0 * i) for i in range(23)]])[0]
    first = int(np.argmax(curve >= level))
    assert compared.reached is not None
    assert compared.reached.step == everything.cells[1].steps[first]


def test_scores_over_tasks_are_normalised_by_stated_references(tmp_path):
    study = declare(TWO | {"task": ["Hopper-v5", "My-v0"]}, seeds=5)
    write_records(tmp_path, study, by_strategy(50))
    everything, (found,) = analysed(study, tmp_path)
    low, high, source, _ = found.scales["Hopper-v5"]
    assert "SAC" in source
    expected = (np.arange(5) + 100 - low) / (high - low)
    np.testing.assert_allclose(found.overall.scores["gaussian"]["Hopper-v5"], expected)
    assert found.scales["My-v0"][:2] == (100.0, 154.0)  # of its own runs
    page = summary.text(everything, [found])
    assert "no reference: 0 and 1 are the least and the largest score" in page
    assert "“discover” − “gaussian”, all (2 tasks), normalised" in page


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(120.4, -80.2, 310.0), "+120 [−80, 310]"),
        (Interval(0.08, 0.0004, 0.13), "+0.0800 [0.0004, 0.1300]"),
        (Interval(-7.0, None, None), "−7.00 (no interval)"),
    ],
)
def test_intervals_in_words(interval, text):
    assert summary.interval_text(interval) == text


def test_an_interval_that_is_a_point_is_no_interval():
    assert summary.probability_text(Interval(1.0, 1.0, 1.0)) == "100 % (no interval)"
    assert summary.probability_text(Interval(0.5, 0.25, 0.75)) == "50 % [25, 75]"


# Curves


def test_curves_are_smoothed_over_five_evaluations(tmp_path):
    study = declare(TWO)
    for cell in study.cells:
        for seed in cell.seeds:
            write_record(tmp_path, cell, seed, [float(i) for i in range(51)])
    curve = data.load(study, tmp_path).cells[0].curves["iqm"]
    # The untrained policy's evaluation stands by itself.
    assert curve.value[:8].tolist() == [0, 1, 1.5, 2, 2.5, 3, 4, 5]


def test_short_curves_are_smoothed_over_a_tenth_of_their_evaluations(tmp_path):
    study = declare(TWO)
    for cell in study.cells:
        for seed in cell.seeds:
            write_record(tmp_path, cell, seed, [float(i) for i in range(20)])
    results = data.load(study, tmp_path).cells[0]
    assert results.window == 2
    assert results.curves["iqm"].value[:5].tolist() == [0, 1, 1.5, 2.5, 3.5]


def test_long_curves_are_thinned_to_the_last_point():
    steps = np.arange(1001) * 1000
    left, curves = bands.thin(steps, np.stack([steps, -steps]))
    assert len(left) <= bands.POINTS + 1
    assert left[-1] == 1_000_000
    np.testing.assert_array_equal(curves, [left, -left])


def test_runs_that_were_evaluated_at_other_steps_are_smoothed_by_themselves(tmp_path):
    study = declare(TWO | {"strategy": "discover"}, steps=60)
    (cell,) = study.cells
    write_record(tmp_path, cell, 0, np.arange(0.0, 61, 3))  # at 0, 3, …
    write_record(tmp_path, cell, 1, np.arange(0.0, 61, 2))  # at 0, 2, …
    (results,) = data.load(study, tmp_path).cells
    found = results.smoothed(2)["paper"]
    assert found.steps[:6].tolist() == [0, 2, 3, 4, 6, 8]
    # Means of two evaluations: 0; 3, 4.5 of the first; 2, 3, 5, 7 of the second.
    np.testing.assert_allclose(found.value[3:6], [(3 + 3) / 2, (4.5 + 5) / 2, (4.5 + 7) / 2])


# Files


@pytest.mark.slow
def test_tasks_whose_files_would_be_the_same_keep_their_own(tmp_path):
    study = declare(TWO | {"task": ["My Task-v0", "My-Task-v0"]})
    write_records(tmp_path, study)
    written = report.write(study, tmp_path).files
    assert len(written) == len(set(written))
    assert "My-Task-v0 (" in report.write(study, tmp_path).summary


@pytest.mark.slow
def test_the_same_records_give_the_same_files(tmp_path):
    study = declare(TWO | {"task": ["Hopper-v5", "My-v0"]}, seeds=5)
    noise = np.random.default_rng(0).normal(size=100)
    write_records(
        tmp_path, study, lambda cell, seed: by_strategy(3)(cell, seed) + noise[len(cell.name)]
    )
    first = report.write(study, tmp_path, tmp_path / "a")
    second = report.write(study, tmp_path, tmp_path / "b")
    names = [str(file.relative_to(tmp_path / "a")) for file in first.files]
    assert names == [str(file.relative_to(tmp_path / "b")) for file in second.files]
    assert len(set(names)) == len(names)
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    figures = {name for name in names if name.endswith(".png")}
    for figure in ("aggregate", "profile", "improvement", "efficiency", "paper", "iqm"):
        assert f"curves/td3-{figure}.png" in figures
    assert "curves/td3/Hopper-v5-iqm.png" in figures
    assert (tmp_path / "a/curves/td3-iqm.png").read_bytes()[:4] == b"\x89PNG"
    assert b"<dc:date>" not in (tmp_path / "a/curves/td3-iqm.svg").read_bytes()


def test_a_thousand_runs_are_read(tmp_path):
    tasks = [f"Task{i}-v0" for i in range(20)]
    grid = {"task": tasks, "algorithm": "td3", "strategy": ["none", "gaussian", "ou", "discover"]}
    study = declare(grid | {"gamma": [0.9, 0.99]}, seeds=7)
    write_records(tmp_path, study, by_strategy(5), points=21)
    everything = data.load(study, tmp_path)
    assert len(everything.runs) == 1120
    assert all(results.scores.shape == (7, 21) for results in everything.cells)
    assert len(everything.cells) == 160
    assert everything.progress == "1,120 runs: 1,120 done"


def test_the_command_reports_what_is_there(tmp_path):
    study = tmp_path / "mine.toml"
    study.write_text(
        'steps = 1100\nseeds = 2\n[grid]\ntask = "My-v0"\nalgorithm = "td3"\n'
        'strategy = ["none", "discover"]\n'
    )
    cell = studies.load(str(study)).cells[0]
    write_record(tmp_path / "out", cell, 0, [1.0] * 12)
    words = ["report", str(study), "--out", str(tmp_path / "out"), "--to", str(tmp_path / "to")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "4 runs: 1 done, 3 waiting" in done.output
    assert "Runs are missing" in done.output
    assert "## Conclusion" in done.output
    assert done.output.split()[-1] == str(tmp_path / "to/index.html")  # and one path
    assert (tmp_path / "to/summary.md").is_file()
    assert not (tmp_path / "out/report").exists()
