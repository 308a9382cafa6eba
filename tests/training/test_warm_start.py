"""Runs that start from another: with its networks, strategy and replay, and with nothing else."""

import dataclasses
import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from discover_rl import api, load_run, strategies
from discover_rl.config import Start
from discover_rl.core import networks, replay_buffer
from discover_rl.core.types import Spec, UserError
from discover_rl.envs.backends import spaces
from discover_rl.storage import checkpoints, kept_checkpoints, replay_segments
from discover_rl.storage.records import Record
from discover_rl.strategies.interface import Blueprint
from discover_rl.training import continuation, launch
from discover_rl.training.observers import Observer
from discover_rl.training.warm_start import started_from
from tests.helpers.trainings import OFF, assert_same_files, runs_of, stop_at

KEEP = {"compute.keep_checkpoint": True}


@pytest.fixture(scope="module")
def old(tmp_path_factory) -> Path:
    """A run of 100 steps that has kept its checkpoint."""
    out = tmp_path_factory.mktemp("old")
    launch.train(runs_of(steps=100, seeds=1, **KEEP), out)
    return out / "seed-0"


def warm(source, out, fresh=False, **given):
    """Small runs that start from another."""
    warmup = {} if given.get("algorithm") == "ppo" else {"warmup": 0}
    runs = runs_of(**{"steps": 100} | warmup | given)
    spec = spaces(runs[0].task, runs[0].env, "cpu")
    return started_from(source, runs, spec, out, fresh)


@pytest.fixture(scope="module")
def new(old, tmp_path_factory) -> Path:
    """Two runs that started from it, with another γ and another λ, and have kept checkpoints."""
    out = tmp_path_factory.mktemp("new")
    launch.train(warm(old, out, **CHANGED), out)
    return out


CHANGED = {"gamma": 0.9, "strategy.lam": 0.7, **KEEP}


def state_of(folder):
    return load_file(folder / "checkpoint/lane.safetensors")


def test_it_begins_as_the_other_ended(old, new):
    """Evaluations of one seed begin in the same states, whatever the run."""
    first, last = Record(new / "seed-0/record.jsonl"), Record(old / "record.jsonl")
    assert first.evaluations[0]["step"] == 0
    assert first.evaluations[0]["returns"] == last.evaluations[-1]["returns"]
    assert first.evaluations[-1]["returns"] != last.evaluations[-1]["returns"]
    assert Record(new / "seed-1/record.jsonl").evaluations[-1] != first.evaluations[-1]


def test_the_record_says_from_what(old, new):
    header = Record(new / "seed-1/record.jsonl").header
    start = Start.of(header["run"]["settings"])
    assert start == Start(str(old), kept_checkpoints.checksum(old), 100, 100)
    assert "start.run" not in Record(old / "record.jsonl").header["run"]["settings"]


def test_what_it_takes_and_what_is_its_own(old, tmp_path):
    """Stopped before its first step, it holds networks, optimisers and transitions of the other."""
    runs = warm(old, tmp_path, **CHANGED)
    stop_at(0, runs, tmp_path)
    there = state_of(old)
    for seed in range(2):
        here = load_file(tmp_path / f"checkpoint-0/seed-{seed}.safetensors")
        for name in there:
            same = np.array_equal(here[name], there[name])
            if name.startswith("learner.") and ".hyper." not in f".{name}":
                assert same, name
        assert here["learner.hyper.gamma"] == np.float32(0.9)
        assert here["learner.strategy.hyper.lam.start"] == np.float32(0.7)
        assert here["seed"] == seed
        assert (here["replay.inserted"], here["replay.oldest"]) == (100, 0)


def test_its_replay_holds_the_others_transitions(old):
    runs = runs_of(steps=100, seeds=1)
    size = spaces(runs[0].task, runs[0].env, "cpu").observation_size
    empty = jax.tree.map(lambda leaf: leaf[None], replay_buffer.init(200, size, 1))
    few = jax.tree.map(lambda leaf: leaf[None], replay_buffer.init(30, size, 1))
    all_of, newest = (
        jax.tree.map(lambda leaf: leaf[0], kept_checkpoints.load_replay(old, it))
        for it in (empty, few)
    )
    taken = replay_buffer.take(all_of, np.arange(70, 100))
    assert np.abs(taken.obs).min(axis=0).all()
    jax.tree.map(np.testing.assert_array_equal, taken, replay_buffer.take(newest, np.arange(30)))
    raw = load_file(old / "checkpoint/replay/100-101.safetensors")  # all but the first observation
    there = replay_buffer.take(all_of, np.arange(1, 10))
    np.testing.assert_array_equal(there.obs, raw["rows"][:9])
    np.testing.assert_array_equal(there.executed, raw["executed"][1:10])
    # The episode that was running is cut: what begins next is no part of it.
    entered = replay_buffer.enter(jax.device_put(all_of), np.full(size, 7.0), np.bool(True))
    assert replay_buffer.ended(entered, np.array([99])).all()


@pytest.mark.slow
def test_a_killed_one_goes_on_exactly_without_the_other(old, new, tmp_path):
    source = shutil.copytree(old, tmp_path / "source")
    out = tmp_path / "out"
    given = {name: value for name, value in CHANGED.items() if name not in KEEP}
    stop_at(0, warm(source, out, **given), out)
    shutil.rmtree(source)
    stop_at(45, warm(source, out, **given), out)
    launch.train(warm(source, out, **given), out)
    for seed in range(2):
        lines = [Record(it / f"seed-{seed}/record.jsonl").lines for it in (out, new)]
        assert lines[0][1:] == lines[1][1:]
        nets = [load_file(it / f"seed-{seed}/critic.safetensors") for it in (out, new)]
        jax.tree.map(np.testing.assert_array_equal, *nets)


def test_another_state_of_the_other_is_noticed(old, new, tmp_path):
    source = shutil.copytree(old, tmp_path / "source")
    manifest = source / "checkpoint/cohort.json"
    asked = warm(source, tmp_path / "out", **CHANGED)
    body = manifest.read_bytes().partition(b"\n")[2]
    manifest.write_bytes(checkpoints.with_checksum(body + b"\n"))
    with pytest.raises(UserError, match="has changed since these runs were asked to start"):
        launch.train(asked, tmp_path / "out")
    with pytest.raises(UserError, match=r"holds another run: start\.checksum is"):
        launch.train(warm(source, new, **CHANGED), new)
    shutil.rmtree(source)
    with pytest.raises(UserError, match="is gone, or its checkpoint"):
        launch.train(asked, tmp_path / "out")
    with pytest.raises(UserError, match="holds another run: start"):  # a cold start
        launch.train(runs_of(steps=100, warmup=0, **CHANGED), new)
    assert not list((tmp_path / "out").rglob("record.jsonl"))


def test_a_damaged_one_is_refused_in_a_sentence(old, tmp_path):
    source = shutil.copytree(old, tmp_path / "source")
    for path in sorted((source / "checkpoint").rglob("*.*")):
        content = path.read_bytes()
        for changed in (content[:-1], content[: len(content) // 2] + b"!" + content, b""):
            path.write_bytes(changed)
            with pytest.raises(UserError, match="damaged"):
                launch.train(warm(source, tmp_path / "out", **CHANGED), tmp_path / "out")
        path.write_bytes(content)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"algorithm": "ppo"}, "algorithm is td3 there and ppo here"),
        ({"strategy": "none"}, "strategy is discover there and none here"),
        ({"hidden": (16,)}, r"hidden is \[8\] there and \[16\] here"),
        ({"normalise": True}, "normalise is False there and True here"),
        ({"task": "MountainCarContinuous-v0"}, r"the shape of observations is \(3,\) there"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(old, tmp_path, given, sentence):
    with pytest.raises(UserError, match=f"does not fit these runs: {sentence}"):
        warm(old, tmp_path, **given)


def test_networks_of_another_shape_are_named(old):
    like = {"learner": {"actor": np.zeros((1, 3))}}
    with pytest.raises(UserError, match=r"actor is absent there and of shape \(3,\) here"):
        kept_checkpoints.load(old, like)


def test_there_must_be_something_to_start_from(old, tmp_path):
    with pytest.raises(UserError, match="There is no run to start from in"):
        warm(tmp_path / "nothing", tmp_path)
    source = shutil.copytree(old, tmp_path / "out/seed-0")
    with pytest.raises(UserError, match="which --fresh moves aside"):
        warm(source, tmp_path / "out", fresh=True)
    shutil.rmtree(source / "checkpoint")
    with pytest.raises(UserError, match="has no checkpoint to start from; a run keeps it when"):
        warm(source, tmp_path)


def test_without_its_replay_it_starts_with_all_else(old, tmp_path):
    """A run that was asked to keep nothing has kept what it learned."""
    launch.train(runs_of(steps=100, seeds=1), tmp_path / "bare")
    bare = tmp_path / "bare/seed-0"
    assert not (bare / "checkpoint/replay").exists()
    jax.tree.map(np.testing.assert_array_equal, state_of(bare), state_of(old))
    runs = warm(bare, tmp_path / "out", seeds=1)
    assert (runs[0].start.step, runs[0].start.transitions) == (100, 0)
    stop_at(0, runs, tmp_path / "out")
    here = load_file(tmp_path / "out/checkpoint-0/seed-0.safetensors")
    assert here["replay.inserted"] == 0
    for name, array in state_of(old).items():
        if name.startswith("learner."):
            np.testing.assert_array_equal(here[name], array)
    launch.train(runs, tmp_path / "out")
    first = Record(tmp_path / "out/seed-0/record.jsonl").evaluations[0]
    assert first["returns"] == load_run(bare).returns[-1]


def test_no_replay_is_written_to_keep_the_rest(tmp_path, monkeypatch):
    """It may be many gigabytes, and training would wait for it at its end."""
    saved = []
    monkeypatch.setattr(replay_segments, "save", lambda *given: saved.append(given) or {})
    launch.train(runs_of(steps=100, seeds=1), tmp_path)
    assert (tmp_path / "seed-0/checkpoint/lane.safetensors").exists()
    assert len(saved) == 1, "that of step 0 alone"


def test_transitions_of_another_task_stay_behind(old, tmp_path, monkeypatch):
    def taken(**given):
        return warm(old, tmp_path, seeds=1, **given)[0].start.transitions

    assert taken(gamma=0.5) == 100
    assert taken(**{"env.action_repeat": 2}) == 0
    monkeypatch.setattr(
        "discover_rl.training.headers.changed_code", lambda *_: [("task", "a", "b")]
    )
    assert taken() == 0


def test_from_python(old, tmp_path):
    settings = OFF | {"warmup": 0}
    out, received = tmp_path / "out", []

    class Listener(Observer):
        def noted(self, run, step, sentence):
            received.append(sentence)

    (result,) = api.train(
        "Pendulum-v1", steps=20, out=out, start_from=old, observer=Listener(), **settings
    )
    assert received == [f"starts with the networks and 100 transitions of {old} at step 100"]
    assert result.returns[0] == load_run(old).returns[-1]


def test_more_steps_that_are_refused_offer_it(old, tmp_path, monkeypatch):
    source = shutil.copytree(old, tmp_path / "seed-0")
    monkeypatch.setattr(continuation, "_outgrown", lambda *given: True)
    with pytest.raises(UserError, match=f"; --from {source} starts a new run with what"):
        launch.train(runs_of(seeds=1, **KEEP), tmp_path)


def test_more_steps_after_a_warm_start_need_all_that_it_started_with(new):
    (run, _) = runs_of(seeds=2, steps=300, **CHANGED)
    for transitions, outgrown in ((100, False), (150, True)):
        started = dataclasses.replace(run, start=Start("there", "", 100, transitions))
        assert continuation._outgrown(started, 100, new) == outgrown


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "strategy"), [("ppo", "discover"), ("sac", "see"), ("ddpg", "meta")]
)
def test_every_family_starts_and_goes_on(tmp_path, algorithm, strategy):
    given = {"algorithm": algorithm, "strategy": strategy, "seeds": 1, "steps": 100}
    given |= {"warmup": 40} if algorithm != "ppo" else {}
    launch.train(runs_of(**given, **KEEP), tmp_path / "old")
    runs = [runs_of(**given)[0]]
    spec = spaces("Pendulum-v1", runs[0].env, "cpu")
    runs = started_from(tmp_path / "old", runs, spec, tmp_path / "out")
    launch.train(runs, tmp_path / "whole")
    stop_at(30, runs, tmp_path / "out")
    launch.train(runs, tmp_path / "out")
    assert_same_files(tmp_path / "whole", tmp_path / "out")
    first = Record(tmp_path / "out/seed-0/record.jsonl").evaluations[0]["returns"]
    last = Record(tmp_path / "old/seed-0/record.jsonl").evaluations[-1]["returns"]
    # Where observations are standardised, the first one counts in the statistics already.
    np.testing.assert_allclose(first, last, rtol=1e-6 if algorithm == "sac" else 0.05)


@pytest.mark.parametrize("name", ["zeta", "corner"])
def test_what_is_drawn_or_computed_when_a_run_begins_is_its_own(name):
    """The lengths of held noise follow from the run's settings; its corner, from its seed."""
    module, blueprint = strategies.load(name), Blueprint(networks.init, networks.apply, 1)
    made = module.make(Spec((3,), (1,), (-1.0,), (1.0,)), module.Hyper(), blueprint)
    assert made.inherit("fresh", "old") == "fresh"
