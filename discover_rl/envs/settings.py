"""The settings of environments: how a task is made, and what a run sees of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from discover_rl.core.hyperparameters import setting
from discover_rl.core.types import UserError

KWARGS = "env.kwargs."
"""What the names of arguments for `gymnasium.make` begin with."""


class Making(NamedTuple):
    """How the environments of a task are made, for training and for evaluation alike."""

    action_repeat: int = 1  # steps of the task for which each action is repeated
    wrappers: tuple[str, ...] = ()  # module:function, the innermost first
    kwargs: tuple[tuple[str, Any], ...] = ()  # arguments of `gymnasium.make`, by their names

    @property
    def gymnasium_only(self) -> str:
        """The setting that only Gymnasium's environments can have; '' if there is none."""
        return "env.wrappers" if self.wrappers else "env.kwargs" if self.kwargs else ""

    def to_json(self) -> dict[str, Any]:
        """The settings that a record has of it: those that are not their defaults.

        >>> Making(action_repeat=2, kwargs=(("size", (1, 2)),)).to_json()
        {'env.action_repeat': 2, 'env.kwargs.size': [1, 2]}
        """
        repeat = {"env.action_repeat": self.action_repeat} if self.action_repeat > 1 else {}
        wrappers = {"env.wrappers": list(self.wrappers)} if self.wrappers else {}
        return repeat | wrappers | {KWARGS + name: thawed(value) for name, value in self.kwargs}


PLAIN = Making()
"""A task as it comes."""


@dataclass(frozen=True)
class Env:
    """The environments that runs are trained in."""

    count: int = setting(
        1, "Environments of a run, stepped together; on-policy only.", low=1, high=10_000
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


def wrapper_name(wrapper: Any) -> str:
    """The name of a wrapper, by which it can be imported again: module:function.

    Raises:
        UserError: it has no such name.

    >>> wrapper_name(json.JSONEncoder)
    'json.encoder:JSONEncoder'
    """
    if isinstance(wrapper, str):
        return wrapper
    module, name = getattr(wrapper, "__module__", ""), getattr(wrapper, "__qualname__", "")
    if not module or not name or "<" in name:
        raise UserError("A wrapper must be a function or class of a module, with a name.")
    return f"{module}:{name}"


def thawed(value: Any) -> Any:
    """An argument as it is passed on, and as JSON has it: with lists in place of tuples."""
    return [thawed(part) for part in value] if isinstance(value, tuple) else value


def _meant(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value.lower() if value.lower() in ("true", "false") else value)
    except ValueError:
        return value


def _frozen(name: str, value: Any) -> Any:
    """The value with tuples in place of lists, so that it can be compared and hashed."""
    if isinstance(value, list | tuple):
        return tuple(_frozen(name, part) for part in value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise UserError(f"{name} must be a number, a word, true, false or a list of these.")
