"""Metrics of training: what is in their lines, when they are written, and that nothing moves."""

import json

import jax
import numpy as np
import pytest
import safetensors.numpy

from discover_rl.agents.off_policy.agent import OffPolicyAgent
from discover_rl.agents.on_policy.metrics import RolloutMetrics
from discover_rl.config import Request, resolve
from discover_rl.envs.gymnasium_vector import GymnasiumVector
from discover_rl.storage.records import Record, read_record
from discover_rl.training import launch
from discover_rl.training.metrics import spacing
from discover_rl.training.observers import Observer
from tests.helpers.trainings import assert_same_files, runs_of, stop_at

EVERY = 40
TD3 = {"q", "td_error", "critic_loss", "actor_loss", "strategy_loss", "noise"}
TD3 |= {"actor_lr", "critic_lr", "episodes", "return", "length"}
PPO = {"value", "value_loss", "policy_loss", "strategy_loss", "noise", "std", "entropy", "kl"}
PPO |= {"clip_fraction", "explained_variance", "actor_lr", "episodes", "return", "length"}


class Received(Observer):
    """Keeps the metrics that it receives."""

    def __init__(self):
        self.all = []

    def measured(self, run, step, metrics, steps_per_second):
        self.all.append((run.name, step, metrics, steps_per_second))


def lines_of(out, seed=0) -> list[dict]:
    return [line for line in record_of(out, seed).lines if "metrics" in line]


def record_of(out, seed=0) -> Record:
    return Record(out / f"seed-{seed}" / "record.jsonl")


@pytest.fixture(scope="module")
def td3(tmp_path_factory):
    """A run of TD3 with metrics, and what an observer received."""
    out, received = tmp_path_factory.mktemp("td3"), Received()
    runs = runs_of(**{"metrics.every": EVERY, "compute.keep_replay": True})
    launch.train(runs, out, received)
    return out, received


def test_a_line_has_losses_rates_noise_and_the_training_episodes(td3):
    out, _ = td3
    lines = lines_of(out)
    assert [line["step"] for line in lines] == [40, 80, 120, 160, 200, 240]
    for line in lines:
        assert line["metrics"].keys() >= TD3
        assert line["metrics"]["actor_lr"] == pytest.approx(3e-4)
    assert [line["metrics"]["episodes"] for line in lines] == [0, 0, 0, 0, 1, 0]
    replay = safetensors.numpy.load_file(out / "seed-0" / "replay.safetensors")
    paid = replay["reward"][:200]  # an episode of Pendulum has 200 steps
    last = lines[4]["metrics"]
    assert (last["return"], last["length"]) == (pytest.approx(paid.sum(), rel=1e-5), 200)
    assert lines[0]["metrics"]["return"] is None
    noise = [line["metrics"]["noise"] for line in lines]
    assert noise[0] > noise[-1] > 0.1  # uniform for 40 steps, then λ = 0.3 of a direction


def test_metrics_and_evaluations_of_a_step_are_on_the_same_batch(td3):
    out, _ = td3
    measured, evaluated = lines_of(out)[2], record_of(out).evaluations[2]
    assert measured["step"] == evaluated["step"] == 120
    assert measured["metrics"] == measured["metrics"] | evaluated["report"]
    kinds = "".join([*line][1][0] for line in record_of(out).lines[1:])
    assert kinds == "rmrmmrmrmmr"  # returns are the last of all
    assert read_record(out / "seed-0" / "record.jsonl").done


def test_observers_hear_the_lines_and_how_fast_it_went(td3):
    out, received = td3
    for seed in (0, 1):
        every = [it for it in received.all if it[0] == f"seed-{seed}"]
        mine = [(step, metrics) for _, step, metrics, _ in every]
        assert mine == [(line["step"], line["metrics"]) for line in lines_of(out, seed)]
    assert all(0 < speed < 1e6 for *_, speed in received.all)
    assert "second" not in (out / "seed-0" / "record.jsonl").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [("td3", {}), ("ppo", {"env.count": 2, "horizon": 10})],
)
def test_nothing_moves_by_it_and_a_stopped_run_writes_the_same_lines(
    td3, tmp_path, algorithm, settings
):
    asked = {"algorithm": algorithm, "metrics.every": EVERY, **settings}
    if algorithm == "td3":
        whole, asked["compute.keep_replay"] = td3[0], True
    else:
        whole = tmp_path / "whole"
        launch.train(runs_of(**asked), whole)
        lines = lines_of(whole)
        assert [line["step"] for line in lines] == [40, 80, 120, 160, 200, 240]
        assert lines[-1]["metrics"].keys() >= PPO
        assert sum(line["metrics"]["episodes"] for line in lines) == 0
    for step in (70, 210):
        stop_at(step, runs_of(**asked), tmp_path / "stopped")
    launch.train(runs_of(**asked), tmp_path / "stopped")
    assert_same_files(whole, tmp_path / "stopped")
    launch.train(runs_of(**asked | {"metrics.every": -1}), tmp_path / "without")
    for seed in (0, 1):
        with_, without = (record_of(out, seed).lines for out in (whole, tmp_path / "without"))
        assert [line for line in with_ if "metrics" not in line] == without
        policies = [
            out / f"seed-{seed}/policy.safetensors" for out in (whole, tmp_path / "without")
        ]
        assert policies[0].read_bytes() == policies[1].read_bytes()


@pytest.mark.slow
@pytest.mark.usefixtures("no_limits")
def test_a_lane_that_has_failed_gets_no_more_lines(tmp_path):
    runs = runs_of(steps=100, **{"metrics.every": 10, "critic_lr": [3e-4, 1e30]})
    launch.train(runs, tmp_path)
    good, bad = (Record(tmp_path / run.name / "record.jsonl") for run in (runs[0], runs[-1]))
    assert bad.failure
    assert bad.lines[-1] == bad.failure
    assert [line["step"] for line in bad.lines if "metrics" in line] == [10, 20, 30, 40]
    assert len([line for line in good.lines if "metrics" in line]) == 10


@pytest.mark.slow
def test_lines_wait_for_an_evaluation_that_goes_on_beside_training(tmp_path, monkeypatch):
    """So records are the same wherever evaluation goes on."""
    from discover_rl.training.evaluation import Evaluator

    asked = {"seeds": 1, "metrics.every": 20}
    launch.train(runs_of(**asked), tmp_path / "one")
    monkeypatch.setattr(Evaluator, "ready", lambda self: False)
    launch.train(runs_of(**asked), tmp_path / "other")
    assert_same_files(tmp_path / "one", tmp_path / "other")


@pytest.mark.parametrize(
    ("algorithm", "owner", "name"),
    [("td3", OffPolicyAgent, "metrics"), ("ppo", RolloutMetrics, "note")],
)
def test_what_measures_is_compiled_before_the_first_step(
    tmp_path, monkeypatch, algorithm, owner, name
):
    """Later it would hold up training while the terminal shows a rate of steps."""
    compiled, late, measure = [], [], getattr(owner, name)

    def watched(*given):
        before = len(compiled)
        found = measure(*given)
        late.append(compiled[before:])
        return found

    def listen(event, seconds, **about):
        compiled.extend([event] if "backend_compile" in event else [])

    monkeypatch.setattr(owner, name, watched)
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        runs = runs_of(algorithm=algorithm, steps=120, seeds=1, **{"metrics.every": 40})
        launch.train(runs, tmp_path)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert compiled
    assert late
    assert not any(late)


def test_the_cadence_makes_no_other_run():
    few, many = (
        resolve(Request("Pendulum-v1", settings=given))[0] for given in ({}, {"metrics.every": 7})
    )
    assert few.to_json() == many.to_json()
    assert (spacing(few), spacing(many)) == (5000, 7)
    assert spacing(runs_of()[0]) == 1000  # never closer by default
    assert spacing(runs_of(**{"metrics.every": -1})[0]) == 0
    assert spacing(runs_of(algorithm="ppo", **{"metrics.every": 30})[0]) == 50  # two rollouts


def test_returns_of_training_episodes_survive_being_restored():
    """Half an episode before it, half after it, and two that ended before."""
    whole, broken = (GymnasiumVector("Pendulum-v1", [3], count=2) for _ in range(2))
    actions = np.random.default_rng(0).uniform(-1, 1, (450, 2, 1)).astype(np.float32)
    both = np.ones(2, bool)
    for env in range(2):
        whole.begin(env)
    for row in actions[:250]:
        whole.step(row, both)
    episodes = json.loads(json.dumps([list(it.before) for it in whole.episodes(0)]))
    for env, (episode, before) in enumerate(zip(whole.episodes(0), episodes, strict=True)):
        assert broken.restore(env, episode._replace(before=type(episode.before)(*before)))
    for row in actions[250:]:
        for vector in (whole, broken):
            vector.step(row, both)
    ended = whole.take_ended(0)
    assert ended == broken.take_ended(0)
    assert (ended.number, ended.lengths) == (4, 800)
    assert whole.take_ended(0).number == 0
