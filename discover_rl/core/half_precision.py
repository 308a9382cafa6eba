"""Matrix products in bf16, with float32 before and after them.

A program that is traced within `half_precision()` rounds the factors of its networks' products to
bf16, which has the exponents of float32 and 7 bits of mantissa. The products themselves are summed
in float32. Hidden layers round these sums to bf16 again, because on a GPU it is writing and reading
them that takes the time; heads do not. All else – biases, nonlinearities, losses, the parameters
and their gradients as an optimiser sees them – is float32.

On a CPU this computes the same, more slowly.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from discover_rl.core.types import Array


def half_precision() -> Any:
    """The context within which programs have their networks' products in bf16."""
    # A setting of JAX's, so that it does not take a program traced without it for the same one.
    return jax.default_matmul_precision("bfloat16")


def is_half() -> bool:
    """Whether the program that is being traced has its networks' products in bf16."""
    config: Any = jax.config  # which has attributes that its class does not declare
    return config.jax_default_matmul_precision == "bfloat16"


def product(x: Array, weight: Array, head: bool = False) -> Array:
    """x @ weight of factors rounded to bf16, in float32.

    Args:
        x: (…, n, inputs).
        weight: (…, inputs, outputs).
        head: keep the sums as they are; else they are rounded, too.
    """
    factors = x.astype(jnp.bfloat16), weight.astype(jnp.bfloat16)
    return _unrounded(*factors) if head else jnp.matmul(*factors).astype(jnp.float32)


@jax.custom_vjp
def _unrounded(x: Array, weight: Array) -> Array:
    """x @ weight in float32, of factors in bf16. What is passed back is rounded to bf16."""
    return jnp.matmul(x, weight, preferred_element_type=jnp.float32)


def _forward(x: Array, weight: Array) -> tuple[Array, tuple[Array, Array]]:
    return _unrounded(x, weight), (x, weight)


def _backward(factors: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    return jax.vjp(jnp.matmul, *factors)[1](gradient.astype(jnp.bfloat16))


_unrounded.defvjp(_forward, _backward)


@jax.custom_jvp
def relu(x: Array) -> Array:
    """max(x, 0), whose gradient is computed from the result: x itself need not be kept for it."""
    return jax.lax.max(x, jnp.zeros((), x.dtype))


@relu.defjvp
def _relu_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (x,), (tangent,) = primals, tangents
    y = relu(x)
    return y, jnp.where(y <= 0, 0, tangent)  # NaN ≤ 0 is false, so NaN stays NaN
