"""NoisyNet: weights of the last layer are random; how much is learned (Fortunato et al., 2018).

    layer:   y = (μ + σ ε) x,  weights and biases alike;  μ the network's own, σ learned with it
    evaluate: ε = 0

Off-policy:

    act:     ε anew at every step, or for every episode
    target:  ε anew for the batch, with the target actor's μ and σ
    learn:   the actor's loss at ε anew for the batch, by whose gradient σ moves as μ does

On-policy, the value's last layer is noisy too:

    act:     ε anew for every rollout, or for every episode; the key that it came from is kept
    learn:   log π(a|s), V(s) and V(s′) at the same ε, drawn again from the key, in all epochs

Noise is independent for every weight, or factorised: f(eᵢ) f(eⱼ) with f(e) = sign(e) √|e|.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import random

from discover_rl.hyper import hyper, setting
from discover_rl.interfaces import Blueprint, Strategy, View
from discover_rl.types import Array, Net, Nudge, Role, Spec, UserError

PARTS = ("weight", "bias")


@hyper
class Hyper:
    sigma: float = setting(
        0.017,
        "Where σ starts; off-policy, 0.034 by preset. Factorised: over √inputs of a layer.",
        low=0,
    )
    layers: str = setting("last", "Which layers are noisy.", choices=("last", "all"))
    noise: str = setting(
        "independent",
        "Noise of each weight, or of inputs and outputs.",
        choices=("independent", "factorised"),
    )
    lasts: str = setting(
        "auto",
        "How long noise is kept while acting; auto: a step off-policy, a rollout on-policy.",
        choices=("auto", "step", "episode", "rollout"),
    )
    value: bool = setting(True, "On-policy, make the value network's layers noisy too.")


def make(spec: Spec, hp: Hyper, blueprint: Blueprint) -> Strategy:
    del spec
    settings = hp  # of which only the statics are used: the floats come in with `joint`
    again = blueprint.on_policy  # what was done has to be had again when learning
    lasts = settings.lasts
    if lasts == "auto":
        lasts = "rollout" if again else "step"
    if lasts == ("step" if again else "rollout"):
        source, other = ("a replay", "rollout") if again else ("rollouts", "step")
        raise UserError(
            f"strategy.lasts={lasts} is for algorithms that learn from {source}; here it is "
            f"{other} or episode."
        )
    if not (settings.value or again):
        raise UserError("strategy.value is for algorithms that learn from rollouts.")
    sizes = {"net": _sizes(blueprint, blueprint.outputs, settings.layers)}
    if again and settings.value:
        sizes["critic"] = _sizes(blueprint, 1, settings.layers)

    def joint(key: Any, hp: Hyper, net: Net, critic: Net | None) -> dict[str, Any]:
        """σ, of the shape of what it perturbs."""
        del key
        nets = {"net": net, "critic": critic}

        def start(which: str, name: str) -> Any:
            inputs = nets[which][name]["weight"].shape[0]
            return hp.sigma * (inputs**-0.5 if settings.noise == "factorised" else 1.0)

        return {
            which: {
                name: {
                    part: jnp.full(nets[which][name][part].shape, start(which, name))
                    for part in PARTS
                }
                for name in layers
            }
            for which, layers in sizes.items()
        }

    def draw(key: Any) -> dict[str, Any]:
        """ε. One call of the generator for all of it: each takes long to compile."""
        factorised = settings.noise == "factorised"
        shapes = [shape for layers in sizes.values() for shape in layers.values()]
        numbers = random.normal(
            key, (sum(i + o if factorised else (i + 1) * o for i, o in shapes),)
        )
        if factorised:
            numbers = jnp.sign(numbers) * jnp.sqrt(jnp.abs(numbers))
        done = 0

        def layer(inputs: int, outputs: int) -> dict[str, Array]:
            nonlocal done
            if factorised:
                bias, own = jnp.split(numbers[done : done + inputs + outputs], [outputs])
                done += inputs + outputs
                return {"weight": own[:, None] * bias[None], "bias": bias}
            block = numbers[done : done + (inputs + 1) * outputs].reshape(inputs + 1, outputs)
            done += (inputs + 1) * outputs
            return {"weight": block[1:], "bias": block[0]}

        return {
            which: {name: layer(*shape) for name, shape in layers.items()}
            for which, layers in sizes.items()
        }

    def perturbed(view: View, noise: Any) -> Nudge:
        def moved(which: str, net: Net) -> Net:
            sigma = view.params["joint"][which]
            layers = {
                name: {
                    **net[name],
                    **{p: net[name][p] + sigma[name][p] * noise[which][name][p] for p in PARTS},
                }
                for name in sizes[which]
            }
            return {**net, **layers}

        nudge = Nudge(moved("net", view.params["net"]))
        if view.critic is None or "critic" not in sizes:
            return nudge
        return nudge._replace(critic=moved("critic", view.critic))

    def begin(state: Any, view: View, key: Any) -> Any:
        del state, view
        if again:
            return random.key_data(key)
        return draw(key) if lasts == "episode" else ()

    def behave(
        state: Any, memory: Any, view: View, obs: Array, noise: Any, warmup: Any
    ) -> tuple[Any, Nudge]:
        del state, obs, warmup
        return memory, perturbed(view, noise if lasts == "step" else memory)

    def expect(state: Any, view: View, obs: Array, key: Any, role: Role) -> Nudge:
        del state, obs, role
        return perturbed(view, draw(key))

    def report(state: Any, view: View, batch: Any) -> dict[str, Array]:
        del state, batch
        sigma = [jnp.abs(leaf).ravel() for leaf in jax.tree.leaves(view.params["joint"]["net"])]
        return {"sigma": jnp.concatenate(sigma).mean()}

    return Strategy(
        joint=joint,
        begin=begin,
        renews=(lasts,),
        recall=(lambda memory: draw(random.wrap_key_data(memory))) if again else None,
        draw=draw if lasts == "step" else (lambda key: ()),
        behave=behave,
        expect=expect,
        report=report,
    )


def _sizes(blueprint: Blueprint, outputs: int, layers: str) -> dict[str, tuple[int, int]]:
    """(inputs, outputs) of the noisy layers."""
    whole = jax.eval_shape(lambda key: blueprint.init(key, outputs), random.key(0))
    names = ["head"] if layers == "last" else sorted(whole)
    return {name: whole[name]["weight"].shape for name in names}
