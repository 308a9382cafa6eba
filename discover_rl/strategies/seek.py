"""Seek: an explorer that goes to where the critic errs, by an optimistic value of TD errors.

DISCOVER's explorer takes the largest error of its present state, at an action that it moves while
the target stays. In tables (docs/theory.md) that is no better than random actions; what is fast
is a value of what lies ahead together with optimism about what was never tried. With a = π(s) the
bare action and ã the executed one:

    error:     e = |y − Q(s, ã)|, the algorithm's own y, mean over its critics
    novelty:   n = the error of random network distillation at (s, ã)
    reward:    r_x = max(w_e ê, w_n n̂), ê and n̂ divided by their running means, at most c; the mean
               of errors counts as `floor` where it is smaller
    target:    y_x = max(r_x, γ_x Q′_x(s′, ã′_x)), or the sum; r_x at terminations         `target`
               ã′_x = clip(π(s′) + λ tanh z′(s′))
    critics:   descend Σⱼ (y_x − Q_xⱼ(s, ã))²
    explorer:  whenever the actor moves, ascend Q_x(s, clip(π(s) + λ tanh z(s))) − p |z(s)|², with
               Q_x's gradient as if the clip were not there, or z could not come back from outside
    act:       ã = clip(a + λ tanh z(s) + σ ε) in directed stretches, clip(a + σ ε) in others, ε
               white or pink; a stretch is directed with probability `share`       `mixing`, `noise`
    targets:   Q′_x and z′ follow by the algorithm's own rule, `speed` times as fast

What is untried has no error yet, so optimism has to come from elsewhere:

    w_n > 0                  what is new is as good as an error
    `optimism` = "prior"     each Q_xⱼ has a fixed random network added, and z ascends the largest
    `optimism` = "high"      Q_x starts at the largest reward, with layer normalisation
    `optimism` = "none"      z ascends the smallest Q_x, and targets have the smallest Q′_x

w_e = 0 leaves a value of novelty alone, w_n = 0 one of errors. The algorithm's targets and losses
are its own. Policies that sample have no noise on top.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import random

from discover_rl.core import networks
from discover_rl.core.equations import correlation, descend, largest, least, polyak
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import Array, Batch, Key, Net, Nudge, Spec
from discover_rl.strategies import added_noise, distillation
from discover_rl.strategies.distillation import Distillation
from discover_rl.strategies.hooks import Follow
from discover_rl.strategies.interface import Acting, Blueprint, Learning, Strategy, View

OUTPUTS = 64
"""Outputs of the networks whose difference is novelty."""
FORGET = 1e-2
"""Running means forget at this rate, after 1 / FORGET updates: slower ones lag behind."""
SATURATED = 0.99
"""A direction is saturated from this size on."""


@hyper
class Hyper:
    """Hyper-parameters of seeking."""

    error_weight: float = setting(
        1.0, "w_e: of TD errors; 0: novelty alone.", low=0, high=1_000_000
    )
    novelty_weight: float = setting(1.0, "w_n: of novelty; 0: errors alone.", low=0, high=1_000_000)
    cap: float = setting(10.0, "c: largest error and novelty, in means.", above=0, high=10**9)
    floor: float = setting(
        0.0, "Smallest mean that errors are divided by.", low=0, high=10**9, omit_default=True
    )
    gamma: float = setting(0.99, "γ_x: discount of what lies ahead.", low=0, high=1)
    speed: float = setting(
        1.0, "How many times as fast Q′_x and z′ follow.", low=0, high=1_000, omit_default=True
    )
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
        0.3, "σ of the noise on top, where the policy has none.", low=0, high=100, unless="samples"
    )
    noise: str = setting("white", **added_noise.NOISE)
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


class Memory(NamedTuple):
    """What the strategy remembers of a running episode."""

    directed: Any  # (1, 1) 1 if this stretch is directed; () without stretches
    noise: Any  # of the noise on top


class Noise(NamedTuple):
    """The random numbers of one step."""

    top: Any  # of the noise on top; () where the policy samples
    choice: Array  # (1, 1) uniform: whether this stretch ends, or who acts
    directed: Array  # (1, 1) uniform: whether the next one is directed


def make(spec: Spec, settings: Hyper, blueprint: Blueprint) -> Strategy:
    """Seeking on tasks with these spaces; floats come with the state, one value per lane."""
    size, stretches = spec.observation_size + spec.action_size, settings.mixing == "stretches"
    top = added_noise.make(settings.noise, spec, blueprint)

    def init(key: Key, hyper: Hyper, view: View) -> State:
        critic_key, prior_key, explorer_key, novelty_key = random.split(key, 4)

        def critics(key: Key) -> Net:
            def one(own: Key) -> Net:
                return networks.init(own, size, blueprint.hidden, 1, settings.optimism == "high")

            return jax.vmap(one)(random.split(key, settings.ensemble))

        nets = critics(critic_key)
        if settings.optimism == "high":
            start = hyper.cap * jnp.maximum(hyper.error_weight, hyper.novelty_weight)
            if settings.target == "sum":
                start = start / jnp.maximum(1.0 - hyper.gamma, 1e-3)
            bias = jnp.ones_like(nets["head"]["bias"]) * start
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

    def begin(state: State, view: View, key: Key) -> Memory:
        directed = 1.0 * (random.uniform(key, (1, 1)) < state.hyper.share) if stretches else ()
        own = random.fold_in(key, 1)
        held = () if blueprint.samples else top.begin(state.hyper.sigma, view, own)
        return Memory(directed, held)

    def draw(key: Key) -> Noise:
        own, choice, directed = random.split(key, 3)
        return Noise(
            top=() if blueprint.samples else top.draw(own),
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
        state: State, memory: Memory, view: View, obs: Array, noise: Noise, warmup: Any
    ) -> tuple[Memory, Nudge]:
        hp, xp, (directed, held) = state.hyper, networks.namespace(obs), memory
        shift = direction(state, state.online.explorer, view, obs)
        if stretches:
            shift = shift * directed
            ended = noise.choice * hp.length < 1.0
            directed = xp.where(ended, 1.0 * (noise.directed < hp.share), directed)
        else:
            shift = xp.where(noise.choice < preferred(state, view, obs, shift), shift, 0.0)
        shift = shift * (1 - warmup)
        if not blueprint.samples:
            held, added = top.behave(hp.sigma, held, view, obs, noise.top, warmup)
            shift = shift + added.shift
        return Memory(directed, held), Nudge(view.net, shift=shift)

    # Learning.

    def rewards(hp: Hyper, scales: Array, error: Array, novelty: Array) -> Array:
        """r_x: (1, n)."""
        weights = jnp.stack([hp.error_weight, hp.novelty_weight])[:, None]
        scales = jnp.maximum(scales, 1e-12).at[0].max(hp.floor)
        each = jnp.stack([error, novelty]) / scales[:, None]
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
        hp, optimiser, online = state.hyper, view.optimiser, state.online
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
        (loss, predicted), gradients = descent(online.critics)
        critics, moments = descend(optimiser, gradients, state.critic_optimiser, online.critics)
        state = state._replace(
            online=Networks(critics, online.explorer),
            critic_optimiser=moments,
            novelty=novelty,
            updates=updates,
            scales=scales,
            correlation=correlation(reward[0], predicted),
        )
        if not view.actor_moved:
            return state, loss

        own = view.policy(Nudge(view.net), batch.obs)

        def explorer_loss(net: Net) -> Array:
            z = blueprint.apply(net, batch.obs)
            action = own + hp.lam.at(view.progress) * jnp.tanh(z)
            outside = jax.lax.stop_gradient(action - jnp.clip(action, -1.0, 1.0))
            sought = value(state, critics, batch.obs, action - outside)
            return (hp.penalty * (z**2).sum(axis=-1) - sought).mean()

        gradients = jax.grad(explorer_loss)(online.explorer)
        net, moments = descend(optimiser, gradients, state.explorer_optimiser, online.explorer)
        state = state._replace(online=Networks(critics, net), explorer_optimiser=moments)
        return state, loss

    def update_targets(state: State, follow: Follow) -> State:
        tau = jnp.minimum(state.hyper.speed * follow(1.0, 0.0), 1.0)
        return state._replace(target=polyak(state.online, state.target, tau))

    def was_directed(state: State, view: View, batch: Batch, unit: Array) -> Array:
        """Whether actions seem directed, (n,): beyond 3 σ, or nearer to where z points now."""
        noise = 0.0 if blueprint.samples else 3.0 * state.hyper.sigma.at(view.progress)
        far = (jnp.abs(batch.executed - batch.bare) > noise + 1e-6).any(axis=-1)
        sought = jnp.clip(batch.bare + state.hyper.lam.at(view.progress) * unit, -1.0, 1.0)
        nearer = jnp.square(batch.executed - sought) - jnp.square(batch.executed - batch.bare)
        return far | (nearer.sum(axis=-1) < 0.0)

    def report(state: State, view: View, batch: Batch) -> dict[str, Array]:
        unit = jnp.tanh(blueprint.apply(state.online.explorer, batch.obs))
        directed = was_directed(state, view, batch, unit)
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
