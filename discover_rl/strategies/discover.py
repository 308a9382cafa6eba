"""DISCOVER: an explorer network directs the agent to where its critic errs most.

On-policy (Algorithm 1 of the paper), the direction stands beside the observation:

    act:     a ~ π(· | s, η), η = λ ξ(s), kept with the transition
    target:  R̂ bootstraps from V(s′, λ ξ(s′))
    learn:   at every minibatch, before policy and value, which step at the kept η,
             ascend (R̂ − V(s, λ ξ(s)))² in ω alone, R̂ held constant
    evaluate: η = 0

Off-policy (Algorithm 2), it is added to the action:

    act:     ã = clip(a + λ ξ(s)), in warm-up too
    target:  ã′ = clip(a′ + λ ξ′(s′)), in place of the algorithm's own smoothing
    learn:   whenever the actor does, after it, ascend (y − Q(s, a + λ ξ(s)))² in ω alone,
             a the stored bare action, y held constant
    track:   ω′ follows ω by the algorithm's own target rule
    evaluate: no direction

ξ has the actor's architecture, optimiser and learning rate, and ends in tanh.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from discover_rl import networks
from discover_rl.hyper import hyper, setting
from discover_rl.interfaces import Blueprint, Strategy, View
from discover_rl.types import Array, Batch, Net, Nudge, Role, Spec, UserError


@hyper
class Hyper:
    lam: float = setting(0.3, "λ: how far the direction reaches, in half-ranges.", low=0)
    delayed: bool = setting(True, "Step with the actor (off: with every critic step; 'no DPU').")
    target_network: bool = setting(True, "Use a target explorer in the target (off: 'no TN').")
    target_smoothing: bool = setting(True, "Direct the target action too (off: 'no TSR').")
    acts: bool = setting(True, "Direct what is executed (off: only targets, as the authors' code).")
    subtracts: bool = setting(
        False, "Take λ ξ′(s′) off the action in the explorer's loss, as the authors' code."
    )


class State(NamedTuple):
    hyper: Hyper
    explorer: Net  # ω
    target: Net  # ω′
    optimiser: Any


def make(spec: Spec, hp: Hyper, blueprint: Blueprint) -> Strategy:
    settings = hp  # of which only the statics are used: the floats come in with the state
    beside = blueprint.on_policy
    size = spec.observation_size if beside else spec.action_size
    if beside and (settings.subtracts or not settings.delayed or not settings.target_network):
        raise UserError(
            "strategy.subtracts, strategy.delayed and strategy.target_network are for directions "
            "of actions; here they are of observations."
        )

    def direction(explorer: Net, obs: Array) -> Array:
        """ξ(s) ∈ (−1, 1); (n, observation) → (n, action), or (n, observation) on-policy."""
        return networks.tanh(blueprint.apply(explorer, obs))

    def towards(explorer: Net, state: State, view: View, obs: Array) -> Nudge:
        scaled = state.hyper.lam * direction(explorer, obs)
        net = view.params["net"]
        return Nudge(net, context=scaled) if beside else Nudge(net, shift=scaled)

    def nowhere(view: View, obs: Array) -> Nudge:
        """No direction; where one is appended, zeros."""
        net = view.params["net"]
        return Nudge(net, context=0.0 * obs) if beside else Nudge(net)

    def init(key: Any, hp: Hyper, view: View) -> State:
        explorer = blueprint.init(key, size)
        return State(hp, explorer, explorer, view.optimiser.init(explorer))

    def behave(
        state: State, memory: Any, view: View, obs: Array, noise: Any, warmup: Any
    ) -> tuple[Any, Nudge]:
        del noise, warmup
        if not settings.acts:
            return memory, nowhere(view, obs)
        return memory, towards(state.explorer, state, view, obs)

    def expect(state: State, view: View, obs: Array, key: Any, role: Role) -> Nudge:
        del key
        if role == "target" and settings.target_smoothing:
            follows = settings.target_network and not beside
            explorer = state.target if follows else state.explorer
            return towards(explorer, state, view, obs)
        return nowhere(view, obs)

    def learn(state: State, view: View, batch: Batch, key: Any) -> tuple[State, Array]:
        del key

        def loss(explorer: Net) -> Array:
            nudge = towards(explorer, state, view, batch.obs)
            if settings.subtracts:
                overwritten = towards(state.target, state, view, batch.next_obs)
                nudge = nudge._replace(shift=nudge.shift - overwritten.shift)
            return -view.error(nudge, batch).mean()

        value, gradients = jax.value_and_grad(loss)(state.explorer)
        updates, optimiser = view.optimiser.update(gradients, state.optimiser, state.explorer)
        explorer = optax.apply_updates(state.explorer, updates)
        return state._replace(explorer=explorer, optimiser=optimiser), value

    def track(state: State, follow: Any) -> State:
        return state._replace(target=follow(state.explorer, state.target))

    def report(state: State, view: View, batch: Batch) -> dict[str, Array]:
        """How the explorer fares; it tends to saturate and act as a constant bias, so show it."""
        xi = direction(state.explorer, batch.obs)
        nudge = towards(state.explorer, state, view, batch.obs)
        return {
            "saturation": (jnp.abs(xi) > 0.95).mean(),  # share of |ξ| near its bound
            "direction_spread": xi.std(axis=0).mean(),  # how much ξ depends on the state
            "error_bare": view.error(nowhere(view, batch.obs), batch).mean(),
            "error_directed": view.error(nudge, batch).mean(),
        }

    return Strategy(
        init=init,
        behave=behave,
        expect=expect,
        learn=learn,
        track=track,
        report=report,
        cadence="actor" if settings.delayed else "critic",
        smooths=True,
        context_size=size if beside else 0,
    )
