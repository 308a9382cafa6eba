"""How likely a rollout's actions are and what its states are worth, at any parameters.

There are three ways; a strategy chooses by what it brings:

    alone      every action by itself, at the context that was kept
    recalled   every action as its policy was nudged then, by the memory that was kept   (recall)
    in pieces  every action given those before it in its episode                    (likelihood)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from discover_rl import networks
from discover_rl.equations import gaussian_log_prob
from discover_rl.interfaces import Strategy, View
from discover_rl.types import Array, Form, Net, Nudge, Rollout

FORM = Form(activation="tanh", squash=False)
TOGETHER = 256
"""How many samples under memories of their own are computed at once: each has its own network."""


class Sample(NamedTuple):
    """What a step of learning sees of a rollout; n of them."""

    obs: Array  # (n, observation)
    context: Array  # (n, context)
    action: Array  # (n, action)
    log_prob: Array  # (n,) at the start of learning
    value: Array  # (n,) likewise
    advantage: Array  # (n,)
    target: Array  # (n,) R̂
    ended: Any = ()  # (n,) in pieces: whether an episode ended there
    which: Any = ()  # recalled: (n,) which memory; in pieces: (pieces,) which of them these are


class Piece(NamedTuple):
    """Steps of one environment in a row; L of them."""

    obs: Array  # (L, observation)
    context: Array  # (L, context)
    action: Array  # (L, action)
    ended: Any = ()  # (L,)


class Judgement(NamedTuple):
    """Of a whole rollout, before anything is learned from it; N = steps · environments."""

    log_prob: Array  # (N,)
    value: Array  # (N,)
    next_value: Array  # (N,)
    aid: Any  # what all steps of learning share: recalled memories, or beliefs where pieces start
    which: Any  # as in a Sample; in pieces ()
    belief: Any  # (environments, …) after the rollout


class Judge(NamedTuple):
    """A strategy's way."""

    # (own, shown, rollout, next context, belief) → Judgement
    rollout: Callable[..., Judgement]
    # (own, shown, aid, sample) → log-probabilities and values, differentiable in what is shown
    sample: Callable[..., tuple[Array, Array]]
    # (key, whole) → the samples of every step of learning, in order: (steps, n, …)
    deal: Callable[[Any, Sample], Sample]


def mean_of(nudge: Nudge, obs: Array) -> Array:
    """The mean of the policy's own action."""
    return networks.mean_action(FORM, nudge.net, networks.with_context(obs, nudge.context))


def value_of(critic: Net, obs: Array, context: Array | None) -> Array:
    seen = networks.with_context(obs, context)
    return networks.apply(critic, seen, FORM.activation)[..., 0]


def log_prob_of(nudge: Nudge, obs: Array, action: Array) -> Array:
    return gaussian_log_prob(action, mean_of(nudge, obs), nudge.net["log_std"]["value"][None])


def flat(rollout: Any) -> Any:
    """(T, n, …) → (T · n, …)"""
    return jax.tree.map(
        lambda leaf: leaf.reshape(leaf.shape[0] * leaf.shape[1], *leaf.shape[2:]), rollout
    )


def make(strategy: Strategy, horizon: int, minibatches: int, epochs: int) -> Judge:
    def kept(context: Array) -> Array | None:
        return context if strategy.context_size else None

    def deal(key: Any, whole: Sample) -> Sample:
        """Every sample once an epoch, in any order."""
        count = whole.value.shape[0]
        size = count // minibatches
        rows = _orders(key, epochs, count, minibatches * size).reshape(-1, size)
        # All epochs are laid out before the first step: gathering at each takes longer.
        return jax.tree.map(lambda leaf: leaf[rows], whole)

    # Alone.

    def alone(own: Any, shown: View, aid: Any, sample: Any) -> tuple[Array, Array]:
        del own, aid
        assert shown.critic is not None
        context = kept(sample.context)
        nudge = Nudge(shown.params["net"], context=context)
        log_prob = log_prob_of(nudge, sample.obs, sample.action)
        return log_prob, value_of(shown.critic, sample.obs, context)

    def all_alone(
        own: Any, shown: View, rollout: Rollout, next_context: Array | None, belief: Any
    ) -> Judgement:
        steps = flat(rollout._replace(memory=()))
        log_prob, value = alone(own, shown, (), steps)
        assert shown.critic is not None
        next_value = value_of(shown.critic, steps.next_obs, next_context)
        return Judgement(log_prob, value, next_value, (), (), belief)

    if strategy.recall is None and strategy.likelihood is None:
        return Judge(all_alone, alone, deal)

    # Recalled.

    def nudged(own: Any, shown: View, held: Any, obs: Array, context: Array) -> Nudge:
        _, nudge = strategy.behave(own, held, shown, obs, (), False)
        critic = shown.critic if nudge.critic is None else nudge.critic
        return nudge._replace(context=kept(context), critic=critic)

    def under(own: Any, shown: View, held: Any, it: Any) -> tuple[Array, Array]:
        """All of these under one memory."""
        nudge = nudged(own, shown, held, it.obs, it.context)
        assert nudge.critic is not None
        log_prob = log_prob_of(nudge, it.obs, it.action)
        return log_prob, value_of(nudge.critic, it.obs, nudge.context)

    def recalled(own: Any, shown: View, aid: Any, sample: Sample) -> tuple[Array, Array]:
        if single(aid):
            return under(own, shown, _at(aid, 0), sample)

        def one(which: Array, *it: Array) -> tuple[Array, Array]:
            row = Piece(*(leaf[None] for leaf in it))
            log_prob, value = under(own, shown, _at(aid, which), row)
            return log_prob[0], value[0]

        return jax.vmap(one)(sample.which, sample.obs, sample.context, sample.action)

    def all_recalled(
        own: Any, shown: View, rollout: Rollout, next_context: Array | None, belief: Any
    ) -> Judgement:
        assert strategy.recall is not None
        memories, which = rollout.memory
        aid, which = jax.vmap(strategy.recall)(memories), which.reshape(-1)
        steps = flat(rollout._replace(memory=()))

        def judged(held: Any, it: Any) -> tuple[Array, Array, Array]:
            now, after = it
            log_prob, value = under(own, shown, held, now)
            critic = nudged(own, shown, held, after.obs, after.context).critic
            assert critic is not None
            return log_prob, value, value_of(critic, after.obs, kept(after.context))

        blank = steps.context if next_context is None else next_context
        both = steps, steps._replace(obs=steps.next_obs, context=blank)
        if single(aid):
            outcome = judged(_at(aid, 0), both)
        else:

            def one(it: Any) -> Any:
                row = jax.tree.map(lambda leaf: leaf[None], it[1])
                return jax.tree.map(lambda leaf: leaf[0], judged(_at(aid, it[0]), row))

            outcome = jax.lax.map(one, (which, both), batch_size=min(TOGETHER, which.size))
        log_prob, value, next_value = outcome
        return Judgement(log_prob, value, next_value, aid, which, belief)

    if strategy.recall is not None:
        return Judge(all_recalled, recalled, deal)

    # In pieces.

    assert strategy.likelihood is not None
    likelihood = strategy.likelihood

    def length(count: int) -> int:
        """Of a piece: it divides a minibatch and an environment's part of a rollout."""
        common = math.gcd(count // minibatches, horizon)
        return max(it for it in range(1, min(common, strategy.piece) + 1) if common % it == 0)

    def in_pieces(own: Any, shown: View, aid: Any, sample: Sample) -> tuple[Array, Array]:
        assert shown.critic is not None
        whole = Piece(sample.obs, sample.context, sample.action, sample.ended)
        shape = len(sample.which), len(sample.value) // len(sample.which)
        pieces = jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), whole)
        each = jax.vmap(lambda belief, piece: likelihood(own, shown, belief, piece)[0])
        log_prob = each(_at(aid, sample.which), pieces).reshape(-1)
        return log_prob, value_of(shown.critic, sample.obs, kept(sample.context))

    def all_in_pieces(
        own: Any, shown: View, rollout: Rollout, next_context: Array | None, belief: Any
    ) -> Judgement:
        judged = all_alone(own, shown, rollout, next_context, belief)
        count = rollout.reward.shape[1]
        if "rollout" in strategy.renews:
            belief = jax.tree.map(lambda it: jnp.stack([it] * count), strategy.belief)
        size = length(rollout.reward.size)
        whole = Piece(rollout.obs, rollout.context, rollout.action, rollout.ended)
        # (T, n, …) → (T / L, n, L, …): all environments go through their pieces together.
        shape = horizon // size, size
        rows = jax.tree.map(
            lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]).swapaxes(1, 2), whole
        )

        def sweep(belief: Any, pieces: Any) -> tuple[Any, tuple[Any, Array]]:
            each = jax.vmap(lambda belief, piece: likelihood(own, shown, belief, piece))
            log_prob, after = each(belief, pieces)
            return after, (belief, log_prob)

        after, (starts, log_prob) = jax.lax.scan(sweep, belief, rows)
        return judged._replace(
            log_prob=log_prob.swapaxes(1, 2).reshape(-1), aid=flat(starts), belief=after
        )

    def deal_pieces(key: Any, whole: Sample) -> Sample:
        """Every piece once an epoch, in any order; its steps stay in theirs."""
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

    return Judge(all_in_pieces, in_pieces, deal_pieces)


def single(aid: Any) -> bool:
    """Whether all was done under one memory."""
    return all(leaf.shape[0] == 1 for leaf in jax.tree.leaves(aid))


def _at(tree: Any, which: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[which], tree)


def _orders(key: Any, epochs: int, count: int, used: int) -> Array:
    """So many of that many numbers, shuffled, for every epoch: (epochs, used)."""
    # Sorting random numbers once: random.permutation sorts several times to rule out ties.
    return jnp.argsort(random.bits(key, (epochs, count)), axis=1)[:, :used]
