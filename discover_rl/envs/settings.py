"""The settings of environments: how a task is made, and what a run sees of it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from discover_rl.core.hyperparameters import setting
from discover_rl.core.types import UserError

KWARGS = "env.kwargs."
"""The prefix of settings that are arguments of `gymnasium.make`."""


class Making(NamedTuple):
    """How the environments of a task are made, for training and for evaluation alike."""

    action_repeat: int = 1  # steps of the task for which each action is repeated
    wrappers: tuple[str, ...] = ()  # module:function, the innermost first
    kwargs: tuple[tuple[str, Any], ...] = ()  # arguments of `gymnasium.make`, by their names

    @property
    def gymnasium_only(self) -> str:
        """The name of a setting that only Gymnasium's backend supports; '' if none is used."""
        return "env.wrappers" if self.wrappers else "env.kwargs" if self.kwargs else ""

    def to_json(self) -> dict[str, Any]:
        """Return the settings as a record has them: those that differ from their defaults.

        >>> Making(action_repeat=2, kwargs=(("size", (1, 2)),)).to_json()
        {'env.action_repeat': 2, 'env.kwargs.size': [1, 2]}
        """
        repeat = {"env.action_repeat": self.action_repeat} if self.action_repeat > 1 else {}
        wrappers = {"env.wrappers": list(self.wrappers)} if self.wrappers else {}
        return repeat | wrappers | {KWARGS + name: thawed(value) for name, value in self.kwargs}


PLAIN = Making()
"""The default: the task as it is registered, unchanged."""


@dataclass(frozen=True)
class Env:
    """The environments that runs are trained in."""

    count: int = setting(
        1, "Environments of a run, stepped together; steps are those of all.", low=1, high=10_000
    )
    backend: str = setting(
        "gymnasium",
        "What steps them; envpool: threads, for the tasks it has; auto: the faster one.",
        choices=("gymnasium", "envpool", "auto"),
    )
    reward_delay: int = setting(
        1, "Steps over which training rewards are summed before they are paid.", low=1, high=10**9
    )
    limit_terminates: bool = setting(
        False, "Learn from a time limit as from a termination (on: as the authors' code)."
    )
    action_repeat: int = setting(
        1,
        "Steps of the task for which an action is repeated, as one step of the run.",
        low=1,
        high=10_000,
        omit_default=True,
    )
    wrappers: tuple[str, ...] = setting(
        (),
        "Gymnasium wrappers around the task, the innermost first, each as module:function.",
        omit_default=True,
    )
    kwargs: tuple[tuple[str, Any], ...] = setting(
        (), "Arguments of gymnasium.make, each as env.kwargs.NAME=VALUE."
    )

    @property
    def making(self) -> Making:
        """How its environments are made."""
        return Making(self.action_repeat, self.wrappers, self.kwargs)


def making_of(settings: Mapping[str, Any]) -> Making:
    """How a run's environments were made, from the settings in its record.

    >>> making_of({"gamma": 0.9, "env.action_repeat": 2, "env.kwargs.render_fps": 30})
    Making(action_repeat=2, wrappers=(), kwargs=(('render_fps', 30),))
    """
    repeat, wrappers = settings.get("env.action_repeat", 1), settings.get("env.wrappers", ())
    return Making(repeat, tuple(wrappers), arguments(settings))


def arguments(settings: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    """The arguments of `gymnasium.make` among settings, by their names, in alphabetical order.

    A word from a command line that is valid JSON means that value: true, 0.5, [1, 2].

    >>> arguments({"env.kwargs.b": "false", "env.kwargs.a": "x", "gamma": 0.9})
    (('a', 'x'), ('b', False))
    """
    found = {name: value for name, value in settings.items() if name.startswith(KWARGS)}
    return tuple(
        (name.removeprefix(KWARGS), _frozen(name, _meant(found[name]))) for name in sorted(found)
    )


def thawed(value: Any) -> Any:
    """Return an argument with lists in place of tuples, as JSON has it."""
    return [thawed(part) for part in value] if isinstance(value, tuple) else value


def _meant(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value.lower() if value.lower() in ("true", "false") else value)
    except (ValueError, RecursionError):
        return value


def _frozen(name: str, value: Any, depth: int = 3) -> Any:
    """The value with tuples in place of lists, so that it can be compared and hashed; a UserError
    if it is none that a record can have."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple) and depth:
        return tuple(_frozen(name, part, depth - 1) for part in value)
    # JSON has neither infinity nor NaN, and readers of it have no longer integers.
    short = value.bit_length() < 64 if isinstance(value, int) else True
    finite = math.isfinite(value) if isinstance(value, float) else True
    if value is None or (isinstance(value, int | float | str) and short and finite):
        return value
    raise UserError(
        f"{name} must be a number, a word, true, false or a list of these, up to three inside of "
        "one another; for anything else, train on a function that makes the environment."
    )
