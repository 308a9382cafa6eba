"""Seek: an explorer that goes to where the critic errs, by an optimistic value of TD errors.

DISCOVER's explorer takes the largest error of its present state, at an action that it moves while
the target stays. In tables that is no better than random actions (docs/theory.md). What makes
exploration fast there is a value of what lies ahead together with optimism about what was never
tried. With a = π(s) the bare action and ã the executed one:

    error:     e = |y − Q(s, ã)|, the algorithm's own y, mean over its critics
    novelty:   n = the error of random network distillation at (s, ã)
    reward:    r_x = max(w_e ê, w_n n̂), ê and n̂ divided by their running means, at most c
    target:    y_x = max(r_x, γ_x Q′_x(s′, ã′_x)), or the sum; r_x at terminations         `target`
               ã′_x = clip(π(s′) + λ tanh z′(s′))
    critics:   descend Σⱼ (y_x − Q_xⱼ(s, ã))²
    explorer:  whenever the actor moves, ascend Q_x(s, clip(π(s) + λ tanh z(s))) − p |z(s)|²
    act:       ã = clip(a + λ tanh z(s) + σ ε) in directed stretches, clip(a + σ ε) in others, with
               ε ~ N(0, I); a stretch is directed with probability `share`                  `mixing`
    targets:   Q′_x and z′ follow by the algorithm's own rule

What is untried has no error yet, so optimism has to come from elsewhere:

    w_n > 0                  what is new is as good as an error
    `optimism` = "prior"     each Q_xⱼ has a fixed random network added, and z ascends the largest
    `optimism` = "high"      Q_x starts at the largest reward, with layer normalisation
    `optimism` = "none"      z ascends the smallest Q_x, and targets have the smallest Q′_x

w_e = 0 leaves a value of novelty alone, w_n = 0 a value of errors alone. The algorithm's targets
and losses are its own: no direction is in them. Policies that sample have no white noise on top.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from discover_rl.core import distillation, networks
from discover_rl.core.distillation import Distillation
from discover_rl.core.equations import correlation, descend, largest, least
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import Array, Batch, Key, Net, Nudge, Spec
from discover_rl.strategies.interface import Acting, Blueprint, Learning, Strategy, View

OUTPUTS = 64
"""Outputs of the networks whose difference is novelty."""
FORGET = 1e-3
"""Running means forget at this rate, once they have seen 1 / FORGET updates."""
SATURATED = 0.99
"""A direction is saturated from this size on."""


@hyper
class Hyper:
    """Hyper-parameters of seeking."""

    error_weight: float = setting(
        1.0, "w_e: of TD errors; 0: novelty alone.", low=0, high=1_000_000
    )
    novelty_weight: float = setting(1.0, "w_n: of novelty; 0: errors alone.", low=0, high=1_000_000)
    cap: float = setting(
        10.0, "c: largest error and novelty, in running means.", above=0, high=10**9
    )
    gamma: float = setting(0.99, "γ_x: discount of what lies ahead.", low=0, high=1)
    target: str = setting(
        "max", "Q_x is of the largest reward ahead, or of their sum.", choices=("max", "sum")
    )
    optimism: str = setting("none", "Optimism beside novelty.", choices=("none", "prior", "high"))
    prior: float = setting(
        1.0, "Factor on the random networks of optimism=prior.", low=0, high=1_000_000
    )
    ensemble: int = setting(2, "How many Q_x there are.", low=1, high=16)
    lam: Amplitude = setting(
        1.0, "λ: how far a direction reaches, in half-ranges.", low=0, high=100
    )
    penalty: float = setting(
        1e-3, "p: on squared pre-activations of the explorer.", low=0, high=1_000_000
    )
    sigma: Amplitude = setting(
        0.3, "σ of white noise on top, if the policy has no noise of its own.", low=0, high=100
    )
    mixing: str = setting(
        "stretches",
        "When directions act: in stretches, or chosen by advantage at every step.",
        choices=("stretches", "advantage"),
    )
    share: float = setting(0.5, "Probability that a stretch is directed.", low=0, high=1)
    length: float = setting(50.0, "Steps of a stretch, on average.", low=1, high=10**9)
    temperature: float = setting(
        1.0, "mixing=advantage: how little advantages decide.", above=0, high=10**9
    )


class Networks(NamedTuple):
    """What is learned by gradients, or its targets."""

    critics: Net  # Q_x, (ensemble, …)
    explorer: Net  # z


class State(NamedTuple):
    """What a run learns."""

    hyper: Hyper
    online: Networks
    target: Networks
    prior: Any  # as the critics, () without
    critic_optimiser: Any
    explorer_optimiser: Any
    novelty: Distillation
    updates: Array  # ()
    scales: Array  # (2,) running means of error and novelty
    correlation: Array  # () between r_x and Q_x at the last update


class Noise(NamedTuple):
    """The random numbers of one step."""

    white: Any  # (1, action) ε; () where the policy samples
    choice: Array  # (1, 1) uniform: whether this stretch ends, or who acts
    directed: Array  # (1, 1) uniform: whether the next one is directed


def make(spec: Spec, settings: Hyper, blueprint: Blueprint) -> Strategy:
    """Seeking on tasks with these spaces; floats come with the state, one value per lane."""
    shape, size = (1, spec.action_size), spec.observation_size + spec.action_size
    stretches = settings.mixing == "stretches"

    def init(key: Key, hyper: Hyper, view: View) -> State:
        critic_key, prior_key, explorer_key, novelty_key = random.split(key, 4)

        def critics(key: Key) -> Net:
            def one(own: Key) -> Net:
                normalise = settings.optimism == "high"
                return networks.init(own, size, blueprint.hidden, 1, layer_norm=normalise)

            return jax.vmap(one)(random.split(key, settings.ensemble))

        nets = critics(critic_key)
        if settings.optimism == "high":
            largest = hyper.cap * jnp.maximum(hyper.error_weight, hyper.novelty_weight)
            if settings.target == "sum":
                largest = largest / jnp.maximum(1.0 - hyper.gamma, 1e-3)
            bias = jnp.full_like(nets["head"]["bias"], 1.0) * largest
            nets = {**nets, "head": {**nets["head"], "bias": bias}}
        online = Networks(nets, blueprint.init(explorer_key, spec.action_size))
        return State(
            hyper=hyper,
            online=online,
            target=online,
            prior=critics(prior_key) if settings.optimism == "prior" else (),
            critic_optimiser=view.optimiser.init(online.critics),
            explorer_optimiser=view.optimiser.init(online.explorer),
            novelty=distillation.init(novelty_key, size, blueprint.hidden, OUTPUTS, view.optimiser),
            updates=jnp.zeros(()),
            scales=jnp.ones(2),
            correlation=jnp.zeros(()),
        )

    # What the networks say, for NumPy and JAX alike.

    def values(state: State, critics: Net, obs: Array, action: Array) -> Array:
        """Q_xⱼ(s, a): (ensemble, n)."""
        q = networks.q_value(critics, obs, action)
        if settings.optimism != "prior":
            return q
        return q + state.hyper.prior * networks.q_value(state.prior, obs, action)

    def value(state: State, critics: Net, obs: Array, action: Array) -> Array:
        """What the explorer ascends: (n,)."""
        q = values(state, critics, obs, action)
        return largest(q) if settings.optimism == "prior" else least(q)

    def direction(state: State, net: Net, view: View, obs: Array) -> Array:
        """λ tanh z(s): (n, action)."""
        return state.hyper.lam.at(view.progress) * networks.tanh(blueprint.apply(net, obs))

    def moved(view: View, obs: Array, by: Array) -> Array:
        """The policy's mean action, moved and clipped: (n, action)."""
        action = view.policy(Nudge(view.net), obs) + by
        return networks.namespace(action).clip(action, -1.0, 1.0)

    # Acting.

    def begin(state: State, view: View, key: Key) -> Any:
        """Whether the first stretch is directed, (1, 1)."""
        del view
        return 1.0 * (random.uniform(key, (1, 1)) < state.hyper.share) if stretches else ()

    def draw(key: Key) -> Noise:
        white, choice, directed = random.split(key, 3)
        return Noise(
            white=() if blueprint.samples else random.normal(white, shape),
            choice=random.uniform(choice, (1, 1)),
            directed=random.uniform(directed, (1, 1)),
        )

    def preferred(state: State, view: View, obs: Array, by: Array) -> Array:
        """The probability of acting by the direction, (n, 1): a softmax over two advantages, that
        of the direction in Q_x and that of the policy in Q."""
        own, sought = moved(view, obs, 0.0 * by), moved(view, obs, by)
        gain = value(state, state.online.critics, obs, sought)
        gain = gain - value(state, state.online.critics, obs, own)
        loss = view.q(obs, own).min(axis=0) - view.q(obs, sought).min(axis=0)
        # The softmax of two numbers, in a form that cannot overflow.
        ahead = networks.tanh(0.5 * (gain - loss) / state.hyper.temperature)
        return (0.5 + 0.5 * ahead)[:, None]

    def behave(
        state: State, memory: Any, view: View, obs: Array, noise: Noise, warmup: Any
    ) -> tuple[Any, Nudge]:
        hp, xp = state.hyper, networks.namespace(obs)
        shift = direction(state, state.online.explorer, view, obs)
        if stretches:
            shift = shift * memory
            ended = noise.choice * hp.length < 1.0
            memory = xp.where(ended, 1.0 * (noise.directed < hp.share), memory)
        else:
            shift = xp.where(noise.choice < preferred(state, view, obs, shift), shift, 0.0)
        if not blueprint.samples:
            shift = shift + hp.sigma.at(view.progress) * noise.white
        return memory, Nudge(view.net, shift=shift * (1 - warmup))

    # Learning.

    def rewards(hp: Hyper, scales: Array, error: Array, novelty: Array) -> Array:
        """r_x: (1, n)."""
        weights = jnp.stack([hp.error_weight, hp.novelty_weight])[:, None]
        each = jnp.stack([error, novelty]) / jnp.maximum(scales, 1e-12)[:, None]
        return (weights * jnp.minimum(each, hp.cap)).max(axis=0, keepdims=True)

    def targets(state: State, view: View, batch: Batch, reward: Array) -> Array:
        """y_x: (ensemble, n), or (1, n) where all members share one."""
        by = direction(state, state.target.explorer, view, batch.next_obs)
        later = moved(view, batch.next_obs, by)
        ahead = values(state, state.target.critics, batch.next_obs, later)
        if settings.optimism != "prior":
            ahead = ahead.min(axis=0, keepdims=True)
        ahead = state.hyper.gamma * jnp.where(batch.terminated[None], 0.0, ahead)
        return reward + ahead if settings.target == "sum" else jnp.maximum(reward, ahead)

    def step(state: State, view: View, batch: Batch, key: Key) -> tuple[State, Array]:
        del key
        hp, optimiser = state.hyper, view.optimiser
        pairs = jnp.concat([batch.obs, batch.executed], axis=-1)
        novelty, new = distillation.fit(state.novelty, pairs, optimiser)
        error, updates = view.td_error(batch), state.updates + 1.0
        means = jnp.stack([error.mean(), new.mean()])
        scales = state.scales + jnp.maximum(1.0 / updates, FORGET) * (means - state.scales)
        reward = rewards(hp, scales, error, new)
        y = jax.lax.stop_gradient(targets(state, view, batch, reward))

        def critic_loss(critics: Net) -> tuple[Array, Array]:
            q = values(state, critics, batch.obs, batch.executed)
            return ((y - q) ** 2).sum(axis=0).mean(), q[0]

        descent = jax.value_and_grad(critic_loss, has_aux=True)
        (loss, predicted), gradients = descent(state.online.critics)
        critics, critic_optimiser = descend(
            optimiser, gradients, state.critic_optimiser, state.online.critics
        )
        online = state.online._replace(critics=critics)
        state = state._replace(
            online=online,
            critic_optimiser=critic_optimiser,
            novelty=novelty,
            updates=updates,
            scales=scales,
            correlation=correlation(reward[0], predicted),
        )
        if not view.actor_moved:
            return state, loss

        def explorer_loss(net: Net) -> Array:
            z = blueprint.apply(net, batch.obs)
            by = hp.lam.at(view.progress) * jnp.tanh(z)
            sought = value(state, critics, batch.obs, moved(view, batch.obs, by))
            return (hp.penalty * (z**2).sum(axis=-1) - sought).mean()

        explorer, explorer_optimiser = descend(
            optimiser,
            jax.grad(explorer_loss)(online.explorer),
            state.explorer_optimiser,
            online.explorer,
        )
        online = online._replace(explorer=explorer)
        return state._replace(online=online, explorer_optimiser=explorer_optimiser), loss

    def update_targets(state: State, follow: Callable[[Any, Any], Any]) -> State:
        return state._replace(target=follow(state.online, state.target))

    def report(state: State, view: View, batch: Batch) -> dict[str, Array]:
        """`directed` is told from what was executed: further from the bare action than white noise
        goes but for three actions in a thousand."""
        unit = jnp.tanh(blueprint.apply(state.online.explorer, batch.obs))
        noise = 0.0 if blueprint.samples else 3.0 * state.hyper.sigma.at(view.progress)
        directed = (jnp.abs(batch.executed - batch.bare) > noise + 1e-6).any(axis=-1)
        pairs = jnp.concat([batch.obs, batch.executed], axis=-1)
        error, novelty = view.td_error(batch), distillation.errors(state.novelty, pairs)
        q = value(state, state.online.critics, batch.obs, batch.executed)

        def mean_of(which: Array) -> Array:
            return (error * which).sum() / jnp.maximum(which.sum(), 1.0)

        return {
            "saturation": (jnp.abs(unit) > SATURATED).mean(),
            "spread": unit.std(axis=0).mean(),
            "exploration_reward": rewards(state.hyper, state.scales, error, novelty).mean(),
            "exploration_value": q.mean(),
            "exploration_correlation": state.correlation,
            "novelty": novelty.mean(),
            "directed": directed.mean(),
            "directed_error": mean_of(directed),
            "bare_error": mean_of(~directed),
        }

    return Strategy(
        init=init,
        acting=Acting(begin=begin, draw=draw, behave=behave),
        learning=Learning(step=step, update_targets=update_targets, cadence="critic"),
        report=report,
    )
