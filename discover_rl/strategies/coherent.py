"""Deep coherent exploration: the last layer's weights wander slowly (Zhang and Van Hoof, 2021).

    process: w = μ + S z;  z ← (1 − β) z + √(2β − β²) ξ,  ξ ~ N(0, I);  z ~ N(0, I) at a start
    act:     with the last layer's weights w, biases among them
    learn:   where the policy has a density, with w integrated out, one step at a time:
             the mean by μ, and Σᵢ Sᵢ² xᵢ² more variance, x the last layer's inputs and 1
             where it has none, with μ
    evaluate: w = μ

z has variance 1 at every step, so β sets how long a deviation lasts and S how large it is. S is
learned with the actor, through the density; without one it stays.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import random

from discover_rl import networks
from discover_rl.hyper import hyper, setting
from discover_rl.types import Array, Blueprint, Net, Nudge, Role, Spec, Strategy, View

TINY = 1e-20


@hyper
class Hyper:
    sigma: float = setting(0.017, "Where S starts.", low=0)
    beta: float = setting(
        0.01, "β: 0, one draw per episode; 1, a new one at every step.", low=0, high=1
    )
    detach: bool = setting(False, "Keep the density's extra variance from moving hidden layers.")


def make(spec: Spec, hp: Hyper, blueprint: Blueprint) -> Strategy:
    settings = hp  # of which only the statics are used: the floats come in with the state
    whole = jax.eval_shape(lambda key: blueprint.init(key, blueprint.outputs), random.key(0))
    inputs, outputs = whole["head"]["weight"].shape[0], spec.action_size

    def init(key: Any, hp: Hyper, view: View) -> Hyper:
        del key, view
        return hp

    def joint(key: Any, hp: Hyper, net: Net) -> dict[str, Array]:
        """log S, the biases' in the last row."""
        del key, net
        return {"log_s": jnp.full((inputs + 1, outputs), jnp.log(jnp.maximum(hp.sigma, TINY)))}

    def draw(key: Any) -> Array:
        return random.normal(key, (inputs + 1, outputs))

    def begin(hp: Hyper, view: View, key: Any) -> Array:
        del hp, view
        return draw(key)

    def behave(
        hp: Hyper, z: Array, view: View, obs: Array, noise: Array, warmup: Any
    ) -> tuple[Array, Nudge]:
        del obs, warmup
        z = (1.0 - hp.beta) * z + (2.0 * hp.beta - hp.beta**2) ** 0.5 * noise
        return z, Nudge(wandered(view, z))

    def wandered(view: View, z: Array) -> Net:
        net, xp = view.params["net"], networks.namespace(z)
        moved = xp.exp(view.params["joint"]["log_s"]) * z
        # The first outputs are the mean's; what else the head gives stays as it is.
        head = net["head"]
        rest = head["bias"].shape[-1] - outputs
        if rest:
            moved = xp.concat([moved, xp.zeros((inputs + 1, rest), moved.dtype)], axis=-1)
        return {
            **net,
            "head": {
                **head,
                "weight": head["weight"] + moved[:-1],
                "bias": head["bias"] + moved[-1],
            },
        }

    def expect(hp: Hyper, view: View, obs: Array, key: Any, role: Role) -> Nudge:
        del hp, key, role
        nudge = Nudge(view.params["net"])
        return nudge._replace(spread=spread(view, obs)) if blueprint.density else nudge

    def spread(view: View, obs: Array) -> Array:
        """√ Σᵢ Sᵢ² xᵢ², of each action; differentiable where it is 0, too."""
        x = view.features(Nudge(view.params["net"]), obs)
        if settings.detach:
            x = jax.lax.stop_gradient(x)
        square = jnp.exp(2.0 * view.params["joint"]["log_s"])
        return jnp.sqrt(x**2 @ square[:-1] + square[-1:] + TINY)

    def report(hp: Hyper, view: View, batch: Any) -> dict[str, Array]:
        del hp
        return {
            "sigma": jnp.exp(view.params["joint"]["log_s"]).mean(),
            "spread": spread(view, batch.obs).mean(),
        }

    return Strategy(
        init=init, joint=joint, begin=begin, draw=draw, behave=behave, expect=expect, report=report
    )
