"""How programs are compiled: at which precision, side by side, and kept for the next time."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax

from discover_rl import machine

CACHE = "JAX_COMPILATION_CACHE_DIR"
WORTH_KEEPING = "jax_persistent_cache_min_compile_time_secs"


def precise(function: Callable[..., Any], precision: str) -> Callable[..., Any]:
    """The function with matrix products of this precision; a CPU knows only one."""
    names = {"float32": "float32", "tf32": "tensorfloat32"}
    name = None if jax.default_backend() == "cpu" else names[precision]

    @functools.wraps(function)
    def traced(*args: Any) -> Any:
        with jax.default_matmul_precision(name):
            return function(*args)

    return traced


def compile_all(lowered: Iterable[Any]) -> None:
    """Compile these at once: a program takes seconds, each a core of its own. Calls find them."""
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda program: program.compile(), lowered))


@contextlib.contextmanager
def unkept() -> Iterator[None]:
    """What is compiled in here is not kept on disk: no other process could use it."""
    before = jax.config.values[WORTH_KEEPING]
    jax.config.update(WORTH_KEEPING, math.inf)
    try:
        yield
    finally:
        jax.config.update(WORTH_KEEPING, before)


def keep() -> None:
    """Keep compiled programs in the user's cache, for this process and those it starts.

    Nothing is changed where the user has said otherwise; an empty CACHE in the environment keeps
    none. Processes may meet at the same program; one that finds it half-written compiles it again.
    """
    warnings.filterwarnings("ignore", "Error (reading|writing) persistent compilation cache")
    if CACHE in os.environ or jax.config.values["jax_compilation_cache_dir"] is not None:
        return
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    os.environ[CACHE] = str(Path(home) / "discover_rl" / f"programs-{machine.kind()}")
    jax.config.update("jax_compilation_cache_dir", os.environ[CACHE])
