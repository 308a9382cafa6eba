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
from discover_rl.algorithms import likelihood
from discover_rl.algorithms.core import descend, faded
from discover_rl.algorithms.likelihood import FORM, Sample, flat, mean_of, value_of
from discover_rl.equations import advantages
from discover_rl.hyper import hyper, setting
from discover_rl.interfaces import Blueprint, OnPolicy, Strategy, View
from discover_rl.types import Actor, Array, Losses, Net, Nudge, Optimiser, Rollout, Spec


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
    rollouts: Array  # () that were learned from


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
        on_policy=True,
    )


def policy(nudge: Nudge, obs: Array) -> Array:
    """The mean action, shifted, not clipped."""
    return mean_of(nudge, obs) + nudge.shift


def features(nudge: Nudge, obs: Array) -> Array:
    """The inputs of the actor's last layer."""
    seen = networks.with_context(obs, nudge.context)
    return networks.features(nudge.net, seen, FORM.activation)


def make(spec: Spec, settings: Hyper, strategy: Strategy, core: Core) -> OnPolicy:
    """The algorithm of this core on tasks of this shape, exploring by this strategy.

    Of `settings` only the statics are used: the floats come in with the state, one value per lane.
    """
    wide = spec.observation_size + strategy.context_size
    judge = likelihood.make(strategy, settings.horizon, settings.minibatches, settings.epochs)

    def optimiser(hp: Hyper) -> Optimiser:
        # Flat, because a step on many small arrays is mostly overhead.
        return optax.flatten(
            optax.chain(optax.clip_by_global_norm(hp.max_grad_norm), core.optimiser(hp))
        )

    def view(hp: Hyper, params: Actor, critic: Net | None = None) -> View:
        return View(params, policy, features, optimiser(hp), critic=critic)

    def init(key: Any, hp: Hyper, strategy_hyper: Any) -> State:
        actor_key, critic_key, joint_key, strategy_key = random.split(key, 4)
        net = dict(
            networks.orthogonal(actor_key, wide, hp.hidden, spec.action_size, strategy.layer_norm)
        )
        net["log_std"] = {"value": jnp.full(spec.action_size, hp.initial_log_std)}
        critic = networks.orthogonal(critic_key, wide, hp.hidden, 1)
        joint = strategy.joint(joint_key, strategy_hyper, net, critic)
        actor = {"net": net, "joint": joint}
        return State(
            hyper=hp,
            actor=actor,
            critic=critic,
            optimiser=optimiser(hp).init({"actor": actor, "critic": critic}),
            strategy=strategy.init(strategy_key, strategy_hyper, view(hp, actor)),
            rollouts=jnp.zeros((), jnp.int32),
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
        std = networks.namespace(log_std).exp(log_std)[..., None, :]

        def act(memory: Any, obs: Array, noise: Any) -> tuple[Any, Nudge, Array]:
            memory, nudge = strategy.behave(state.strategy, memory, shown, obs, noise[1], False)
            return memory, nudge, mean_of(nudge, obs) + std * noise[0]

        return act

    def context_of(state: State, obs: Array, key: Any) -> Array | None:
        shown = view(state.hyper, state.actor)
        return strategy.expect(state.strategy, shown, obs, key, "target").context

    def samples(state: State, belief: Any, rollout: Rollout, key: Any) -> tuple[Sample, Any, Any]:
        """The rollout with what learning needs of it, flat: (steps · environments, …). Then what
        judging parts of it takes, and the belief after it."""
        hp, shape = state.hyper, rollout.reward.shape
        count = rollout.reward.size
        steps = flat(rollout._replace(memory=()))
        next_context = context_of(state, steps.next_obs, key)
        shown = view(hp, state.actor, state.critic)
        judged = judge.rollout(state.strategy, shown, rollout, next_context, belief)
        advantage = advantages(
            rollout.reward,
            rollout.terminated,
            rollout.ended,
            judged.value.reshape(shape),
            judged.next_value.reshape(shape),
            hp.gamma,
            hp.gae_lambda,
        ).reshape(count)
        target = advantage + judged.value
        if core.normalise_advantages:
            advantage = (advantage - advantage.mean()) / (
                advantage.std(ddof=min(1, count - 1)) + 1e-5
            )
        whole = Sample(
            obs=steps.obs,
            context=steps.context,
            action=steps.action,
            log_prob=judged.log_prob,
            value=judged.value,
            advantage=advantage,
            target=target,
            ended=() if strategy.likelihood is None else steps.ended,
            which=judged.which,
        )
        return whole, judged.aid, judged.belief

    def loss_of(
        params: Any, own: Any, sample: Sample, aid: Any, hp: Hyper
    ) -> tuple[Array, tuple[Array, Array]]:
        shown = view(hp, params["actor"], params["critic"])
        log_prob, value = judge.sample(own, shown, aid, sample)
        policy_loss = core.policy_loss(log_prob, sample, hp)
        value_loss = core.value_loss(value, sample, hp)
        log_std = params["actor"]["net"]["log_std"]["value"]
        entropy = (log_std + 0.5 * jnp.log(2 * jnp.pi * jnp.e)).sum()
        loss = policy_loss + hp.value_weight * value_loss - hp.entropy_weight * entropy
        return loss, (policy_loss, value_loss)

    def lesson(state: State, hp: Hyper) -> View:
        """What the strategy is shown while learning: R̂ and V are constants."""

        def error(nudge: Nudge, sample: Sample) -> Array:
            return (sample.target - value_of(state.critic, sample.obs, nudge.context)) ** 2

        return view(hp, state.actor, state.critic)._replace(error=error)

    def step(state: State, sample: Sample, key: Any, hp: Hyper, aid: Any) -> tuple[State, Losses]:
        own, own_loss = state.strategy, 0.0
        if strategy.cadence != "rollout":
            own, own_loss = strategy.learn(own, lesson(state, hp), sample, key)
        params = {"actor": state.actor, "critic": state.critic}
        slope = jax.value_and_grad(loss_of, has_aux=True)
        losses, gradients = slope(params, state.strategy, sample, aid, hp)
        policy_loss, value_loss = losses[1]
        params, moments = descend(optimiser(hp), gradients, state.optimiser, params)
        state = state._replace(
            actor=params["actor"],
            critic=params["critic"],
            optimiser=moments,
            strategy=own,
        )
        return state, Losses(value_loss, policy_loss, jnp.asarray(own_loss, float))

    def learn(
        state: State, belief: Any, rollout: Rollout, key: Any, progress: Any
    ) -> tuple[State, Any, Losses, dict[str, Array]]:
        sample_key, order_key, step_key = random.split(key, 3)
        hp = faded(state.hyper, progress)
        whole, aid, belief = samples(state, belief, rollout, sample_key)
        told = report(state, whole)
        dealt = judge.deal(order_key, whole)
        keys = random.split(step_key, settings.epochs * settings.minibatches)
        state, each = jax.lax.scan(lambda now, it: step(now, *it, hp, aid), state, (dealt, keys))
        losses = jax.tree.map(lambda leaf: leaf.mean(axis=0), each)
        if strategy.cadence == "rollout":
            state, loss = own_step(state, whole, random.fold_in(step_key, len(keys)), hp)
            losses = losses._replace(strategy=loss)
        return state._replace(rollouts=state.rollouts + 1), belief, losses, told

    def own_step(state: State, whole: Sample, key: Any, hp: Hyper) -> tuple[State, Array]:
        """The strategy's, with all of a rollout; not after each where these make few updates."""
        apart = -(-strategy.every // (settings.epochs * settings.minibatches))
        due = (state.rollouts + 1) % apart == 0
        own, loss = strategy.learn(state.strategy, lesson(state, hp), whole, key)
        own = jax.tree.map(lambda new, old: jnp.where(due, new, old), own, state.strategy)
        return state._replace(strategy=own), loss

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
