"""Stable Error-seeking Exploration: a second policy, trained to reach the critic's TD errors.

Griesbach & D'Eramo (2025), *Learning to Explore in Diverse Reward Settings via
Temporal-Difference-Error Maximization*. With Q and π the algorithm's, online, a′ = π(s′):

    reward:   r_x = |r + γ Q₁(s′, a′) − Q₁(s, ã)|, without the second term at terminations
    target:   y_x = max(r_x, γ_x minⱼ Q′_xⱼ(s′, a′_x | Q₁)), r_x at terminations        `target`
              a′_x = clip(π′_x(s′) + clip(σ ε, −c, c)), ε ~ N(0, I)
    critics:  descend Σⱼ (y_x − Q_xⱼ(s, ã | Q₁))², j = 1, 2
    policy:   whenever the actor does, ascend Q_x₁(s, π_x(s) | Q₁)
    act:      a_x = π_x(s) in place of a = π(s) with the probability                     `mixing`
              softmax((Q_x₁(s, a_x) − Q_x₁(s, a), Q₁(s, a) − Q₁(s, a_x)) / T)
    targets:  those of Q_x and π_x follow by the algorithm's own rule

Q_xⱼ(s, a | Qᵢ) takes s, a and Qᵢ at probes, pairs (s, a) that are learned with it: the errors it
predicts depend on the critic, so it is shown the critic.                         `conditioning`

With SAC the policies are stochastic, and both critics are sought after:

    reward:   r_xᵢ = |r + γ (Qᵢ(s′, a′) − α log π(a′|s′)) − Qᵢ(s, ã)|, i = 1, 2, a′ ~ π(s′)
    target:   y_xᵢ = max(r_xᵢ, γ_x (minⱼ Q′_xⱼ(s′, a′_x | Qᵢ) − α_x log π_x(a′_x|s′)))
    critics:  descend Σᵢⱼ (y_xᵢ − Q_xⱼ(s, ã | Qᵢ))²
    policy:   descend α_x log π_x(a_x|s) − minᵢⱼ Q_xⱼ(s, a_x | Qᵢ);  α_x as SAC's α
    act:      a ~ π(s), a_x ~ π_x(s), chosen by minᵢⱼ Q_xⱼ(· | Qᵢ) and minᵢ Qᵢ

In warm-up nothing is added. What the algorithm itself learns is untouched: no direction is in its
targets and losses.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from discover_rl.core import networks
from discover_rl.core.equations import correlation, descend, least, squash, td_target
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.types import Array, Batch, Key, Net, Nudge, Spec
from discover_rl.strategies.hooks import Follow
from discover_rl.strategies.interface import Acting, Blueprint, Learning, Strategy, View


@hyper
class Hyper:
    """Hyper-parameters of SEE; conditioning, target and mixing are the paper's ablations."""

    gamma: float = setting(0.99, "γ_x: discount of errors that lie ahead.", low=0, high=1)
    temperature: float = setting(
        1.0, "T: the larger, the less advantages decide.", above=0, high=10**9
    )
    conditioning: bool = setting(True, "Show Q_x the critic whose errors it predicts.")
    probes: int = setting(16, "Pairs (s, a) at which Q_x sees the critic.", low=1, high=10_000)
    target: str = setting(
        "max", "Q_x is of the largest error ahead, or of their sum.", choices=("max", "sum")
    )
    mixing: str = setting(
        "advantage", "Who acts, by advantages or by turns.", choices=("advantage", "alternate")
    )
    smoothing: float = setting(
        0.2, "TD3: std of the noise on a′_x, in half-ranges.", low=0, high=100, unless="density"
    )
    smoothing_clip: float = setting(
        0.5, "TD3: largest noise on a′_x, in half-ranges.", low=0, high=100, unless="density"
    )
    entropy_weight: float = setting(
        1.0, "SAC: where α_x starts.", above=0, high=1_000_000, only="density"
    )
    target_entropy: float = setting(
        -1.0,
        "SAC: entropy that α_x aims at, per action dimension.",
        low=-1_000,
        high=1_000,
        only="density",
    )


class Critics(NamedTuple):
    """Two exploration critics: every array has a leading axis, one entry per critic."""

    net: Net  # (2, …)
    obs: Any  # (2, probes, observation); () without conditioning
    action: Any  # (2, probes, action); likewise


class Policy(NamedTuple):
    """The exploration policy and, with SAC, the logarithm of its temperature α_x, else ()."""

    net: Net
    log_alpha: Any  # ()


class State(NamedTuple):
    """What a run learns."""

    hyper: Hyper
    critics: Critics  # Q_x
    target_critics: Critics  # Q′_x
    policy: Policy  # π_x
    target_policy: Any  # the network of π′_x; () with SAC
    critic_optimiser: Any
    policy_optimiser: Any
    reward: Array  # () mean r_x of the last update
    correlation: Array  # () between r_x and Q_x₁ at the last update


def make(spec: Spec, settings: Hyper, blueprint: Blueprint) -> Strategy:
    """SEE on tasks with these spaces; floats come with the state, one value per lane."""
    stochastic = blueprint.density  # SAC; otherwise TD3
    sought = 2 if stochastic else 1  # how many of the algorithm's critics are sought after
    size = spec.observation_size + spec.action_size

    def init(key: Key, hyper: Hyper, view: View) -> State:
        net_key, policy_key, obs_key, action_key = random.split(key, 4)
        inputs = size + (settings.probes if settings.conditioning else 0)
        net = jax.vmap(lambda own: networks.init(own, inputs, blueprint.hidden, 1))(
            random.split(net_key, 2)
        )
        shape = 2, settings.probes
        obs = random.normal(obs_key, (*shape, spec.observation_size))
        action = random.uniform(action_key, (*shape, spec.action_size), minval=-1.0, maxval=1.0)
        critics = Critics(net, obs, action) if settings.conditioning else Critics(net, (), ())
        log_alpha = jnp.log(hyper.entropy_weight) if stochastic else ()
        policy = Policy(blueprint.init(policy_key, blueprint.outputs), log_alpha)
        return State(
            hyper=hyper,
            critics=critics,
            target_critics=critics,
            policy=policy,
            target_policy=() if stochastic else policy.net,
            critic_optimiser=view.optimiser.init(critics),
            policy_optimiser=view.optimiser.init(policy),
            reward=jnp.zeros(()),
            correlation=jnp.zeros(()),
        )

    # What policies do and what critics say of it, for NumPy and JAX alike.

    def candidate(view: View, net: Net, obs: Array, noise: Any) -> Array:
        """The action of a policy: (n, action); by its mean if there is no noise."""
        if not stochastic or noise is None:
            return view.policy(Nudge(net), obs)
        mean, std = view.distribution(Nudge(net), obs)
        return networks.tanh(mean + std * noise)

    def values(critics: Critics, view: View, obs: Array, action: Array) -> Array:
        """Q_xⱼ(s, a | Qᵢ) of all critics j and all i sought after: (critics, sought, n)."""
        xp, count = networks.namespace(obs), len(critics.net["head"]["bias"])
        x = xp.concat([obs, action], axis=-1)
        shape = count, sought, len(x)
        if not settings.conditioning:
            q = networks.apply(critics.net, x)[..., 0]
            return xp.broadcast_to(q[:, None], shape)
        rows = (part.reshape(-1, part.shape[-1]) for part in (critics.obs, critics.action))
        shown = view.q(*rows)[:sought].reshape(sought, count, 1, settings.probes).swapaxes(0, 1)
        x = xp.concat(
            [
                xp.broadcast_to(x[None, None], (*shape, size)),
                xp.broadcast_to(shown, (*shape, settings.probes)),
            ],
            axis=-1,
        )
        x = x.reshape(count, sought * len(obs), size + settings.probes)
        return networks.apply(critics.net, x)[..., 0].reshape(shape)

    def value(critics: Critics, view: View, obs: Array, action: Array) -> Array:
        """What π_x ascends: the least of all values, or with TD3 the first, (n,)."""
        if not stochastic:
            critics = jax.tree.map(lambda leaf: leaf[:1], critics)
        q = values(critics, view, obs, action)
        return least(q.reshape(-1, q.shape[-1]))

    def preference(
        state: State, view: View, obs: Array, seeking: Array, own: Array
    ) -> tuple[Array, Array]:
        """The probability of acting by a_x, (n,), and the values of a_x and a, (2, n)."""
        xp = networks.namespace(obs)
        obs, actions = xp.concat([obs, obs]), xp.concat([seeking, own])
        errors = value(state.critics, view, obs, actions).reshape(2, -1)
        worth = view.q(obs, actions)[:sought].min(axis=0).reshape(2, -1)
        ahead = (errors[0] - errors[1]) - (worth[1] - worth[0])
        # The softmax of two numbers, in a form that cannot overflow.
        return 0.5 + 0.5 * networks.tanh(0.5 * ahead / state.hyper.temperature), errors

    # Acting.

    def begin(state: State, view: View, key: Key) -> Any:
        """With turns, whose it is, (1, 1): 1 if π_x's. π is the first of an episode."""
        del state, view, key
        return jnp.zeros((1, 1)) if settings.mixing == "alternate" else ()

    def draw(key: Key) -> Any:
        choice_key, noise_key = random.split(key)
        choice = random.uniform(choice_key, (1, 1))
        normal = random.normal(noise_key, (2, 1, spec.action_size)) if stochastic else ()
        return choice, normal

    def behave(
        state: State, memory: Any, view: View, obs: Array, noise: Any, warmup: Any
    ) -> tuple[Any, Nudge]:
        choice, normal = noise
        seeking_noise, own_noise = normal if blueprint.samples else (None, None)
        own = candidate(view, view.net, obs, own_noise)
        seeking = candidate(view, state.policy.net, obs, seeking_noise)
        if settings.mixing == "alternate":
            directed, memory = memory > 0, 1.0 - memory
        else:
            directed = choice < preference(state, view, obs, seeking, own)[0][:, None]
        shift = networks.namespace(obs).where(directed, seeking - own, 0.0) * (1 - warmup)
        return memory, Nudge(view.net, shift=shift, noise=own_noise)

    # Learning.

    def sample(view: View, net: Net, obs: Array, key: Key) -> tuple[Array, Any]:
        """An action of a policy, (n, action), and its log-probability, (n,), 0 if it has none."""
        if not stochastic:
            return view.policy(Nudge(net), obs), 0.0
        noise = random.normal(key, (len(obs), spec.action_size))
        mean, std = view.distribution(Nudge(net), obs)
        assert std is not None
        return squash(mean, std, noise)

    def rewards(view: View, batch: Batch, key: Key) -> Array:
        """r_xᵢ: (sought, n)."""
        action, log_prob = sample(view, view.net, batch.next_obs, key)
        later = view.q(batch.next_obs, action)[:sought]
        if stochastic:
            later -= (view.entropy_weight() * log_prob)[None]
        reward = view.reward_scale * batch.reward[None]
        target = td_target(reward, batch.terminated[None], later, view.gamma)
        return jnp.abs(target - view.q(batch.obs, batch.executed)[:sought])

    def targets(state: State, view: View, batch: Batch, reward: Array, key: Key) -> Array:
        """y_xᵢ: (sought, n)."""
        hp, net = state.hyper, state.policy.net if stochastic else state.target_policy
        action, log_prob = sample(view, net, batch.next_obs, key)
        if not stochastic:
            noise = hp.smoothing * random.normal(key, action.shape)
            noise = jnp.clip(noise, -hp.smoothing_clip, hp.smoothing_clip)
            action = jnp.clip(action + noise, -1.0, 1.0)
        later = values(state.target_critics, view, batch.next_obs, action).min(axis=0)
        if stochastic:
            later -= (jnp.exp(state.policy.log_alpha) * log_prob)[None]
        terminated = batch.terminated[None]
        if settings.target == "sum":
            return td_target(reward, terminated, later, hp.gamma)
        return jnp.where(terminated, reward, jnp.maximum(reward, hp.gamma * later))

    def policy_loss(policy: Policy, state: State, view: View, batch: Batch, key: Key) -> Array:
        action, log_prob = sample(view, policy.net, batch.obs, key)
        loss = -value(state.critics, view, batch.obs, action).mean()
        if not stochastic:
            return loss
        fixed = jax.lax.stop_gradient
        entropy = spec.action_size * state.hyper.target_entropy
        loss += (jnp.exp(fixed(policy.log_alpha)) * log_prob).mean()
        return loss - policy.log_alpha * (fixed(log_prob).mean() + entropy)

    def step(state: State, view: View, batch: Batch, key: Key) -> tuple[State, Array]:
        reward_key, target_key, policy_key = random.split(key, 3)
        reward = rewards(view, batch, reward_key)
        y = jax.lax.stop_gradient(targets(state, view, batch, reward, target_key))

        def loss(critics: Critics) -> tuple[Array, Array]:
            predicted = values(critics, view, batch.obs, batch.executed)
            return ((y[None] - predicted) ** 2).sum(axis=(0, 1)).mean(), predicted

        (error, predicted), gradients = jax.value_and_grad(loss, has_aux=True)(state.critics)
        critics, optimiser = descend(
            view.optimiser, gradients, state.critic_optimiser, state.critics
        )
        state = state._replace(
            critics=critics,
            critic_optimiser=optimiser,
            reward=reward.mean(),
            correlation=correlation(reward[0], predicted[0, 0]),
        )
        if view.actor_moved:
            gradients = jax.grad(policy_loss)(state.policy, state, view, batch, policy_key)
            policy, optimiser = descend(
                view.optimiser, gradients, state.policy_optimiser, state.policy
            )
            state = state._replace(policy=policy, policy_optimiser=optimiser)
        return state, error

    def update_targets(state: State, follow: Follow) -> State:
        state = state._replace(target_critics=follow(state.critics, state.target_critics))
        if stochastic:
            return state
        return state._replace(target_policy=follow(state.policy.net, state.target_policy))

    def report(state: State, view: View, batch: Batch) -> dict[str, Array]:
        """How the two policies compare, both by their mean actions."""
        seeking, own = (
            candidate(view, net, batch.obs, None) for net in (state.policy.net, view.net)
        )
        probability, errors = preference(state, view, batch.obs, seeking, own)
        alpha = {"exploration_temperature": jnp.exp(state.policy.log_alpha)} if stochastic else {}
        return alpha | {
            "directed": (batch.executed != batch.bare).any(axis=-1).mean(),
            "directed_probability": probability.mean(),
            "exploration_value_directed": errors[0].mean(),
            "exploration_value_own": errors[1].mean(),
            "exploration_reward": state.reward,
            "exploration_correlation": state.correlation,
        }

    return Strategy(
        init=init,
        acting=Acting(begin=begin, draw=draw, behave=behave),
        learning=Learning(step=step, update_targets=update_targets, cadence="critic"),
        report=report,
    )
