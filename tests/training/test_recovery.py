"""The next process repairs what a process that was killed or failed has left."""

import numpy as np
import pytest

from discover_rl import config
from discover_rl.agents.build import build_agent
from discover_rl.agents.interface import AgentSetup
from discover_rl.core.pytrees import stack_floats
from discover_rl.core.types import UserError
from discover_rl.envs.gymnasium_vector import GymnasiumVector
from discover_rl.envs.vector import Episode
from discover_rl.storage import checkpoints, files, records
from discover_rl.system import provenance
from discover_rl.training import launch

SETTINGS = {"hidden": (8,), "batch_size": 8, "warmup": 40, "eval.every": 60, "eval.episodes": 2}


def runs_of(steps=60, seeds=2):
    return config.resolve(config.Request("Pendulum-v1", "td3", "discover", steps, seeds, SETTINGS))


@pytest.fixture(scope="module")
def fresh():
    """Two runs and their agent's first state."""
    runs = runs_of()
    spec = GymnasiumVector("Pendulum-v1", [0]).spec
    first = runs[0]
    names = "td3", first.hyper, "discover", first.strategy_hyper
    agent = build_agent(AgentSetup(spec, *names, first.steps))
    hypers = ([run.hyper for run in runs], [run.strategy_hyper for run in runs])
    return runs, agent.init(np.arange(2, dtype=np.uint32), *map(stack_floats, hypers))


def save(out, step, fresh, alive=(True, True), state=None):
    runs, first = fresh
    episodes = [[Episode(0, np.zeros((0, 1), np.float32), 0)]] * 2
    return checkpoints.save(out, step, runs, np.asarray(alive), state or first, episodes)


def test_a_folder_that_cannot_be_written_to_is_a_user_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written to"):
        launch.train(runs_of(), tmp_path / "file" / "out")


def test_an_optimiser_moment_that_overflowed_does_not_prevent_a_checkpoint(tmp_path, fresh):
    state = fresh[1]
    adam = state.learner.critic_optimiser

    def with_bias(value):
        head = {**adam[0].nu["head"], "bias": adam[0].nu["head"]["bias"] + value}
        moments = adam[0]._replace(nu={**adam[0].nu, "head": head})
        learner = state.learner._replace(critic_optimiser=(moments, *adam[1:]))
        return state._replace(learner=learner)

    assert save(tmp_path, 1, fresh, state=with_bias(np.inf))
    assert not save(tmp_path, 2, fresh, state=with_bias(np.nan))


def test_a_kill_while_checkpoints_are_removed_leaves_nothing_that_hinders_the_next_run(
    tmp_path, fresh, monkeypatch
):
    save(tmp_path, 0, fresh)
    save(tmp_path, 1, fresh, alive=(True, False))

    def killed(path):
        raise KeyboardInterrupt

    remove = files.remove
    monkeypatch.setattr(
        files, "remove", lambda p: (killed if p.name.startswith("checkpoint-") else remove)(p)
    )
    with pytest.raises(KeyboardInterrupt):
        checkpoints.clear(tmp_path, ["seed-1"])
    monkeypatch.undo()
    assert checkpoints.find(tmp_path) is None
    assert (tmp_path / "seed-1" / "last-good" / "lane.safetensors").exists()
    checkpoints.clear(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-1"]


@pytest.mark.slow
def test_a_run_that_starts_over_records_the_present_code(tmp_path, monkeypatch):
    runs = runs_of(seeds=1)
    record = records.Record(tmp_path / "seed-0" / "record.jsonl")
    record.begin({"run": runs[0].to_json(), "code": {"jax": "0.0"}, "commit": "old"})
    done = launch.train(runs, tmp_path)["seed-0"]
    assert done.header is not None
    assert done.header["code"] == provenance.code()
