"""Code that DDPG, TD3 and SAC share: acting, the order of an update, when updates are due, views.

    act:     a = the policy's own action, uniform during warm-up;  ã = clip(a + shift)
    store:   (s, a, ã, r, s′, d)
    learn:   r ← r + the strategy's bonus, if it has one
             y, the algorithm's target, with the strategy's nudge at s′
             critics    descend Σᵢ (y − Qᵢ(s, ã))², at the executed action
             actor      descend the algorithm's loss, at the bare action
             strategy   its own step, given Σᵢ (y − Qᵢ(s, a + shift))²
             targets    θ′ ← τ θ + (1 − τ) θ′, the strategy's own too

An algorithm brings `Parts`: its policy, its critics, its target and its actor's loss.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import random

from discover_rl.algorithms import scaled_rewards
from discover_rl.algorithms.interface import OffPolicyAlgorithm
from discover_rl.algorithms.off_policy_parts import (
    HEAD,
    LEARNED,
    Hyper,
    Noise,
    Parts,
    State,
    activation,
    clip,
    features,
    squared_error,
)
from discover_rl.core import networks
from discover_rl.core.equations import decayed, descend, learning_rates, polyak
from discover_rl.core.normalization import deviation, no_moments, observe
from discover_rl.core.types import (
    Action,
    Actor,
    Array,
    Batch,
    Key,
    Losses,
    Net,
    Nudge,
    Spec,
    Transition,
    Update,
)
from discover_rl.strategies.interface import Strategy, View


def make(spec: Spec, settings: Hyper, strategy: Strategy, parts: Parts) -> OffPolicyAlgorithm:
    """The algorithm of these parts on tasks with these spaces, exploring by this strategy.

    Only what is static in `settings` is used: the floats are in the state, one value per lane.
    """
    shape = (1, spec.action_size)
    acting, learning, schedule = strategy.acting, strategy.learning, strategy.schedule

    # What a strategy is shown.

    def view(state: State, hp: Hyper, params: Actor, progress: Any) -> View:
        return View(
            params=params,
            policy=parts.policy,
            features=features,
            distribution=parts.distribution,
            optimiser=optax.adam(hp.actor_lr),
            q=lambda obs, action: parts.q(state.critics, obs, action),
            progress=progress,
            gamma=hp.gamma,
            reward_scale=parts.reward_scale(hp),
            entropy_weight=lambda: parts.entropy_weight(state),
        )

    def online(state: State, progress: Any = 0.0) -> View:
        return view(state, state.hyper, state.actor, progress)

    def whole_view(state: State) -> View:
        """The view with everything that updates change (`View.learned`)."""
        learned = {name: getattr(state, name) for name in LEARNED}
        return online(state)._replace(learned=learned)

    def learning_view(state: State, hp: Hyper, y: Array, progress: Any) -> View:
        """The view with TD errors, in which y and the critics are constants."""

        def error(nudge: Nudge, batch: Batch) -> Array:
            return squared_error(parts.q(state.critics, batch.obs, batch.bare + nudge.shift), y)

        def td_error(batch: Batch) -> Array:
            values = parts.q(state.critics, batch.obs, batch.executed)
            return jnp.abs(y[None] - values).mean(axis=0)

        shown = view(state, hp, state.actor, progress)
        return shown._replace(error=error, td_error=td_error)

    # Starting.

    def init(key: Key, hp: Hyper, strategy_hyper: Any) -> State:
        actor_key, critic_key, joint_key, strategy_key = random.split(key, 4)
        net = networks.init(
            actor_key,
            inputs=spec.observation_size + strategy.network.context_size,
            hidden=hp.hidden,
            outputs=parts.outputs_per_action * spec.action_size,
            layer_norm=strategy.network.layer_norm or settings.layer_norm in ("actor", "both"),
            activation=activation(settings),
        )
        actor = {"net": net, "joint": learning.joint(joint_key, strategy_hyper, net, None)}
        critics = jax.vmap(parts.critic)(random.split(critic_key, parts.critics))
        state = State(
            hyper=hp,
            actor=actor,
            critics=critics,
            target_actor=actor if parts.has_target_actor else (),
            target_critics=critics,
            actor_optimiser=optax.adam(hp.actor_lr).init(actor),
            critic_optimiser=parts.critic_optimiser(hp).init(critics),
            strategy=(),
            moments=no_moments(spec.observation_size) if parts.normalise else (),
            extra=parts.init_extra(hp),
        )
        own = strategy.init(strategy_key, strategy_hyper, whole_view(state))
        return state._replace(strategy=own)

    def begin(state: State, key: Key) -> Any:
        return acting.begin(state.strategy, online(state), key)

    # Acting.

    def normalised(state: State, obs: Array) -> Array:
        if not parts.normalise:
            return obs
        return networks.standardise(obs, state.moments.mean, deviation(state.moments))

    def draw(key: Key) -> Noise:
        warmup, policy, own = random.split(key, 3)
        uniform = random.uniform(warmup, shape, minval=-1.0, maxval=1.0)
        return Noise(uniform, parts.draw(policy, shape), acting.draw(own))

    def act(
        state: State, memory: Any, obs: Array, noise: Noise, step: Any, progress: Any = 0.0
    ) -> tuple[State, Any, Action]:
        if parts.normalise:  # each observation counts once, when it is acted upon
            state = state._replace(moments=observe(state.moments, obs))
        obs, warm = normalised(state, obs[None]), step < settings.warmup
        shown = online(state, progress)
        memory, nudge = acting.behave(state.strategy, memory, shown, obs, noise.strategy, warm)
        if parts.sample is None:
            own = parts.policy(nudge._replace(shift=0.0), obs)
        else:
            own = parts.sample(nudge, obs, noise.policy if nudge.noise is None else nudge.noise)
        bare = networks.namespace(obs).where(warm, noise.warmup, own)
        return state, memory, Action(bare[0], clip(bare + nudge.shift)[0])

    # Learning.

    def prepared(state: State, batch: Batch, progress: Any) -> Batch:
        """The batch as the networks see it, the strategy's bonus added to its rewards."""
        batch = batch._replace(
            obs=normalised(state, batch.obs), next_obs=normalised(state, batch.next_obs)
        )
        if strategy.bonus is None:
            return batch
        bonus = strategy.bonus(state.strategy, online(state, progress), batch)
        return batch._replace(reward=batch.reward + jax.lax.stop_gradient(bonus))

    def targets(state: State, batch: Batch, key: Key, progress: Any) -> Array:
        nudge_key, sample_key = random.split(key)
        params = state.target_actor if parts.has_target_actor else state.actor
        shown = view(state, state.hyper, params, progress)
        nudge = learning.expect(state.strategy, shown, batch.next_obs, nudge_key, "target")
        return jax.lax.stop_gradient(parts.target(state, nudge, batch, sample_key))

    def learn(
        state: State, batch: Batch, key: Key, update: Update, progress: Any
    ) -> tuple[State, Losses]:
        target_key, actor_key, strategy_key = random.split(key, 3)
        hp = decayed(state.hyper, progress)
        batch = prepared(state, batch, progress)
        y = targets(state, batch, target_key, progress)

        def critic_loss(critics: Net) -> Array:
            return squared_error(parts.q(critics, batch.obs, batch.executed), y).mean()

        loss, gradients = jax.value_and_grad(critic_loss)(state.critics)
        critics, critic_optimiser = descend(
            parts.critic_optimiser(hp), gradients, state.critic_optimiser, state.critics
        )
        state = state._replace(critics=critics, critic_optimiser=critic_optimiser)
        losses = Losses(critic=loss)

        if update.actor:
            nudge_key, sample_key = random.split(actor_key)

            def actor_loss(params: Actor) -> tuple[Array, Any]:
                shown = view(state, hp, params, progress)
                nudge = learning.expect(state.strategy, shown, batch.obs, nudge_key, "actor")
                return parts.actor_loss(state, nudge, batch.obs, sample_key)

            (loss, result), gradients = jax.value_and_grad(actor_loss, has_aux=True)(state.actor)
            params, actor_optimiser = descend(
                optax.adam(hp.actor_lr), gradients, state.actor_optimiser, state.actor
            )
            extra = parts.after_actor(state, hp, result)
            state = state._replace(actor=params, actor_optimiser=actor_optimiser, extra=extra)
            losses = losses._replace(actor=loss)

        if update.strategy:
            shown = learning_view(state, hp, y, progress)._replace(actor_moved=update.actor)
            own, loss = learning.step(state.strategy, shown, batch, strategy_key)
            state = state._replace(strategy=own)
            losses = losses._replace(strategy=loss)

        if update.targets:

            def follow(online: Any, target: Any) -> Any:
                return polyak(online, target, hp.tau)

            if parts.has_target_actor:
                state = state._replace(target_actor=follow(state.actor, state.target_actor))
            state = state._replace(
                target_critics=follow(state.critics, state.target_critics),
                strategy=learning.update_targets(state.strategy, follow),
            )
        return state, losses

    def due(step: int) -> tuple[Update, ...]:
        rounds, rest = divmod(step - settings.warmup, settings.train_every)
        if rounds < 1 or rest:
            return ()
        numbers = range((rounds - 1) * settings.updates + 1, rounds * settings.updates + 1)
        own_every = (parts.actor_every if learning.cadence == "actor" else 1) * learning.every
        return tuple(
            Update(
                actor=number % parts.actor_every == 0,
                targets=number % parts.targets_every == 0,
                strategy=number % own_every == 0,
            )
            for number in numbers
        )

    # The strategy's own schedule.

    def on_transition(state: State, memory: Any, transition: Transition) -> State:
        assert schedule.on_transition is not None
        return state._replace(strategy=schedule.on_transition(state.strategy, memory, transition))

    def on_event(state: State, name: str) -> State:
        own, learned = schedule.on_event(state.strategy, whole_view(state), name)
        return state._replace(strategy=own, **learned)

    # Looking.

    def valued(state: State, batch: Batch, key: Key, progress: Any) -> tuple[Batch, Array, Array]:
        """The batch as the networks see it, its targets y, and Qᵢ(s, ã) of every critic."""
        batch = prepared(state, batch, progress)
        y = targets(state, batch, key, progress)
        return batch, y, parts.q(state.critics, batch.obs, batch.executed)

    def errors(state: State, batch: Batch, key: Key, progress: Any = 0.0) -> Array:
        _, y, values = valued(state, batch, key, progress)
        return jnp.abs(y[None] - values).mean(axis=0)

    def report(state: State, batch: Batch, key: Key, progress: Any = 0.0) -> dict[str, Array]:
        batch, y, values = valued(state, batch, key, progress)
        own = {"q": values.mean(), "td_error": jnp.abs(y[None] - values).mean()}
        shown = learning_view(state, state.hyper, y, progress)
        return own | parts.report(state) | strategy.report(state.strategy, shown, batch)

    def measure(
        state: State, batch: Batch, recent: Batch, key: Key, progress: Any = 0.0
    ) -> dict[str, Array]:
        target_key, actor_key, strategy_key = random.split(key, 3)
        nudge_key, sample_key = random.split(actor_key)
        hp = decayed(state.hyper, progress)
        batch, y, values = valued(state, batch, target_key, progress)
        shown = learning_view(state, hp, y, progress)
        nudge = learning.expect(state.strategy, shown, batch.obs, nudge_key, "actor")
        loss, result = parts.actor_loss(state, nudge, batch.obs, sample_key)
        found = {"critic_loss": squared_error(values, y).mean(), "actor_loss": loss}
        _, own_loss = learning.step(state.strategy, shown, batch, strategy_key)
        if isinstance(own_loss, jax.Array):  # else there is nothing that it learns
            found["strategy_loss"] = own_loss
        apart = recent.executed - networks.mean_action(HEAD, greedy(state).net, recent.obs)
        found["noise"] = jnp.sqrt((apart**2).mean())
        return found | parts.measure(result) | learning_rates(hp)

    def greedy(state: State) -> Nudge:
        nudge = acting.greedy(state.strategy, state.actor)
        return nudge._replace(net=with_input(state, parts.mean_net(nudge.net)))

    def critic(state: State) -> Net:
        return with_input(state, state.critics)

    def with_input(state: State, net: Net) -> Net:
        """The network with the statistics by which its observations are standardised, if any."""
        if not parts.normalise:
            return net
        stats = {"mean": state.moments.mean, "deviation": deviation(state.moments)}
        return {"input": stats, **net}

    algorithm = OffPolicyAlgorithm(
        init=init,
        begin=begin,
        draw=draw,
        act=act,
        learn=learn,
        report=report,
        measure=measure,
        errors=errors,
        greedy=greedy,
        due=due,
        head=HEAD._replace(activation=settings.activation),
        critic=critic,
        critic_head=parts.critic_head._replace(activation=settings.activation),
        on_event=on_event,
        on_transition=on_transition if schedule.on_transition else None,
        act_changes_state=parts.normalise,
    )
    return scaled_rewards.scale(algorithm) if settings.normalise_rewards else algorithm
