"""DISCOVER: an explorer network directs the agent to where its critic errs most.

ξ is the explorer, ω its parameters, η = λ ξ(s) the exploration direction in state s. The explorer
has the actor's architecture, optimiser and learning rate, and ends in tanh. It learns to make the
critic's squared TD error large. The function that does each line is named at its end.

On-policy (Algorithm 1 of the paper), η is appended to the observation:

    init:     ω                                                                              `init`
    act:      η = λ ξ(s); a ~ π(· | s, η); store (s, a, η, r, s′)                          `behave`
    target:   R̂ bootstraps from V(s′, λ ξ(s′))                                             `expect`
    for every minibatch:
              ascend (R̂ − V(s, λ ξ(s)))² in ω alone, with R̂ constant                         `step`
              then update policy and value at the stored η                        (the algorithm)
    evaluate: η = 0

Off-policy (Algorithm 2), η is added to the action a that the algorithm chooses:

    init:     ω, and the target explorer ω′ ← ω                                              `init`
    act:      ã = clip(a + λ ξ(s)), during warm-up too; store (s, a, ã, r, s′)             `behave`
    for every update of the critics:
              ã′ = clip(a′ + λ ξ′(s′)) in their target y, in place of smoothing noise      `expect`
    for every update of the actor, after it:
              ascend (y − Q(s, a + λ ξ(s)))² in ω alone, with y constant and a as stored     `step`
    for every update of the targets:
              ω′ ← τ ω + (1 − τ) ω′                                                `update_targets`
    evaluate: η = 0
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from discover_rl.core import networks
from discover_rl.core.equations import descend
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import Array, Batch, Key, Net, Nudge, Role, Spec, UserError
from discover_rl.strategies.hooks import Follow
from discover_rl.strategies.interface import (
    Acting,
    Blueprint,
    Learning,
    NetworkSpec,
    Strategy,
    View,
)


@hyper
class Hyper:
    """Hyper-parameters of DISCOVER; the switches are the paper's ablations."""

    lam: Amplitude = setting(
        0.3, "λ: how far the direction reaches, in half-ranges.", low=0, high=100
    )
    delayed: bool = setting(True, "Step with the actor (off: with every critic step; 'no DPU').")
    target_network: bool = setting(True, "Use a target explorer in the target (off: 'no TN').")
    target_smoothing: bool = setting(True, "Direct the target action too (off: 'no TSR').")
    acts: bool = setting(True, "Direct what is executed (off: only targets, as the authors' code).")
    subtracts: bool = setting(
        False, "Take λ ξ′(s′) off the action in the explorer's loss, as the authors' code."
    )


class State(NamedTuple):
    """What a run learns."""

    hyper: Hyper
    explorer: Net  # ω
    target: Net  # ω′
    optimiser: Any  # of ω


def make(spec: Spec, settings: Hyper, blueprint: Blueprint) -> Strategy:
    """Make DISCOVER for tasks with these spaces; λ is part of the state, one value per lane."""
    on_policy = blueprint.on_policy
    size = spec.observation_size if on_policy else spec.action_size
    if on_policy and (settings.subtracts or not settings.delayed or not settings.target_network):
        raise UserError(
            "strategy.subtracts, strategy.delayed and strategy.target_network are for off-policy "
            "algorithms, whose directions are added to actions."
        )

    def direction(explorer: Net, obs: Array) -> Array:
        """ξ(s) ∈ (−1, 1); (n, observation) → (n, action), or (n, observation) on-policy."""
        return networks.tanh(blueprint.apply(explorer, obs))

    def directed(explorer: Net, state: State, view: View, obs: Array) -> Nudge:
        """The nudge by η = λ ξ(s): on-policy beside the observation, off-policy on the action."""
        scaled = state.hyper.lam.at(view.progress) * direction(explorer, obs)
        return Nudge(view.net, context=scaled) if on_policy else Nudge(view.net, shift=scaled)

    def undirected(view: View, obs: Array) -> Nudge:
        """The nudge by η = 0: on-policy zeros beside the observation, off-policy nothing."""
        return Nudge(view.net, context=0.0 * obs) if on_policy else Nudge(view.net)

    def init(key: Key, hyper: Hyper, view: View) -> State:
        """A random explorer ω and its target ω′ ← ω."""
        explorer = blueprint.init(key, size)
        return State(hyper, explorer, explorer, view.optimiser.init(explorer))

    def behave(
        state: State, memory: Any, view: View, obs: Array, noise: Any, warmup: Any
    ) -> tuple[Any, Nudge]:
        """Act in the direction λ ξ(s), during warm-up too."""
        del noise, warmup
        if not settings.acts:
            return memory, undirected(view, obs)
        return memory, directed(state.explorer, state, view, obs)

    def expect(state: State, view: View, obs: Array, key: Key, role: Role) -> Nudge:
        """Direct the action at s′ in the critics' target; the actor's loss has no direction."""
        del key
        if role == "target" and settings.target_smoothing:
            follows = settings.target_network and not on_policy
            return directed(state.target if follows else state.explorer, state, view, obs)
        return undirected(view, obs)

    def step(state: State, view: View, batch: Batch, key: Key) -> tuple[State, Array]:
        """One update of ω by gradient ascent on the squared TD error in the directions λ ξ(s)."""
        del key

        def loss(explorer: Net) -> Array:
            nudge = directed(explorer, state, view, batch.obs)
            if settings.subtracts:
                taken_off = directed(state.target, state, view, batch.next_obs)
                nudge = nudge._replace(shift=nudge.shift - taken_off.shift)
            return -view.error(nudge, batch).mean()

        value, gradients = jax.value_and_grad(loss)(state.explorer)
        explorer, optimiser = descend(view.optimiser, gradients, state.optimiser, state.explorer)
        return state._replace(explorer=explorer, optimiser=optimiser), value

    def update_targets(state: State, follow: Follow) -> State:
        """Let ω′ follow ω by the algorithm's own rule."""
        return state._replace(target=follow(state.explorer, state.target))

    def report(state: State, view: View, batch: Batch) -> dict[str, Array]:
        """Diagnostics: the explorer tends to saturate and to act as a constant bias."""
        xi = direction(state.explorer, batch.obs)
        nudge = directed(state.explorer, state, view, batch.obs)
        return {
            "saturation": (jnp.abs(xi) > 0.95).mean(),  # share of |ξ| near its bound
            "direction_spread": xi.std(axis=0).mean(),  # how much ξ depends on the state
            "error_bare": view.error(undirected(view, batch.obs), batch).mean(),
            "error_directed": view.error(nudge, batch).mean(),
        }

    return Strategy(
        init=init,
        acting=Acting(behave=behave),
        learning=Learning(
            expect=expect,
            step=step,
            update_targets=update_targets,
            cadence="actor" if settings.delayed else "critic",
            replaces_smoothing=True,
        ),
        network=NetworkSpec(context_size=size if on_policy else 0),
        report=report,
    )
