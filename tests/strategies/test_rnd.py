"""RND: the bonus, the network that learns to predict, the running scale, and where it counts."""

import functools
from typing import Any

import jax
import numpy as np
import optax
import pytest
from jax import random

from discover_rl import algorithms
from discover_rl.algorithms import td3
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import Update
from discover_rl.strategies import none, rnd
from discover_rl.strategies.interface import View
from discover_rl.training import launch
from tests.algorithms.test_on_policy import rollout
from tests.helpers import cells
from tests.helpers.chain import first_visits
from tests.helpers.reference import Adam, backward, forward, layers
from tests.helpers.trainings import runs_of

SLOW = pytest.mark.slow
LR = 1e-2
VIEW = View({"net": {}}, None, None, optimiser=optax.adam(LR))
OUTPUTS = 5


@functools.cache
def made(**settings: Any) -> tuple[Any, Any]:
    """The strategy, its first state, and its compiled step."""
    hyper = rnd.Hyper(**{"outputs": OUTPUTS, **settings})
    blueprint = td3.blueprint(cells.SPEC, td3.Hyper(**cells.SMALL))
    strategy = rnd.make(cells.SPEC, hyper, blueprint)
    state = strategy.init(random.key(0), hyper, VIEW)
    return strategy, state


@functools.cache
def stepped(count: int) -> tuple[Any, ...]:
    """The states before and after each of several steps, with the loss of each."""
    strategy, state = made()
    step = jax.jit(lambda state, batch: strategy.learning.step(state, VIEW, batch, random.key(0)))
    states, losses = [state], []
    for number in range(count):
        state, loss = step(state, seen(number))
        states.append(state)
        losses.append(loss)
    return jax.device_get((states, losses))


def seen(number: int):
    """A batch whose observations have means and deviations of their own, some of them far out."""
    batch = cells.batch(seed=number)
    far = np.where(np.arange(32)[:, None] % 16 == 0, 20.0, 1.0)
    moved = (far * batch.next_obs * [1.0, 10.0, 0.1] + [0.0, 5.0, -1.0]).astype(np.float32)
    return batch._replace(next_obs=moved)


class Numpy:
    """The strategy once more, in float64, from its equations."""

    def __init__(self):
        first = stepped(0)[0][0]
        self.target, self.predictor = layers(first.novelty.target), layers(first.novelty.predictor)
        self.adam, self.obs, self.errors = Adam(LR), [], []

    def x(self, obs: np.ndarray) -> np.ndarray:
        if not self.obs:
            return np.clip(obs, -5, 5)
        every = np.concatenate(self.obs)
        return np.clip((obs - every.mean(0)) / np.sqrt(every.var(0) + 1e-8), -5, 5)

    def apart(self, obs: np.ndarray) -> tuple[np.ndarray, list]:
        """f̂ − f, and what the way back needs."""
        x = self.x(np.float64(obs))
        predicted, inputs = forward(self.predictor, x)
        return predicted - forward(self.target, x)[0], inputs

    def error(self, obs: np.ndarray) -> np.ndarray:
        """b"""
        return (self.apart(obs)[0] ** 2).mean(axis=1)

    def bonus(self, obs: np.ndarray) -> np.ndarray:
        return self.error(obs) / np.concatenate(self.errors).std()

    def step(self, obs: np.ndarray) -> float:
        apart, inputs = self.apart(obs)
        slopes, _ = backward(self.predictor, inputs, 2 * apart / apart.size)
        self.errors.append((apart**2).mean(axis=1))
        self.obs.append(np.float64(obs))
        self.predictor = self.adam.step(self.predictor, slopes)
        return (apart**2).mean()


@functools.cache
def reference(count: int) -> tuple[Numpy, list[float]]:
    """After several steps, and their losses."""
    numpy = Numpy()
    return numpy, [numpy.step(seen(number).next_obs) for number in range(count)]


def test_the_predictor_descends_the_bonus_and_the_random_network_stays():
    (first, *_, last), losses = stepped(4)
    numpy, expected = reference(4)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    found = layers(last.novelty.predictor)
    for here, there, before in zip(
        found, numpy.predictor, layers(first.novelty.predictor), strict=True
    ):
        for part in range(2):
            np.testing.assert_allclose(here[part], there[part], atol=1e-5)
            assert np.abs(here[part] - before[part]).max() > LR
    cells.assert_same(last.novelty.target, first.novelty.target)
    both = first.novelty.target, first.novelty.predictor
    apart = jax.tree.map(lambda x, y: np.abs(x - y).max(), *both)
    assert apart["head"]["weight"] > 0.1  # each was drawn by itself


def test_the_first_gradient_is_that_of_finite_differences():
    """Adam's first moment after one step is a tenth of the gradient."""
    states, _ = stepped(4)
    gradient = layers(jax.tree.map(lambda leaf: leaf / 0.1, states[1].novelty.optimiser[0].mu))
    for layer in range(len(gradient)):
        for part in range(2):
            direction = np.random.default_rng(layer).normal(size=gradient[layer][part].shape)
            ends = []
            for sign in (1e-6, -1e-6):
                numpy = Numpy()
                pair = list(numpy.predictor[layer])
                pair[part] = pair[part] + sign * direction
                numpy.predictor[layer] = tuple(pair)
                ends.append(numpy.error(seen(0).next_obs).mean())
            expected = (ends[0] - ends[1]) / 2e-6
            found = (gradient[layer][part] * direction).sum()
            assert found == pytest.approx(expected, rel=1e-3, abs=1e-5)


def test_the_bonus_is_numpys():
    strategy, _ = made()
    state = stepped(4)[0][-1]
    numpy, _ = reference(4)
    batch = seen(9)
    found = strategy.bonus(state, VIEW, batch)
    assert found.shape == (32,)
    np.testing.assert_allclose(found, numpy.bonus(batch.next_obs), rtol=1e-3)
    assert np.abs(numpy.x(batch.next_obs)).max() == 5.0  # some are clipped
    rate = found / strategy.bonus(state._replace(hyper=rnd.Hyper(weight=0.25)), VIEW, batch)
    np.testing.assert_allclose(rate, 4.0, rtol=1e-5)


def test_the_scale_is_the_deviation_of_all_errors_so_far():
    states, _ = stepped(4)
    numpy, _ = reference(4)
    for count in range(1, 5):
        errors = np.concatenate(numpy.errors[:count])
        assert states[count].errors.samples == 32 * count
        assert states[count].errors.variance[0] == pytest.approx(errors.var(), rel=1e-3)
        every = np.concatenate(numpy.obs[:count])
        np.testing.assert_allclose(states[count].novelty.inputs.mean, every.mean(0), rtol=1e-4)
        np.testing.assert_allclose(states[count].novelty.inputs.variance, every.var(0), rtol=1e-4)


def test_without_statistics_there_is_no_bonus():
    strategy, state = made()
    np.testing.assert_array_equal(strategy.bonus(state, VIEW, seen(0)), 0.0)


def test_the_weights_schedule_is_followed():
    strategy, _ = made()
    state = stepped(4)[0][-1]
    state = state._replace(hyper=rnd.Hyper(weight=Amplitude(2.0, 0.0, 0.5)))
    half = strategy.bonus(state, VIEW._replace(progress=0.125), seen(9))
    np.testing.assert_allclose(half, 1.5 * reference(4)[0].bonus(seen(9).next_obs), rtol=1e-3)
    np.testing.assert_array_equal(strategy.bonus(state, VIEW._replace(progress=0.6), seen(9)), 0.0)


def test_what_was_seen_often_has_a_smaller_bonus():
    strategy, state = made()
    known, new = seen(0), seen(0)._replace(next_obs=-seen(0).next_obs)
    step = jax.jit(lambda state, batch: strategy.learning.step(state, VIEW, batch, random.key(0)))
    for _ in range(200):
        state, _ = step(state, known)
    assert strategy.bonus(state, VIEW, known).mean() < 0.2 * strategy.bonus(state, VIEW, new).mean()
    told = strategy.report(state, VIEW, known)
    each = strategy.bonus(state, VIEW, known)
    assert told["bonus"] == pytest.approx(float(each.mean()), rel=1e-5)
    assert told["bonus_spread"] == pytest.approx(float(each.std()), rel=1e-5)
    scale = told["prediction_error_scale"]
    assert told["prediction_error"] == pytest.approx(float(each.mean() * scale), rel=1e-4)


# Where it counts.

SETTINGS = {"ddpg": {"normalise": False}, "sac": {"reward_scale": 3.0}}
each_algorithm = pytest.mark.parametrize(
    "algorithm", ["td3", *(pytest.param(it, marks=SLOW) for it in ("ppo", "ddpg", "sac", "a2c"))]
)


@each_algorithm
def test_it_is_as_if_the_task_had_paid_it(algorithm):
    """An update with it is one without, whose rewards have the bonus of before the update."""
    module, on_policy = algorithms.load(algorithm), cells.is_on_policy(algorithm)
    small = {**cells.SHORT, "horizon": 12} if on_policy else cells.SMALL
    hp, hyper = module.Hyper(**small, **SETTINGS.get(algorithm, {})), rnd.Hyper(weight=2.0)
    strategy = rnd.make(cells.SPEC, hyper, module.blueprint(cells.SPEC, hp))

    def learner(exploring):
        made = module.make(cells.SPEC, hp, exploring)
        learn = jax.jit(made.learn) if on_policy else jax.jit(made.learn, static_argnums=3)

        def update(state, data):
            key = random.key(1)
            given = ((), data, key) if on_policy else (data, key, Update())
            return learn(state, *given, 0.0)[0]

        return made, update

    made, update = learner(strategy)
    data = [(rollout if on_policy else cells.batch)(seed=number) for number in range(2)]
    state = update(jax.jit(made.init)(random.key(0), hp, hyper), data[0])
    flat = data[1].next_obs.reshape(-1, cells.SPEC.observation_size)
    bonus = strategy.bonus(state.strategy, VIEW, cells.batch()._replace(next_obs=flat))
    bonus = np.asarray(bonus).reshape(data[1].reward.shape)
    assert bonus.mean() > 0.1

    _, plain_update = learner(none.make(cells.SPEC, none.Hyper(), None))
    found, without, paid = (
        jax.device_get(it._replace(strategy=()))
        for it in (
            update(state, data[1]),
            *(
                plain_update(
                    state._replace(strategy=none.Hyper()),
                    data[1]._replace(reward=data[1].reward + more),
                )
                for more in (0.0 * bonus, bonus)
            ),
        )
    )
    cells.assert_close(found, paid, 1e-5)
    critics = "critic" if on_policy else "critics"
    nets = [getattr(it, critics) for it in (found, without)]
    assert max(jax.tree.leaves(jax.tree.map(lambda x, y: np.abs(x - y).max(), *nets))) > 1e-4


@SLOW
@pytest.mark.parametrize("algorithm", sorted(algorithms.ALGORITHMS))
def test_evaluations_return_what_the_task_pays(algorithm, tmp_path):
    """Nothing, in a chain that pays nothing, however large the bonus is."""
    asked = {"task": "Chain-nothing-v0", "algorithm": algorithm, "strategy": "rnd"}
    runs = runs_of(**asked, steps=120, seeds=1, **{"strategy.weight": 1000.0})
    (record,) = launch.train(runs, tmp_path).values()
    assert len(record.evaluations) == 3
    for evaluation in record.evaluations:
        assert set(evaluation["returns"]) == {0.0}
    assert record.evaluations[-1]["report"]["bonus"] > 1.0


SEEDS = list(range(64))
CHAIN_STEPS = 500
CHAIN: dict[str, Any] = {
    "batch_size": 32,
    "warmup": 100,
    "replay_size": CHAIN_STEPS,
    "actor_lr": 1e-3,
    "critic_lr": 1e-3,
    "temperature": 0.02,  # little noise of its own
    "learn_temperature": False,
}


def rate(first: np.ndarray) -> np.ndarray:
    """First visits per step before them; many times of each seed, (…, seeds)."""
    return np.isfinite(first).sum(axis=-1) / np.minimum(first, CHAIN_STEPS).sum(axis=-1)


@SLOW
def test_the_unvisited_side_of_a_chain_is_visited_sooner():
    """Reward lies to the left; to the right there is something, once one has been there.

    SAC with the bonus and without it: the ratio of the rates of first visits, which counts seeds
    that have not been there yet, too, and its 95 % interval by bootstrap over seeds.
    """
    without, sooner = (
        first_visits("sac", strategy, SEEDS, CHAIN_STEPS, **CHAIN) for strategy in ("none", "rnd")
    )
    draws = np.random.default_rng(0).integers(len(SEEDS), size=(2, 4000, len(SEEDS)))
    ratios = rate(sooner[draws[0]]) / rate(without[draws[1]])
    low, high = np.quantile(ratios, [0.025, 0.975])
    print(f"{rate(sooner) / rate(without):.1f} times sooner, {low:.1f} to {high:.1f}")
    print(*(np.isfinite(it).sum() for it in (sooner, without)), "of", len(SEEDS))
    assert low > 1.2
