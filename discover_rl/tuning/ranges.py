"""What is tuned: a range or some choices for a setting, checked as the setting itself is.

A range is LOW:HIGH, evenly; LOW:HIGH:log, evenly in the logarithm; or a,b,c, one of these. Values
that have commas of their own are kept apart by semicolons (64,64;256,256). From Python, a tuple is
a range, (0, 1) or (1e-5, 1e-2, "log"), and a list is choices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from discover_rl.types import UserError

T = TypeVar("T")
Choice = float | int | bool | str


@dataclass(frozen=True)
class Range:
    """What a setting is chosen from; whole numbers if its ends are."""

    ends: tuple[float, ...] = ()
    log: bool = False
    choices: tuple[Choice, ...] = ()

    def __str__(self) -> str:
        if self.choices:
            words = [_word(choice) for choice in self.choices]
            return (";" if any("," in word for word in words) else ",").join(words)
        return ":".join([*map(str, self.ends), *["log"] * self.log])

    @property
    def values(self) -> tuple[Choice, ...]:
        """Those that it names."""
        return self.choices or self.ends


def _word(choice: Choice) -> str:
    return str(choice).lower() if isinstance(choice, bool) else str(choice)


def parse(
    ranges: Mapping[str, Any], cast: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> dict[str, Range]:
    """Ranges by name, in the order of names. `cast` gives all settings as they come to be with some
    of them chosen, or a UserError where one cannot be."""
    if not ranges:
        raise UserError("There is nothing to tune; --range strategy.lam=0:1 would tune λ.")
    given = {name: _taken_apart(name, ranges[name]) for name in sorted(ranges)}
    named = {name: values for name, (values, _) in given.items()}
    parsed = {}
    for name, (values, kind) in given.items():
        found = [possible(named | {name: [value]}, cast)[name] for value in values]
        checked = tuple(map(_plain, found))
        if name.startswith("eval."):
            raise UserError(f"{name} is how trials are measured; --set it, the same for all.")
        if kind == "choices":
            if len(set(checked)) < len(checked):
                raise UserError(f"{name} must have choices without repetition.")
            parsed[name] = Range(choices=checked)
        else:
            parsed[name] = _between(name, checked, log=kind == "log")
    return parsed


def possible(named: Mapping[str, Sequence[Any]], cast: Callable[[Mapping[str, Any]], T]) -> T:
    """What comes of the first value of each, or of the last, where the first do not go together;
    what was wrong with the first, if neither do."""
    try:
        return cast({name: values[0] for name, values in named.items()})
    except UserError as error:
        try:
            return cast({name: values[-1] for name, values in named.items()})
        except UserError:
            raise error from None


def _between(name: str, ends: tuple[Any, ...], log: bool) -> Range:
    low, high = ends
    if any(isinstance(end, bool | str) for end in ends):
        raise UserError(f"{name} is no number; give it choices, {name}=a,b.")
    if low >= high:
        raise UserError(f"{name} must go from a lower number to a higher, not {low} to {high}.")
    if log and low <= 0:
        raise UserError(f"{name} must start above 0 to go by its logarithm, not at {low}.")
    return Range((low, high), log)


def _taken_apart(name: str, given: Any) -> tuple[list[Any], str]:
    """The values in a range, not yet checked, and its kind: choices, log or even."""
    parts = given
    if isinstance(given, str):
        mark = next((mark for mark in ":;" if mark in given), ",")
        parts = [part.strip() for part in given.split(mark)]
        parts = tuple(parts) if mark == ":" else parts
    if isinstance(parts, list) and len(parts) > 1:
        return parts, "choices"
    if isinstance(parts, tuple) and (len(parts) == 2 or parts[2:] == ("log",)):
        return list(parts[:2]), "log" if parts[2:] else "even"
    raise UserError(
        f"A range is NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=a,b,c, not {name}={given}."
    )


def _plain(value: Any) -> Choice:
    """As Optuna can keep it: several numbers as the word that stands for them."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value
