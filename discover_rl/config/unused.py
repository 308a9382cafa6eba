"""Settings of a strategy that do nothing with an algorithm, as σ where the policy has one."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Collection

from discover_rl import algorithms
from discover_rl.config.run import Run
from discover_rl.core.types import Spec, UserError

ANY_TASK = Spec((1,), (1,), low=(-1.0,), high=(1.0,))
"""A task's spaces. Whether a setting does something does not depend on them."""


def unused(run: Run) -> list[str]:
    """The names of the strategy's settings that do nothing with the run's algorithm.

    >>> from discover_rl.config import Request, resolve
    >>> (sac,) = resolve(Request("Pendulum-v1", "sac", "pink"))
    >>> (td3,) = resolve(Request("Pendulum-v1", "td3", "pink"))
    >>> unused(sac), unused(td3)
    (['strategy.sigma'], [])
    """
    bound = [
        (f"strategy.{field.name}", field.metadata.get("only"), field.metadata.get("unless"))
        for field in dataclasses.fields(run.strategy_hyper)
    ]
    bound = [(name, only, unless) for name, only, unless in bound if only or unless]
    if not bound:
        return []
    blueprint = algorithms.load(run.algorithm).blueprint(ANY_TASK, run.hyper)
    return [
        name
        for name, only, unless in bound
        if (only and not getattr(blueprint, only)) or (unless and getattr(blueprint, unless))
    ]


def check_used(run: Run, given: Collection[str], several: Collection[str]) -> None:
    """Tell the user which of the given settings do nothing.

    Args:
        run: one of the runs that are asked for.
        given: the settings that the user has set.
        several: those of which several values are tried.

    Raises:
        UserError: several values are tried of a setting that does nothing.
    """
    for name in unused(run):
        if name in several:
            raise UserError(
                f"{name} does nothing with {run.algorithm} and {run.strategy}: "
                "runs with other values of it would be the same."
            )
        if name in given:
            _note(name, f"{run.algorithm} and {run.strategy}")


@functools.cache
def _note(name: str, pair: str) -> None:
    """Print it, once in a process."""
    print(f"Note: {name} does nothing with {pair}.", file=sys.stderr)
