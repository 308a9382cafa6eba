"""What DDPG, TD3 and SAC share: acting, the schedule, the order of an update, a strategy's view.

    act:     a = the policy's own action, uniform during warm-up;  ã = clip(a + shift)
    store:   (s, a, ã, r, s′, d)
    learn:   y, the algorithm's target, with the strategy's nudge at s′
             critics    descend Σᵢ (y − Qᵢ(s, ã))², at the executed action
             actor      descend the algorithm's loss, at the bare action
             strategy   its own step, seeing Σᵢ (y − Qᵢ(s, a + shift))²
             targets    θ′ ← τ θ + (1 − τ) θ′, the strategy's own too

An algorithm brings a `Core`: its policy, its critics, its target and its actor's loss.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import random

from discover_rl import networks
from discover_rl.algorithms.core import (
    FORM,
    LEARNED,
    Core,
    Hyper,
    Noise,
    State,
    clip,
    descend,
    faded,
    features,
    squared_error,
)
from discover_rl.equations import deviation, no_moments, observe, polyak
from discover_rl.interfaces import Algorithm, Strategy, View
from discover_rl.types import Action, Actor, Array, Batch, Losses, Net, Nudge, Seen, Spec, Update


def make(spec: Spec, settings: Hyper, strategy: Strategy, core: Core) -> Algorithm:
    """The algorithm of this core on tasks of this shape, exploring by this strategy.

    Of `settings` only the statics are used: the floats come in with the state, one value per lane.
    """
    shape = (1, spec.action_size)

    def view(hp: Hyper, params: Actor, error: Any = None) -> View:
        shown = View(params, core.policy, features, optax.adam(hp.actor_lr))
        return shown if error is None else shown._replace(error=error)

    def whole(state: State) -> View:
        """A view with all that learning moves."""
        student = {name: getattr(state, name) for name in LEARNED}
        return view(state.hyper, state.actor)._replace(student=student)

    def init(key: Any, hp: Hyper, strategy_hyper: Any) -> State:
        actor_key, critic_key, joint_key, strategy_key = random.split(key, 4)
        inputs = spec.observation_size + strategy.context_size
        outputs = core.outputs * spec.action_size
        net = networks.init(actor_key, inputs, hp.hidden, outputs, strategy.layer_norm)
        actor = {"net": net, "joint": strategy.joint(joint_key, strategy_hyper, net, None)}
        critics = jax.vmap(core.critic)(random.split(critic_key, core.critics))
        state = State(
            hyper=hp,
            actor=actor,
            critics=critics,
            target_actor=actor if core.has_target_actor else (),
            target_critics=critics,
            actor_optimiser=optax.adam(hp.actor_lr).init(actor),
            critic_optimiser=core.critic_optimiser(hp).init(critics),
            strategy=(),
            moments=no_moments(spec.observation_size) if core.normalise else (),
            extra=core.extra(hp),
        )
        own = strategy.init(strategy_key, strategy_hyper, whole(state))
        return state._replace(strategy=own)

    def begin(state: State, key: Any) -> Any:
        return strategy.begin(state.strategy, view(state.hyper, state.actor), key)

    def hears(state: State, memory: Any, seen: Seen) -> State:
        assert strategy.hears is not None
        return state._replace(strategy=strategy.hears(state.strategy, memory, seen))

    def turn(state: State, name: str) -> State:
        own, student = strategy.turn(state.strategy, whole(state), name)
        return state._replace(strategy=own, **student)

    def normalised(state: State, obs: Array) -> Array:
        if not core.normalise:
            return obs
        return networks.standardise(obs, state.moments.mean, deviation(state.moments))

    def draw(key: Any) -> Noise:
        warmup, policy, theirs = random.split(key, 3)
        uniform = random.uniform(warmup, shape, minval=-1.0, maxval=1.0)
        return Noise(uniform, core.draw(policy, shape), strategy.draw(theirs))

    def act(
        state: State, memory: Any, obs: Array, noise: Noise, step: Array
    ) -> tuple[State, Any, Action]:
        if core.normalise:  # every observation that is acted upon counts, once
            state = state._replace(moments=observe(state.moments, obs))
        obs, warm = normalised(state, obs[None]), step < settings.warmup
        shown = view(state.hyper, state.actor)
        memory, nudge = strategy.behave(state.strategy, memory, shown, obs, noise.strategy, warm)
        if core.sample is None:
            by_itself = core.policy(nudge._replace(shift=0.0), obs)
        else:
            by_itself = core.sample(nudge, obs, noise.policy)
        bare = networks.namespace(obs).where(warm, noise.warmup, by_itself)
        return state, memory, Action(bare[0], clip(bare + nudge.shift)[0])

    def seen(state: State, batch: Batch) -> Batch:
        """The batch as the networks see it."""
        return batch._replace(
            obs=normalised(state, batch.obs), next_obs=normalised(state, batch.next_obs)
        )

    def targets(state: State, batch: Batch, key: Any) -> Array:
        nudge_key, sample_key = random.split(key)
        shown = view(state.hyper, state.target_actor if core.has_target_actor else state.actor)
        nudge = strategy.expect(state.strategy, shown, batch.next_obs, nudge_key, "target")
        return jax.lax.stop_gradient(core.target(state, nudge, batch, sample_key))

    def lesson(state: State, hp: Hyper, y: Array) -> View:
        """What the strategy is shown while learning: y and the critics are constants."""

        def error(nudge: Nudge, batch: Batch) -> Array:
            return squared_error(core.q(state.critics, batch.obs, batch.bare + nudge.shift), y)

        return view(hp, state.actor, error)

    def learn(
        state: State, batch: Batch, key: Any, update: Update, progress: Any
    ) -> tuple[State, Losses]:
        target_key, actor_key, strategy_key = random.split(key, 3)
        hp = faded(state.hyper, progress)
        batch = seen(state, batch)
        y = targets(state, batch, target_key)

        def critic_loss(critics: Net) -> Array:
            return squared_error(core.q(critics, batch.obs, batch.executed), y).mean()

        loss, gradients = jax.value_and_grad(critic_loss)(state.critics)
        critics, critic_optimiser = descend(
            core.critic_optimiser(hp), gradients, state.critic_optimiser, state.critics
        )
        state = state._replace(critics=critics, critic_optimiser=critic_optimiser)
        losses = Losses(critic=loss)

        if update.actor:
            nudge_key, sample_key = random.split(actor_key)

            def actor_loss(params: Actor) -> tuple[Array, Any]:
                shown = view(hp, params)
                nudge = strategy.expect(state.strategy, shown, batch.obs, nudge_key, "actor")
                return core.actor_loss(state, nudge, batch.obs, sample_key)

            (loss, said), gradients = jax.value_and_grad(actor_loss, has_aux=True)(state.actor)
            params, actor_optimiser = descend(
                optax.adam(hp.actor_lr), gradients, state.actor_optimiser, state.actor
            )
            extra = core.after(state, hp, said)
            state = state._replace(actor=params, actor_optimiser=actor_optimiser, extra=extra)
            losses = losses._replace(actor=loss)

        if update.strategy:
            shown = lesson(state, hp, y)
            own, loss = strategy.learn(state.strategy, shown, batch, strategy_key)
            state = state._replace(strategy=own)
            losses = losses._replace(strategy=loss)

        if update.targets:

            def follow(online: Any, old: Any) -> Any:
                return polyak(online, old, hp.tau)

            if core.has_target_actor:
                state = state._replace(target_actor=follow(state.actor, state.target_actor))
            state = state._replace(
                target_critics=follow(state.critics, state.target_critics),
                strategy=strategy.track(state.strategy, follow),
            )
        return state, losses

    def judged(state: State, batch: Batch, key: Any) -> tuple[Batch, Array, Array]:
        """The batch as seen, its targets y, and Qᵢ(s, ã) of every critic."""
        batch = seen(state, batch)
        y = targets(state, batch, key)
        return batch, y, core.q(state.critics, batch.obs, batch.executed)

    def errors(state: State, batch: Batch, key: Any) -> Array:
        _, y, values = judged(state, batch, key)
        return jnp.abs(y[None] - values).mean(axis=0)

    def report(state: State, batch: Batch, key: Any) -> dict[str, Array]:
        batch, y, values = judged(state, batch, key)
        told = {"q": values.mean(), "td_error": jnp.abs(y[None] - values).mean()}
        shown = lesson(state, state.hyper, y)
        return told | core.report(state) | strategy.report(state.strategy, shown, batch)

    def greedy(state: State) -> Nudge:
        nudge = strategy.greedy(state.strategy, state.actor)
        net = core.mean(nudge.net)
        if core.normalise:
            met = {"mean": state.moments.mean, "deviation": deviation(state.moments)}
            net = {"input": met, **net}
        return nudge._replace(net=net)

    def due(step: int) -> tuple[Update, ...]:
        rounds, rest = divmod(step - settings.warmup, settings.train_every)
        if rounds < 1 or rest:
            return ()
        numbers = range((rounds - 1) * settings.updates + 1, rounds * settings.updates + 1)
        own_every = core.actor_every if strategy.cadence == "actor" else 1
        return tuple(
            Update(
                number % core.actor_every == 0,
                number % core.targets_every == 0,
                number % (own_every * strategy.every) == 0,
            )
            for number in numbers
        )

    listens = hears if strategy.hears else None
    made = init, begin, draw, act, learn, report, errors, greedy, due, FORM, turn
    return Algorithm(*made, listens, core.normalise)
