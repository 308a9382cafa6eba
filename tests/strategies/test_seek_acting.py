"""How seek acts, and what it says of it."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import random

from tests.helpers import cells
from tests.helpers.reference import forward, layers
from tests.helpers.seeking import KEY, learner, members

OBS = jnp.asarray([0.3, -1.0, 2.0])


def shifts(algorithm: str, steps: int, episodes: int = 1, first: int = 100, **settings):
    """What is added to the bare action, (episodes, steps, action), before clipping, and where the
    explorer points, (action,)."""
    learning, state, _ = learner(algorithm, **settings)
    state = state._replace(actor=jax.tree.map(jnp.zeros_like, state.actor))

    def episode(key):
        def act(memory, inputs):
            step, key = inputs
            _, memory, action = learning.act(state, memory, OBS, learning.draw(key), step)
            return memory, action.executed - action.bare

        start, rest = random.split(key)
        memory = learning.begin(state, start)
        return jax.lax.scan(act, memory, (first + jnp.arange(steps), random.split(rest, steps)))[1]

    found = jax.jit(jax.vmap(episode))(random.split(random.key(1), episodes))
    z = forward(layers(jax.device_get(state.strategy.online.explorer)), np.asarray(OBS)[None])[0]
    return np.asarray(found), 0.7 * np.tanh(z[0])


def test_it_is_directed_in_stretches():
    """Half of all steps, in stretches that change with probability ½ · 1/5 at each step."""
    found, points = shifts("td3", 200, episodes=50, sigma=0.0, length=5.0)
    directed = (found != 0).any(axis=-1)
    np.testing.assert_allclose(found[directed], np.tile(points, (directed.sum(), 1)), rtol=1e-5)
    assert directed.mean() == pytest.approx(0.5, abs=0.05)
    changes = np.diff(directed.astype(int), axis=1) != 0
    assert changes.mean() == pytest.approx(0.1, abs=0.015)


@pytest.mark.parametrize("noise", ["white", pytest.param("pink", marks=pytest.mark.slow)])
def test_noise_is_on_top_only_where_the_policy_has_none(noise):
    found, _ = shifts("td3", 200, episodes=100, share=0.0, sigma=0.1, noise=noise)
    assert found.std() == pytest.approx(0.1, rel=0.1)
    held = (found[:, 1:] * found[:, :-1]).mean() / found.var()  # of one step with the next
    assert held == pytest.approx(0.0, abs=0.02) if noise == "white" else held > 0.5
    found, _ = shifts("sac", 3, episodes=20, share=0.0, noise=noise)
    assert not found.any()


def test_nothing_is_added_in_warm_up():
    found, _ = shifts("td3", 4, first=0)
    assert not found.any()


def pointing_far(state):
    """The state with large values and with large directions, some of them saturated."""
    online = jax.tree.map(lambda it: 3.0 * it, state.strategy.online)
    return state._replace(strategy=state.strategy._replace(online=online))


def test_the_direction_is_chosen_by_a_softmax_of_advantages():
    """Each draw's probability from the equations: what Q_x gains by it, and what Q loses."""
    learning, state, _ = learner("td3", mixing="advantage", temperature=0.1, sigma=0.0)
    state = pointing_far(state)

    def act(key):
        noise = learning.draw(key)
        action = learning.act(state, learning.begin(state, key), OBS, noise, 100)[2]
        return action, noise.strategy.choice[0, 0]

    action, uniform = jax.device_get(jax.jit(jax.vmap(act))(random.split(KEY, 500)))
    own = jax.device_get(state)
    x, bare = np.asarray(OBS)[None], action.bare[:1]
    z = forward(layers(own.strategy.online.explorer), x)[0]
    sought = np.clip(bare + 0.7 * np.tanh(z), -1, 1)
    gain, loss = (
        sign * np.diff([members(nets, np.hstack([x, it])).min() for it in (bare, sought)]).item()
        for sign, nets in ((1, own.strategy.online.critics), (-1, own.critics))
    )
    probability = 1 / (1 + np.exp((loss - gain) / 0.1))
    assert 0.05 < probability < 0.95
    for other in (gain, -loss):  # neither is all of it
        assert abs(probability - 1 / (1 + np.exp(-other / 0.1))) > 0.01
    directed = (action.executed != action.bare).any(axis=1)
    np.testing.assert_array_equal(directed, uniform < probability)
    np.testing.assert_allclose(action.executed[directed][0], sought[0], atol=1e-6)


@functools.cache
def reported(learning):
    """What an algorithm reports, compiled."""
    return jax.jit(learning.report)


def test_what_is_reported():
    """Against NumPy; no update has been made, so there are no statistics yet."""
    learning, state, _ = learner("td3", sigma=0.2, error_weight=0.0)
    state = pointing_far(state)
    batch = cells.batch()
    own = jax.device_get(state.strategy)
    unit = np.tanh(forward(layers(own.online.explorer), batch.obs)[0])
    # A quarter is more than 3 σ = 0.6 away, a quarter within that and near to where z points.
    bare, turn = np.clip(batch.bare, -0.5, 0.5), np.arange(32)[:, None] % 4
    far, near = (
        np.where(bare > 0, -0.9, 0.9),
        bare + 0.8 * (np.clip(bare + 0.7 * unit, -1, 1) - bare),
    )
    executed = np.select([turn == 0, turn == 1], [far, near], bare)
    batch = batch._replace(bare=np.float32(bare), executed=np.float32(executed))
    told = reported(learning)(state, batch, KEY)
    pairs = np.hstack([batch.obs, batch.executed])
    assert 0 < told["saturation"] < 1
    assert told["saturation"] == pytest.approx((np.abs(unit) > 0.99).mean())
    assert told["spread"] == pytest.approx(unit.std(axis=0).mean(), rel=1e-4)
    nets = own.novelty.predictor, own.novelty.target
    predicted, target = (forward(layers(net), np.clip(pairs, -5, 5))[0] for net in nets)
    novelty = ((predicted - target) ** 2).mean(axis=1)
    assert told["novelty"] == pytest.approx(novelty.mean(), rel=1e-4)
    assert told["exploration_reward"] == pytest.approx(np.minimum(novelty, 1.5).mean(), rel=1e-4)
    value = members(own.online.critics, pairs).min(axis=0).mean()
    assert told["exploration_value"] == pytest.approx(value, rel=1e-3)
    assert told["directed"] == pytest.approx(0.5)
    assert told["directed_error"] != told["bare_error"]
    whole = 0.5 * told["directed_error"] + 0.5 * told["bare_error"]
    assert whole == pytest.approx(float(told["td_error"]), rel=1e-5)


WEIGHTS = st.floats(0.0, 100.0, width=32)


@settings(max_examples=50, deadline=None)
@given(
    weights=st.tuples(WEIGHTS, WEIGHTS),
    cap=st.floats(0.125, 100.0, width=32),
    power=st.integers(-20, 20),
)
def test_rewards_are_bounded_and_have_no_unit_and_grow_with_the_weights(weights, cap, power):
    """Between 0 and the cap times the larger weight, whatever the task's rewards are counted in."""
    learning, state, _ = learner("td3")
    still, batch = jax.tree.map(jnp.zeros_like, state.critics), cells.batch()

    def reward(error_weight: float, novelty_weight: float, unit: float = 1.0) -> float:
        floats = {"error_weight": error_weight, "novelty_weight": novelty_weight, "cap": cap}
        floats = {name: jnp.float32(value) for name, value in floats.items()}
        own = state.strategy._replace(
            hyper=dataclasses.replace(state.strategy.hyper, **floats),
            scales=jnp.asarray([0.5 * unit, 0.5]),
        )
        there = state._replace(critics=still, target_critics=still, strategy=own)
        given = batch._replace(reward=batch.reward * np.float32(unit))
        return float(reported(learning)(there, given, KEY)["exploration_reward"])

    here = reward(*weights)
    assert 0.0 <= here <= cap * max(weights) * (1 + 1e-6)
    assert reward(*weights, unit=2.0**power) == here
    assert reward(weights[0] + 1.0, weights[1]) >= here <= reward(weights[0], weights[1] + 1.0)
    assert reward(0.0, 0.0) == 0.0
