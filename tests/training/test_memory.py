"""Runs that do not fit into memory are refused before anything is allocated."""

import dataclasses

import jax
import numpy as np
import pytest

from discover_rl.config import Request, resolve
from discover_rl.core import replay_buffer, replay_rings
from discover_rl.core.types import PolicyHead, Spec, UserError
from discover_rl.storage.policies import Policy
from discover_rl.system import hardware
from discover_rl.training import memory
from discover_rl.training.evaluation import evaluate_policy
from tests.cli.test_cli import discover
from tests.system.test_modules import save_policy

PENDULUM = Spec((3,), (1,), (-2.0,), (2.0,), 200)
RACING = Spec((96, 96, 3), (3,), (-1.0, 0.0, 0.0), (1.0, 1.0, 1.0), 1000)


def runs(steps=1_000_000, seeds=1, algorithm="td3", **settings):
    return resolve(Request("Pendulum-v1", algorithm, "none", steps, seeds, settings))


def test_a_replay_is_counted_to_the_byte():
    shapes = jax.eval_shape(lambda: replay_buffer.init(1_000_000, 3, 1))
    exact = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    assert memory.need(runs()[0], PENDULUM).data == exact - 12  # three counters


@pytest.mark.parametrize("steps", [9_000, 1_000_000])
def test_rings_of_several_environments_are_counted_to_the_byte(steps):
    settings = {"env.count": 4, "eval.every": 1000, "replay_size": 50_003}
    each = min(50_003 // 4, steps // 4)
    shapes = jax.eval_shape(lambda: replay_rings.init(4, each, 3, 1))
    exact = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    assert memory.need(runs(steps, **settings)[0], PENDULUM).data == exact - 4 * 12


def test_a_run_shorter_than_its_replay_needs_less():
    short, long = (memory.need(runs(steps)[0], PENDULUM).data for steps in (10_000, 1_000_000))
    assert short < long / 50


def test_pictures_by_the_million_are_refused_with_what_would_fit(monkeypatch):
    monkeypatch.setattr(hardware, "place", lambda on_policy: "cpu")
    monkeypatch.setattr(hardware, "available_memory", lambda: 24 * 10**9)
    with pytest.raises(UserError) as caught:
        memory.check(runs(), RACING)
    text = str(caught.value)
    assert "needs about 115 GB of memory (114 GB of replay and" in text
    assert text.endswith("has 24 GB free; --set replay_size=100000 would fit.")
    memory.check(runs(replay_size=100_000), RACING)
    with pytest.raises(UserError, match="2 runs, each"):
        memory.check(runs(seeds=2, replay_size=150_000), RACING)


def test_networks_and_rollouts_are_counted_too(monkeypatch):
    monkeypatch.setattr(hardware, "place", lambda on_policy: "cpu")
    monkeypatch.setattr(hardware, "available_memory", lambda: 24 * 10**9)
    with pytest.raises(UserError, match="choose smaller networks than hidden=1000000,1000000"):
        memory.check(runs(1000, hidden=(1_000_000, 1_000_000)), PENDULUM)
    (long,) = runs(10**9, algorithm="ppo", horizon=10**9)
    with pytest.raises(UserError, match=r"of rollouts .* --set horizon=\d+ would fit"):
        memory.check([long], PENDULUM)


def test_a_gpus_memory_counts_where_a_run_learns_there(monkeypatch):
    monkeypatch.setattr(hardware, "place", lambda on_policy: "gpu")
    monkeypatch.setattr(hardware, "gpu_memory", lambda: 80 * 10**9)
    with pytest.raises(UserError, match="the GPU has 80 GB; "):
        memory.check(runs(), RACING)


def test_the_command_refuses_in_one_sentence(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(hardware, "available_memory", lambda: 10**7)
    assert discover("train", "Pendulum-v1", "--out", str(tmp_path / "out")) == 2
    out, err = capfd.readouterr()
    assert err.count("\n") == 1
    assert "Pendulum-v1 needs about" in err
    assert "Nothing is left" not in out
    assert not list(tmp_path.rglob("record.jsonl"))


def test_runs_of_a_tuning_that_differ_in_size_are_added_up(monkeypatch):
    monkeypatch.setattr(hardware, "place", lambda on_policy: "cpu")
    monkeypatch.setattr(hardware, "available_memory", lambda: 24 * 10**9)
    small, large = (runs(1000, hidden=widths) for widths in ((8, 8), (20_000, 20_000)))
    memory.check(small, PENDULUM)
    for together in (small + large, large + small):
        with pytest.raises(UserError, match=r"2 runs, the largest .* smaller networks than hidden"):
            memory.check(together, PENDULUM)


def test_what_is_free_is_no_more_than_there_is():
    assert 0 < hardware.available_memory() <= hardware.memory()


def test_needs_add_up():
    need = memory.need(runs()[0], PENDULUM)
    assert need.total == need.data + need.networks + need.batches + need.environments
    wider = dataclasses.replace(runs()[0].hyper, hidden=(512, 512))
    assert (
        memory.need(dataclasses.replace(runs()[0], hyper=wider), PENDULUM).networks > need.networks
    )


def test_environments_of_dm_control_take_more(monkeypatch):
    monkeypatch.setattr(hardware, "place", lambda on_policy: "cpu")
    monkeypatch.setattr(hardware, "available_memory", lambda: 24 * 10**9)
    (few,) = runs(2560, **{"env.count": 256, "eval.every": 256})
    memory.check([few], PENDULUM)
    with pytest.raises(UserError, match=r"needs about 29 GB .* --set env.count=\d+ would fit"):
        memory.check([dataclasses.replace(few, task="dm_control/dog-run-v0")], PENDULUM)


@pytest.mark.parametrize("video", [False, True])
def test_an_evaluation_that_does_not_fit_is_refused(tmp_path, monkeypatch, capfd, video):
    save_policy(tmp_path / "run", "Pendulum-v1")
    monkeypatch.setattr(hardware, "available_memory", lambda: 2 * 10**9)
    more = ["--video", str(tmp_path / "x.mp4")] if video else []
    assert discover("evaluate", str(tmp_path / "run"), "--episodes", "3000", *more) == 2
    assert capfd.readouterr().err == (
        "3,000 episodes of Pendulum-v1 at once need about 3 GB of memory, and this machine has "
        "2.0 GB free; ask for fewer episodes.\n"
    )


def test_what_the_layers_of_a_policy_take_counts(monkeypatch):
    monkeypatch.setattr(hardware, "available_memory", lambda: 2 * 10**9)
    wide = {"weight": np.zeros((3, 10**6), np.float32), "bias": np.zeros(10**6, np.float32)}
    last = {"weight": np.zeros((10**6, 1), np.float32), "bias": np.zeros(1, np.float32)}
    policy = Policy({"layer0": wide, "head": last}, PENDULUM, PolicyHead("relu"))
    with pytest.raises(UserError, match="1,000 episodes of Pendulum-v1 at once need about 9 GB"):
        evaluate_policy(policy, "Pendulum-v1", 1000)
