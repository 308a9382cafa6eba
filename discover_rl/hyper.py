"""Hyper-parameters: frozen dataclasses with a sentence and a range for every field.

A class made by `@hyper` is also a JAX pytree whose leaves are its floats. So every float is a value
that lanes of one cohort may differ in, and everything else – sizes, periods, switches – is static:
part of the compiled program.
"""

from __future__ import annotations

import dataclasses
import difflib
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, dataclass_transform

from discover_rl.types import UserError


def setting(
    default: Any,
    sentence: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """A field with its explanation and its range: low ≤ value ≤ high, value > above."""
    meta = {"help": sentence, "low": low, "high": high, "above": above, "choices": choices}
    return dataclasses.field(default=default, metadata=meta)


@dataclass_transform(frozen_default=True, field_specifiers=(setting,))
def hyper(cls):
    """Make a frozen dataclass whose floats are the leaves of a pytree.

    A subclass gives an inherited field another default by plain assignment: `tau = 0.001`.
    """
    import jax

    for base in filter(dataclasses.is_dataclass, cls.__bases__):
        for field in dataclasses.fields(base):
            default = vars(cls).get(field.name)
            if default is not None and field.name not in cls.__annotations__:
                cls.__annotations__[field.name] = field.type
                again = dataclasses.field(default=default, metadata=field.metadata)
                setattr(cls, field.name, again)
    cls = dataclasses.dataclass(frozen=True)(cls)
    kinds = typing.get_type_hints(cls)
    floats = [name for name, kind in kinds.items() if kind is float]
    static = [name for name, kind in kinds.items() if kind is not float]
    return jax.tree_util.register_dataclass(cls, data_fields=floats, meta_fields=static)


def nearest(word: str, words: Iterable[str]) -> str:
    """' Did you mean x?' – or nothing, where no word is near."""
    lowered = {candidate.lower(): candidate for candidate in words}
    close = difflib.get_close_matches(word.lower(), lowered, n=1, cutoff=0.5)
    return f" Did you mean {lowered[close[0]]}?" if close else ""


def build(cls: type, values: Mapping[str, Any], prefix: str = "") -> Any:
    """An instance of `cls` from plain values, each checked and cast to its field's type."""
    fields = {field.name: field for field in dataclasses.fields(cls)}
    kinds = typing.get_type_hints(cls)
    checked = {}
    for name, value in values.items():
        if name not in fields:
            raise unknown(prefix + name, [prefix + field for field in fields])
        checked[name] = check(prefix + name, value, kinds[name], fields[name].metadata)
    return cls(**checked)


def unknown(name: str, known: Sequence[str], all_known: Sequence[str] = ()) -> UserError:
    """What to say of a setting that is none of `known`; `all_known` is where else to look."""
    words = [*known, *all_known]
    # Where a prefix is given it is meant: what follows it is what may be misspelt.
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
    """`value` as a `kind` within the range of its field, or a UserError that says what is wrong."""
    cast = _cast(value, kind)
    if cast is None:
        raise UserError(f"{name} must be {_KINDS[str(kind)]}, not {value!r}.")
    for number in cast if isinstance(cast, tuple) else (cast,):
        low, high, above = meta["low"], meta["high"], meta["above"]
        fits = isinstance(number, bool | str) or (
            (low is None or number >= low)
            and (high is None or number <= high)
            and (above is None or number > above)
        )
        if not fits:
            raise UserError(f"{name} must be {_range(low, high, above)}, not {value}.")
    if meta["choices"] and cast not in meta["choices"]:
        raise UserError(f"{name} must be one of {', '.join(meta['choices'])}, not {value}.")
    return cast


_KINDS = {
    str(float): "a number",
    str(int): "a whole number",
    str(bool): "true or false",
    str(str): "a word",
    str(tuple[int, ...]): "whole numbers with commas between them",
}


def _range(low: float | None, high: float | None, above: float | None) -> str:
    parts = []
    if above is not None:
        parts.append(f"above {above:g}")
    if low is not None:
        parts.append(f"at least {low:g}")
    if high is not None:
        parts.append(f"at most {high:g}")
    return " and ".join(parts)


def _cast(value: Any, kind: Any) -> Any:
    """The value as a `kind`; None where it is not one. Words come from the command line."""
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
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    if isinstance(value, bool) or number != number or number in (float("inf"), float("-inf")):
        return None
    if kind is int:
        return int(number) if number == int(number) else None
    return number
