"""Small agents and made-up data for tests."""

import functools
import importlib
from typing import Any

import jax
import numpy as np

from discover_rl.agent import Agent
from discover_rl.algorithms import ON_POLICY
from discover_rl.config import pairs
from discover_rl.interfaces import Algorithm, Strategy
from discover_rl.parcels import opened
from discover_rl.rollouts import RolloutAgent
from discover_rl.trees import stack
from discover_rl.types import Batch, Seen, Spec, Update

SPEC = Spec((3,), (2,), (-1.0, -1.0), (1.0, 1.0))
STEPS = 1000  # how long their runs are said to be
SMALL: dict[str, Any] = {"hidden": (16, 16), "batch_size": 8, "warmup": 4, "replay_size": 64}
SHORT: dict[str, Any] = {"hidden": (16, 16), "horizon": 6, "minibatches": 2, "epochs": 2}
# Strategies that would sleep through a few steps.
AWAKE: dict[str, dict[str, Any]] = {
    "meta": {"teacher_steps": 3, "trial_updates": 2, "student_steps": 2},
}


def strategies_of(algorithm: str) -> list[str]:
    """Those that exist for an algorithm."""
    return [strategy for name, strategy in pairs() if name == algorithm]


def hypers(algorithm: str, strategy: str, **settings: Any):
    """Hyper-parameters of a small agent; `strategy_x` sets the strategy's x."""
    module = importlib.import_module(f"discover_rl.algorithms.{algorithm}")
    tactics = importlib.import_module(f"discover_rl.strategies.{strategy}")
    theirs = {k[9:]: v for k, v in settings.items() if k.startswith("strategy_")}
    ours = {k: v for k, v in settings.items() if not k.startswith("strategy_")}
    small = SHORT if algorithm in ON_POLICY else SMALL
    return module.Hyper(**{**small, **ours}), tactics.Hyper(**{**AWAKE.get(strategy, {}), **theirs})


def build(algorithm: str = "td3", strategy: str = "discover", **settings: Any) -> Any:
    return made(algorithm, strategy, *hypers(algorithm, strategy, **settings))


def made(algorithm: str, strategy: str, hyper: Any, strategy_hyper: Any) -> Any:
    kind = RolloutAgent if algorithm in ON_POLICY else Agent
    return kind(SPEC, algorithm, hyper, strategy, strategy_hyper, steps=STEPS)


@functools.cache
def wed(algorithm: Any, strategy: Any, **settings: Any) -> tuple[Strategy, Any, Any]:
    """Two modules made one, the strategy with these settings: strategy, algorithm and a state."""
    hp, hyper = algorithm.Hyper(**SMALL), strategy.Hyper(**settings)
    tactics = strategy.make(SPEC, hyper, algorithm.blueprint(SPEC, hp))
    made = algorithm.make(SPEC, hp, tactics)
    return tactics, made, jax.jit(made.init)(jax.random.key(0), hp, hyper)


def learner(algorithm: Algorithm) -> Any:
    """(state, batch, key, actor) → (state, losses): an update at the start of a run, compiled. The
    strategy steps when the actor does, or as told after that."""
    learn = jax.jit(algorithm.learn, static_argnums=3)
    return lambda state, batch, key, actor, own=None: learn(
        state, batch, key, Update(actor, actor, actor if own is None else own), 0.0
    )


def begin(agent: Any, seeds, hyper, strategy_hyper, obs=None):
    """The state of a cohort that has chosen its first action; the hypers of all lanes, or one."""
    lanes = len(seeds)
    listed = [h if isinstance(h, list) else [h] * lanes for h in (hyper, strategy_hyper)]
    state = agent.init(np.asarray(seeds, np.uint32), *(stack(h) for h in listed))
    first = observations(seeds, 0) if obs is None else obs
    return agent.enter(state, first, np.ones(lanes, bool), np.int32(0))


def observations(seeds, step: int) -> np.ndarray:
    """Made-up observations: a function of each lane's seed and the step, so lanes can be moved."""
    size = SPEC.observation_size
    rows = [np.random.default_rng([seed, step]).normal(size=size) for seed in seeds]
    return np.asarray(rows, np.float32)


def seen(seeds, step: int) -> Seen:
    """What made-up environments answer: an end every ten steps, every other one a truncation."""
    generators = [np.random.default_rng([seed, step, 1]) for seed in seeds]
    reward = np.asarray([g.normal() for g in generators], np.float32)
    terminated = np.asarray([(seed + step) % 20 == 0 for seed in seeds])
    ended = np.asarray([(seed + step) % 10 == 0 for seed in seeds])
    next_obs = observations(seeds, step)
    obs = np.where(ended[:, None], -next_obs, next_obs)
    return Seen(reward, terminated, ended, next_obs, obs)


class Answers:
    """Made-up environments that answer as `seen` does, one step after the other."""

    calls = None

    def __init__(self, seeds, start: int = 0, count: int = 1, spoil=lambda seen, step: seen):
        # Every environment of a lane sees things, and ends, of its own.
        self.seeds = [seed + 103 * env for seed in seeds for env in range(count)]
        self.spoil = spoil
        self.steps = start
        self.actions: list[list[np.ndarray]] = [[] for _ in self.seeds]

    def send(self, actions: np.ndarray, alive: np.ndarray, cut: bool = False) -> None:
        self.sent = actions, alive, cut

    def receive(self) -> Seen:
        return self.step(*self.sent)

    def step(self, actions: np.ndarray, alive: np.ndarray, cut: bool = False) -> Seen:
        del cut
        self.steps += 1
        for env in np.flatnonzero(alive).tolist():
            self.actions[env].append(actions[env])
        answer = self.spoil(seen(self.seeds, self.steps), self.steps)
        return jax.tree.map(lambda leaf: np.where(alive, leaf.T, 0).T.astype(leaf.dtype), answer)


def tick(agent: Agent, state, seen: Seen, step: int):
    """One step as `advance` makes it: learn what is due after it, choose the next, take it in."""
    state, lost = agent.learn(agent._packed(state), None, step)
    state, arrival, reply = agent.meet(state, seen, lost, step)
    return agent._unpacked(agent.settle(state, arrival)), opened(reply)


def run(agent: Any, state, seeds, steps: int, start: int = 0):
    """Go on; the last state, and every action that was executed."""
    if isinstance(agent, RolloutAgent):
        lanes, step = Answers(seeds, start), start
        while step < start + steps:
            state, step, _ = agent.advance(
                state, lanes, np.ones(len(seeds), bool), step, start + steps
            )
        return state, np.swapaxes(lanes.actions, 0, 1)
    actions = []
    for step in range(start + 1, start + steps + 1):
        state, reply = tick(agent, state, seen(seeds, step), step)
        actions.append(np.asarray(reply.executed))
    return state, np.asarray(actions)


def batch(n: int = 32, seed: int = 0) -> Batch:
    g = np.random.default_rng(seed)
    bare = g.uniform(-1, 1, (n, SPEC.action_size)).astype(np.float32)
    noise = g.normal(size=bare.shape).astype(np.float32)
    return Batch(
        obs=g.normal(size=(n, SPEC.observation_size)).astype(np.float32),
        bare=bare,
        executed=np.clip(bare + 0.3 * noise, -1, 1),
        reward=g.normal(size=n).astype(np.float32),
        terminated=g.random(n) < 0.3,
        next_obs=g.normal(size=(n, SPEC.observation_size)).astype(np.float32),
    )


def assert_same(a: Any, b: Any) -> None:
    """Equal to the bit, structure included."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_array_equal(np.asarray(x), np.asarray(y))


def assert_close(a: Any, b: Any, tolerance: float = 1e-5) -> None:
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=tolerance, atol=tolerance)
