"""Compile programs: choose their precision, compile several at once, keep them on disk."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax

from discover_rl.system import hardware

CACHE = "JAX_COMPILATION_CACHE_DIR"
"""The environment variable that names the folder for compiled programs."""
MIN_COMPILE_TIME = "jax_persistent_cache_min_compile_time_secs"
"""JAX's setting for the shortest compile time, in seconds, of a program that is kept."""


def with_precision(function: Callable[..., Any], precision: str) -> Callable[..., Any]:
    """Return the function with matrix products of this precision; a CPU has only one precision.

    Args:
        function: a function to be compiled.
        precision: a value of `compute.precision`. "bf16" is for learning alone
            (`core.half_precision`); what else the function computes is as with "tf32".
    """
    names = {"float32": "float32", "tf32": "tensorfloat32", "bf16": "tensorfloat32"}
    name = names[precision] if hardware.accelerated() else None

    @functools.wraps(function)
    def traced(*args: Any) -> Any:
        with jax.default_matmul_precision(name):
            return function(*args)

    return traced


def compile_all(lowered: Iterable[Any]) -> None:
    """Compile lowered programs in parallel; later calls find them compiled."""
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda program: program.compile(), lowered))


@contextlib.contextmanager
def not_cached() -> Iterator[None]:
    """A context in which compiled programs are not kept on disk, for those that no other process
    can use."""
    before = jax.config.values[MIN_COMPILE_TIME]
    jax.config.update(MIN_COMPILE_TIME, math.inf)
    try:
        yield
    finally:
        jax.config.update(MIN_COMPILE_TIME, before)


def use_cache() -> None:
    """Keep compiled programs in the user's cache, for this process and those it starts.

    A folder that the user has chosen is respected; an empty `CACHE` in the environment keeps no
    programs. Two processes may write the same program; one that reads it half-written compiles it
    again.
    """
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
    if CACHE in os.environ or jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    os.environ[CACHE] = str(hardware.cache_folder() / f"programs-{hardware.processor_kind()}")
    jax.config.update("jax_compilation_cache_dir", os.environ[CACHE])
