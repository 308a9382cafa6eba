"""A strategy's own reward: it is added where the critics learn, and nowhere else."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl import algorithms
from discover_rl.core.types import Update
from discover_rl.strategies import none
from discover_rl.strategies.interface import Strategy
from discover_rl.training.evaluation import EvaluationSetup, Evaluator
from tests.algorithms.test_on_policy import rollout
from tests.helpers import cells, probes
from tests.helpers.probes import GAMMA, SEED, of_kind, q_of, v_of

SLOW = pytest.mark.slow
each_algorithm = pytest.mark.parametrize("algorithm", sorted(algorithms.ALGORITHMS))
SETTINGS = {"ddpg": {"normalise": False}, "sac": {"reward_scale": 3.0}}


def build(algorithm: str, strategy: Strategy):
    """The state of an algorithm that explores by a strategy, and its compiled `learn`."""
    module, on_policy = algorithms.load(algorithm), cells.is_on_policy(algorithm)
    small = {**cells.SHORT, "horizon": 12} if on_policy else cells.SMALL
    hp = module.Hyper(**small, **SETTINGS.get(algorithm, {}))
    made = module.make(cells.SPEC, hp, strategy)
    learn = jax.jit(made.learn) if on_policy else jax.jit(made.learn, static_argnums=3)
    return jax.jit(made.init)(random.key(0), hp, none.Hyper()), learn


def learned(algorithm: str, state, learn, more):
    """Everything but the strategy's state after two updates, `more` added to the rewards."""
    on_policy = cells.is_on_policy(algorithm)
    for number in range(2):
        data, key = (rollout if on_policy else cells.batch)(seed=number), random.key(number)
        data = data._replace(reward=data.reward + more(data))
        given = ((), data, key) if on_policy else (data, key, Update())
        state = learn(state, *given, 0.0)[0]
    return state._replace(strategy=())


def nothing(data) -> float:
    del data
    return 0.0


@each_algorithm
def test_it_is_as_if_the_task_had_paid_it(algorithm):
    """A bonus of the strategy's state, of where the action led to, and of the action."""

    def paid(data):
        return 2.0 * (data.next_obs[..., 0] + action(data)[..., 0])

    def action(data):
        return data.action if cells.is_on_policy(algorithm) else data.executed

    rich = Strategy(
        init=lambda key, hyper, view: {"weight": jnp.asarray(2.0)},
        bonus=lambda state, view, batch: (
            state["weight"] * (batch.next_obs[:, 0] + batch.executed[:, 0])
        ),
    )
    plain = build(algorithm, Strategy())
    with_bonus = learned(algorithm, *build(algorithm, rich), nothing)
    cells.assert_close(with_bonus, learned(algorithm, *plain, paid), 1e-5)
    without = learned(algorithm, *plain, nothing)
    critics = "critic" if cells.is_on_policy(algorithm) else "critics"
    nets = [getattr(it, critics) for it in (with_bonus, without)]
    apart = jax.tree.map(lambda x, y: float(np.abs(x - y).max()), *nets)
    assert max(jax.tree.leaves(apart)) > 1e-4


BONUS = 0.5
# The values of the probes if every step pays so much more.
RAISED = [
    ("constant", 0.0, 1 + BONUS),
    ("observation", 1.0, 1 + BONUS),
    ("observation", -1.0, -1 + BONUS),
    ("delay", 1.0, 1 + BONUS),
    ("delay", 0.0, BONUS + GAMMA * (1 + BONUS)),
    ("truncation", 0.0, (1 + BONUS) / (1 - GAMMA)),
]


@functools.cache
def trained(algorithm: str) -> probes.Trained:
    bonus = lambda state, view, batch: BONUS + 0.0 * batch.reward  # noqa: E731
    return probes.train(algorithm, strategy=Strategy(bonus=bonus))


on_probes = pytest.mark.parametrize(
    "algorithm",
    ["ppo", *(pytest.param(name, marks=SLOW) for name in ("td3", "ddpg", "sac", "a2c"))],
)


@on_probes
@pytest.mark.parametrize(("kind", "obs", "value"), RAISED)
def test_values_rise_by_what_they_must(algorithm, kind, obs, value):
    learner = of_kind(trained(algorithm).state.learner, kind)
    if cells.is_on_policy(algorithm):
        assert v_of(learner, obs) == pytest.approx(value, abs=0.02)
    else:
        np.testing.assert_allclose(q_of(algorithm, learner, obs, 0.2), value, atol=0.1)


@on_probes
def test_what_is_stored_and_what_evaluation_returns_is_the_tasks(algorithm):
    agent, state, nets = trained(algorithm)
    mine = of_kind(state, "constant")
    if cells.is_on_policy(algorithm):
        rewards = mine.rollout.reward
    else:
        rewards = mine.replay.reward[: mine.replay.inserted]
    np.testing.assert_array_equal(rewards, 1.0)
    evaluate = Evaluator(EvaluationSetup("Probe-constant-v0", [SEED], 3, 10))
    net = jax.tree.map(lambda leaf: leaf[None], of_kind(nets, "constant"))
    scores = evaluate(net, agent.head, np.ones(1, bool))
    np.testing.assert_array_equal(scores.returns, [[1.0] * 3])
