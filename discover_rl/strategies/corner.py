"""A random corner of the action box, held for a stretch: large actions that persist.

    act:     ã = clip(a + λ c + σ ε), but for warm-up;  ε white or pink                      `noise`
    c:       for each stretch, with probability `share` a corner, uniform in {−1, 1}^a, else 0
    stretch: of geometric length with mean `length`: after each step it ends with probability
             1/length, and the next begins; the first begins with the episode

It learns nothing. What a directed explorer with the same stretches gains over it is owed to the
direction. Two more controls have one stretch per episode: with `lasts` = "episode", c is drawn for
each; with "run", the corner is drawn once, when the run starts, and each episode has it with
probability `share`. Critic targets are the algorithm's own.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from jax import random

from discover_rl.core import networks
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import Array, Key, Nudge, Spec
from discover_rl.strategies import added_noise
from discover_rl.strategies.interface import Acting, Blueprint, Strategy, View


@hyper
class Hyper:
    """Hyper-parameters of held corners."""

    lam: Amplitude = setting(1.0, "λ: how far a corner reaches, in half-ranges.", low=0, high=100)
    sigma: Amplitude = setting(
        0.3, "σ: standard deviation of the noise on top, in half-ranges.", low=0, high=100
    )
    noise: str = setting("white", **added_noise.NOISE)
    length: float = setting(50.0, "Steps of a stretch, on average.", low=1, high=10**9)
    share: float = setting(
        0.5, "Probability that a stretch has a corner; else it has none.", low=0, high=1
    )
    lasts: str = setting(
        "stretch", "How long a corner is held.", choices=("stretch", "episode", "run")
    )


class State(NamedTuple):
    """What a run has; nothing is learned."""

    hyper: Hyper
    corner: Any  # (1, action) the run's, () where a corner does not last that long


class Memory(NamedTuple):
    """What the strategy remembers of a running episode."""

    corner: Array  # (1, action) c
    noise: Any  # of the noise on top


class Noise(NamedTuple):
    """The random numbers of one step."""

    top: Any  # of the noise on top
    following: Any = ()  # (1, action) the corner of the stretch that begins if this one ends
    ends: Any = ()  # (1, 1) uniform: whether this stretch ends
    acts: Any = ()  # (1, 1) uniform: whether the next has a corner


def make(spec: Spec, settings: Hyper, blueprint: Blueprint) -> Strategy:
    """Held corners of this action box; floats come with the state, one value per lane."""
    shape, redraws = (1, spec.action_size), settings.lasts == "stretch"
    top = added_noise.make(settings.noise, spec, blueprint)

    def corner(key: Key) -> Array:
        return random.rademacher(key, shape, float)

    def init(key: Key, hyper: Hyper, view: View) -> State:
        del view
        return State(hyper, corner(key) if settings.lasts == "run" else ())

    def begin(state: State, view: View, key: Key) -> Memory:
        which, acts = random.split(key)
        held = state.corner if settings.lasts == "run" else corner(which)
        held = held * (random.uniform(acts, (1, 1)) < state.hyper.share)
        return Memory(held, top.begin(state.hyper.sigma, view, random.fold_in(key, 1)))

    def draw(key: Key) -> Noise:
        if not redraws:
            return Noise(top.draw(key))
        own, which, ends, acts = random.split(key, 4)
        return Noise(
            top=top.draw(own),
            following=corner(which),
            ends=random.uniform(ends, (1, 1)),
            acts=random.uniform(acts, (1, 1)),
        )

    def behave(
        state: State, memory: Memory, view: View, obs: Array, noise: Noise, warmup: Any
    ) -> tuple[Memory, Nudge]:
        hp, held = state.hyper, memory.corner
        after, added = top.behave(hp.sigma, memory.noise, view, obs, noise.top, warmup)
        shift = hp.lam.at(view.progress) * held * (1 - warmup) + added.shift
        if redraws:
            following = noise.following * (noise.acts < hp.share)
            ended = noise.ends * hp.length < 1.0
            held = networks.namespace(held).where(ended, following, held)
        return Memory(held, after), Nudge(view.net, shift=shift)

    def report(state: State, view: View, batch: Any) -> dict[str, Array]:
        del batch
        hp, progress = state.hyper, view.progress
        return {"lam": hp.lam.at(progress), "sigma": hp.sigma.at(progress)}

    return Strategy(
        init=init,
        acting=Acting(begin=begin, draw=draw, behave=behave),
        report=report,
        inherit=lambda fresh, old: fresh,  # a run has a corner of its own
    )
