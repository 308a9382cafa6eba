"""Reports: numbers worked out by hand, what is missing, what may be claimed, the same bytes."""

import csv
import io
import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from discover_rl import cli, report, stats, store, studies
from discover_rl.report import (
    comparisons,
    data,
    figures,
    groups,
    published,
    summary,
    tables,
    writing,
)
from discover_rl.stats import Interval
from discover_rl.types import UserError
from tests.records import declare, fill, put


def analysed(study, out):
    everything = data.load(study, out)
    return everything, comparisons.analyse(everything)


def by_strategy(gap, noise=1.0):
    """Scores that are better by a gap where the strategy is DISCOVER."""

    def level(cell, seed):
        return 100 + noise * seed + gap * (cell.strategy == "discover")

    return level


TWO = {"task": "Hopper-v5", "algorithm": "td3", "strategy": ["gaussian", "discover"]}


def test_tables_have_the_numbers_one_works_out_by_hand(tmp_path):
    study = declare(TWO, seeds=3)
    # The last ten of twelve evaluations count: 2, 3, …, 11 and a constant, 6.5 and that constant.
    for cell in study.cells:
        for seed in cell.seeds:
            put(tmp_path, cell, seed, [i + 10.0 * seed for i in range(12)])
    everything, (found,) = analysed(study, tmp_path)
    assert everything.cells[0].final.tolist() == [6.5, 16.5, 26.5]
    row = next(csv.DictReader(io.StringIO(tables.as_csv(found))))
    assert (float(row["mean"]), float(row["sd"])) == (16.5, 10.0)  # n − 1
    assert float(row["iqm"]) == 16.5  # of three runs, none is cut off
    interval = stats.bootstrap([6.5, 16.5, 26.5], how=data.FINE)
    assert (float(row["low"]), float(row["high"])) == (interval.low, interval.high)
    assert "| gaussian | 16.5 ± 10.0 |" in tables.markdown(tables.overview(found))
    assert r"gaussian & 16.5 $\pm$ 10.0 \\" in tables.latex(tables.overview(found))
    assert (
        "last 10 evaluations (2 episodes each, every 100 steps) of runs of 1,100 steps"
        in tables.overview(found).caption
    )


def test_short_runs_say_how_many_evaluations_a_score_is_the_mean_of(tmp_path):
    study = declare(TWO)
    fill(tmp_path, study, points=4)
    _, (found,) = analysed(study, tmp_path)
    assert (
        "last 4 evaluations (there are no more, 2 episodes each) of"
        in tables.overview(found).caption
    )


@pytest.mark.parametrize(
    ("seeds", "gap", "bold"), [(5, 50.0, True), (5, 1.0, False), (4, 50.0, False)]
)
def test_bold_and_claims_need_an_interval_and_runs_enough(tmp_path, seeds, gap, bold):
    study = declare(TWO, seeds=seeds)
    fill(tmp_path, study, by_strategy(gap))
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
            put(tmp_path, cell, seed, [by_strategy(50)(cell, seed)] * 12)
    everything, (found,) = analysed(study, tmp_path)
    assert found.best == {"Hopper-v5": None}
    assert "“none” − “gaussian” on Hopper-v5: nothing can be said, 0 and 5" in summary.text(
        everything, [found]
    )


def test_ragged_runs_count_where_they_are_and_are_named(tmp_path):
    study = declare(TWO, seeds=4)
    cell = study.cells[1]
    put(tmp_path, cell, 0, [10.0] * 12)
    put(tmp_path, cell, 1, [20.0] * 6, end=False)
    failure = {"event": "diverged", "step": 551, "quantity": "critic"}
    put(tmp_path, cell, 2, [60.0] * 6, end=False, event=failure)
    everything, (found,) = analysed(study, tmp_path)
    results = everything.cells[1]
    assert [run.state for run in results.runs] == ["done", "waiting", "failed", "waiting"]
    assert results.count == "3 of 4 runs, 1 done"
    assert results.final.tolist() == [10.0]
    curve = results.curves["paper"]
    at = dict(zip(curve.steps.tolist(), zip(curve.value, curve.runs, strict=True), strict=True))
    assert at[0] == (30.0, 3)
    assert at[1100] == (10.0, 1)
    ends = curve.steps.tolist().index(1100)
    assert math.isnan(curve.low[ends])  # one run has no band
    assert curve.low[0] == pytest.approx(30 - np.std([10, 20, 60], ddof=1) / 2)
    assert "10.00 (1 of 4)" in tables.markdown(tables.overview(found))
    page = summary.text(everything, [found])
    assert "seed 2: critic is not finite (step 551)" in page
    assert "8 runs: 1 done, 6 waiting, 1 failed" in page
    assert f"{cell.name}, seeds 1, 3: waiting, steps 0 to 550" in page


def test_curves_are_smoothed_over_five_evaluations(tmp_path):
    study = declare(TWO)
    for cell in study.cells:
        for seed in cell.seeds:
            put(tmp_path, cell, seed, [float(i) for i in range(12)])
    curve = data.load(study, tmp_path).cells[0].curves["iqm"]
    assert curve.value.tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 5, 6, 7, 8, 9]


def test_long_curves_are_thinned_to_the_last_point():
    steps = np.arange(1001) * 1000
    kept, curves = data.thinned(steps, np.stack([steps, -steps]))
    assert len(kept) <= data.POINTS + 1
    assert kept[-1] == 1_000_000
    np.testing.assert_array_equal(curves, [kept, -kept])


def test_a_study_without_runs_is_reported(tmp_path):
    written = report.write(declare(TWO), tmp_path / "nowhere")
    assert "4 runs: 4 waiting" in written.summary
    assert "No run has begun" in written.summary
    assert "– (0 of 2)" in (tmp_path / "nowhere/report/tables/td3.md").read_text()
    assert written.missing
    assert all(file.stat().st_size for file in written.files)


@pytest.mark.parametrize("failing", [False, True])
def test_several_tasks_without_a_finished_run_are_reported(tmp_path, failing):
    study = declare(TWO | {"task": ["Hopper-v5", "Swimmer-v5"]})
    for cell in study.cells if failing else []:
        for seed in cell.seeds:
            event = {"event": "diverged", "step": 551, "quantity": "critic"}
            put(tmp_path, cell, seed, [1.0, 2.0], end=False, event=event)
    written = report.write(study, tmp_path)
    assert "Nothing can be said over all tasks." in written.summary
    assert ("8 failed" if failing else "8 waiting") in written.summary


def test_records_of_another_study_do_not_count(tmp_path):
    fill(tmp_path, declare(TWO, steps=2200, seeds=5))
    written = report.write(declare(TWO, seeds=5), tmp_path)
    assert "10 runs: 10 failed" in written.summary
    assert "steps is 2200 there and 1100 here" in written.summary
    assert "– (0 of 5)" in (tmp_path / "report/tables/td3.md").read_text()


def test_nothing_is_claimed_where_runs_failed(tmp_path):
    """Those of discover that came to their end are far better; half of them did not."""
    study = declare(TWO, seeds=10)
    fill(tmp_path, study, by_strategy(500))
    (found,) = analysed(study, tmp_path)[1]
    assert [it.claim for it in found.comparisons] == [1]
    assert found.best == {"Hopper-v5": "discover"}
    for seed in range(5):
        event = {"event": "diverged", "step": 551, "quantity": "critic"}
        put(tmp_path, study.cells[1], seed, [1.0, 2.0], end=False, event=event)
    everything, (found,) = analysed(study, tmp_path)
    assert [it.claim for it in found.comparisons] == [0]
    assert found.best == {"Hopper-v5": None}
    said = "5 and 10 runs: no difference can be claimed where runs failed, as 5 here did"
    assert said in summary.text(everything, [found])


def test_runs_that_were_evaluated_at_other_steps_are_smoothed_by_themselves(tmp_path):
    study = declare(TWO | {"strategy": "discover"}, steps=60)
    (cell,) = study.cells
    put(tmp_path, cell, 0, [0.0, 30.0, 60.0])  # at 0, 30, 60
    put(tmp_path, cell, 1, [0.0, 20.0, 40.0, 60.0])  # at 0, 20, 40, 60
    (results,) = data.load(study, tmp_path).cells
    found = results.smoothed(2)["paper"]
    assert found.steps.tolist() == [0, 20, 30, 40, 60]
    assert found.runs.tolist() == [2] * 5
    # Means of two evaluations: 0, 15, 45 of the first; 0, 10, 30, 50 of the second.
    np.testing.assert_allclose(found.value, [0.0, 5.0, 12.5, 22.5, 47.5])


def test_an_interval_that_is_a_point_is_none():
    assert summary.chance(Interval(1.0, 1.0, 1.0)) == "100 % (no interval)"
    assert summary.chance(Interval(0.5, 0.25, 0.75)) == "50 % [25, 75]"


@pytest.mark.slow
def test_tasks_whose_files_would_be_the_same_keep_their_own(tmp_path):
    study = declare(TWO | {"task": ["My Task-v0", "My-Task-v0"]})
    fill(tmp_path, study)
    files = report.write(study, tmp_path).files
    assert len(files) == len(set(files))
    assert "My-Task-v0 (" in report.write(study, tmp_path).summary


def test_one_run_and_one_arm_are_reported_without_bounds(tmp_path):
    study = declare(TWO | {"strategy": "discover"}, seeds=1)
    fill(tmp_path, study)
    written = report.write(study, tmp_path)
    assert "There is one arm only, “discover”: nothing to compare." in written.summary
    assert "| discover | 100.0 |" in (tmp_path / "report/tables/td3.md").read_text()


def test_the_same_records_give_the_same_files(tmp_path):
    study = declare(TWO | {"task": ["Hopper-v5", "My-v0"]}, seeds=5)
    noise = np.random.default_rng(0).normal(size=100)
    fill(tmp_path, study, lambda cell, seed: by_strategy(3)(cell, seed) + noise[len(cell.name)])
    first = report.write(study, tmp_path, tmp_path / "a")
    second = report.write(study, tmp_path, tmp_path / "b")
    names = [str(file.relative_to(tmp_path / "a")) for file in first.files]
    assert names == [str(file.relative_to(tmp_path / "b")) for file in second.files]
    assert len(set(names)) == len(names)
    for name in names:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name
    made = {name for name in names if name.endswith(".png")}
    for figure in ("aggregate", "profile", "improvement", "efficiency", "paper", "iqm"):
        assert f"curves/td3-{figure}.png" in made
    assert "curves/td3/Hopper-v5-iqm.png" in made
    assert (tmp_path / "a/curves/td3-iqm.png").read_bytes()[:4] == b"\x89PNG"
    assert b"<dc:date>" not in (tmp_path / "a/curves/td3-iqm.svg").read_bytes()


def test_latex_is_escaped(tmp_path):
    name = "50% & a_b {x} #1 $y$ ~^"
    arms = f'[[arm]]\nname = {json.dumps(name)}\nstrategy = "discover"\n'
    grid = {"task": "My-v0", "algorithm": "td3"}
    study = declare(grid, more=arms + '[[arm]]\nname = "other"\nstrategy = "gaussian"\n')
    fill(tmp_path, study)
    _, (found,) = analysed(study, tmp_path)
    text = tables.latex(tables.overview(found))
    assert writing.latex("\\") == r"\textbackslash{}"
    right = r"50\% \& a\_b \{x\} \#1 \$y\$ \textasciitilde{}\textasciicircum{}"
    assert right in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 3
    assert all(line.replace(r"\&", "").count("&") == 1 for line in rows)
    assert figures.grid(found.group, "iqm", {})["png"]  # and a dollar in it is no mathematics


def test_a_thousand_runs_are_read(tmp_path):
    tasks = [f"Task{i}-v0" for i in range(20)]
    grid = {"task": tasks, "algorithm": "td3", "strategy": ["none", "gaussian", "ou", "discover"]}
    study = declare(grid | {"gamma": [0.9, 0.99]}, seeds=7)
    fill(tmp_path, study, by_strategy(5), points=21)
    everything = data.load(study, tmp_path)
    assert len(everything.runs) == 1120
    assert all(results.scores.shape == (7, 21) for results in everything.cells)
    assert len(everything.cells) == 160
    assert everything.standing == "1,120 runs: 1,120 done"


@pytest.mark.parametrize(
    ("algorithm", "strategies", "base"),
    [
        ("td3", ["none", "discover", "gaussian"], "gaussian"),
        ("td3", ["discover", "none"], "none"),
        ("ppo", ["gaussian", "discover", "none"], "none"),
        ("td3", ["discover", "psne"], "discover"),
    ],
)
def test_the_baseline_is_named(tmp_path, algorithm, strategies, base):
    study = declare({"task": "My-v0", "algorithm": algorithm, "strategy": strategies})
    everything, (found,) = analysed(study, tmp_path)
    assert found.group.base == base
    assert f"compared with “{base}” (" in summary.text(everything, [found])


def test_ablations_have_a_line_for_each_value(tmp_path):
    grid = TWO | {"task": ["Hopper-v5", "My-v0"], "strategy": "discover"}
    study = declare(grid | {"strategy.lam": [0.0, 0.1, 0.3]})
    fill(tmp_path, study)
    _, (found,) = analysed(study, tmp_path)
    assert found.group.labels == ["λ = 0.0", "λ = 0.1", "λ = 0.3"]
    table = tables.overview(found)
    assert table.head == ["setting", "Hopper-v5", "My-v0"]  # as in the paper's Table 1
    assert [row[0].text for row in table.rows] == found.group.labels
    assert r"$\lambda$ = 0.1" in tables.latex(table)
    several = declare(TWO | {"env.reward_delay": [1, 5]})
    names = [group.name for group in groups.groups(data.load(several, tmp_path))]
    assert names == ["td3", "td3-settings"]
    assert groups.slug("a:My-v0, λ = 0.1, γ = 1") == "a-My-v0-lam=0.1-gamma=1"
    assert all(figures.grid(found.group, kind, {})["svg"] for kind in data.BANDS)


def test_scores_over_tasks_are_normalised_by_stated_references(tmp_path):
    study = declare(TWO | {"task": ["Hopper-v5", "My-v0"]}, seeds=5)
    fill(tmp_path, study, by_strategy(50))
    everything, (found,) = analysed(study, tmp_path)
    low, high, source = found.scales["Hopper-v5"]
    assert "SAC" in source
    expected = (np.arange(5) + 100 - low) / (high - low)
    np.testing.assert_allclose(found.overall.scores["gaussian"]["Hopper-v5"], expected)
    assert found.scales["My-v0"][:2] == (100.0, 154.0)  # of its own runs
    page = summary.text(everything, [found])
    assert "no reference: 0 and 1 are the least and the largest score" in page
    assert "“discover” − “gaussian”, all (2 tasks), normalised" in page


def test_tasks_that_lack_a_rival_are_left_out_of_the_whole_and_said_to_be(tmp_path):
    study = declare(TWO | {"task": ["Hopper-v5", "Swimmer-v5", "My-v0"]}, seeds=5)
    fill(tmp_path, study)
    lost = next(it for it in study.cells if it.task == "Swimmer-v5" and it.arm == "discover")
    store.remove(tmp_path / lost.name)
    everything, (found,) = analysed(study, tmp_path)
    assert found.overall.over == "2 of 3 tasks"
    page = summary.text(everything, [found])
    assert "Swimmer-v5 (no finished run of “discover”)" in page


@pytest.mark.parametrize(
    ("interval", "text"),
    [
        (Interval(120.4, -80.2, 310.0), "+120 [−80, 310]"),
        (Interval(0.08, 0.0004, 0.13), "+0.0800 [0.0004, 0.1300]"),
        (Interval(-7.0, None, None), "−7.00 (no interval)"),
    ],
)
def test_intervals_in_words(interval, text):
    assert summary.signed(interval) == text


def test_runs_of_other_code_are_pointed_out(tmp_path):
    study = declare(TWO)
    fill(tmp_path, study)
    page = summary.text(*analysed(study, tmp_path))
    assert "4 runs: discover_rl 0.1.0, numpy 2.4; commit abc123" in page
    assert "Not all runs" not in page
    file = tmp_path / study.names[0] / "record.jsonl"
    file.write_text(file.read_text().replace('"numpy": "2.4"', '"numpy": "2.5"'))
    page = summary.text(*analysed(study, tmp_path))
    assert "Not all runs were made by the same code and versions." in page


def test_reaching_the_baseline_counts_steps(tmp_path):
    study = declare(TWO, seeds=5)
    for cell in study.cells:
        rise = 1 + (cell.strategy == "discover")  # twice as fast
        for seed in cell.seeds:
            put(tmp_path, cell, seed, [min(100.0, 5.0 * rise * i) for i in range(23)])
    everything, (found,) = analysed(study, tmp_path)
    (compared,) = found.comparisons
    level = np.mean([min(100.0, 5.0 * i) for i in range(13, 23)])
    curve = stats.smooth([[min(100.0, 10.0 * i) for i in range(23)]])[0]
    first = int(np.argmax(curve >= level))
    assert compared.reached is not None
    assert compared.reached.step == everything.cells[1].steps[first]


def test_published_numbers_are_those_of_the_same_method():
    def key(task="Hopper-v5", strategy="discover", algorithm="td3", **varied):
        grid = {"task": task, "algorithm": algorithm, "strategy": strategy, **varied}
        return published.key(declare(grid, steps=1_000_000).cells[0])

    assert published.numbers()[key()].mean == pytest.approx(3350.27, abs=0.01)
    assert key(**{"strategy.lam": [0.1, 0.3]}).setting == "0.1"
    assert key(**{"strategy.delayed": [False, True]}).setting == "without_dpu"
    assert key(strategy="gaussian").strategy == "baseline"
    assert key(strategy="none", algorithm="ppo").strategy == "baseline"
    # Greedy policies, rivals, other settings, and what is no measurement of its own:
    for nothing in (
        key(strategy="none"),
        key(strategy="noisynet"),
        key(gamma=[0.9, 0.99]),
        key(task="Humanoid-v5", algorithm="sac"),
        key(task="Ant-v5", algorithm="ddpg"),
        key(task="Pendulum-v1"),
    ):
        assert nothing is None
    assert len(published.numbers()) == 190


@pytest.mark.parametrize(("steps", "shown"), [(1_000_000, True), (1_000, False)])
def test_published_numbers_stand_beside_runs_as_long(tmp_path, steps, shown):
    study = declare(TWO, steps=steps)
    fill(tmp_path, study)
    _, (found,) = analysed(study, tmp_path)
    page = tables.files(found)[".md"].decode()
    assert ("3350 ± 298 (Hopper-v2)" in page) == shown
    assert ("authors' released curves, 10 seeds, of Hopper-v2" in page) == shown


def test_the_authors_files_are_found_and_what_is_not_is_said(tmp_path):
    row = np.array(["HOST: x", "GPU: y", *map(str, np.arange(1001) / 2)])
    ablation = "Ablation Studies/Exploration Direction Regularization/Off-Policy (TD3)"
    names = [
        "TD3/TD3_Hopper-v2_0.npy",
        "TD3/DISCOVER_TD3_Hopper-v2_0.npy",
        "TD3/DISCOVER_TD3_Hopper-v2_1.npy",
        f"{ablation}/0.1/Hopper-v2/0.1_DISCOVER_Hopper-v2_3.npy",
        "TD3/NoisyNet/TD3_Hopper-v2_0.npy",
        "SAC/DISCOVER_SAC_Humanoid-v2_0.npy",
        "notes.npy",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / name, row)
    found = published.curves(tmp_path)
    sizes = {(key.study, key.strategy): len(rows) for key, rows in found.curves.items()}
    assert sizes == {
        ("evaluation", "baseline"): 1,
        ("evaluation", "discover"): 2,
        ("lambda", "discover"): 1,
    }
    np.testing.assert_array_equal(next(iter(found.curves.values()))[0], np.arange(1001) / 2)
    said = "\n".join(found.notes)
    assert "4 published runs of 3 cells" in said
    for why in ("rivals'", "names that are not understood", "nothing to trust"):
        assert f"Left out of published runs: 1, {why}" in said
    study = declare(TWO, steps=1_000_000)
    fill(tmp_path / "out", study)
    plain = report.write(study, tmp_path / "out", tmp_path / "plain")
    drawn = report.write(study, tmp_path / "out", tmp_path / "drawn", tmp_path)
    assert "4 published runs of 3 cells" in drawn.summary
    assert "published runs" not in plain.summary
    name = "curves/td3/Hopper-v5-iqm.svg"
    assert b"older tasks" in (tmp_path / "drawn" / name).read_bytes()
    assert b"older tasks" not in (tmp_path / "plain" / name).read_bytes()
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="holds no curves"):
        published.curves(tmp_path / "empty")


def test_a_table_of_curves_is_read_and_nothing_is_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    columns = {
        "study": ["evaluation", "evaluation", "lambda"],
        "algorithm": ["td3", "td3", "td3"],
        "task": ["Hopper-v2", "Hopper-v2", "Hopper-v2"],
        "strategy": ["baseline", "discover", "discover"],
        "setting": ["", "", "0.1"],
    }
    returns = np.arange(6.0).reshape(3, 2)
    for dtype in (str, object):  # an array of objects is a pickle
        arrays = {name: np.array(it, dtype) for name, it in columns.items()}
        np.savez(tmp_path / "curves.npz", returns=returns, **arrays)
        found = published.curves(tmp_path / "curves.npz")
        assert len(found.curves) == 3
        np.testing.assert_array_equal(list(found.curves.values())[2], [[4.0, 5.0]])
    arrays["setting"] = np.array([Trap(), "", ""], object)
    np.savez(tmp_path / "curves.npz", returns=returns, **arrays)
    with pytest.raises(UserError, match="no table of curves"):
        published.curves(tmp_path / "curves.npz")
    assert not (tmp_path / "sprung").exists()


def test_the_command_reports_what_is_there(tmp_path):
    study = tmp_path / "mine.toml"
    study.write_text(
        'steps = 1100\nseeds = 2\n[grid]\ntask = "My-v0"\nalgorithm = "td3"\n'
        'strategy = ["none", "discover"]\n'
    )
    cell = studies.load(str(study)).cells[0]
    put(tmp_path / "out", cell, 0, [1.0] * 12)
    words = ["report", str(study), "--out", str(tmp_path / "out"), "--to", str(tmp_path / "to")]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0, done.output
    assert "4 runs: 1 done, 3 waiting" in done.output
    assert "Runs are missing" in done.output
    assert (tmp_path / "to/summary.md").is_file()
    assert not (tmp_path / "out/report").exists()
