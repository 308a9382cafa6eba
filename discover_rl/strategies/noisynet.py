"""NoisyNet: weights of the last layer are random; how much is learned (Fortunato et al., 2018).

    layer:   y = (μ + σ ε) x,  weights and biases alike;  μ the network's own, σ learned with it
    evaluate: ε = 0

Off-policy:

    act:     ε anew at every step, or for every episode
    target:  ε anew for the batch, with the target actor's μ and σ
    learn:   the actor's loss at ε anew for the batch, by whose gradient σ moves as μ does

On-policy, the value's last layer is noisy too:

    act:     ε anew for every rollout, or for every episode; its key is stored
    learn:   log π(a|s), V(s) and V(s′) at the same ε, drawn again from the key, in all epochs

Noise is independent for every weight, or factorised: f(eᵢ) f(eⱼ) with f(e) = sign(e) √|e|.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import random

from discover_rl.core import networks
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.types import Array, Key, Net, Nudge, Role, Spec, UserError
from discover_rl.strategies.interface import Acting, Blueprint, Density, Learning, Strategy, View


@hyper
class Hyper:
    """Hyper-parameters of NoisyNet."""

    sigma: float = setting(
        0.017,
        "Where σ starts; off-policy, 0.034 by preset. Factorised: over √inputs of a layer.",
        low=0,
        high=100,
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


def make(spec: Spec, settings: Hyper, blueprint: Blueprint) -> Strategy:
    """NoisyNet for the networks of this blueprint; σ starts from a value per lane."""
    del spec
    on_policy = blueprint.on_policy  # then learning needs the noise of acting again
    lasts = settings.lasts
    if lasts == "auto":
        lasts = "rollout" if on_policy else "step"
    if lasts == ("step" if on_policy else "rollout"):
        source, other = ("a replay", "rollout") if on_policy else ("rollouts", "step")
        raise UserError(
            f"strategy.lasts={lasts} is for algorithms that learn from {source}; here it is "
            f"{other} or episode."
        )
    if not (settings.value or on_policy):
        raise UserError("strategy.value is for on-policy algorithms.")
    shapes = {"net": _noisy(blueprint, blueprint.outputs, settings.layers)}
    if on_policy and settings.value:
        shapes["critic"] = _noisy(blueprint, 1, settings.layers)
    factorised = settings.noise == "factorised"

    def joint(key: Key, hyper: Hyper, net: Net, critic: Net | None) -> Any:
        """σ of every noisy weight and bias, in their shapes."""
        del key, net, critic

        def start(layer: Any) -> Any:
            scale = layer["weight"].shape[0] ** -0.5 if factorised else 1.0
            return {part: jnp.full(leaf.shape, hyper.sigma * scale) for part, leaf in layer.items()}

        return _by_layer(start, shapes)

    def draw(key: Key) -> Any:
        """ε of every noisy weight and bias."""
        if not factorised:
            return networks.noise(key, shapes)
        drawn = networks.noise(key, _by_layer(_ends, shapes))

        def product(pair: Any) -> Any:
            own, bias = (jnp.sign(e) * jnp.sqrt(jnp.abs(e)) for e in pair)
            return {"weight": own[:, None] * bias[None], "bias": bias}

        return _by_layer(product, drawn)

    def perturbed(view: View, noise: Any) -> Nudge:
        def noisy(which: str, net: Net) -> Net:
            by = {
                name: {part: sigma * noise[which][name][part] for part, sigma in parts.items()}
                for name, parts in view.joint[which].items()
            }
            return networks.moved(net, by)

        nudge = Nudge(noisy("net", view.net))
        if view.critic is None or "critic" not in shapes:
            return nudge
        return nudge._replace(critic=noisy("critic", view.critic))

    def begin(state: Any, view: View, key: Key) -> Any:
        del state, view
        if on_policy:
            return random.key_data(key)
        return draw(key) if lasts == "episode" else ()

    def behave(
        state: Any, memory: Any, view: View, obs: Array, noise: Any, warmup: Any
    ) -> tuple[Any, Nudge]:
        del state, obs, warmup
        return memory, perturbed(view, noise if lasts == "step" else memory)

    def expect(state: Any, view: View, obs: Array, key: Key, role: Role) -> Nudge:
        del state, obs, role
        return perturbed(view, draw(key))

    def report(state: Any, view: View, batch: Any) -> dict[str, Array]:
        del state, batch
        sigma = [jnp.abs(leaf).ravel() for leaf in jax.tree.leaves(view.joint["net"])]
        return {"sigma": jnp.concatenate(sigma).mean()}

    return Strategy(
        acting=Acting(
            begin=begin,
            draw=draw if lasts == "step" else (lambda key: ()),
            behave=behave,
            resample_on=(lasts,),
        ),
        learning=Learning(joint=joint, expect=expect),
        density=Density(
            recall=(lambda memory: draw(random.wrap_key_data(memory))) if on_policy else None
        ),
        report=report,
    )


def _noisy(blueprint: Blueprint, outputs: int, layers: str) -> Any:
    """The shapes of the noisy layers' weights and biases."""
    whole = jax.eval_shape(lambda key: blueprint.init(key, outputs), random.key(0))
    weighted = {name: layer for name, layer in whole.items() if "weight" in layer}
    return {name: layer for name, layer in weighted.items() if layers == "all" or name == "head"}


def _ends(layer: Any) -> list[jax.ShapeDtypeStruct]:
    """Draw a number for each of a layer's inputs and each of its outputs."""
    return [jax.ShapeDtypeStruct((size,), jnp.float32) for size in layer["weight"].shape]


def _by_layer(function: Callable[[Any], Any], nets: Any) -> Any:
    return {
        which: {name: function(layer) for name, layer in net.items()} for which, net in nets.items()
    }
