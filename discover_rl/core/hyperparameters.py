"""Hyper-parameters: frozen dataclasses with a sentence and a range for every field.

A class made by `@hyper` is also a JAX pytree whose leaves are its floats. So lanes of one cohort
may differ in every float. Everything else – sizes, periods, switches – is static: part of the
compiled program.

    @hyper
    class Hyper:
        sigma: float = setting(0.1, "Standard deviation of the noise.", low=0, high=100)
        layers: int = setting(2, "Hidden layers.", low=1, high=8)
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import math
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, dataclass_transform

from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import UserError

LANE_VALUES = (float, Amplitude)
"""Types of fields in which the lanes of one cohort may differ."""
MOST_PARTS = 32
"""The largest number of parts that a setting may have, such as hidden layers."""


def setting(
    default: Any,
    sentence: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    choices: tuple[str, ...] = (),
    omit_default: bool = False,
    static: bool = False,
    only: str = "",
    unless: str = "",
) -> Any:
    """Declare a field with its default, a sentence for the help text, and its range.

    Every number has a smallest and a largest value: beyond them a run makes no sense or never
    ends.

    Args:
        default: the value unless a preset or the user says otherwise.
        sentence: what it means, in one sentence.
        low: the smallest value allowed.
        high: the largest value allowed.
        above: the value must be larger than this.
        choices: the words allowed, for a field of type str.
        omit_default: leave the setting out of a record where it has its default. This is for
            settings that were added later: runs that do not use them keep the record they had.
        static: a float in which the lanes of one cohort may not differ, because it is a constant
            of the compiled program or used only before the first step.
        only: of a strategy: the field of `Blueprint` without which the setting does nothing.
        unless: of a strategy: the field of `Blueprint` with which the setting does nothing.
    """
    meta = {"help": sentence, "low": low, "high": high, "above": above, "choices": choices}
    meta |= {"omit_default": omit_default, "static": static, "only": only, "unless": unless}
    return dataclasses.field(default=default, metadata=meta)


def omitted_defaults(cls: type) -> dict[str, Any]:
    """The defaults that records leave out, by the names of their settings.

    >>> @dataclasses.dataclass
    ... class Hyper:
    ...     tau: float = setting(0.1, "There from the beginning.")
    ...     gain: float = setting(1.0, "Came later.", omit_default=True)
    >>> omitted_defaults(Hyper)
    {'gain': 1.0}
    """
    fields = [field for field in dataclasses.fields(cls) if field.metadata.get("omit_default")]
    return {field.name: field.default for field in fields}


@dataclass_transform(frozen_default=True, field_specifiers=(setting,))
def hyper(cls):
    """Make a frozen dataclass whose floats are the leaves of a pytree.

    A subclass gives an inherited field another default by plain assignment: `tau = 0.001`. A field
    of type `Amplitude` may be given a number.
    """
    import jax

    _register_amplitude()
    cls.is_hyper = True

    for base in filter(dataclasses.is_dataclass, cls.__bases__):
        for field in dataclasses.fields(base):
            default = vars(cls).get(field.name)
            if default is not None and field.name not in cls.__annotations__:
                cls.__annotations__[field.name] = field.type
                again = dataclasses.field(default=default, metadata=field.metadata)
                setattr(cls, field.name, again)

    def __post_init__(self: Any) -> None:
        for name in amplitudes:
            if isinstance(getattr(self, name), int | float):
                object.__setattr__(self, name, Amplitude.constant(float(getattr(self, name))))

    cls.__post_init__ = __post_init__
    cls = dataclasses.dataclass(frozen=True)(cls)
    kinds = typing.get_type_hints(cls)
    names = [field.name for field in dataclasses.fields(cls)]
    amplitudes = [name for name in names if kinds[name] is Amplitude]
    lane_values = lane_fields(cls)
    static = [name for name in names if name not in lane_values]
    return jax.tree_util.register_dataclass(cls, data_fields=lane_values, meta_fields=static)


def with_hyper_of(fresh: Any, old: Any) -> Any:
    """Return the pytree `old` with every hyper-parameter object in it replaced by that of `fresh`.

    Both pytrees have the same structure.
    """
    import jax

    def is_hyper(node: Any) -> bool:
        return getattr(node, "is_hyper", False)

    return jax.tree.map(
        lambda ours, theirs: ours if is_hyper(ours) else theirs, fresh, old, is_leaf=is_hyper
    )


@functools.cache
def lane_fields(cls: type) -> list[str]:
    """The names of the fields in which the lanes of one cohort may differ."""
    kinds, fields = typing.get_type_hints(cls), dataclasses.fields(cls)
    floats = [field for field in fields if kinds[field.name] in LANE_VALUES]
    return [field.name for field in floats if not field.metadata.get("static")]


@functools.cache
def _register_amplitude() -> None:
    import jax

    fields = ["start", "end", "share"]
    jax.tree_util.register_dataclass(Amplitude, data_fields=fields, meta_fields=[])


def nearest(word: str, words: Iterable[str], cutoff: float = 0.5) -> str:
    """' Did you mean x?' with the word most like `word`, or '' where none is like it.

    Args:
        word: what was given.
        words: what there is.
        cutoff: how much alike they must be, from 0 to 1.

    >>> nearest("gama", ["gamma", "tau"])
    ' Did you mean gamma?'
    """
    lowered = {candidate.lower(): candidate for candidate in words}
    close = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=cutoff)
    return f" Did you mean {lowered[close[0]]}?" if close else ""


def build(cls: type, values: Mapping[str, Any], prefix: str = "") -> Any:
    """Make an instance of `cls` from plain values, each checked and cast to its field's type.

    Args:
        cls: a class made by `@hyper`, or another dataclass whose fields are `setting`s.
        values: values by name, as a command line, a file or a caller gives them.
        prefix: what stands before the names in error messages.

    Raises:
        UserError: a name is unknown, or a value has the wrong type or is out of range.
    """
    fields = {field.name: field for field in dataclasses.fields(cls)}
    kinds = typing.get_type_hints(cls)
    checked = {}
    for name, value in values.items():
        if name not in fields:
            raise unknown(prefix + name, [prefix + field for field in fields])
        checked[name] = check(prefix + name, value, kinds[name], fields[name].metadata)
    return cls(**checked)


def unknown(name: str, known: Sequence[str], all_known: Sequence[str] = ()) -> UserError:
    """The error for a setting that does not exist, with the name that was probably meant.

    Args:
        name: what was given.
        known: the names that are possible where it was given.
        all_known: names that are possible elsewhere.
    """
    words = [*known, *all_known]
    # A prefix that exists is taken as right: only what follows it may be misspelt.
    prefix, dot, own = name.rpartition(".")
    tail = next((word for word in words if word.rpartition(".")[2] == name), None)
    if dot and any(word.startswith(prefix + dot) for word in known):
        meant = nearest(own, [word.rpartition(".")[2] for word in known])
        hint = meant.replace("mean ", f"mean {prefix}{dot}")
    else:
        hint = f" Did you mean {tail}?" if tail else nearest(name, words)
    return UserError(f"There is no setting {name}.{hint or f' There {_listing([*known])}.'}")


def _listing(names: list[str]) -> str:
    if not names:
        return "are none here"
    return f"is {names[0]}" if len(names) == 1 else f"are {', '.join(names)}"


def check(name: str, value: Any, kind: Any, meta: Mapping[str, Any]) -> Any:
    """Cast `value` to `kind` and check it against the range in `meta`; a UserError if it fails."""
    cast = _cast(value, kind)
    if cast is None and kind is float and name.endswith("_lr") and (fades := _amplitude(value)):
        raise UserError(_fading(name, fades))
    if cast is None:
        raise UserError(f"{name} must be {_KINDS[str(kind)]}, not {_brief(repr(value))}.")
    given = _brief(str(value))
    numbers = (cast.start, cast.end) if isinstance(cast, Amplitude) else cast
    numbers = numbers if isinstance(numbers, tuple) else (numbers,)
    if len(numbers) > MOST_PARTS:
        raise UserError(f"{name} must have {MOST_PARTS} parts at most, not {len(numbers)}.")
    for number in numbers:
        if not _within(number, meta):
            raise UserError(f"{name} must be {_range(meta)}, not {given}.")
    if meta["choices"] and cast not in meta["choices"]:
        raise UserError(f"{name} must be one of {', '.join(meta['choices'])}, not {given}.")
    return cast


def _fading(name: str, wanted: Amplitude) -> str:
    """Return the error message for a learning rate that is given as a schedule.

    >>> _fading("actor_lr", Amplitude(0.001, 0.0001, 0.5))
    'actor_lr must be a number: for linear:0.001:0.0001:0.5 set actor_lr=0.001, lr_decay=0.9 and \
lr_decay_share=0.5, by which all learning rates fade.'
    """
    if not 0 <= wanted.end <= wanted.start or not wanted.start:
        return f"{name} must be a number, not {wanted}: it may fade, by lr_decay, but not grow."
    gone = 1 - wanted.end / wanted.start
    return (
        f"{name} must be a number: for {wanted} set {name}={wanted.start}, lr_decay={gone:.6g} and "
        f"lr_decay_share={wanted.share}, by which all learning rates fade."
    )


def limits(meta: Mapping[str, Any]) -> str:
    """Describe a setting's range in a few words; '' if the setting is not a number.

    >>> limits({"low": 1, "high": 10**6, "above": None}), limits({"above": 0, "high": 1.5})
    ('1 to 1,000,000', 'above 0, to 1.5')
    >>> limits({"low": 0, "high": None, "above": None}), limits({"above": 0, "high": None})
    ('0 or more', 'above 0')
    """
    low, high, above = meta.get("low"), meta["high"], meta["above"]
    if high is not None:
        start = f"{low:,}" if above is None else f"above {above:,},"
        return f"{start} to {high:,}"
    if above is not None:
        return f"above {above:,}"
    return "" if low is None else f"{low:,} or more"


def _within(number: Any, meta: Mapping[str, Any]) -> bool:
    """Whether a value is in a setting's range; values that are no numbers always are."""
    low, high, above = meta["low"], meta["high"], meta["above"]
    return isinstance(number, bool | str) or (
        (low is None or number >= low)
        and (high is None or number <= high)
        and (above is None or number > above)
    )


def _brief(text: str) -> str:
    """Shorten a text for a message: only the beginning of a long one is kept."""
    return text if len(text) <= 60 else f"{text[:57]}…"


_KINDS = {
    str(float): "a number",
    str(Amplitude): "a number, or linear:FROM:TO:SHARE of the run, SHARE above 0 and at most 1",
    str(int): "a whole number",
    str(bool): "true or false",
    str(str): "a word",
    str(tuple[int, ...]): "whole numbers with commas between them",
    str(tuple[str, ...]): "words with commas between them",
}


def _range(meta: Mapping[str, Any]) -> str:
    words = {"above": "above", "low": "at least", "high": "at most"}
    parts = [f"{word} {meta[key]:,}" for key, word in words.items() if meta[key] is not None]
    return " and ".join(parts)


def _cast(value: Any, kind: Any) -> Any:
    """Convert a value to a `kind`; None if that is impossible. A command line gives strings."""
    if kind is bool:
        words = {"true": True, "false": False, "on": True, "off": False, "1": True, "0": False}
        return value if isinstance(value, bool) else words.get(str(value).lower())
    if kind is str:
        return str(value)
    if kind == tuple[int, ...]:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple):
            parts = (parts,)
        numbers = tuple(_cast(part, int) for part in parts)
        return None if None in numbers or not numbers else numbers
    if kind == tuple[str, ...]:
        words = value.split(",") if isinstance(value, str) else value
        valid = isinstance(words, list | tuple) and all(isinstance(word, str) for word in words)
        return tuple(word.strip() for word in words if word.strip()) if valid else None
    if kind is Amplitude:
        return _amplitude(value)
    if kind not in (int, float):
        return value  # a field of another type is not checked here
    if isinstance(value, bool) or (isinstance(value, str) and not value.isascii()):
        return None  # Python would also accept the digits of other scripts
    if kind is int and isinstance(value, int):
        return value  # which may be larger than any float
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if not math.isfinite(number):
        return None
    if kind is int:
        return int(number) if number == int(number) else None
    return number


def _amplitude(value: Any) -> Amplitude | None:
    """A number, or a word such as linear:0.6:0.1:0.5."""
    if isinstance(value, Amplitude):
        parts: Any = (value.start, value.end, value.share)
    elif isinstance(value, str) and value.strip().startswith("linear:"):
        parts = value.strip().split(":")[1:]
    else:
        parts = (value, value)
    numbers = [_cast(part, float) for part in parts]
    if None in numbers or len(numbers) not in (2, 3):
        return None
    amplitude = Amplitude(*numbers)
    return amplitude if 0 < amplitude.share <= 1 else None
