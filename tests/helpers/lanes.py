"""Three lanes to be saved and loaded: a small agent whose environments are made up."""

from pathlib import Path

import jax
import numpy as np

from discover_rl import config
from discover_rl.agents.interface import AgentSetup
from discover_rl.agents.off_policy.agent import OffPolicyAgent
from discover_rl.core import replay_buffer
from discover_rl.core.pytrees import stack_floats
from discover_rl.core.types import Spec, Transition
from discover_rl.envs.vector import Episode
from discover_rl.storage import checkpoints

SPEC = Spec((3,), (2,), (-1.0, -1.0), (1.0, 1.0))
PERIODS = 3, 7, 10**9  # episode lengths
CAPACITY = 40
# Warm-up never ends, so nothing is learned: the numbers to be saved are made up by `scrambled`.
SMALL = {"hidden": 8, "batch_size": 8, "replay_size": CAPACITY, "warmup": 10**6}
RUNS = config.resolve(
    config.Request("Any-v0", "td3", "discover", 1000, 1, SMALL | {"strategy.lam": "0.1,0.2,0.3"})
)
ENDLESS = RUNS[2].name
ALL = np.ones(3, bool)


def build(**settings) -> tuple[OffPolicyAgent, tuple]:
    runs = [
        config.resolve(config.Request("Any-v0", "td3", "discover", 1000, 1, SMALL | settings))[0]
    ] * 3
    hypers = [
        stack_floats([getattr(run, it) for run in runs]) for it in ("hyper", "strategy_hyper")
    ]
    setup = AgentSetup(SPEC, "td3", runs[0].hyper, "discover", runs[0].strategy_hyper, 1000)
    agent = OffPolicyAgent(setup)
    return agent, (np.arange(3, dtype=np.uint32), *hypers)


def transition_at(step: int) -> Transition:
    """Every lane has observations, rewards and ends of its own."""
    ended = np.asarray([step % period == 0 for period in PERIODS])
    lane = np.arange(3, dtype=np.float32)
    next_obs = np.stack([lane, lane + step, np.zeros(3, np.float32)], axis=1)
    obs = next_obs + ended[:, None] * np.float32(0.5)
    return Transition(lane - step, ended & (step % 2 == 0), ended, next_obs, obs)


def scrambled(state):
    """No two numbers of the learner are alike."""
    generator = np.random.default_rng(0)

    def scramble(leaf):
        noise = generator.normal(size=leaf.shape).astype(leaf.dtype)
        return noise if leaf.dtype.kind == "f" else leaf

    return state._replace(learner=jax.tree.map(scramble, copied(state.learner)))


def copied(tree):
    return jax.tree.map(lambda leaf: np.array(leaf), tree)


def lanes(state, *which: int):
    return jax.tree.map(lambda leaf: leaf[list(which)], state)


def episodes_at(step: int, count: int = 1) -> list[list[Episode]]:
    """What the environments would hand in: an episode that has just begun has no actions."""

    def episode(lane: int, env: int) -> Episode:
        length = (step + env) % PERIODS[lane]
        actions = np.random.default_rng([step, length]).random((length, 2), np.float32)
        return Episode(step + lane + env, actions, 2**32 - 1 - step - env)

    return [[episode(lane, env) for env in range(count)] for lane in range(len(PERIODS))]


def assert_same_episodes(a: list[list[Episode]], b: list[list[Episode]]) -> None:
    for mine, theirs in zip(a, b, strict=True):
        for one, other in zip(mine, theirs, strict=True):
            assert (one.number, one.digest) == (other.number, other.digest)
            assert_same(one.actions, other.actions)


def save(out: Path, step: int, state, alive=ALL, runs=RUNS) -> bool:
    return checkpoints.save(out, step, runs, alive, jax.device_put(state), episodes_at(step))


def whole(memory: replay_buffer.Replay, lane: int):
    """All that a lane can still learn from."""
    mine = jax.tree.map(lambda leaf: leaf[lane], memory)
    return replay_buffer.take(mine, np.arange(mine.oldest, mine.inserted))


def assert_same(a, b) -> None:
    for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def assert_same_state(a, b) -> None:
    """Equal to the bit, but for slots of the buffer that will be written before they are read."""
    counters = ("head", "inserted", "oldest")
    assert_same([getattr(a.replay, c) for c in counters], [getattr(b.replay, c) for c in counters])
    for lane in range(len(a.seed)):
        assert_same(whole(a.replay, lane), whole(b.replay, lane))
    assert_same(a._replace(replay=()), b._replace(replay=()))


def listing(out: Path) -> dict[str, bytes]:
    return {str(p.relative_to(out)): p.read_bytes() for p in out.rglob("*") if p.is_file()}


def segments(out: Path, name: str = ENDLESS) -> set[str]:
    return {path.stem for path in (out / "replay" / name).glob("*")}


def size_of_data(path: Path) -> int:
    """Bytes of a safetensors file's arrays, without the header."""
    content = path.read_bytes()
    return len(content) - 8 - int.from_bytes(content[:8], "little")
