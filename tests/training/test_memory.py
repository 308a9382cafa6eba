"""Runs that do not fit into memory are refused before anything is allocated."""

import dataclasses

import jax
import pytest

from discover_rl.config import Request, resolve
from discover_rl.core import replay_buffer
from discover_rl.core.types import Spec, UserError
from discover_rl.system import hardware
from discover_rl.training import memory
from tests.cli.test_cli import discover

PENDULUM = Spec((3,), (1,), (-2.0,), (2.0,), 200)
RACING = Spec((96, 96, 3), (3,), (-1.0, 0.0, 0.0), (1.0, 1.0, 1.0), 1000)


def runs(steps=1_000_000, seeds=1, algorithm="td3", **settings):
    return resolve(Request("Pendulum-v1", algorithm, "none", steps, seeds, settings))


def test_a_replay_is_counted_to_the_byte():
    shapes = jax.eval_shape(lambda: replay_buffer.init(1_000_000, 3, 1))
    exact = sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(shapes))
    assert memory.need(runs()[0], PENDULUM).data == exact - 12  # three counters


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


def test_what_is_free_is_no_more_than_there_is():
    assert 0 < hardware.available_memory() <= hardware.memory()


def test_needs_add_up():
    need = memory.need(runs()[0], PENDULUM)
    assert need.total == need.data + need.networks + need.batches + need.environments
    wider = dataclasses.replace(runs()[0].hyper, hidden=(512, 512))
    assert (
        memory.need(dataclasses.replace(runs()[0], hyper=wider), PENDULUM).networks > need.networks
    )
