"""Multi-layer perceptrons as plain functions over dicts of arrays, for NumPy and JAX alike.

A network is {"layer0": {"weight", "bias"}, …, "head": {"weight", "bias"}}. A policy that
standardises its observations also has "input", their {"mean", "deviation"}. A network with another
nonlinearity than is usual where it is applied has an empty entry of that name: {"gelu": {}}.
Leading axes of the weights are an ensemble – twin critics, or the lanes of a cohort – and broadcast
against the input: inputs (…, n, i), weights (…, i, o), biases (…, o), outputs (…, n, o).
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from discover_rl.core.types import Array, CriticHead, Net, PolicyHead


def namespace(x: Array) -> Any:
    """The array namespace of `x`: numpy on the host, jax.numpy on the device."""
    return np if isinstance(x, np.ndarray) else x.__array_namespace__()


def _half(x: Array) -> Any:
    """The module `half_precision` if it applies to a program that is being traced, else None."""
    if isinstance(x, np.ndarray):
        return None
    from discover_rl.core import half_precision  # here, because saved policies do without JAX

    return half_precision if half_precision.is_half() else None


def relu(x: Array) -> Array:
    """max(x, 0), elementwise."""
    if half := _half(x):
        return half.relu(x)
    # where, not maximum: JAX's maximum passes half the gradient at a tie. NaN ≤ 0 is false, so NaN
    # stays NaN and is noticed.
    return namespace(x).where(x <= 0, 0, x)


def tanh(x: Array) -> Array:
    """The hyperbolic tangent, elementwise."""
    return namespace(x).tanh(x)


FLAT = -40.0
"""Below this SiLU and GELU are 0 in single precision; −∞ · 0 would not be a number."""


def silu(x: Array) -> Array:
    """x σ(x), elementwise, also called swish; σ by tanh, which cannot overflow."""
    x = namespace(x).maximum(x, FLAT)
    return x * (0.5 + 0.5 * tanh(0.5 * x))


def gelu(x: Array) -> Array:
    """x Φ(x), elementwise, by its usual approximation with tanh."""
    x = namespace(x).maximum(x, FLAT)
    return x * (0.5 + 0.5 * tanh((2 / math.pi) ** 0.5 * (x + 0.044715 * x**3)))


def elu(x: Array) -> Array:
    """x where it is above 0, eˣ − 1 below, elementwise."""
    xp = namespace(x)
    return xp.where(x > 0, x, xp.expm1(xp.minimum(x, 0)))


ACTIVATIONS = {"relu": relu, "tanh": tanh, "gelu": gelu, "silu": silu, "elu": elu}
"""Nonlinearities of hidden layers, by name."""


def init(
    key: Any,
    inputs: int,
    hidden: tuple[int, ...],
    outputs: int,
    layer_norm: bool = False,
    late: int = 0,
    activation: str = "",
) -> Net:
    """Make a network whose weights and biases are uniform in ±1/√inputs of their layer.

    Args:
        key: of the random numbers.
        inputs: size of the input.
        hidden: widths of the hidden layers.
        outputs: size of the output.
        layer_norm: give hidden layers a "gain" and an "offset" for layer normalisation.
        late: how many more inputs join at the second hidden layer, or at the only one.
        activation: a name of `ACTIVATIONS`, if it is not the usual one where it is applied.
    """
    from jax import random  # here, because a saved policy reads this file without JAX

    wide = [inputs, *hidden]
    wide[late_layer(len(hidden))] += late
    sizes = list(zip(wide, (*hidden, outputs), strict=True))
    counts = [(fan_in + 1) * fan_out for fan_in, fan_out in sizes]
    # One draw for the whole network: each call of a generator costs half a second of compiling.
    draws = random.uniform(key, (sum(counts),), minval=-1.0, maxval=1.0)
    net: dict[str, Any] = {activation: {}} if activation else {}
    for i, (fan_in, fan_out) in enumerate(sizes):
        start = sum(counts[:i])
        layer = draws[start : start + counts[i]].reshape(fan_in + 1, fan_out) * fan_in**-0.5
        name = f"layer{i}" if i < len(hidden) else "head"
        net[name] = {"weight": layer[1:], "bias": layer[0]}
        if layer_norm and i < len(hidden):
            ones = np.ones(fan_out, np.float32)
            net[name] |= {"gain": ones, "offset": 0 * ones}
    return net


def orthogonal(
    key: Any,
    inputs: int,
    hidden: tuple[int, ...],
    outputs: int,
    layer_norm: bool = False,
    head_gain: Any = 1.0,
    activation: str = "",
) -> Net:
    """Make a network with orthogonal weights, scaled by √2 except in the head, and zero biases.

    Args:
        key: of the random numbers.
        inputs: as for `init`, and so are the other sizes.
        hidden: widths of the hidden layers.
        outputs: size of the output.
        layer_norm: as for `init`.
        head_gain: factor on the head's weights.
        activation: as for `init`.
    """
    import jax  # here, because a saved policy reads this file without JAX

    net: dict[str, Any] = {activation: {}} if activation else {}
    sizes = (inputs, *hidden, outputs)
    for i, own in enumerate(jax.random.split(key, len(hidden) + 1)):
        name = f"layer{i}" if i < len(hidden) else "head"
        gain = 2**0.5 if i < len(hidden) else head_gain
        weight = jax.nn.initializers.orthogonal(gain)(own, (sizes[i], sizes[i + 1]), np.float32)
        zeros = np.zeros(sizes[i + 1], np.float32)
        net[name] = {"weight": weight, "bias": zeros}
        if layer_norm and i < len(hidden):
            net[name] |= {"gain": zeros + 1, "offset": zeros}
    return net


def noise(key: Any, like: Any) -> Any:
    """Draw standard normal numbers in the shapes of the leaves of the pytree `like`.

    One call of the generator for all of them, because each call takes long to compile.
    """
    import jax  # here, because a saved policy reads this file without JAX

    leaves, tree = jax.tree.flatten(like)
    ends = [0, *itertools.accumulate(leaf.size for leaf in leaves)]
    numbers = jax.random.normal(key, (ends[-1],))
    parts = zip(leaves, ends, ends[1:], strict=False)
    return tree.unflatten([numbers[i:j].reshape(leaf.shape) for leaf, i, j in parts])


def moved(net: Net, by: Net) -> Net:
    """Copy a network, adding `by` to the weights and biases of the layers that `by` has."""
    layers = {
        name: {**net[name], **{part: net[name][part] + step for part, step in parts.items()}}
        for name, parts in by.items()
    }
    return {**net, **layers}


def features(net: Net, x: Array, activation: str = "relu", late: Array | None = None) -> Array:
    """Apply all layers but the head: (…, n, inputs) → (…, n, inputs of the head).

    The arguments are those of `apply`.
    """
    if "input" in net:
        x = standardise(x, net["input"]["mean"], net["input"]["deviation"])
    at = -1 if late is None else late_layer(sum(name.startswith("layer") for name in net))
    activate, i = ACTIVATIONS[next(filter(net.__contains__, ACTIVATIONS), activation)], 0
    while layer := net.get(f"layer{i}"):
        if i == at:
            assert late is not None
            xp = namespace(x)
            x = xp.concat([x, xp.broadcast_to(late, (*x.shape[:-1], late.shape[-1]))], axis=-1)
        x = _linear(layer, x)
        if "gain" in layer:
            x = _normalise(x) * layer["gain"][..., None, :] + layer["offset"][..., None, :]
        x = activate(x)
        i += 1
    return x


def apply(net: Net, x: Array, activation: str = "relu", late: Array | None = None) -> Array:
    """Apply a network.

    Args:
        net: the parameters.
        x: (…, n, inputs).
        activation: a name of `ACTIVATIONS`, unless the network has one of its own.
        late: (…, n, late) inputs that join at the second hidden layer, as in `init`.

    Returns:
        (…, n, outputs).
    """
    return output(net, features(net, x, activation, late))


def output(net: Net, z: Array) -> Array:
    """Apply the head alone, to what `features` gives: (…, n, width) → (…, n, outputs)."""
    return _linear(net["head"], z, head=True)


def standardise(x: Array, mean: Array, deviation: Array, limit: float = 10.0) -> Array:
    """(x − mean) / deviation, clipped to ± `limit`; x is (…, n, inputs), the others (…, inputs)."""
    xp, scaled = namespace(x), (x - mean[..., None, :]) / deviation[..., None, :]
    return xp.minimum(xp.maximum(scaled, -limit), limit)  # NumPy's clip takes three times as long


def late_layer(depth: int) -> int:
    """Return the hidden layer that late inputs join. At the head they would enter linearly."""
    return min(1, depth - 1)


def _linear(layer: Any, x: Array, head: bool = False) -> Array:
    weight, half = layer["weight"], None
    if not isinstance(x, np.ndarray):  # on the host every call counts
        half = _half(x)
    product = half.product(x, weight, head) if half else x @ weight
    return product + layer["bias"][..., None, :]


def _normalise(x: Array, epsilon: float = 1e-5) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return centred / namespace(x).sqrt((centred**2).mean(-1, keepdims=True) + epsilon)


def with_context(obs: Array, context: Array | None) -> Array:
    """Append the context, if there is one, to the observation."""
    return obs if context is None else namespace(obs).concat([obs, context], axis=-1)


def mean_action(head: PolicyHead, net: Net, x: Array, shift: Array | None = None) -> Array:
    """The mean action of an actor's network: (…, n, inputs) → (…, n, action).

    `shift`, (…, n, action), is added before squashing.
    """
    outputs = apply(net, x, head.activation)
    if shift is not None:
        outputs = outputs + shift
    return tanh(outputs) if head.squash else outputs


def q_value(critic: Net, obs: Array, action: Array, activation: str = "relu") -> Array:
    """Q(s, a) of a critic that takes both at its input, or of an ensemble of such critics.

    (n, observation), (n, action) → (…, n), one row for each critic.
    """
    return apply(critic, namespace(obs).concat([obs, action], axis=-1), activation)[..., 0]


def critic_value(head: CriticHead, net: Net, obs: Array, action: Array | None = None) -> Array:
    """Return the value that a critic's network gives, or those of an ensemble of networks.

    A network that standardises its observations has an entry "input", like a policy's network.
    Actions are never standardised.

    Args:
        head: what the network takes.
        net: its parameters, with critics in front if there are several.
        obs: (n, observation).
        action: (n, action) in −1 … 1; None for a value of the observation alone.

    Returns:
        (…, n), one row for each critic.
    """
    if stats := net.get("input"):
        net = {name: layer for name, layer in net.items() if name != "input"}
        obs = standardise(obs, stats["mean"], stats["deviation"])
    if head.action == "second layer":
        return apply(net, obs, head.activation, late=action)[..., 0]
    if action is not None:
        return q_value(net, obs, action, head.activation)
    return apply(net, obs, head.activation)[..., 0]
