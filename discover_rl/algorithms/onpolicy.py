"""What A2C and PPO share: acting, a rollout's returns, the order of its updates, a strategy's view.

    act:     a ~ N(mean(s, context), σ²), context the strategy's, σ the same in every state
    store:   (s, context, a, r, s′, d), until a rollout is full
    learn:   log π(a|s), V(s), V(s′) → advantages A and returns R̂ = A + V(s)
             for every epoch, for every minibatch of the shuffled rollout
                 strategy   its own step, seeing (R̂ − V(s, context))²
                 policy, V  one step on the algorithm's loss, at the context that was stored

Observations are standardised and rewards scaled before they come here, on the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import random

from discover_rl import networks
from discover_rl.algorithms.core import descend, faded
from discover_rl.equations import advantages, gaussian_log_prob
from discover_rl.hyper import hyper, setting
from discover_rl.types import (
    Actor,
    Array,
    Blueprint,
    Form,
    Losses,
    Net,
    Nudge,
    OnPolicy,
    Optimiser,
    Rollout,
    Spec,
    Strategy,
    View,
)

FORM = Form(activation="tanh", squash=False)


@hyper
class Hyper:
    """What every on-policy algorithm can be told; each has defaults of its own."""

    gamma: float = setting(0.99, "Discount of future reward.", low=0, high=1)
    gae_lambda: float = setting(
        0.95, "λ of the advantage estimates; 1: n-step returns.", low=0, high=1
    )
    actor_lr: float = setting(
        3e-4, "Learning rate of policy, value and a strategy's networks.", low=0
    )
    lr_decay: float = setting(
        0.0, "Share of the learning rate that fades, linearly, over the run.", low=0, high=1
    )
    value_weight: float = setting(0.5, "Weight of the value's loss.", low=0)
    entropy_weight: float = setting(0.0, "Weight of the entropy bonus.", low=0)
    max_grad_norm: float = setting(0.5, "Where the norm of gradients is cut.", above=0)
    initial_log_std: float = setting(0.0, "Where the logarithm of σ starts.")
    horizon: int = setting(2048, "Steps of each environment in a rollout.", low=1)
    minibatches: int = setting(32, "Parts of a rollout, a step of learning each.", low=1)
    epochs: int = setting(10, "How often a rollout is gone through.", low=1)
    normalise: bool = setting(True, "Standardise observations, scale rewards.")
    hidden: tuple[int, ...] = setting((64, 64), "Widths of the hidden layers.", low=1)


class State(NamedTuple):
    hyper: Any
    actor: Actor  # its "net" has "log_std" beside the layers
    critic: Net
    optimiser: Any  # of both
    strategy: Any


class Sample(NamedTuple):
    """What a step of learning sees of a rollout; n of them."""

    obs: Array  # (n, observation)
    context: Array  # (n, context)
    action: Array  # (n, action)
    log_prob: Array  # (n,) at the start of learning
    value: Array  # (n,) likewise
    advantage: Array  # (n,)
    target: Array  # (n,) R̂


class Core(NamedTuple):
    """What makes an on-policy algorithm itself."""

    # (log-probabilities now, sample, hyper) → the policy's loss
    policy_loss: Callable[[Array, Sample, Any], Array]
    # (values now, sample, hyper) → the value's loss
    value_loss: Callable[[Array, Sample, Any], Array]
    # (hyper) → what turns clipped gradients into steps
    optimiser: Callable[[Any], Optimiser]
    normalise_advantages: bool


def blueprint(spec: Spec, hp: Hyper) -> Blueprint:
    """The actor's architecture, for strategies that own a network like it."""
    return Blueprint(
        init=lambda key, outputs: networks.orthogonal(
            key, spec.observation_size, hp.hidden, outputs
        ),
        apply=lambda net, obs: networks.apply(net, obs, FORM.activation),
        outputs=spec.action_size,
        density=True,
        directs="observation",
    )


def mean_of(nudge: Nudge, obs: Array) -> Array:
    """The mean of the policy's own action."""
    return networks.mean_action(FORM, nudge.net, networks.with_context(obs, nudge.context))


def policy(nudge: Nudge, obs: Array) -> Array:
    """The mean action, shifted, not clipped."""
    return mean_of(nudge, obs) + nudge.shift


def features(nudge: Nudge, obs: Array) -> Array:
    """The inputs of the actor's last layer."""
    seen = networks.with_context(obs, nudge.context)
    return networks.features(nudge.net, seen, FORM.activation)


def value_of(critic: Net, obs: Array, context: Array | None) -> Array:
    seen = networks.with_context(obs, context)
    return networks.apply(critic, seen, FORM.activation)[..., 0]


def make(spec: Spec, settings: Hyper, strategy: Strategy, core: Core) -> OnPolicy:
    """The algorithm of this core on tasks of this shape, exploring by this strategy.

    Of `settings` only the statics are used: the floats come in with the state, one value per lane.
    """
    wide = spec.observation_size + strategy.context_size

    def optimiser(hp: Hyper) -> Optimiser:
        # Flat, because a step on many small arrays is mostly overhead.
        return optax.flatten(
            optax.chain(optax.clip_by_global_norm(hp.max_grad_norm), core.optimiser(hp))
        )

    def view(hp: Hyper, params: Actor, error: Any = None) -> View:
        shown = View(params, policy, features, optimiser(hp))
        return shown if error is None else shown._replace(error=error)

    def init(key: Any, hp: Hyper, strategy_hyper: Any) -> State:
        actor_key, critic_key, joint_key, strategy_key = random.split(key, 4)
        net = dict(
            networks.orthogonal(actor_key, wide, hp.hidden, spec.action_size, strategy.layer_norm)
        )
        net["log_std"] = {"value": jnp.full(spec.action_size, hp.initial_log_std)}
        actor = {"net": net, "joint": strategy.joint(joint_key, strategy_hyper, net)}
        critic = networks.orthogonal(critic_key, wide, hp.hidden, 1)
        return State(
            hyper=hp,
            actor=actor,
            critic=critic,
            optimiser=optimiser(hp).init({"actor": actor, "critic": critic}),
            strategy=strategy.init(strategy_key, strategy_hyper, view(hp, actor)),
        )

    def begin(state: State, key: Any) -> Any:
        return strategy.begin(state.strategy, view(state.hyper, state.actor), key)

    def draw(key: Any) -> Any:
        own, theirs = random.split(key)
        return random.normal(own, (1, spec.action_size)), strategy.draw(theirs)

    def acting(state: State) -> Callable[[Any, Array, Any], tuple[Any, Nudge, Array]]:
        """For NumPy and JAX alike. What stands still during a rollout is computed here, once."""
        shown = View(state.actor, policy, features, None)
        log_std = state.actor["net"]["log_std"]["value"]
        std = networks.namespace(log_std).exp(log_std)[None]

        def act(memory: Any, obs: Array, noise: Any) -> tuple[Any, Nudge, Array]:
            memory, nudge = strategy.behave(state.strategy, memory, shown, obs, noise[1], False)
            return memory, nudge, mean_of(nudge, obs) + std * noise[0]

        return act

    def log_prob_of(nudge: Nudge, obs: Array, action: Array) -> Array:
        return gaussian_log_prob(action, mean_of(nudge, obs), nudge.net["log_std"]["value"][None])

    def context_of(state: State, obs: Array, key: Any) -> Array | None:
        shown = view(state.hyper, state.actor)
        return strategy.expect(state.strategy, shown, obs, key, "target").context

    def samples(state: State, rollout: Rollout, key: Any) -> Sample:
        """The rollout with what learning needs of it, flat: (steps · environments, …)."""
        hp, shape = state.hyper, rollout.reward.shape
        count = rollout.reward.size
        flat = jax.tree.map(lambda leaf: leaf.reshape(count, *leaf.shape[2:]), rollout)
        context = flat.context if strategy.context_size else None
        value = value_of(state.critic, flat.obs, context)
        next_context = context_of(state, flat.next_obs, key)
        next_value = value_of(state.critic, flat.next_obs, next_context)
        advantage = advantages(
            rollout.reward,
            rollout.terminated,
            rollout.ended,
            value.reshape(shape),
            next_value.reshape(shape),
            hp.gamma,
            hp.gae_lambda,
        ).reshape(count)
        target = advantage + value
        if core.normalise_advantages:
            advantage = (advantage - advantage.mean()) / (
                advantage.std(ddof=min(1, count - 1)) + 1e-5
            )
        log_prob = log_prob_of(Nudge(state.actor["net"], context=context), flat.obs, flat.action)
        return Sample(flat.obs, flat.context, flat.action, log_prob, value, advantage, target)

    def loss_of(params: Any, sample: Sample, hp: Hyper) -> tuple[Array, tuple[Array, Array]]:
        context = sample.context if strategy.context_size else None
        nudge = Nudge(params["actor"]["net"], context=context)
        log_prob = log_prob_of(nudge, sample.obs, sample.action)
        own = core.policy_loss(log_prob, sample, hp)
        value = core.value_loss(value_of(params["critic"], sample.obs, context), sample, hp)
        log_std = params["actor"]["net"]["log_std"]["value"]
        entropy = (log_std + 0.5 * jnp.log(2 * jnp.pi * jnp.e)).sum()
        return own + hp.value_weight * value - hp.entropy_weight * entropy, (own, value)

    def lesson(state: State, hp: Hyper) -> View:
        """What the strategy is shown while learning: R̂ and V are constants."""

        def error(nudge: Nudge, sample: Sample) -> Array:
            return (sample.target - value_of(state.critic, sample.obs, nudge.context)) ** 2

        return view(hp, state.actor, error)

    def step(state: State, sample: Sample, key: Any, hp: Hyper) -> tuple[State, Losses]:
        own, own_loss = strategy.learn(state.strategy, lesson(state, hp), sample, key)
        params = {"actor": state.actor, "critic": state.critic}
        slope = jax.value_and_grad(loss_of, has_aux=True)
        (_, (policy_loss, value_loss)), gradients = slope(params, sample, hp)
        params, moments = descend(optimiser(hp), gradients, state.optimiser, params)
        state = state._replace(
            actor=params["actor"],
            critic=params["critic"],
            optimiser=moments,
            strategy=own,
        )
        return state, Losses(value_loss, policy_loss, jnp.asarray(own_loss, float))

    def learn(
        state: State, rollout: Rollout, key: Any, progress: Any
    ) -> tuple[State, Losses, dict[str, Array]]:
        sample_key, order_key, step_key = random.split(key, 3)
        hp = faded(state.hyper, progress)
        whole = samples(state, rollout, sample_key)
        told = report(state, whole)
        size = whole.value.shape[0] // settings.minibatches
        used = size * settings.minibatches
        # Sorting random numbers once: random.permutation sorts several times to rule out ties.
        tags = random.bits(order_key, (settings.epochs, whole.value.shape[0]))
        orders = jnp.argsort(tags, axis=1)[:, :used]
        batches = orders.reshape(settings.epochs * settings.minibatches, size)

        # All epochs are laid out before the first step: gathering at each takes longer.
        laid = jax.tree.map(lambda leaf: leaf[batches], whole)
        keys = random.split(step_key, len(batches))
        state, losses = jax.lax.scan(lambda now, it: step(now, *it, hp), state, (laid, keys))
        return state, jax.tree.map(lambda leaf: leaf.mean(axis=0), losses), told

    def report(state: State, whole: Sample) -> dict[str, Array]:
        """Of a rollout, before anything is learned from it."""
        own = {"value": whole.value.mean(), "td_error": jnp.abs(whole.target - whole.value).mean()}
        own["std"] = jnp.exp(state.actor["net"]["log_std"]["value"]).mean()
        return own | strategy.report(state.strategy, lesson(state, state.hyper), whole)

    def greedy(state: State) -> Nudge:
        """Without context: it is 0 in evaluation, so the weights that read it can be left out."""
        nudge = strategy.greedy(state.strategy, state.actor)
        net = {name: layer for name, layer in nudge.net.items() if name != "log_std"}
        weight = net["layer0"]["weight"][..., : spec.observation_size, :]
        return nudge._replace(net={**net, "layer0": {**net["layer0"], "weight": weight}})

    return OnPolicy(init, begin, draw, acting, learn, greedy, FORM)
