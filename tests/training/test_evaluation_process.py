"""Evaluation in a process of its own: the results are the same, only the time differs."""

import time

import gymnasium
import numpy as np
import pytest

from discover_rl.training import evaluation_process, launch
from discover_rl.training.evaluation import EvaluationSetup
from discover_rl.training.evaluation_process import EvaluationProcess
from tests.helpers.trainings import assert_same_files, runs_of, stop_at


def evaluate_in_a_process(monkeypatch) -> None:
    """Let cohorts evaluate as they do with EnvPool on a machine with a GPU."""
    monkeypatch.setattr(
        evaluation_process, "Evaluator", lambda setup: EvaluationProcess(0.5, setup)
    )


@pytest.mark.slow
@pytest.mark.usefixtures("no_limits")
@pytest.mark.parametrize("stop", [None, 130])
def test_evaluation_in_a_process_gives_the_same_records(tmp_path, monkeypatch, stop):
    """Also if a lane diverges meanwhile, and if training is stopped and resumed."""
    runs = runs_of(critic_lr=[3e-4, 1e30], seeds=1)
    launch.train(runs, tmp_path / "one", checkpoint_seconds=0.0)
    evaluate_in_a_process(monkeypatch)
    apart = tmp_path / "apart"
    if stop:
        stop_at(stop, runs, apart)
    launch.train(runs, apart, checkpoint_seconds=0.0)
    for run in runs:
        folders = tmp_path / "one", apart
        lines = [(folder / run.name / "record.jsonl").read_text() for folder in folders]
        assert lines[0] == lines[1]
    assert_same_files(tmp_path / "one" / runs[0].name, apart / runs[0].name)


@pytest.mark.slow
def test_a_crash_in_the_evaluation_process_is_recorded_with_its_reason(tmp_path, monkeypatch):
    evaluate_in_a_process(monkeypatch)
    records = launch.train(runs_of("tests.training.test_failures:Moody-v0", 60, seeds=2), tmp_path)
    reason = "the environment raised RuntimeError"
    assert records["seed-0"].failure == {"step": 0, "event": "crashed", "reason": reason}


class Doomed(gymnasium.Env):
    """Raises in the evaluation of run 0 after half a second, and sooner in its training."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.evaluated, self.t = seed == 100, 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        if self.evaluated:
            time.sleep(0.5)
            raise RuntimeError("in evaluation")
        if self.t == 3:
            raise RuntimeError("in training")
        return np.zeros(1, np.float32), 1.0, False, False, {}


gymnasium.register("Doomed-v0", entry_point=Doomed)


@pytest.mark.slow
def test_a_lane_fails_once_for_the_first_of_two_reasons(tmp_path, monkeypatch):
    """The evaluation of step 0 is still running when training fails."""
    runs = runs_of("tests.training.test_evaluation_process:Doomed-v0", 60, seeds=1)
    lines = launch.train(runs, tmp_path / "one")["seed-0"].lines[1:]
    assert lines[-1]["reason"].endswith("in evaluation")
    evaluate_in_a_process(monkeypatch)
    assert launch.train(runs, tmp_path / "apart")["seed-0"].lines[1:] == lines
    assert len(lines) == 1


def test_an_evaluation_process_that_has_died_is_an_error_that_says_so():
    evaluator = EvaluationProcess(0.3, EvaluationSetup("Pendulum-v1", [0], 1, 10))
    try:
        evaluator._process.kill()
        evaluator._process.wait()
        with pytest.raises(ChildProcessError, match="evaluates is gone"):
            evaluator.begin({}, None, np.ones(1, bool))
        with pytest.raises(ChildProcessError, match="evaluates is gone"):
            evaluator.scores()
    finally:
        evaluator.close()
