"""Code that A2C and PPO share: acting, the returns of a rollout, the order of its updates, views.

    act:     a ~ N(mean(s, context), σ²), context the strategy's, σ the same in every state
    store:   (s, context, a, r, s′, d), until a rollout is full
    learn:   r ← r + the strategy's bonus, if it has one
             log π(a|s), V(s), V(s′) → advantages A and returns R̂ = A + V(s)
             for every epoch, for every minibatch of the shuffled rollout
                 strategy   its own step, given (R̂ − V(s, context))²
                 policy, V  one update by the algorithm's loss, at the context that was stored

The agent standardises observations and scales rewards on the host, before this code gets them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import random

from discover_rl.algorithms import likelihood
from discover_rl.algorithms.interface import OnPolicyAlgorithm
from discover_rl.algorithms.likelihood import HEAD, Sample, flat, log_std_of, mean_of, value_of
from discover_rl.algorithms.on_policy_parts import (
    Hyper,
    Parts,
    State,
    activation,
    distribution,
    features,
    policy,
)
from discover_rl.core import networks
from discover_rl.core.equations import (
    advantages,
    decayed,
    descend,
    gaussian_entropy,
    learning_rates,
)
from discover_rl.core.schedules import settled
from discover_rl.core.types import (
    Actor,
    Array,
    Batch,
    CriticHead,
    Key,
    Losses,
    Net,
    Nudge,
    Optimiser,
    Rollout,
    Spec,
)
from discover_rl.strategies.interface import Strategy, View


def standard_score(advantage: Array) -> Array:
    """Advantages minus their mean, divided by their standard deviation: (n,) → (n,)."""
    return (advantage - advantage.mean()) / (advantage.std(ddof=min(1, advantage.size - 1)) + 1e-5)


def make(spec: Spec, settings: Hyper, strategy: Strategy, parts: Parts) -> OnPolicyAlgorithm:
    """The algorithm of these parts on tasks with these spaces, exploring by this strategy.

    Only what is static in `settings` is used: the floats are in the state, one value per lane.
    """
    inputs = spec.observation_size + strategy.network.context_size
    acting, learning = strategy.acting, strategy.learning
    if learning.every > 1 and learning.cadence != "rollout":
        raise ValueError("on-policy, Learning.every counts with cadence='rollout' only")
    likely = likelihood.make(strategy, settings.horizon, settings.minibatches, settings.epochs)

    def optimiser(hp: Hyper) -> Optimiser:
        # Flat, because a step on many small arrays is mostly overhead.
        return optax.flatten(
            optax.chain(optax.clip_by_global_norm(hp.max_grad_norm), parts.optimiser(hp))
        )

    # What a strategy is shown.

    def view(hp: Hyper, params: Actor, critic: Net | None = None, progress: Any = 0.0) -> View:
        return View(
            params=params,
            policy=policy,
            features=features,
            distribution=distribution,
            optimiser=optimiser(hp),
            critic=critic,
            progress=progress,
            gamma=hp.gamma,
        )

    def learning_view(state: State, hp: Hyper, progress: Any) -> View:
        """The view with TD errors, in which R̂ and V are constants."""

        def error(nudge: Nudge, sample: Any) -> Array:
            return (sample.target - value_of(state.critic, sample.obs, nudge.context)) ** 2

        def td_error(sample: Any) -> Array:
            context = sample.context if strategy.network.context_size else None
            return jnp.abs(sample.target - value_of(state.critic, sample.obs, context))

        shown = view(hp, state.actor, state.critic, progress)
        return shown._replace(error=error, td_error=td_error)

    # Starting.

    def init(key: Key, hp: Hyper, strategy_hyper: Any) -> State:
        actor_key, critic_key, joint_key, strategy_key = random.split(key, 4)
        layers = networks.orthogonal(
            actor_key,
            inputs=inputs,
            hidden=hp.hidden,
            outputs=spec.action_size,
            layer_norm=strategy.network.layer_norm or settings.layer_norm in ("actor", "both"),
            head_gain=hp.head_gain,
            activation=activation(settings),
        )
        net = {**layers, "log_std": {"value": jnp.full(spec.action_size, hp.initial_log_std)}}
        critic = networks.orthogonal(
            critic_key,
            inputs=inputs,
            hidden=hp.hidden,
            outputs=1,
            layer_norm=settings.layer_norm in ("critic", "both"),
            activation=activation(settings),
        )
        joint = learning.joint(joint_key, strategy_hyper, net, critic)
        actor = {"net": net, "joint": joint}
        return State(
            hyper=hp,
            actor=actor,
            critic=critic,
            optimiser=optimiser(hp).init({"actor": actor, "critic": critic}),
            strategy=strategy.init(strategy_key, strategy_hyper, view(hp, actor)),
            rollouts=jnp.zeros((), jnp.int32),
        )

    def begin(state: State, key: Key) -> Any:
        return acting.begin(state.strategy, view(state.hyper, state.actor), key)

    # Acting, for NumPy and JAX alike.

    def draw(key: Key) -> Any:
        own, theirs = random.split(key)
        return random.normal(own, (1, spec.action_size)), acting.draw(theirs)

    def act_with(
        state: State, progress: Any = 0.0
    ) -> Callable[[Any, Array, Any], tuple[Any, Nudge, Array]]:
        # Everything that is constant during a rollout is computed here, once.
        shown = View(state.actor, policy, features, distribution, progress=progress)
        known = settled(state.strategy, progress)
        log_std = state.actor["net"]["log_std"]["value"]
        own_std = networks.namespace(log_std).exp(log_std)[..., None, :]

        def act(memory: Any, obs: Array, noise: Any) -> tuple[Any, Nudge, Array]:
            memory, nudge = acting.behave(known, memory, shown, obs, noise[1], False)
            std = own_std if nudge.std is None else nudge.std
            normal = noise[0] if nudge.noise is None else nudge.noise
            return memory, nudge, mean_of(nudge, obs) + std * normal

        return act

    # Learning.

    def next_context(state: State, obs: Array, key: Key, progress: Any) -> Array | None:
        shown = view(state.hyper, state.actor, progress=progress)
        return learning.expect(state.strategy, shown, obs, key, "target").context

    def rewards(state: State, rollout: Rollout, steps: Any, progress: Any) -> Array:
        """(T, n), the strategy's bonus included."""
        if strategy.bonus is None:
            return rollout.reward
        batch = Batch(
            obs=steps.obs,
            bare=steps.action,
            executed=steps.action,
            reward=steps.reward,
            terminated=steps.terminated,
            next_obs=steps.next_obs,
        )
        shown = view(state.hyper, state.actor, state.critic, progress)
        bonus = jax.lax.stop_gradient(strategy.bonus(state.strategy, shown, batch))
        return rollout.reward + bonus.reshape(rollout.reward.shape)

    def samples(
        state: State, belief: Any, rollout: Rollout, key: Key, progress: Any
    ) -> tuple[Sample, Any, Any]:
        """The rollout with what updates need of it, flat: (steps · environments, …); then what all
        updates share, and the belief after the rollout."""
        hp, shape = state.hyper, rollout.reward.shape
        count = rollout.reward.size
        steps = flat(rollout._replace(memory=()))
        following = next_context(state, steps.next_obs, key, progress)
        shown = view(hp, state.actor, state.critic, progress)
        whole = likely.rollout(state.strategy, shown, rollout, following, belief)
        advantage = advantages(
            rewards(state, rollout, steps, progress),
            rollout.terminated,
            rollout.ended,
            whole.value.reshape(shape),
            whole.next_value.reshape(shape),
            hp.gamma,
            hp.gae_lambda,
        ).reshape(count)
        target = advantage + whole.value
        if settings.normalise_advantages == "rollout":
            advantage = standard_score(advantage)
        sample = Sample(
            obs=steps.obs,
            context=steps.context,
            action=steps.action,
            log_prob=whole.log_prob,
            value=whole.value,
            advantage=advantage,
            target=target,
            ended=() if strategy.density.log_prob is None else steps.ended,
            which=whole.which,
            next_obs=() if strategy.bonus is None else steps.next_obs,
        )
        return sample, whole.shared, whole.belief

    def loss_of(
        params: Any, own: Any, sample: Sample, shared: Any, hp: Hyper, progress: Any
    ) -> tuple[Array, tuple[Array, Array]]:
        shown = view(hp, params["actor"], params["critic"], progress)
        log_prob, value, log_std = likely.sample(own, shown, shared, sample)
        policy_loss = parts.policy_loss(log_prob, sample, hp)
        value_loss = parts.value_loss(value, sample, hp)
        entropy = gaussian_entropy(log_std)
        entropy = entropy.mean() if entropy.ndim else entropy
        loss = policy_loss + hp.value_weight * value_loss - hp.entropy_weight * entropy
        return loss, (policy_loss, value_loss)

    def update(
        state: State, sample: Sample, key: Key, hp: Hyper, shared: Any, progress: Any
    ) -> tuple[State, Losses]:
        own, own_loss = state.strategy, 0.0
        if learning.cadence != "rollout":
            own, own_loss = learning.step(own, learning_view(state, hp, progress), sample, key)
        params = {"actor": state.actor, "critic": state.critic}
        gradient = jax.value_and_grad(loss_of, has_aux=True)
        losses, gradients = gradient(params, state.strategy, sample, shared, hp, progress)
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
        state: State, belief: Any, rollout: Rollout, key: Key, progress: Any
    ) -> tuple[State, Any, Losses, dict[str, Array]]:
        sample_key, order_key, step_key = random.split(key, 3)
        hp = decayed(state.hyper, progress)
        whole, shared, belief = samples(state, belief, rollout, sample_key, progress)
        diagnostics = report(state, whole, progress)
        batches = likely.minibatches(order_key, whole)
        if settings.normalise_advantages == "minibatch":
            batches = batches._replace(advantage=jax.vmap(standard_score)(batches.advantage))
        keys = random.split(step_key, settings.epochs * settings.minibatches)
        state, each = jax.lax.scan(
            lambda now, step: update(now, *step, hp, shared, progress), state, (batches, keys)
        )
        losses = jax.tree.map(lambda leaf: leaf.mean(axis=0), each)
        if learning.cadence == "rollout":
            state, loss = strategy_step(
                state, whole, random.fold_in(step_key, len(keys)), hp, progress
            )
            losses = losses._replace(strategy=loss)
        return state._replace(rollouts=state.rollouts + 1), belief, losses, diagnostics

    def strategy_step(
        state: State, whole: Sample, key: Key, hp: Hyper, progress: Any
    ) -> tuple[State, Array]:
        """The strategy's own step with a whole rollout, after every rollout or, if `Learning.every`
        is more than a rollout's updates, after every few."""
        apart = -(-learning.every // (settings.epochs * settings.minibatches))
        due = (state.rollouts + 1) % apart == 0
        own, loss = learning.step(state.strategy, learning_view(state, hp, progress), whole, key)
        own = jax.tree.map(lambda new, old: jnp.where(due, new, old), own, state.strategy)
        return state._replace(strategy=own), jnp.asarray(loss)

    # Looking.

    def report(state: State, whole: Sample, progress: Any) -> dict[str, Array]:
        """Diagnostics of a rollout, before anything is learned from it."""
        own = {"value": whole.value.mean(), "td_error": jnp.abs(whole.target - whole.value).mean()}
        own["std"] = jnp.exp(state.actor["net"]["log_std"]["value"]).mean()
        return own | strategy.report(
            state.strategy, learning_view(state, state.hyper, progress), whole
        )

    def measure(
        before: State, after: State, belief: Any, rollout: Rollout, key: Key, progress: Any
    ) -> dict[str, Array]:
        sample_key, hp = random.split(key, 3)[0], decayed(before.hyper, progress)
        whole, _, _ = samples(before, belief, rollout, sample_key, progress)
        following = next_context(before, flat(rollout.next_obs), sample_key, progress)
        shown = view(hp, after.actor, after.critic, progress)
        now = likely.rollout(after.strategy, shown, rollout, following, belief).log_prob
        ratio = jnp.exp(now - whole.log_prob)
        unexplained = (whole.target - whole.value).var() / whole.target.var()
        nudge, density = Nudge(shown.net), strategy.density.nudge
        nudge = nudge if density is None else density(after.strategy, shown, whole.obs)
        apart = whole.action - networks.mean_action(HEAD, greedy(before).net, whole.obs)
        return {
            "kl": (ratio - 1.0 - jnp.log(ratio)).mean(),  # of the old policy from the new one
            "explained_variance": 1.0 - unexplained,
            "entropy": gaussian_entropy(log_std_of(nudge)).mean(),
            "noise": jnp.sqrt((apart**2).mean()),
            **parts.measure(ratio, hp),
            **learning_rates(hp),
        }

    def greedy(state: State) -> Nudge:
        """The network without the weights that read the context, which is 0 in evaluation."""
        nudge = acting.greedy(state.strategy, state.actor)
        net = {name: layer for name, layer in nudge.net.items() if name != "log_std"}
        return nudge._replace(net=without_context(net))

    def critic(state: State) -> Net:
        return without_context(state.critic)

    def without_context(net: Net) -> Net:
        weight = net["layer0"]["weight"][..., : spec.observation_size, :]
        return {**net, "layer0": {**net["layer0"], "weight": weight}}

    return OnPolicyAlgorithm(
        init=init,
        begin=begin,
        draw=draw,
        acting=act_with,
        learn=learn,
        measure=measure,
        greedy=greedy,
        head=HEAD._replace(activation=settings.activation),
        critic=critic,
        critic_head=CriticHead(settings.activation, action=""),
    )
