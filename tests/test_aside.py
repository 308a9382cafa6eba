"""Evaluation in a process of its own: nothing but the time it takes is different."""

import time

import gymnasium
import numpy as np
import pytest

from discover_rl import cohort, training
from discover_rl.evaluate import Aside
from tests.trainings import assert_same_files, runs_of, stop_at


@pytest.mark.parametrize("stop", [None, pytest.param(130, marks=pytest.mark.slow)])
def test_evaluation_beside_training_leaves_the_same_records(tmp_path, monkeypatch, stop):
    """Also where a lane diverges meanwhile, and where it is stopped and goes on."""
    runs = runs_of(critic_lr=[3e-4, 1e30], seeds=1)
    training.train(runs, tmp_path / "one", checkpoint_seconds=0.0)
    monkeypatch.setattr(cohort, "_spares_cores", lambda engine: True)
    beside = tmp_path / "beside"
    if stop:
        stop_at(stop, runs, beside)
    training.train(runs, beside, checkpoint_seconds=0.0)
    for run in runs:
        lines = [(it / run.name / "record.jsonl").read_text() for it in (tmp_path / "one", beside)]
        assert lines[0] == lines[1]
    assert_same_files(tmp_path / "one" / runs[0].name, beside / runs[0].name)


@pytest.mark.slow
def test_whoever_evaluates_beside_says_what_crashed(tmp_path, monkeypatch):
    monkeypatch.setattr(cohort, "_spares_cores", lambda engine: True)
    records = training.train(runs_of("tests.test_failures:Moody-v0", 60, seeds=2), tmp_path)
    said = "the environment raised RuntimeError"
    assert records["seed-0"].failure == {"step": 0, "event": "crashed", "reason": said}


class Doomed(gymnasium.Env):
    """Raises in the evaluation of run 0 after long thinking, and soon in its training, too."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.judged, self.t = seed == 100, 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        if self.judged:
            time.sleep(0.5)
            raise RuntimeError("in evaluation")
        if self.t == 3:
            raise RuntimeError("in training")
        return np.zeros(1, np.float32), 1.0, False, False, {}


gymnasium.register("Doomed-v0", entry_point=Doomed)


@pytest.mark.slow
def test_a_lane_is_buried_once_for_what_was_first(tmp_path, monkeypatch):
    """Evaluation of step 0 is still going on when training breaks."""
    runs = runs_of("tests.test_aside:Doomed-v0", 60, seeds=1)
    said = training.train(runs, tmp_path / "one")["seed-0"].lines[1:]
    assert said[-1]["reason"].endswith("in evaluation")
    monkeypatch.setattr(cohort, "_spares_cores", lambda engine: True)
    assert training.train(runs, tmp_path / "beside")["seed-0"].lines[1:] == said
    assert len(said) == 1


def test_an_evaluator_that_is_gone_is_said_to_be():
    aside = Aside(0.3, "Pendulum-v1", [0], 1, 10)
    try:
        aside._process.kill()
        aside._process.wait()
        with pytest.raises(ChildProcessError, match="evaluates is gone"):
            aside.begin({}, None, np.ones(1, bool))
        with pytest.raises(ChildProcessError, match="evaluates is gone"):
            aside.scores()
    finally:
        aside.close()
