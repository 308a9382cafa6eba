"""Small agents and made-up data for tests."""

import functools
from typing import Any

import jax
import numpy as np

from discover_rl import algorithms, strategies
from discover_rl.agents.build import build_agent
from discover_rl.agents.interface import AgentSetup
from discover_rl.agents.off_policy.lane import Reply
from discover_rl.agents.on_policy.agent import OnPolicyAgent
from discover_rl.algorithms.interface import OffPolicyAlgorithm
from discover_rl.config import pairs
from discover_rl.core.finite import QUANTITIES
from discover_rl.core.pytrees import stack_floats
from discover_rl.core.types import Batch, Spec, Transition, Update
from discover_rl.strategies import none
from discover_rl.strategies.interface import Strategy

SPEC = Spec((3,), (2,), (-1.0, -1.0), (1.0, 1.0))
STEPS = 1000  # how long their runs are said to be
SMALL: dict[str, Any] = {"hidden": (16, 16), "batch_size": 8, "warmup": 4, "replay_size": 64}
SHORT: dict[str, Any] = {"hidden": (16, 16), "horizon": 6, "minibatches": 2, "epochs": 2}
# Settings of strategies that would otherwise do nothing within a few steps.
AWAKE: dict[str, dict[str, Any]] = {
    "meta": {"teacher_steps": 3, "trial_updates": 2, "student_steps": 2},
}


def strategies_of(algorithm: str) -> list[str]:
    """Those that exist for an algorithm."""
    return [strategy for name, strategy in pairs() if name == algorithm]


def is_on_policy(algorithm: str) -> bool:
    return algorithms.load(algorithm).Hyper.on_policy


def hypers(algorithm: str, strategy: str, **settings: Any):
    """Hyper-parameters of a small agent; `strategy_x` sets the strategy's x."""
    prefix, small = "strategy_", SHORT if is_on_policy(algorithm) else SMALL
    theirs = {k.removeprefix(prefix): v for k, v in settings.items() if k.startswith(prefix)}
    ours = {k: v for k, v in settings.items() if not k.startswith(prefix)}
    hyper = algorithms.load(algorithm).Hyper(**{**small, **ours})
    return hyper, strategies.load(strategy).Hyper(**{**AWAKE.get(strategy, {}), **theirs})


def build(algorithm: str = "td3", strategy: str = "discover", count: int = 1, **settings: Any):
    return made(algorithm, strategy, *hypers(algorithm, strategy, **settings), count)


def made(algorithm: str, strategy: str, hyper: Any, strategy_hyper: Any, count: int = 1) -> Any:
    setup = AgentSetup(SPEC, algorithm, hyper, strategy, strategy_hyper, STEPS, count)
    return build_agent(setup)


@functools.cache
def paired(algorithm: Any, strategy: Any, **settings: Any) -> tuple[Strategy, Any, Any]:
    """The strategy of a module with these settings, a module's algorithm with it, and a state."""
    hyper, strategy_hyper = algorithm.Hyper(**SMALL), strategy.Hyper(**settings)
    exploring = strategy.make(SPEC, strategy_hyper, algorithm.blueprint(SPEC, hyper))
    learning = algorithm.make(SPEC, hyper, exploring)
    return exploring, learning, jax.jit(learning.init)(jax.random.key(0), hyper, strategy_hyper)


def learner(algorithm: OffPolicyAlgorithm) -> Any:
    """(state, batch, key, actor, own) → (state, losses): an update at the start of a run, compiled.

    `actor` says whether the actor and the targets are updated, and `own` whether the strategy makes
    its own step; by default it does when the actor is updated.
    """
    learn = jax.jit(algorithm.learn, static_argnums=3)
    return lambda state, batch, key, actor, own=None: learn(
        state, batch, key, Update(actor, actor, actor if own is None else own), 0.0
    )


def begin(agent: Any, seeds, hyper, strategy_hyper, obs=None):
    """The state of a cohort that has chosen its first action; the hypers of all lanes, or one."""
    lanes = len(seeds)
    listed = [h if isinstance(h, list) else [h] * lanes for h in (hyper, strategy_hyper)]
    state = agent.init(np.asarray(seeds, np.uint32), *(stack_floats(h) for h in listed))
    first = observations(seeds, 0) if obs is None else obs
    return agent.enter(state, first, np.ones(len(first), bool), np.int32(0))


def observations(seeds, step: int) -> np.ndarray:
    """Made-up observations: a function of each lane's seed and the step, so lanes can be moved."""
    size = SPEC.observation_size
    rows = [np.random.default_rng([seed, step]).normal(size=size) for seed in seeds]
    return np.asarray(rows, np.float32)


def transition_at(seeds, step: int) -> Transition:
    """What made-up environments answer: an end every ten steps, every other one a truncation."""
    generators = [np.random.default_rng([seed, step, 1]) for seed in seeds]
    reward = np.asarray([g.normal() for g in generators], np.float32)
    terminated = np.asarray([(seed + step) % 20 == 0 for seed in seeds])
    ended = np.asarray([(seed + step) % 10 == 0 for seed in seeds])
    next_obs = observations(seeds, step)
    obs = np.where(ended[:, None], -next_obs, next_obs)
    return Transition(reward, terminated, ended, next_obs, obs)


class Answers:
    """Made-up environments that answer as `transition_at` has it, one step after the other."""

    xla = None

    def __init__(self, seeds, start: int = 0, count: int = 1, spoil=lambda answer, step: answer):
        # Every environment of a lane has observations and ends of its own.
        self.seeds = [seed + 103 * env for seed in seeds for env in range(count)]
        self.spoil = spoil
        self.steps = start
        self.actions: list[list[np.ndarray]] = [[] for _ in self.seeds]

    def send(self, actions: np.ndarray, alive: np.ndarray, truncate: bool = False) -> None:
        self.sent = actions, alive, truncate

    def receive(self) -> Transition:
        return self.step(*self.sent)

    def step(self, actions: np.ndarray, alive: np.ndarray, truncate: bool = False) -> Transition:
        del truncate
        self.steps += 1
        for env in np.flatnonzero(alive).tolist():
            self.actions[env].append(actions[env])
        answer = self.spoil(transition_at(self.seeds, self.steps), self.steps)
        return jax.tree.map(lambda leaf: np.where(alive, leaf.T, 0).T.astype(leaf.dtype), answer)


class Given:
    """An environment that answers with given transitions, one per step."""

    xla = None

    def __init__(self, transition: Transition):
        self.transition, self.sent = transition, None

    def send(self, actions: np.ndarray, alive: np.ndarray, truncate: bool = False) -> None:
        self.sent = actions

    def receive(self) -> Transition:
        return self.transition


def tick(agent: Any, state, transition: Transition, step: int):
    """One step as `advance` makes it; the state, and the action that is chosen after it."""
    alive = np.ones(len(state.seed), bool)
    state, _, found = agent.advance(state, Given(transition), alive, step - 1, step)
    bad = np.full(len(alive), -1)
    for one in found:
        bad[one.lane] = QUANTITIES.index(one.quantity)
    return state, Reply(np.asarray(state.action.executed), bad)


def run(agent: Any, state, seeds, steps: int, start: int = 0):
    """Go on; the last state, and every action that was executed."""
    if isinstance(agent, OnPolicyAgent):
        vector, step, alive = Answers(seeds, start), start, np.ones(len(seeds), bool)
        while step < start + steps:
            state, step, _ = agent.advance(state, vector, alive, step, start + steps)
        return state, np.swapaxes(vector.actions, 0, 1)
    actions = []
    for step in range(start + 1, start + steps + 1):
        state, reply = tick(agent, state, transition_at(seeds, step), step)
        actions.append(reply.executed)
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


def assert_learns_as_alone(make: Any, hyper: Any, state: Any, learn: Any) -> None:
    """Check that a strategy leaves the algorithm's own learning as it is without any strategy.

    Args:
        make: the `make` of an off-policy algorithm.
        hyper: its hyper-parameters.
        state: a state of the algorithm with the strategy.
        learn: its compiled `learn` with the strategy.
    """
    alone = make(SPEC, hyper, none.make(SPEC, none.Hyper(), None))
    plain, learn_plain = state._replace(strategy=none.Hyper()), learner(alone)
    for i in range(4):
        sample, key, actor = batch(seed=i), jax.random.key(i), i % 2 == 1
        state, _ = learn(state, sample, key, Update(actor, actor, True), 0.0)
        plain, _ = learn_plain(plain, sample, key, actor)
    assert_close(state._replace(strategy=()), plain._replace(strategy=()), 1e-6)
