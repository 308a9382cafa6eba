"""Coherent exploration on-policy: how likely actions are that share weights which wander."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random
from scipy.stats import multivariate_normal, norm

from discover_rl.algorithms import likelihood, ppo
from discover_rl.algorithms.likelihood import Piece
from discover_rl.algorithms.on_policy_parts import features, policy
from discover_rl.core.types import Nudge
from discover_rl.strategies import coherent
from discover_rl.strategies.coherent import JITTER, Belief, sequential, unknowing
from discover_rl.strategies.interface import View
from tests.algorithms.test_on_policy import learner, rollout
from tests.helpers import cells

Q, P = 2, 4  # actions, inputs of the last layer
GOES_ON = [False] * 9
TWO_ENDS = [False, False, True, False, False, False, True, False, False]


def made_up(steps: int, seed: int = 0):
    g = np.random.default_rng(seed)
    u = 0.6 * g.normal(size=(Q, steps, P))
    return g.normal(size=(Q, steps)), u, np.asarray([0.3, 0.8])


def some_belief(seed: int = 1) -> Belief:
    g = np.random.default_rng(seed)
    root = g.normal(size=(Q, P, P)) / P
    return Belief(0.5 * g.normal(size=(Q, P)), root @ root.transpose(0, 2, 1) + 0.1 * np.eye(P))


def exactly(*given):
    """`sequential` in double precision, on the host."""
    with jax.enable_x64(True):
        return jax.device_get(jax.jit(sequential)(*jax.tree.map(jnp.asarray, given)))


def filtered(deviation, u, variance, rho, ended, belief):
    """The same, step by step: predict, compare, correct, move on."""
    log_prob, scores = np.zeros((Q, len(ended))), np.zeros((Q, len(ended)))
    identity = np.eye(u.shape[-1])
    means, covariances = [], []
    for q in range(Q):
        m, p = belief.mean[q], belief.covariance[q]
        for t, over in enumerate(ended):
            expected, v = u[q, t] @ m, u[q, t] @ p @ u[q, t] + variance[q] + JITTER
            surprise = deviation[q, t] - expected
            log_prob[q, t] = norm.logpdf(surprise, 0.0, np.sqrt(v))
            scores[q, t] = surprise / np.sqrt(v)
            gain = p @ u[q, t] / v
            m, p = m + gain * surprise, p - np.outer(gain, p @ u[q, t])
            m, p = rho * m, rho**2 * p + (1 - rho**2) * identity
            if over:
                m, p = 0 * m, identity
        means.append(m)
        covariances.append(p)
    return log_prob.sum(0), Belief(np.stack(means), np.stack(covariances)), scores


@pytest.mark.parametrize("beta", [0.0, 0.01, 0.4, 1.0])
@pytest.mark.parametrize("ended", [GOES_ON, TWO_ENDS, [*GOES_ON[:-1], True]])
@pytest.mark.parametrize("known", [False, True])
def test_it_is_the_filter_without_its_loop(beta, ended, known):
    belief = some_belief() if known else unknowing(Q, P)
    given = (*made_up(9), 1.0 - beta, np.asarray(ended), jax.device_get(belief))
    log_prob, after = exactly(*given)
    expected, expected_after, _ = filtered(*given)
    np.testing.assert_allclose(log_prob, expected, rtol=1e-9)
    cells.assert_close(after, expected_after, 1e-6 if not known else 1e-9)


def test_single_precision_is_enough():
    given = (*made_up(64), 0.99, np.zeros(64, bool), jax.device_get(unknowing(Q, P)))
    exact, exact_after = exactly(*given)
    log_prob, after = jax.jit(sequential)(*jax.tree.map(lambda x: jnp.asarray(x, float), given))
    np.testing.assert_allclose(log_prob, exact, rtol=2e-4, atol=2e-4)
    cells.assert_close(after, exact_after, 2e-3)


def test_pieces_with_the_belief_carried_are_the_whole():
    deviation, u, variance = made_up(9)
    ended = np.asarray(TWO_ENDS)
    whole, last = exactly(deviation, u, variance, 0.9, ended, some_belief())
    parts, belief = [], some_belief()
    for cut in (slice(0, 4), slice(4, 7), slice(7, 9)):
        part, belief = exactly(deviation[:, cut], u[:, cut], variance, 0.9, ended[cut], belief)
        parts.append(part)
    np.testing.assert_allclose(np.concatenate(parts), whole, rtol=1e-9)
    cells.assert_close(belief, last, 1e-9)


def test_episodes_know_nothing_of_each_other():
    deviation, u, variance = made_up(8)
    ended = np.zeros(8, bool)
    ended[[3, 7]] = True
    swapped = np.r_[4:8, 0:4]
    there, _ = exactly(deviation, u, variance, 0.9, ended, unknowing(Q, P))
    back, _ = exactly(deviation[:, swapped], u[:, swapped], variance, 0.9, ended, unknowing(Q, P))
    np.testing.assert_allclose(there[swapped], back, rtol=1e-6)


def test_the_extremes_are_what_they_are_known_to_be():
    deviation, u, variance = made_up(9)
    ended, fresh = np.asarray(GOES_ON), unknowing(Q, P)
    noise = variance[:, None] + JITTER
    # β = 1: every step has weights of its own.
    single = norm.logpdf(deviation, 0.0, np.sqrt((u**2).sum(-1) + noise)).sum(0)
    np.testing.assert_allclose(exactly(deviation, u, variance, 0.0, ended, fresh)[0], single, 1e-6)
    # β = 0: Bayesian linear regression, whose evidence is known.
    evidence = sum(
        multivariate_normal.logpdf(deviation[q], None, u[q] @ u[q].T + noise[q] * np.eye(9))
        for q in range(Q)
    )
    together = exactly(deviation, u, variance, 1.0, ended, fresh)[0].sum()
    assert together == pytest.approx(evidence, rel=1e-6)
    # In between, neither: the sum of single steps is another number.
    between = exactly(deviation, u, variance, 0.9, ended, fresh)[0].sum()
    assert abs(between - single.sum()) > 0.05
    # S = 0: the plain Gaussian.
    plain = norm.logpdf(deviation, 0.0, np.sqrt(noise)).sum(0)
    np.testing.assert_allclose(exactly(deviation, 0 * u, variance, 0.9, ended, fresh)[0], plain)


def test_it_is_the_mean_over_all_that_the_weights_could_have_been():
    """Brute force: draw paths of z, average the densities of the actions given each."""
    deviation, u, variance = made_up(4)
    log_prob, _ = exactly(deviation, u, variance, 0.8, np.zeros(4, bool), unknowing(Q, P))
    g, paths = np.random.default_rng(0), 400_000
    for_all = 0.0
    error = 0.0
    for q in range(Q):
        z, given = g.normal(size=(paths, P)), np.zeros(paths)
        for t in range(4):
            given += norm.logpdf(deviation[q, t], z @ u[q, t], np.sqrt(variance[q] + JITTER))
            z = 0.8 * z + 0.6 * g.normal(size=(paths, P))
        density = np.exp(given)
        for_all += np.log(density.mean())
        error += density.std() / density.mean() / np.sqrt(paths)
    assert log_prob.sum() == pytest.approx(for_all, abs=4 * error)
    assert error < 0.01


# The strategy itself, with PPO.

SETTINGS = {"hidden": (5,), "horizon": 12, "minibatches": 3, "epochs": 2, "initial_log_std": -0.7}


@functools.cache
def build(**settings):
    hp, hyper = ppo.Hyper(**SETTINGS), coherent.Hyper(**settings)
    strategy = coherent.make(cells.SPEC, hyper, ppo.blueprint(cells.SPEC, hp))
    algorithm = ppo.make(cells.SPEC, hp, strategy)
    state = jax.jit(algorithm.init)(random.key(0), hp, hyper)
    return strategy, algorithm, state


def view_of(state) -> View:
    return View(state.actor, policy, features, critic=state.critic)


def acted(strategy, algorithm, state, key, steps: int):
    """Actions of one episode, on made-up observations; (steps, …)."""
    keys = random.split(key, steps + 2)
    obs = random.normal(keys[0], (steps, cells.SPEC.observation_size))
    act = algorithm.acting(state)

    def step(memory, it):
        memory, _, action = act(memory, it[0][None], algorithm.draw(it[1]))
        return memory, action[0]

    begun = strategy.acting.begin(state.strategy, view_of(state), keys[1])
    _, action = jax.lax.scan(step, begun, (obs, keys[2:]))
    return Piece(obs, jnp.zeros((steps, 0)), action, jnp.zeros(steps, bool))


def test_what_is_done_is_as_likely_as_the_likelihood_says():
    """Standardised surprises are white with variance 1; deviations from the mean are not."""
    strategy, algorithm, state = build(sigma=0.5, beta=0.1)
    view = view_of(state)

    def surprises(key):
        piece = acted(strategy, algorithm, state, key, 30)
        return piece, (piece.action - view.policy(Nudge(state.actor["net"]), piece.obs)).T

    pieces, deviations = jax.device_get(
        jax.jit(jax.vmap(surprises))(random.split(random.key(1), 500))
    )
    s, scores = np.exp(np.asarray(state.actor["joint"]["log_s"])).T, []
    variance = np.exp(2 * np.asarray(state.actor["net"]["log_std"]["value"]))
    nothing = Belief(np.zeros((Q, 6)), np.stack([np.eye(6)] * Q))
    for obs, deviation in zip(pieces.obs, deviations, strict=True):
        x = np.asarray(features(Nudge(jax.device_get(state.actor["net"])), obs))
        u = s[:, None] * np.hstack([x, np.ones((30, 1))])[None]
        scores.append(filtered(deviation, u, variance, 0.9, [False] * 30, nothing)[2])
    scores = np.asarray(scores)  # (episodes, q, steps)
    assert scores.var() == pytest.approx(1.0, abs=0.03)
    assert (scores[..., 1:] * scores[..., :-1]).mean() == pytest.approx(0.0, abs=0.03)
    assert (deviations[..., 1:] * deviations[..., :-1]).mean() > 0.2


def test_how_likely_an_action_was_given_its_weights_is_another_question():
    """What was known when acting must not become PPO's old log-probability: it is larger."""
    strategy, algorithm, state = build(sigma=0.5, beta=0.1)

    def both(key):
        piece = acted(strategy, algorithm, state, key, 30)
        log_prob = strategy.density.log_prob(
            state.strategy, view_of(state), strategy.density.initial_belief, piece
        )[0]
        noise = jax.vmap(lambda key: algorithm.draw(key)[0][0])(random.split(key, 32)[2:])
        white = jax.scipy.stats.norm.logpdf(noise) - state.actor["net"]["log_std"]["value"][None]
        return log_prob, white.sum(1)

    log_prob, given = jax.jit(jax.vmap(both))(random.split(random.key(3), 300))
    assert float((given - log_prob).mean()) > 0.1
    assert np.abs(np.exp(np.asarray(given - log_prob)) - 1).mean() > 0.1  # the ratio would not be 1


@pytest.mark.slow
def test_its_slope_is_zero_on_average():
    """E ∇ log p = 0 at the parameters that acted: for μ, S, σ and hidden layers alike."""
    strategy, algorithm, state = build(sigma=0.5, beta=0.1)

    def slope(key, flawed):
        piece = acted(strategy, algorithm, state, key, 12)

        def total(actor):
            if flawed:  # as if the policy were Gaussian step by step and white
                return likelihood.log_prob_of(Nudge(actor["net"]), piece.obs, piece.action).sum()
            view = View(actor, policy, features)
            return strategy.density.log_prob(
                state.strategy, view, strategy.density.initial_belief, piece
            )[0].sum()

        return jax.grad(total)(state.actor)

    keys = random.split(random.key(2), 4000)
    slopes = jax.jit(jax.vmap(lambda key: slope(key, False)))(keys)
    for path, leaf in jax.tree.leaves_with_path(slopes):
        rows = np.asarray(leaf).reshape(len(keys), -1)
        off = rows.mean(0) / (rows.std(0) / np.sqrt(len(keys)) + 1e-12)
        assert np.abs(off).max() < 4.5, path
        assert rows.std(0).max() > 0, path
    # It would show if the weights were forgotten: then σ has to account for them.
    wrong = jax.jit(jax.vmap(lambda key: slope(key, True)))(keys)["net"]["log_std"]["value"]
    off = wrong.mean(0) / (wrong.std(0) / np.sqrt(len(keys)))
    assert np.abs(off).max() > 10


@pytest.mark.slow
def test_every_piece_is_used_once_an_epoch_with_its_belief():
    strategy, _, state = build(sigma=0.5, beta=0.1)
    likely = likelihood.make(strategy, 12, 3, 2)
    data = rollout(envs=2)
    view = view_of(state)
    belief = jax.tree.map(lambda leaf: jnp.stack([leaf] * 2), strategy.density.initial_belief)
    outcome = jax.jit(lambda data: likely.rollout(state.strategy, view, data, None, belief))(data)
    steps = likelihood.flat(data)
    count = np.arange(24.0)
    whole = likelihood.Sample(
        *(steps.obs, steps.context, steps.action, outcome.log_prob, outcome.value, count, count),
        ended=steps.ended,
    )
    batches = likely.minibatches(random.key(0), whole)
    for epoch in (batches.advantage[:3], batches.advantage[3:]):
        assert sorted(np.asarray(epoch).ravel()) == list(range(24))
    pieces = np.asarray(batches.advantage).reshape(6, 2, 4)  # pieces of four: gcd(8, 12)
    assert (np.diff(pieces, axis=2) == 2).all()  # steps of one environment, in order
    assert not np.array_equal(pieces[:3], pieces[3:])
    shared = outcome.shared
    again = jax.vmap(lambda it: likely.sample(state.strategy, view, shared, it)[0])(batches)
    np.testing.assert_allclose(again, batches.log_prob, rtol=1e-4, atol=1e-5)  # so the ratio is 1
    # Without those before it, it would be another.
    alone = likelihood.log_prob_of(Nudge(state.actor["net"]), steps.obs, steps.action)
    assert np.abs(np.asarray(alone) - np.asarray(outcome.log_prob)).max() > 0.1


@pytest.mark.slow
def test_learning_moves_s_and_hands_on_the_belief():
    strategy, algorithm, state = build(sigma=0.5, beta=0.1)
    belief = jax.tree.map(lambda leaf: jnp.stack([leaf]), strategy.density.initial_belief)
    data = rollout()
    after, belief, _, _ = jax.jit(algorithm.learn)(state, belief, data, random.key(0), 0.0)
    for name in ("joint", "net"):
        moved = jax.tree.map(
            lambda new, old: float(np.abs(new - old).max()), after.actor[name], state.actor[name]
        )
        assert min(jax.tree.leaves(moved)) > 0
    # What is known behind the rollout: its last episode has three steps, from the ninth on.
    tail = Piece(*(leaf[9:, 0] for leaf in (data.obs, data.context, data.action, data.ended)))
    _, expected = strategy.density.log_prob(
        state.strategy, view_of(state), strategy.density.initial_belief, tail
    )
    cells.assert_close(jax.tree.map(lambda leaf: leaf[0], belief), expected, 1e-4)
    assert np.abs(expected.mean).max() > 0.01


def test_without_s_it_is_the_bare_algorithm():
    strategy, algorithm, state = build(sigma=0.0)
    bare, start, _ = learner("ppo", **{k: v for k, v in SETTINGS.items() if k != "epochs"})
    start = start._replace(actor={"net": state.actor["net"], "joint": {}}, critic=state.critic)
    data, belief = rollout(), jax.tree.map(lambda leaf: leaf[None], strategy.density.initial_belief)
    view = view_of(state)
    likely = likelihood.make(strategy, 12, 3, 1)
    outcome = likely.rollout(state.strategy, view, data, None, belief)
    alone = likelihood.log_prob_of(Nudge(start.actor["net"]), data.obs[:, 0], data.action[:, 0])
    np.testing.assert_allclose(outcome.log_prob, alone, rtol=1e-4, atol=1e-4)
    memory = strategy.acting.begin(state.strategy, view, random.key(1))
    noise = jax.device_get(algorithm.draw(random.key(2)))
    own_action = algorithm.acting(jax.device_get(state))(np.asarray(memory), data.obs[0], noise)[2]
    bare_action = bare.acting(jax.device_get(start))((), data.obs[0], (noise[0], ()))[2]
    np.testing.assert_array_equal(own_action, bare_action)
