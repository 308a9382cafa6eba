"""Runs that end early on request: by a return, by patience, by an observer."""

from pathlib import Path

import pytest

from discover_rl.core.types import Stopped
from discover_rl.storage import load_run
from discover_rl.storage.policies import load_policy
from discover_rl.storage.records import Record, read_record
from discover_rl.training import launch
from discover_rl.training.evaluation import Evaluator
from discover_rl.training.observers import Observer, Observers
from tests.helpers.records import analysed, declare, write_record
from tests.helpers.trainings import assert_same_files, runs_of, stop_at

STEPS = [0, 60, 120, 180, 240]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """Uninterrupted runs that come to their end."""
    out = tmp_path_factory.mktemp("whole")
    launch.train(runs_of(), out)
    return out


def lines(out, seed):
    """The lines of a record but the first."""
    return Record(out / f"seed-{seed}/record.jsonl").lines[1:]


def means(out, seed):
    """The mean return of every evaluation."""
    return [sum(line["returns"]) / 2 for line in lines(out, seed) if "returns" in line]


def threshold(whole):
    """A return that one run reaches before its last evaluation and the other never does."""
    best = [max(means(whole, seed)[1:-1]) for seed in range(2)]
    first = best.index(max(best))
    assert max(means(whole, 1 - first)[1:]) < best[first]
    return first, best[first]


def test_a_run_that_reaches_the_return_ends_and_disturbs_no_other(whole, tmp_path):
    seed, level = threshold(whole)
    runs = runs_of(**{"eval.stop_at": level})
    records = launch.train(runs, tmp_path / "whole")
    end = 1 + means(whole, seed)[1:].index(level) + 1
    *before, last = lines(tmp_path / "whole", seed)
    assert before == lines(whole, seed)[:end]
    assert (last["event"], last["step"]) == ("stopped", STEPS[end - 1])
    assert records[f"seed-{seed}"].done
    assert not records[f"seed-{seed}"].failure
    folder = tmp_path / "whole" / f"seed-{seed}"
    result = load_run(folder)
    assert "has reached eval.stop_at" in result.reason
    for step in (load_policy(folder).about["step"], result.critic.about["step"]):
        assert step == last["step"]
    arrays = [folder / f"{name}.safetensors" for name in ("policy", "policy-best")]
    assert arrays[0].read_bytes() == arrays[1].read_bytes()
    assert not (folder / "last-good").exists()
    # The other run is the same to the bit, but for its settings.
    assert lines(tmp_path / "whole", 1 - seed) == lines(whole, 1 - seed)
    for name in ("policy", "critic"):
        file = f"seed-{1 - seed}/{name}.safetensors"
        assert (whole / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    # Killed and resumed, it stops at the same step; once done, nothing is left to do.
    for step in (50, STEPS[end - 1] + 10):
        stop_at(step, runs, tmp_path / "resumed")
    launch.train(runs, tmp_path / "resumed")
    launch.train(runs, tmp_path / "resumed")
    assert_same_files(tmp_path / "whole", tmp_path / "resumed")


def test_patience_counts_evaluations_since_the_best(tmp_path):
    """What does not learn scores the same every time, so its first evaluation is the best one."""
    launch.train(runs_of(seeds=1, actor_lr=0, **{"eval.patience": 2}), tmp_path)
    *evaluations, last = lines(tmp_path, 0)
    assert (last["event"], last["step"]) == ("stopped", 180)
    assert [line["step"] for line in evaluations] == [0, 60, 120, 180]
    assert "for eval.patience, 2," in read_record(tmp_path / "seed-0/record.jsonl").reason
    assert load_policy(tmp_path, best=True).about["step"] == 60


class StopSeed(Observer):
    """Stops one run at one step."""

    def __init__(self, seed, step):
        self.seed, self.step, self.noted_runs = seed, step, []

    def evaluated(self, run, step, returns, report):
        return "stop" if (run.seed, step) == (self.seed, self.step) else None

    def noted(self, run, step, note):
        self.noted_runs.append((run.seed, step, note))


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_observer_ends_a_run_by_its_answer(whole, tmp_path, processes):
    observer = StopSeed(1, 120)
    launch.train(runs_of(), tmp_path, Observers([Observer(), observer]), processes=processes)
    *before, last = lines(tmp_path, 1)
    assert last == {"step": 120, "event": "stopped", "reason": "its observer answered stop"}
    assert [line["step"] for line in before] == [0, 60, 120]
    assert observer.noted_runs == [(1, 120, "stopped early: its observer answered stop")]
    assert load_policy(tmp_path / "seed-1").about["step"] == 120
    assert [line["step"] for line in lines(tmp_path, 0)] == STEPS
    if processes == 1:
        assert lines(tmp_path, 0) == lines(whole, 0)
        assert before == lines(whole, 1)[:3]


def test_an_answer_that_comes_late_ends_the_run_where_it_is_by_then(tmp_path, monkeypatch):
    """Beside training on a GPU, evaluations are known later; the next one may have begun by then,
    and its answer counts, too."""
    monkeypatch.setattr(Evaluator, "ready", lambda self: False)
    launch.train(runs_of(), tmp_path, Observers([StopSeed(1, 60), StopSeed(0, 120)]))
    for seed in (0, 1):
        assert not read_record(tmp_path / f"seed-{seed}/record.jsonl").damage
        assert [line["step"] for line in lines(tmp_path, seed)] == [0, 60, 120, 120]
        assert lines(tmp_path, seed)[-1]["event"] == "stopped"
        assert load_policy(tmp_path / f"seed-{seed}").about["step"] == 120


def test_what_an_observer_has_ended_stays_so_after_a_kill(tmp_path):
    class Both(Observer):
        """Stops a run at step 60, and everything at step 100."""

        now = 0

        def evaluated(self, run, step, returns, report):
            return "stop" if (run.seed, step) == (1, 60) else None

        def stepped(self, step):
            self.now = step

    both = Both()
    with pytest.raises(Stopped):
        launch.train(runs_of(), tmp_path, both, lambda: both.now >= 100)
    launch.train(runs_of(), tmp_path)
    assert lines(tmp_path, 1)[-1]["event"] == "stopped"
    assert lines(tmp_path, 0)[-1]["step"] == 240


def test_reports_count_runs_that_ended_early_among_those_that_are_done(tmp_path):
    study = declare({"task": ["Pendulum-v1"], "algorithm": ["td3"], "strategy": ["none"]})
    (cell,) = study.cells
    stopped = {"event": "stopped", "step": 550, "reason": "its observer answered stop"}
    write_record(tmp_path, cell, 0, [1.0, 5.0, 9.0], end=False, event=stopped)
    write_record(tmp_path, cell, 1, [1.0, 5.0, 7.0])
    everything, _ = analysed(study, tmp_path)
    assert everything.progress == "2 runs: 2 done (1 of them ended early, as asked)"
    assert everything.cells[0].final.tolist() == [9.0, 7.0]
    assert everything.runs[0].reason == "its observer answered stop (step 550)"
