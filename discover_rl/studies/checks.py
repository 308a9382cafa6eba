"""Check the names and counts in a study's file, before it becomes cells."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from discover_rl import config
from discover_rl.algorithms import ALGORITHMS
from discover_rl.core.hyperparameters import nearest
from discover_rl.core.types import UserError
from discover_rl.strategies import STRATEGIES

AXES = ("task", "algorithm", "strategy")
"""The keys of [grid] that every cell needs; all other keys there are settings."""
WORDS = (*AXES, "name", "steps", "seeds")
"""Names in a file that are not settings."""
NAME = re.compile(r"(?!\.)[^/\\:\x00-\x1f]{1,80}")
"""The pattern of an arm's name, which is also the name of a folder."""
FOLDER = re.compile(r"(?!\.{0,2}$)[^/\x00-\x1f]{1,200}")
"""What every part of a run's path must match."""
KEYS = ("about", "source", "tuned", "steps", "task_steps", "seeds", "set", "grid", "arm", "skip")
"""The keys and tables that a file may have."""
MOST_CELLS = 10_000
"""The largest number of combinations in a study."""
MOST_RUNS = 100_000
"""The largest number of runs in a study."""


def as_list(value: Any) -> list[Any]:
    """The value, as a list of one if it is no list."""
    return value if isinstance(value, list) else [value]


def check_counts(where: str, given: Any, points: int) -> list[int]:
    """Return the seeds of every cell; a UserError if there are none, or too many runs.

    Args:
        where: the name of the file, for error messages.
        given: how many seeds, or which.
        points: how many combinations they are repeated in, at most.
    """
    if points > MOST_CELLS:
        raise UserError(
            f"{where} has {points:,} combinations, and a study {MOST_CELLS:,} at most; take values "
            "out of [grid]."
        )
    try:
        seeds = config.check_seeds(given)
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    if points * len(seeds) > MOST_RUNS:
        raise UserError(
            f"{where} has {points * len(seeds):,} runs, and a study {MOST_RUNS:,} at most; take "
            "seeds, or values of [grid], out."
        )
    return seeds


def check_names(
    where: str,
    common: Mapping[str, Any],
    grid: Mapping[str, Any],
    arms: Sequence[Mapping[str, Any]],
    skips: Sequence[Mapping[str, Any]],
) -> None:
    """Check the names in a file; raise a UserError about the first mistake.

    No name is misspelt, in the wrong table or in two tables, and all algorithms and strategies
    exist. Settings are checked when they are resolved.

    Args:
        where: the file, for messages.
        common: its table [set].
        grid: its table [grid].
        arms: its tables [[arm]].
        skips: its tables [[skip]].
    """
    for name in [*common, *grid, *(name for arm in arms for name in arm)]:
        near = difflib.get_close_matches(name, WORDS, 1, 0.75)
        if near and name not in WORDS and "." not in name:
            raise UserError(f"{where}: There is no key {name}. Did you mean {near[0]}?")
    for word in WORDS:
        right = {"name": "[[arm]]", "steps": "the first lines", "seeds": "the first lines"}
        for table, names in (("[set]", common), ("[grid]", grid)):
            if word in names and (table == "[set]" or word not in AXES):
                place = right.get(word, "[grid]")
                raise UserError(f"{where}: {word} belongs in {place}, not in {table}.")
    for arm in arms:
        name = arm.get("name", "unnamed")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            rule = "that of a folder, without / or a leading dot"
            raise UserError(f"{where}: the name of an [[arm]] is {rule}, not {name!r}.")
    for name, value in grid.items():
        if isinstance(value, list) and (not value or len(set(map(str, value))) < len(value)):
            raise UserError(f"{where}, [grid]: {name} is a list without repetition, not {value}.")
    for name in [name for arm in arms for name in arm if name in grid]:
        raise UserError(f"{where}: {name} is in [grid] and in an [[arm]]; take one out.")
    for name in {name for skip in skips for name in skip}:
        keys = dict.fromkeys(["name", *grid, *(key for arm in arms for key in arm)])
        check_known(where, "[[skip]]", name, keys)
        values = [*as_list(grid.get(name, [])), *(arm[name] for arm in arms if name in arm)]
        for value in (value for skip in skips for value in as_list(skip.get(name, []))):
            check_known(
                where, f"[[skip]] {name}", value, [*map(str, values), *values], "There is no"
            )
    members = {"algorithm": ALGORITHMS, "strategy": STRATEGIES}
    for axis, known in members.items():
        for word in [*as_list(grid.get(axis, [])), *(arm[axis] for arm in arms if axis in arm)]:
            check_known(where, axis, word, known, f"There is no {axis}")


def check_folders(where: str, parts: Sequence[str]) -> None:
    """Raise a UserError unless these can be names of folders, one below the other."""
    for part in parts:
        if not FOLDER.fullmatch(part):
            shown = part if len(part) <= 80 else f"{part[:80]}…"
            raise UserError(f"{where}: {shown!r} cannot be the name of a folder of runs.")


def check_known(
    where: str, table: str, word: Any, words: Any, complaint: str = "There is no key"
) -> None:
    """Raise a UserError, with the nearest word, unless a word is among those that are known.

    Args:
        where: the file, for the message.
        table: the part of the file; '' if it is none.
        word: what stands there.
        words: the known ones.
        complaint: how the message begins.
    """
    if not isinstance(word, str | int | float) or word not in words:
        place = f"{where}, {table}" if table else where
        listed = ", ".join(dict.fromkeys(map(str, words)))
        hint = nearest(str(word), map(str, words)) or f" There are {listed}."
        raise UserError(f"{place}: {complaint} {word}.{hint}")
