"""Evaluation in a process of its own: nothing but the time it takes is different."""

import pytest

from discover_rl import cohort, training
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
