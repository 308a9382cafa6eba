"""What a killed or hindered process leaves behind is put right by the next."""

import numpy as np
import pytest

from discover_rl import checkpoint, config, provenance, store, training
from discover_rl.agent import Agent
from discover_rl.envs import Episode, Lanes
from discover_rl.trees import stack
from discover_rl.types import UserError

SETTINGS = {"hidden": (8,), "batch_size": 8, "warmup": 40, "eval.every": 60, "eval.episodes": 2}


def runs_of(steps=60, seeds=2):
    return config.resolve("Pendulum-v1", "td3", "discover", steps, seeds, SETTINGS)


@pytest.fixture(scope="module")
def fresh():
    """Two runs and the state they start from."""
    runs = runs_of()
    spec = Lanes("Pendulum-v1", [0]).spec
    first = runs[0]
    agent = Agent(spec, "td3", first.hyper, "discover", first.strategy_hyper, first.steps)
    hypers = ([run.hyper for run in runs], [run.strategy_hyper for run in runs])
    return runs, agent.init(np.arange(2, dtype=np.uint32), *map(stack, hypers))


def save(out, step, fresh, alive=(True, True), state=None):
    runs, begun = fresh
    episodes = [[Episode(0, np.zeros((0, 1), np.float32), 0)]] * 2
    return checkpoint.save(out, step, runs, np.asarray(alive), state or begun, episodes)


def test_a_folder_that_cannot_be_written_to_is_a_mistake_of_the_users(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written to"):
        training.train(runs_of(), tmp_path / "file" / "out")


def test_a_moment_that_has_overflowed_does_not_keep_checkpoints_from_being_made(tmp_path, fresh):
    state = fresh[1]
    adam = state.learner.critic_optimiser

    def with_bias(value):
        head = {**adam[0].nu["head"], "bias": adam[0].nu["head"]["bias"] + value}
        moments = adam[0]._replace(nu={**adam[0].nu, "head": head})
        learner = state.learner._replace(critic_optimiser=(moments, *adam[1:]))
        return state._replace(learner=learner)

    assert save(tmp_path, 1, fresh, state=with_bias(np.inf))
    assert not save(tmp_path, 2, fresh, state=with_bias(np.nan))


def test_a_kill_while_clearing_leaves_nothing_that_is_in_the_way(tmp_path, fresh, monkeypatch):
    save(tmp_path, 0, fresh)
    save(tmp_path, 1, fresh, alive=(True, False))

    def killed(path):
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "remove", lambda p: None if p.suffix == ".tmp" else killed(p))
    with pytest.raises(KeyboardInterrupt):
        checkpoint.clear(tmp_path, ["seed-1"])
    monkeypatch.undo()
    assert checkpoint.find(tmp_path) is None
    assert (tmp_path / "seed-1" / "last-good" / "lane.safetensors").exists()
    checkpoint.clear(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-1"]


@pytest.mark.slow
def test_a_run_that_starts_over_says_with_which_code(tmp_path, monkeypatch):
    runs = runs_of(seeds=1)
    record = store.Record(tmp_path / "seed-0" / "record.jsonl")
    record.begin({"run": runs[0].to_json(), "code": {"jax": "0.0"}, "commit": "old"})
    done = training.train(runs, tmp_path)["seed-0"]
    assert done.header is not None
    assert done.header["code"] == provenance.code()
