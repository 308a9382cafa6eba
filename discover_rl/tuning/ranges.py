"""Ranges of tuned settings: two ends or some choices, checked as the setting itself is.

In words, a range is LOW:HIGH (uniform), LOW:HIGH:log (uniform in the logarithm) or a,b,c (choices).
Choices that contain commas are separated by semicolons (64,64;256,256). In Python, a tuple is a
range with two ends, (0, 1) or (1e-5, 1e-2, "log"), and a list is choices. A range of an amplitude
consists of constants; schedules (linear:0.6:0.1:0.5,0.3) are choices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from discover_rl.core.types import UserError

T = TypeVar("T")
"""What a function makes of chosen values."""
Choice = float | int | bool | str
"""A value as Optuna can keep it."""
MOST_CHOICES = 1_000
"""The largest number of choices of one setting."""


@dataclass(frozen=True)
class Range:
    """The values that a setting is chosen from: either between two ends, or among choices.

    >>> str(Range(ends=(1e-5, 1e-2), log=True)), str(Range(choices=(64, 128)))
    ('1e-05:0.01:log', '64,128')
    """

    ends: tuple[float, ...] = ()
    """The lowest and the highest value, if there are no choices; if both are whole numbers, only
    whole numbers are chosen."""
    log: bool = False
    """Whether values between the ends are uniform in the logarithm."""
    choices: tuple[Choice, ...] = ()
    """The choices; none if there are ends."""

    def __str__(self) -> str:
        if self.choices:
            words = [_word(choice) for choice in self.choices]
            return (";" if any("," in word for word in words) else ",").join(words)
        return ":".join([*map(str, self.ends), *["log"] * self.log])

    @property
    def values(self) -> tuple[Choice, ...]:
        """The ends, or the choices."""
        return self.choices or self.ends


def _word(choice: Choice) -> str:
    """A choice as the command line takes it."""
    return str(choice).lower() if isinstance(choice, bool) else str(choice)


def parse(
    ranges: Mapping[str, Any], cast: Callable[[Mapping[str, Any]], Mapping[str, Any]]
) -> dict[str, Range]:
    """Read and check ranges.

    Args:
        ranges: by the names of settings, as the module describes them.
        cast: returns all settings, with the values of some of them chosen, or raises a UserError.

    Returns:
        The ranges by the names of settings, in the order of names.

    Raises:
        UserError: the first mistake in these.
    """
    if not ranges:
        raise UserError("There is nothing to tune; --range actor_lr=1e-5:1e-2:log is a range.")
    given = {name: _split(name, ranges[name]) for name in sorted(ranges)}
    all_values = {name: values for name, (values, _) in given.items()}
    parsed = {}
    for name, (values, kind) in given.items():
        if name.startswith(("eval.", "score.", "metrics.")):
            raise UserError(f"{name} is how trials are measured; use --set, the same for all.")
        if len(values) > MOST_CHOICES:
            raise UserError(f"{name} must have {MOST_CHOICES:,} choices at most.")
        found = [possible(all_values | {name: [value]}, cast)[name] for value in values]
        checked = tuple(map(_plain, found))
        if kind == "choices":
            if len(set(checked)) < len(checked):
                raise UserError(f"{name} must have choices without repetition.")
            parsed[name] = Range(choices=checked)
        else:
            parsed[name] = _between(name, checked, log=kind == "log")
    return parsed


def possible(values: Mapping[str, Sequence[Any]], cast: Callable[[Mapping[str, Any]], T]) -> T:
    """Call a function with the first value of each setting, or, if that is refused, with the last.

    Args:
        values: some values of each setting, by the settings' names.
        cast: takes one value of each setting, and raises a UserError if it refuses them.

    Returns:
        What `cast` returns.

    Raises:
        UserError: that of the first values, if the last ones are refused, too.
    """
    try:
        return cast({name: each[0] for name, each in values.items()})
    except UserError as error:
        try:
            return cast({name: each[-1] for name, each in values.items()})
        except UserError:
            raise error from None


def _between(name: str, ends: tuple[Any, ...], log: bool) -> Range:
    """A range with two ends; a UserError if these are wrong."""
    low, high = ends
    if any(isinstance(end, bool | str) for end in ends):
        raise UserError(f"{name} is not a number; give it choices, {name}=a,b.")
    if low >= high:
        raise UserError(f"{name} must go from a lower number to a higher, not {low} to {high}.")
    if log and low <= 0:
        raise UserError(f"{name} must start above 0 to go by its logarithm, not at {low}.")
    return Range((low, high), log)


def _split(name: str, given: Any) -> tuple[list[Any], str]:
    """The values in a range, not yet checked, and its kind: "choices", "log" or "uniform"."""
    parts = given
    if isinstance(given, str):
        marks = ";" if "linear:" in given else ":;"  # the colons of a schedule are its own
        mark = next((mark for mark in marks if mark in given), ",")
        parts = [part.strip() for part in given.split(mark)]
        parts = tuple(parts) if mark == ":" else parts
    if isinstance(parts, list) and len(parts) > 1:
        return parts, "choices"
    if isinstance(parts, tuple) and (len(parts) == 2 or parts[2:] == ("log",)):
        return list(parts[:2]), "log" if parts[2:] else "uniform"
    raise UserError(
        f"A range is NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=a,b,c, not {name}={given}."
    )


def _plain(value: Any) -> Choice:
    """A value as Optuna can keep it: several numbers become a string, "64,64"."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else value
