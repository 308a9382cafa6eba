"""Amplitudes: a number, or a line from one to another over part of the run."""

import dataclasses
import sys
import types

import jax
import numpy as np
import pytest
from jax import random

from discover_rl import strategies
from discover_rl.algorithms import td3
from discover_rl.core.hyperparameters import build, hyper, setting
from discover_rl.core.prng import Stream, streams
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import Nudge, UserError
from discover_rl.strategies import discover, gaussian, ou, pink, zeta
from discover_rl.strategies.interface import Acting, Strategy, View
from tests.helpers import cells, rollouts

VIEW = View({"net": {}}, None, None)
KIND = "a number, or linear:FROM:TO:SHARE of the run, SHARE above 0 and at most 1"


@hyper
class Example:
    size: Amplitude = setting(0.3, "A size.", low=0, high=1)
    rate: float = setting(0.5, "A rate.")


def parsed(word) -> Amplitude:
    return build(Example, {"size": word}).size


def refusal(word) -> str:
    with pytest.raises(UserError) as caught:
        build(Example, {"size": word}, "strategy.")
    return str(caught.value)


# What is accepted, and what is said of all else.


@pytest.mark.parametrize(
    ("word", "start", "end", "share"),
    [
        ("linear:0.6:0.1:0.5", 0.6, 0.1, 0.5),
        ("linear:0:1", 0.0, 1.0, 1.0),
        (" linear:1e-3:1:1 ", 0.001, 1.0, 1.0),
        ("0.25", 0.25, 0.25, 1.0),
        (1, 1.0, 1.0, 1.0),
        (Amplitude(1, 0, 1), 1.0, 0.0, 1.0),
    ],
)
def test_a_word_or_a_number_makes_an_amplitude_of_three_floats(word, start, end, share):
    made = parsed(word)
    assert (made.start, made.end, made.share) == (start, end, share)
    assert {type(number) for number in jax.tree.leaves(made)} == {float}


@pytest.mark.parametrize(
    "word",
    [
        *("fast", "linear", "linear:", "linear:0.6", "linear:0.6:0.1:0.5:1", "linear:a:b"),
        *("linear:0.6:0.1:0", "linear:0.6:0.1:1.5", "linear:0.6:0.1:-1", "linear:0.6:nan"),
        *("cosine:0.6:0.1", "nan", True, None, [0.1], Amplitude(0.6, 0.1, 2.0)),
    ],
)
def test_what_is_no_amplitude_is_refused_in_one_sentence(word):
    assert refusal(word) == f"strategy.size must be {KIND}, not {word!r}."


@pytest.mark.parametrize("word", ["linear:1.5:0.5", "linear:0.5:1.5:0.1", "linear:0.5:-0.1", 2])
def test_both_ends_must_be_in_range(word):
    assert refusal(word) == f"strategy.size must be at least 0 and at most 1, not {word}."


@pytest.mark.parametrize(
    ("word", "said"),
    [
        (
            "linear:0.001:0.0001:0.5",
            "actor_lr must be a number: for linear:0.001:0.0001:0.5 set actor_lr=0.001, "
            "lr_decay=0.9 and lr_decay_share=0.5, by which all learning rates fade.",
        ),
        (
            "linear:0.1:0.2:1",
            "actor_lr must be a number, not linear:0.1:0.2:1.0: it may fade, by lr_decay, but not "
            "grow.",
        ),
        ("linear:a:b", "actor_lr must be a number, not 'linear:a:b'."),
        ("fast", "actor_lr must be a number, not 'fast'."),
    ],
)
def test_a_schedule_of_a_learning_rate_is_answered_with_what_does_it(word, said):
    with pytest.raises(UserError) as refused:
        build(td3.Hyper, {"actor_lr": word})
    assert str(refused.value) == said


def test_a_class_takes_plain_numbers_and_has_three_leaves_for_each_amplitude():
    assert jax.tree.leaves(Example(size=0.7, rate=0.2)) == [0.7, 0.7, 1.0, 0.2]
    assert jax.tree.leaves(Example(size=Amplitude(0.6, 0.1, 0.5))) == [0.6, 0.1, 0.5, 0.5]
    assert Example().size == 0.3
    halved = jax.tree.map(lambda number: number / 2, Example(size=Amplitude(0.6, 0.1, 0.5)))
    assert halved.size == Amplitude(0.3, 0.05, 0.25)


def test_a_constant_is_equal_to_its_number_whatever_its_share():
    assert Amplitude.constant(0.3) == 0.3 == parsed("linear:0.3:0.3:0.5")
    assert {Amplitude.constant(0.3), Amplitude(0.3, 0.3, 0.5), 0.3} == {0.3}
    assert Amplitude(0.3, 0.1) != 0.3
    assert Amplitude(0.3, 0.1) != Amplitude(0.3, 0.1, 0.5)


# Its value.


@pytest.mark.parametrize(
    ("progress", "value"),
    [(0.0, 0.6), (0.1, 0.5), (0.25, 0.35), (0.5, 0.1), (0.75, 0.1), (1.0, 0.1)],
)
def test_it_goes_from_one_end_to_the_other_and_stays_there(progress, value):
    line = Amplitude(0.6, 0.1, 0.5)
    assert line.at(progress) == pytest.approx(value)
    assert line.at(np.float32(progress)) == pytest.approx(value)
    assert np.asarray(line.at(jax.numpy.asarray(progress))) == pytest.approx(value, rel=1e-6)
    numbers = np.full((3, 1, 1), 0.6), np.full((3, 1, 1), 0.1), np.full((3, 1, 1), 0.5)
    np.testing.assert_allclose(Amplitude(*numbers).at(progress), np.full((3, 1, 1), value))


def test_strategies_follow_it():
    """σ of gaussian, ou, pink and zeta; λ of discover while acting, in targets, in its own loss."""
    line, noise = Amplitude(0.6, 0.1, 0.5), np.float32([[1.0, -2.0]])
    view = VIEW._replace(progress=0.25)
    for module in (gaussian, ou):
        strategy = module.make(cells.SPEC, module.Hyper(), None)
        state, memory = module.Hyper(sigma=line), 0.0 * noise
        _, nudge = strategy.acting.behave(state, memory, view, None, noise, False)
        np.testing.assert_allclose(nudge.shift, 0.35 * noise, rtol=1e-6)
    blueprint, own = td3.blueprint(cells.SPEC, td3.Hyper()), {"sigma": line}
    held = zeta.Memory(noise, np.ones((1, 1), np.int32))
    for module, state, memory in (
        (pink, pink.Hyper(**own), pink.Memory(noise, np.zeros(1, np.int32))),
        (zeta, zeta.State(zeta.Hyper(**own), np.ones(15)), held),
    ):
        strategy = module.make(cells.SPEC, module.Hyper(), blueprint)
        _, nudge = strategy.acting.behave(state, memory, view, None, (noise, noise), False)
        np.testing.assert_allclose(nudge.shift, 0.35 * noise, rtol=1e-6)
    strategy, _, whole = cells.paired(td3, discover)
    state = whole.strategy._replace(hyper=dataclasses.replace(discover.Hyper(), lam=line))
    obs, params = cells.observations([1, 2], 0), whole.actor
    for progress, lam in ((0.0, 0.6), (0.25, 0.35), (1.0, 0.1)):
        view = View(params, None, None, progress=progress)
        _, acted = strategy.acting.behave(state, (), view, obs, (), False)
        target = strategy.learning.expect(state, view, obs, None, "target")
        xi = np.tanh(td3.blueprint(cells.SPEC, td3.Hyper(**cells.SMALL)).apply(state.explorer, obs))
        np.testing.assert_allclose(acted.shift, lam * xi, rtol=1e-5)
        np.testing.assert_allclose(target.shift, lam * xi, rtol=1e-5)


def test_lanes_may_differ_in_all_three_numbers():
    """Three lanes with one seed, at each step σ by hand; runs are said to be 1,000 steps long."""
    lines = [Amplitude(0.02, 0.01, 0.02), Amplitude(0.02, 0.0, 0.02), Amplitude(0.02, 0.01, 0.004)]
    agent, seeds = cells.build(strategy="gaussian", warmup=0), [5, 5, 5]
    own = [gaussian.Hyper(sigma=line) for line in lines]
    state = cells.begin(agent, seeds, cells.hypers("td3", "gaussian", warmup=0)[0], own)
    for step in range(1, 25):
        state, reply = cells.tick(agent, state, cells.transition_at(seeds, step), step)
        epsilon = agent.algorithm.draw(streams(5, step)[Stream.ACT]).strategy[0]
        passed = step / cells.STEPS
        sigma = [
            0.02 - 0.01 * min(passed / 0.02, 1),
            0.02 - 0.02 * min(passed / 0.02, 1),
            0.02 - 0.01 * min(passed / 0.004, 1),
        ]
        bare = np.asarray(state.action.bare)
        assert np.abs(bare).max() < 0.9  # nothing is clipped
        added = reply.executed - bare
        np.testing.assert_allclose(added, np.outer(sigma, epsilon), atol=1e-6)
    assert sigma == pytest.approx([0.01, 0.0, 0.01])


def test_on_policy_it_stands_still_during_a_rollout():
    """It is what it was when the rollout began, in the midst of it, too."""
    line, horizon = Amplitude(0.5, 0.1, 0.06), 10
    agent, hypers = rollouts.agent_of("a2c", "gaussian", 2, horizon=horizon, strategy_sigma=line)
    state, vector = rollouts.begin(agent, hypers, [5])
    began, sigmas = 0, []
    while began < 80:
        full = began + 2 * horizon
        block = agent._noise.of(state.seed, began)
        # Up to where the rollout is full, but for a step: then it is learned from.
        state, _ = rollouts.advance(agent, state, vector, full - 2, began)
        own = state.rollout.action[0, : horizon - 1]
        sent = np.swapaxes(np.asarray([it[-(horizon - 1) :] for it in vector.actions]), 0, 1)
        noise = np.asarray([step[1][:, 0] for step in block])[: horizon - 1]
        sigma = 0.5 - 0.4 * min(began / cells.STEPS / 0.06, 1.0)
        np.testing.assert_allclose(sent, np.clip(own + sigma * noise, -1, 1), atol=1e-5)
        state, _ = rollouts.advance(agent, state, vector, full, full - 2)
        began, sigmas = full, [*sigmas, sigma]
    assert len({round(sigma, 6) for sigma in sigmas}) == 4  # 0.06 of 1,000 steps are 3 rollouts


def plain() -> types.ModuleType:
    """White noise whose σ is a float, as if there were no schedules."""
    module = types.ModuleType("plain")

    @hyper
    class Hyper:
        sigma: float = setting(0.1, "σ.", low=0)

    def make(spec, settings, blueprint):
        del settings, blueprint

        def behave(state, memory, view, obs, noise, warmup):
            del obs
            return memory, Nudge(view.net, shift=state.sigma * noise * (1 - warmup))

        draw = lambda key: random.normal(key, (1, spec.action_size))  # noqa: E731
        return Strategy(acting=Acting(draw=draw, behave=behave))

    module.Hyper, module.make = Hyper, make
    return module


@pytest.mark.parametrize("algorithm", ["td3", "a2c"])
def test_with_a_constant_a_run_is_to_the_bit_what_it_is_with_a_float(algorithm, monkeypatch):
    monkeypatch.setitem(sys.modules, "discover_rl.strategies.plain", plain())
    monkeypatch.setitem(strategies.STRATEGIES, "plain", "σ is a float")
    outcomes, seeds = [], [5, 1]
    for strategy in ("gaussian", "plain"):
        agent = cells.build(algorithm, strategy, strategy_sigma=0.3)
        hypers = cells.hypers(algorithm, strategy, strategy_sigma=0.3)
        state, actions = cells.run(agent, cells.begin(agent, seeds, *hypers), seeds, 20)
        learner = jax.device_get(state.learner)
        outcomes.append((actions, learner.actor, learner._replace(strategy=())))
    cells.assert_same(*outcomes)
