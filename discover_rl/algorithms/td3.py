"""Twin Delayed DDPG (Fujimoto, van Hoof & Meger, 2018), with room for a strategy.

for every environment step:
    act:      a = π(s), uniform during warm-up;  ã = clip(a + shift)       behave, act
    store:    (s, a, ã, r, s′, d)
    sample a batch, then
    critics:  ã′ = clip(π′(s′) + smoothing or the strategy's shift)        target
              y = r + γ (1 − d) min over i of Q′ᵢ(s′, ã′)
              descend Σᵢ (y − Qᵢ(s, ã))²                                    critic_loss
    every `delay` updates
    actor:    ascend Q₁(s, π(s)), at the bare action                       actor_loss
    strategy: its own step, seeing (y − Q(s, a + shift))²                  View.error
    targets:  θ′ ← τ θ + (1 − τ) θ′ for actor, critics and the strategy's own
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import random

from discover_rl import networks
from discover_rl.equations import polyak, td_target
from discover_rl.hyper import hyper, setting
from discover_rl.types import (
    Action,
    Actor,
    Algorithm,
    Array,
    Batch,
    Blueprint,
    Form,
    Losses,
    Net,
    Nudge,
    Spec,
    Strategy,
    Update,
    View,
)


@hyper
class Hyper:
    gamma: float = setting(0.99, "Discount of future reward.", low=0, high=1)
    tau: float = setting(
        0.005, "Share of the online networks in each target update.", low=0, high=1
    )
    actor_lr: float = setting(3e-4, "Learning rate of the actor and of a strategy's nets.", low=0)
    critic_lr: float = setting(3e-4, "Learning rate of the critics.", low=0)
    smoothing: float = setting(0.2, "Std of the noise on target actions, in half-ranges.", low=0)
    smoothing_clip: float = setting(0.5, "Largest noise on target actions, in half-ranges.", low=0)
    delay: int = setting(2, "Critic updates per update of actor and targets.", low=1)
    batch_size: int = setting(256, "Transitions in a batch.", low=1)
    replay_size: int = setting(1_000_000, "Transitions kept for replay.", low=1)
    warmup: int = setting(25_000, "Steps of uniform actions before learning starts.", low=0)
    hidden: tuple[int, ...] = setting((256, 256), "Widths of the hidden layers.", low=1)


FORM = Form(activation="relu", squash=True)


class State(NamedTuple):
    hyper: Hyper
    actor: Actor
    critics: Net  # twin: every array has a leading axis of two
    target_actor: Actor
    target_critics: Net
    actor_optimiser: Any
    critic_optimiser: Any
    strategy: Any


class Noise(NamedTuple):
    warmup: Array  # (action,) uniform in −1 … 1
    strategy: Any


def blueprint(spec: Spec, hp: Hyper) -> Blueprint:
    """The actor's architecture, for strategies that own a network like it."""
    return Blueprint(
        init=lambda key, outputs: networks.init(key, spec.observation_size, hp.hidden, outputs),
        apply=networks.apply,
    )


def policy(nudge: Nudge, obs: Array) -> Array:
    """π(s) + shift, the sum not clipped."""
    seen = networks.with_context(obs, nudge.context)
    return networks.mean_action(FORM, nudge.net, seen) + nudge.shift


def features(nudge: Nudge, obs: Array) -> Array:
    return networks.features(nudge.net, networks.with_context(obs, nudge.context))


def clip(action: Array) -> Array:
    return networks.namespace(action).clip(action, -1.0, 1.0)


def smoothing_noise(key: Any, shape: tuple[int, ...], hp: Hyper) -> Array:
    return jnp.clip(hp.smoothing * random.normal(key, shape), -hp.smoothing_clip, hp.smoothing_clip)


def target(critics: Net, next_action: Array, batch: Batch, gamma: Any) -> Array:
    """y = r + γ (1 − d) min Q′ᵢ(s′, ã′); (n,)."""
    value = networks.q_value(critics, batch.next_obs, next_action).min(axis=0)
    return td_target(batch.reward, batch.terminated, value, gamma)


def squared_error(critics: Net, obs: Array, action: Array, y: Array) -> Array:
    """Σᵢ (y − Qᵢ(s, a))²; (n,)."""
    return ((y[None] - networks.q_value(critics, obs, action)) ** 2).sum(axis=0)


def critic_loss(critics: Net, batch: Batch, y: Array) -> Array:
    return squared_error(critics, batch.obs, batch.executed, y).mean()


def actor_loss(critics: Net, obs: Array, action: Array) -> Array:
    first = jax.tree.map(lambda leaf: leaf[0], critics)
    return -networks.q_value(first, obs, action).mean()


def make(spec: Spec, hp: Hyper, strategy: Strategy) -> Algorithm:
    """TD3 on tasks of this shape, exploring by this strategy.

    Of `hp` only the statics are used here: the floats come in with the state, one value per lane.
    """
    delay, warmup = hp.delay, hp.warmup

    def view(hp: Hyper, params: Actor, error: Any = None) -> View:
        shown = View(params, policy, features, optax.adam(hp.actor_lr))
        return shown if error is None else shown._replace(error=error)

    def init(key: Any, hp: Hyper, strategy_hyper: Any) -> State:
        actor_key, critic_key, joint_key, strategy_key = random.split(key, 4)
        net = networks.init(
            actor_key,
            spec.observation_size + strategy.context_size,
            hp.hidden,
            spec.action_size,
            strategy.layer_norm,
        )
        actor = {"net": net, "joint": strategy.joint(joint_key, net)}
        critics = jax.vmap(
            lambda key: networks.init(key, spec.observation_size + spec.action_size, hp.hidden, 1)
        )(random.split(critic_key))
        return State(
            hyper=hp,
            actor=actor,
            critics=critics,
            target_actor=actor,
            target_critics=critics,
            actor_optimiser=optax.adam(hp.actor_lr).init(actor),
            critic_optimiser=optax.adam(hp.critic_lr).init(critics),
            strategy=strategy.init(strategy_key, strategy_hyper, view(hp, actor)),
        )

    def begin(state: State, key: Any) -> State:
        shown = view(state.hyper, state.actor)
        return state._replace(strategy=strategy.begin(state.strategy, shown, key))

    def draw(key: Any) -> Noise:
        own, theirs = random.split(key)
        uniform = random.uniform(own, (spec.action_size,), minval=-1.0, maxval=1.0)
        return Noise(uniform, strategy.draw(theirs, 1))

    def act(state: State, obs: Array, noise: Noise, step: Array) -> tuple[State, Action]:
        obs, warm = obs[None], step < warmup
        shown = view(state.hyper, state.actor)
        memory, nudge = strategy.behave(state.strategy, shown, obs, noise.strategy, warm)
        own = policy(nudge._replace(shift=0.0), obs)
        bare = networks.namespace(obs).where(warm, noise.warmup[None], own)
        return state._replace(strategy=memory), Action(bare[0], clip(bare + nudge.shift)[0])

    def targets(state: State, batch: Batch, key: Any) -> Array:
        nudge_key, noise_key = random.split(key)
        shown = view(state.hyper, state.target_actor)
        nudge = strategy.expect(state.strategy, shown, batch.next_obs, nudge_key, "target")
        action = policy(nudge, batch.next_obs)
        if not strategy.smooths:
            action += smoothing_noise(noise_key, action.shape, state.hyper)
        y = target(state.target_critics, clip(action), batch, state.hyper.gamma)
        return jax.lax.stop_gradient(y)

    def lesson(state: State, y: Array) -> View:
        """What the strategy is shown while learning: y and the critics are constants."""

        def error(nudge: Nudge, batch: Batch) -> Array:
            return squared_error(state.critics, batch.obs, batch.bare + nudge.shift, y)

        return view(state.hyper, state.actor, error)

    def learn(state: State, batch: Batch, key: Any, actor: bool) -> tuple[State, Losses]:
        target_key, actor_key, strategy_key = random.split(key, 3)
        hp = state.hyper
        y = targets(state, batch, target_key)

        loss, gradients = jax.value_and_grad(critic_loss)(state.critics, batch, y)
        critics, critic_optimiser = _descend(
            optax.adam(hp.critic_lr), gradients, state.critic_optimiser, state.critics
        )
        state = state._replace(critics=critics, critic_optimiser=critic_optimiser)
        losses = Losses(critic=loss)

        if actor:

            def own_loss(params: Actor) -> Array:
                shown = view(hp, params)
                nudge = strategy.expect(state.strategy, shown, batch.obs, actor_key, "actor")
                return actor_loss(state.critics, batch.obs, policy(nudge, batch.obs))

            loss, gradients = jax.value_and_grad(own_loss)(state.actor)
            params, actor_optimiser = _descend(
                optax.adam(hp.actor_lr), gradients, state.actor_optimiser, state.actor
            )
            state = state._replace(actor=params, actor_optimiser=actor_optimiser)
            losses = losses._replace(actor=loss)

        if actor or strategy.cadence == "critic":
            memory, loss = strategy.learn(state.strategy, lesson(state, y), batch, strategy_key)
            state = state._replace(strategy=memory)
            losses = losses._replace(strategy=loss)

        if actor:

            def follow(online: Any, old: Any) -> Any:
                return polyak(online, old, hp.tau)

            state = state._replace(
                target_actor=follow(state.actor, state.target_actor),
                target_critics=follow(state.critics, state.target_critics),
                strategy=strategy.track(state.strategy, follow),
            )
        return state, losses

    def report(state: State, batch: Batch, key: Any) -> dict[str, Array]:
        y = targets(state, batch, key)
        values = networks.q_value(state.critics, batch.obs, batch.executed)
        own = {"q": values.mean(), "td_error": jnp.abs(y[None] - values).mean()}
        return own | strategy.report(state.strategy, lesson(state, y), batch)

    def greedy(state: State) -> Nudge:
        return strategy.greedy(state.actor)

    def due(step: int) -> tuple[Update, ...]:
        updates = step - warmup
        return (Update(actor=updates % delay == 0),) if updates > 0 else ()

    return Algorithm(init, begin, draw, act, learn, report, greedy, due, FORM)


def _descend(optimiser: Any, gradients: Any, state: Any, params: Any) -> tuple[Any, Any]:
    updates, state = optimiser.update(gradients, state, params)
    return optax.apply_updates(params, updates), state
