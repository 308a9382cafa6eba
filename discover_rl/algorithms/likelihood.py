"""Log-probabilities of a rollout's actions and values of its states, at any parameters.

There are three ways to compute them. The fields of a strategy's `Density` choose one:

    alone      the policy's density of each action, with the context that was stored
    recalled   the same under the nudge of that time, recomputed from the stored memory  (recall)
    in pieces  the density of each action given those before it in its episode         (log_prob)
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import random

from discover_rl.core import networks
from discover_rl.core.equations import gaussian_log_prob
from discover_rl.core.types import Array, Key, Net, Nudge, PolicyHead, Rollout
from discover_rl.strategies.interface import Strategy, View

HEAD = PolicyHead(activation="tanh", squash=False)
"""How an on-policy actor's outputs become a mean action."""
TOGETHER = 256
"""Samples with different memories that are computed at once. Each has a network of its own, so
this bounds the memory that they take."""


class Sample(NamedTuple):
    """The part of a rollout that one update learns from: n steps."""

    obs: Array  # (n, observation)
    context: Array  # (n, context)
    action: Array  # (n, action)
    log_prob: Array  # (n,) when learning from the rollout began
    value: Array  # (n,) likewise
    advantage: Array  # (n,)
    target: Array  # (n,) R̂
    ended: Any = ()  # (n,) in pieces: whether an episode ended there
    which: Any = ()  # recalled: (n,) which memory; in pieces: (pieces,) which of them these are
    next_obs: Any = ()  # (n, observation), for strategies with a bonus


class Piece(NamedTuple):
    """L consecutive steps of one environment."""

    obs: Array  # (L, observation)
    context: Array  # (L, context)
    action: Array  # (L, action)
    ended: Any = ()  # (L,)


class RolloutLikelihood(NamedTuple):
    """Likelihood and values of a whole rollout before learning; N = steps · environments."""

    log_prob: Array  # (N,)
    value: Array  # (N,)
    next_value: Array  # (N,)
    shared: Any  # what all updates share: recalled memories, or the beliefs where pieces start
    which: Any  # as in a Sample; () in pieces
    belief: Any  # (environments, …) after the rollout


class OfRollout(Protocol):
    """Computes the likelihood and the values of a whole rollout, before learning."""

    def __call__(
        self, own: Any, view: View, rollout: Rollout, next_context: Array | None, belief: Any, /
    ) -> RolloutLikelihood:
        """Return them.

        Args:
            own: the strategy's state.
            view: what it is shown.
            rollout: (T, environments, …).
            next_context: (T · environments, context) at the next observations; None without.
            belief: (environments, …) what `Density.log_prob` knew when the rollout began.
        """
        ...


class OfSample(Protocol):
    """Computes log-probabilities and values of the samples of one update; differentiable."""

    def __call__(
        self, own: Any, view: View, shared: Any, sample: Sample, /
    ) -> tuple[Array, Array, Array]:
        """Return log-probabilities (n,), values (n,) and the logarithm of the policy's standard
        deviation, (action,) or (n, action).

        Args:
            own: the strategy's state.
            view: what it is shown; gradients flow to the parameters in it.
            shared: `RolloutLikelihood.shared`.
            sample: (n, …).
        """
        ...


class Minibatches(Protocol):
    """Divides a rollout into the samples of its updates."""

    def __call__(self, key: Key, whole: Sample, /) -> Sample:
        """`whole`: (steps · environments, …). Return (updates, n, …), in order."""
        ...


class Likelihood(NamedTuple):
    """One of the three ways."""

    rollout: OfRollout
    sample: OfSample
    minibatches: Minibatches


def mean_of(nudge: Nudge, obs: Array) -> Array:
    """The mean of the policy's own action: (n, observation) → (n, action)."""
    inputs = networks.with_context(obs, nudge.context)
    return networks.mean_action(HEAD, nudge.net, inputs, nudge.mean_shift)


def value_of(critic: Net, obs: Array, context: Array | None) -> Array:
    """V(s): (n, observation) → (n,)."""
    inputs = networks.with_context(obs, context)
    return networks.apply(critic, inputs, HEAD.activation)[..., 0]


def log_std_of(nudge: Nudge) -> Array:
    """Return log σ of the policy: (action,), or (n, action) where the nudge gives `std`."""
    return nudge.net["log_std"]["value"] if nudge.std is None else jnp.log(nudge.std)


def log_prob_of(nudge: Nudge, obs: Array, action: Array) -> Array:
    """log π(a|s): (n, observation), (n, action) → (n,)."""
    mean, log_std = mean_of(nudge, obs), log_std_of(nudge)
    return gaussian_log_prob(action, mean, log_std if log_std.ndim > 1 else log_std[None])


def flat(rollout: Any) -> Any:
    """(T, n, …) → (T · n, …), for every leaf."""
    return jax.tree.map(
        lambda leaf: leaf.reshape(leaf.shape[0] * leaf.shape[1], *leaf.shape[2:]), rollout
    )


def make(strategy: Strategy, horizon: int, minibatches: int, epochs: int) -> Likelihood:
    """Return the way that a strategy chooses.

    Args:
        strategy: its `Density` chooses.
        horizon: steps of each environment in a rollout.
        minibatches: into how many parts a rollout is divided.
        epochs: how often it is gone through.
    """
    density, acting = strategy.density, strategy.acting

    def stored(context: Array) -> Array | None:
        return context if strategy.network.context_size else None

    def shuffled(key: Key, whole: Sample) -> Sample:
        """Every sample once an epoch, in random order."""
        count = whole.value.shape[0]
        size = count // minibatches
        rows = _orders(key, epochs, count, minibatches * size).reshape(-1, size)
        # The samples of all epochs are gathered before the first update: that is faster.
        return jax.tree.map(lambda leaf: leaf[rows], whole)

    # Alone.

    def nudge_at(own: Any, view: View, obs: Array, context: Array) -> Nudge:
        nudge = Nudge(view.net) if density.nudge is None else density.nudge(own, view, obs)
        return nudge._replace(context=stored(context))

    def alone(own: Any, view: View, shared: Any, sample: Any) -> tuple[Array, Array, Array]:
        del shared
        assert view.critic is not None
        nudge = nudge_at(own, view, sample.obs, sample.context)
        log_prob = log_prob_of(nudge, sample.obs, sample.action)
        return log_prob, value_of(view.critic, sample.obs, nudge.context), log_std_of(nudge)

    def all_alone(
        own: Any, view: View, rollout: Rollout, next_context: Array | None, belief: Any
    ) -> RolloutLikelihood:
        steps = flat(rollout._replace(memory=()))
        log_prob, value, _ = alone(own, view, (), steps)
        assert view.critic is not None
        next_value = value_of(view.critic, steps.next_obs, next_context)
        return RolloutLikelihood(log_prob, value, next_value, (), (), belief)

    if density.recall is None and density.log_prob is None:
        return Likelihood(all_alone, alone, shuffled)

    # Recalled.

    def recalled_nudge(own: Any, view: View, held: Any, obs: Array, context: Array) -> Nudge:
        _, nudge = acting.behave(own, held, view, obs, (), False)
        critic = view.critic if nudge.critic is None else nudge.critic
        return nudge._replace(context=stored(context), critic=critic)

    def under(own: Any, view: View, held: Any, steps: Any) -> tuple[Array, Array]:
        """Log-probabilities and values of steps that share one memory."""
        nudge = recalled_nudge(own, view, held, steps.obs, steps.context)
        assert nudge.critic is not None
        log_prob = log_prob_of(nudge, steps.obs, steps.action)
        return log_prob, value_of(nudge.critic, steps.obs, nudge.context)

    def recalled(own: Any, view: View, shared: Any, sample: Sample) -> tuple[Array, Array, Array]:
        log_std = log_std_of(Nudge(view.net))
        if single(shared):
            return *under(own, view, _at(shared, 0), sample), log_std

        def one(which: Array, *leaves: Array) -> tuple[Array, Array]:
            row = Piece(*(leaf[None] for leaf in leaves))
            log_prob, value = under(own, view, _at(shared, which), row)
            return log_prob[0], value[0]

        each = jax.vmap(one)(sample.which, sample.obs, sample.context, sample.action)
        return *each, log_std

    def all_recalled(
        own: Any, view: View, rollout: Rollout, next_context: Array | None, belief: Any
    ) -> RolloutLikelihood:
        assert density.recall is not None
        memories, which = rollout.memory
        shared, which = jax.vmap(density.recall)(memories), which.reshape(-1)
        steps = flat(rollout._replace(memory=()))

        def evaluate(held: Any, both: Any) -> tuple[Array, Array, Array]:
            now, after = both
            log_prob, value = under(own, view, held, now)
            critic = recalled_nudge(own, view, held, after.obs, after.context).critic
            assert critic is not None
            return log_prob, value, value_of(critic, after.obs, stored(after.context))

        following = steps.context if next_context is None else next_context
        both = steps, steps._replace(obs=steps.next_obs, context=following)
        if single(shared):
            outcome = evaluate(_at(shared, 0), both)
        else:

            def one(row: Any) -> Any:
                alone = jax.tree.map(lambda leaf: leaf[None], row[1])
                return jax.tree.map(lambda leaf: leaf[0], evaluate(_at(shared, row[0]), alone))

            outcome = jax.lax.map(one, (which, both), batch_size=min(TOGETHER, which.size))
        log_prob, value, next_value = outcome
        return RolloutLikelihood(log_prob, value, next_value, shared, which, belief)

    if density.recall is not None:
        return Likelihood(all_recalled, recalled, shuffled)

    # In pieces.

    assert density.log_prob is not None
    sequence_log_prob = density.log_prob

    def length(count: int) -> int:
        """The length of a piece. It divides a minibatch and an environment's part of a rollout."""
        common = math.gcd(count // minibatches, horizon)
        longest = min(common, density.max_piece)
        return max(size for size in range(1, longest + 1) if common % size == 0)

    def in_pieces(own: Any, view: View, shared: Any, sample: Sample) -> tuple[Array, Array, Array]:
        assert view.critic is not None
        whole = Piece(sample.obs, sample.context, sample.action, sample.ended)
        shape = len(sample.which), len(sample.value) // len(sample.which)
        pieces = jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), whole)
        each = jax.vmap(lambda belief, piece: sequence_log_prob(own, view, belief, piece)[0])
        log_prob = each(_at(shared, sample.which), pieces).reshape(-1)
        value = value_of(view.critic, sample.obs, stored(sample.context))
        return log_prob, value, log_std_of(Nudge(view.net))

    def all_in_pieces(
        own: Any, view: View, rollout: Rollout, next_context: Array | None, belief: Any
    ) -> RolloutLikelihood:
        by_themselves = all_alone(own, view, rollout, next_context, belief)
        count = rollout.reward.shape[1]
        if "rollout" in acting.resample_on:
            belief = jax.tree.map(lambda leaf: jnp.stack([leaf] * count), density.initial_belief)
        size = length(rollout.reward.size)
        whole = Piece(rollout.obs, rollout.context, rollout.action, rollout.ended)
        # (T, n, …) → (T / L, n, L, …): all environments go through their pieces together.
        shape = horizon // size, size
        rows = jax.tree.map(
            lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]).swapaxes(1, 2), whole
        )

        def sweep(belief: Any, pieces: Any) -> tuple[Any, tuple[Any, Array]]:
            each = jax.vmap(lambda belief, piece: sequence_log_prob(own, view, belief, piece))
            log_prob, after = each(belief, pieces)
            return after, (belief, log_prob)

        after, (starts, log_prob) = jax.lax.scan(sweep, belief, rows)
        return by_themselves._replace(
            log_prob=log_prob.swapaxes(1, 2).reshape(-1), shared=flat(starts), belief=after
        )

    def shuffled_pieces(key: Key, whole: Sample) -> Sample:
        """Every piece once an epoch, in random order; the steps of a piece stay in theirs."""
        count = whole.value.shape[0]
        size, envs = length(count), count // horizon
        pieces = count // size
        together = count // minibatches // size
        order = _orders(key, epochs, pieces, minibatches * together).reshape(-1, together)
        # Piece p is number p // envs of environment p % envs.
        first = (order // envs) * size * envs + order % envs
        rows = first[..., None] + (jnp.arange(size) * envs)[None, None]
        rows = rows.reshape(len(order), together * size)
        return jax.tree.map(lambda leaf: leaf[rows], whole)._replace(which=order)

    return Likelihood(all_in_pieces, in_pieces, shuffled_pieces)


def single(shared: Any) -> bool:
    """Whether all steps were made under one memory."""
    return all(leaf.shape[0] == 1 for leaf in jax.tree.leaves(shared))


def _at(tree: Any, which: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[which], tree)


def _orders(key: Key, epochs: int, count: int, used: int) -> Array:
    """Random orders of `count` numbers, one for every epoch, their first `used`: (epochs, used)."""
    # Sorting random numbers once: random.permutation sorts several times to rule out ties.
    return jnp.argsort(random.bits(key, (epochs, count)), axis=1)[:, :used]
