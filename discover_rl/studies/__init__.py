"""A study: a grid of runs, declared in one TOML file.

    about = "one sentence"
    steps = 1_000_000
    seeds = 10                        # how many, or a list

    [set]                             # settings of every run
    "eval.every" = 1_000

    [grid]                            # every combination of these
    task = ["Hopper-v5", "Swimmer-v5"]
    algorithm = "td3"
    strategy = ["none", "discover"]
    gamma = [0.98, 0.99]              # any setting, by the name it has everywhere

    [[arm]]                           # and of these, which may differ in several things at once
    name = "without-tn"
    strategy = "discover"
    "strategy.target_network" = false

    [[skip]]                          # but for what matches all of this
    task = "Hopper-v5"
    strategy = "none"

Reading one imports nothing heavy: which runs there are and where they lie is known at once, what
their settings come to only when it is asked for.
"""

from __future__ import annotations

import difflib
import itertools
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from discover_rl import config
from discover_rl.config import Run
from discover_rl.hyper import nearest
from discover_rl.types import UserError

AXES = ("task", "algorithm", "strategy")
WORDS = (*AXES, "name", "steps", "seeds")
NAME = re.compile(r"(?!\.)[^/\\:\x00-\x1f]{1,80}")
"""Of an arm, which is a folder's too."""
KEYS = ("about", "source", "steps", "seeds", "set", "grid", "arm", "skip")


@dataclass(frozen=True)
class Cell:
    """A point of the grid: what is repeated with every seed."""

    task: str
    algorithm: str
    strategy: str
    arm: str
    """What it is called among its rivals: the arm's name, or the strategy's."""
    varied: Mapping[str, Any]
    """The settings that vary over the grid."""
    name: str
    """Its folder, below the study's."""
    steps: int
    seeds: Sequence[int]
    settings: Mapping[str, Any]
    where: str
    """The file that declares it, for complaints."""

    @property
    def names(self) -> list[str]:
        """Of its runs."""
        return [f"{self.name}/seed-{seed}" for seed in self.seeds]

    @cached_property
    def runs(self) -> list[Run]:
        request = self.task, self.algorithm, self.strategy, self.steps, self.seeds
        try:
            found = config.resolve(*request, self.settings)
        except UserError as error:
            raise UserError(f"{self.where}, {self.name}: {error}") from error
        for name, value in self.varied.items():
            if isinstance(value, int) and isinstance(found[0].to_json()["settings"][name], list):
                raise UserError(f"{self.where}: {name} in [grid] is a list of lists.")
        if len(found) != len(self.seeds):
            several = next(name for name, it in self.settings.items() if isinstance(it, list))
            raise UserError(f"{self.where}: several values of {several} belong into [grid].")
        return [replace(run, name=f"{self.name}/{run.name}") for run in found]


@dataclass(frozen=True)
class Study:
    name: str
    about: str
    steps: int
    cells: Sequence[Cell]

    @property
    def names(self) -> list[str]:
        """Of all runs."""
        return [name for cell in self.cells for name in cell.names]

    @property
    def runs(self) -> list[Run]:
        return [run for cell in self.cells for run in cell.runs]

    @property
    def out(self) -> Path:
        """Where its results go unless it is told otherwise."""
        return Path("results") / self.name


def shipped() -> dict[str, Any]:
    """The studies that come with the package, by name."""
    folder = resources.files("discover_rl.studies")
    found = [file for file in folder.iterdir() if file.name.endswith(".toml")]
    return {file.name.removesuffix(".toml"): file for file in sorted(found, key=lambda it: it.name)}


def abouts() -> dict[str, str]:
    """What those are about."""
    return {name: tomllib.loads(it.read_text())["about"] for name, it in shipped().items()}


def load(word: str) -> Study:
    """The study of this name, or in this file; a UserError that says what is wrong with it."""
    known, path = shipped(), Path(word)
    if word in known and not path.is_file():
        return declared(known[word].read_text(), word, f"{word}.toml")
    if path.suffix != ".toml":
        mine = Path("results", f"{word}.toml")
        near = f" Did you mean {mine}?" if mine.is_file() else nearest(word, known)
        hint = near or " A file of your own ends in .toml."
        raise UserError(f"There is no study {word}.{hint}")
    try:
        return declared(path.read_text(), path.stem, path.name)
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is no text file.") from error


def declared(text: str, name: str, where: str) -> Study:
    """What a file declares."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        hint = ""
        if "mutate" in str(error) or "overwrite" in str(error):
            hint = ' (a name with a dot in it wants quotes: "strategy.lam" = 0.1)'
        raise UserError(f"{where} is no TOML: {error}{hint}.") from error
    for key in content:
        _known(where, "", key, KEYS)
    for key in ("steps", "grid"):
        if key not in content:
            raise UserError(f"{where} says nothing of {key}.")
    common, grid = (_flat(where, key, content.get(key, {})) for key in ("set", "grid"))
    arms = [_flat(where, "[arm]", arm) for arm in _tables(where, "arm", content)] or [{}]
    skips = [_flat(where, "[skip]", skip) for skip in _tables(where, "skip", content)]
    _check_names(where, common, grid, arms, skips)
    cells = []
    for arm, point in itertools.product(arms, _points(grid)):
        choice = {**point, **arm}
        if not any(all(choice.get(key) in _list(it) for key, it in skip.items()) for skip in skips):
            varied = {key: point[key] for key, it in grid.items() if len(_list(it)) > 1}
            cells.append(_cell(where, content, common, choice, varied))
    if not cells:
        raise UserError(f"{where} leaves nothing to run.")
    twice = [it for it in cells if [other.name for other in cells].count(it.name) > 1]
    if twice:
        raise UserError(f"{where} has {twice[0].name} twice; give every [[arm]] a name of its own.")
    return Study(name, str(content.get("about", "")), cells[0].steps, cells)


def _cell(
    where: str,
    content: Mapping[str, Any],
    common: Mapping[str, Any],
    choice: Mapping[str, Any],
    varied: Mapping[str, Any],
) -> Cell:
    for axis in AXES:
        if axis not in choice:
            raise UserError(f"{where} says nothing of {axis}; put it into [grid].")
        if not isinstance(choice[axis], str):
            raise UserError(f"{where}: {axis} must be a word, not {choice[axis]!r}.")
    task, algorithm, strategy = (choice[axis] for axis in AXES)
    arm = str(choice.get("name", strategy))
    own = {key: it for key, it in choice.items() if key not in (*AXES, "name")}
    parts = [task.replace(":", "-").replace("/", "-"), algorithm]
    parts += [strategy] if "strategy" in varied and arm != strategy else []
    parts += [arm, *(f"{key}={_word(it)}" for key, it in varied.items() if key not in AXES)]
    try:
        steps, seeds = config.counted(content["steps"]), config.seeds_of(content.get("seeds", 1))
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    return Cell(
        task=task,
        algorithm=algorithm,
        strategy=strategy,
        arm=arm,
        varied={key: it for key, it in varied.items() if key not in AXES},
        name="/".join(parts),
        steps=steps,
        seeds=seeds,
        settings={**common, **own},
        where=where,
    )


def _points(grid: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination."""
    for values in itertools.product(*(_list(it) for it in grid.values())):
        yield dict(zip(grid, values, strict=True))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _word(value: Any) -> str:
    """A value as part of a folder's name."""
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return text.replace("/", "-")


def _tables(where: str, key: str, content: Mapping[str, Any]) -> list[dict[str, Any]]:
    tables = content.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(it, dict) for it in tables):
        raise UserError(f"{where}: {key} is a list of tables, each under [[{key}]].")
    return tables


def _flat(where: str, key: str, table: Any, prefix: str = "") -> dict[str, Any]:
    """A table with dotted names, whether they were written in quotes or not."""
    if not isinstance(table, dict):
        raise UserError(f"{where}: {key} is a table, under [{key}].")
    flat: dict[str, Any] = {}
    for name, value in table.items():
        inner = _flat(where, key, value, f"{prefix}{name}.") if isinstance(value, dict) else {}
        flat |= inner or {prefix + name: value}
    return flat


def _check_names(
    where: str,
    common: Mapping[str, Any],
    grid: Mapping[str, Any],
    arms: Sequence[Mapping[str, Any]],
    skips: Sequence[Mapping[str, Any]],
) -> None:
    """No axis is misspelt or in the wrong place, nothing is said twice, and whatever learns or
    explores exists. Settings are checked when they are resolved."""
    for name in [*common, *grid, *(name for arm in arms for name in arm)]:
        near = difflib.get_close_matches(name, WORDS, 1, 0.75)
        if near and name not in WORDS and "." not in name:
            raise UserError(f"{where}: There is no key {name}. Did you mean {near[0]}?")
    for word in WORDS:
        right = {"name": "[[arm]]", "steps": "the first lines", "seeds": "the first lines"}
        for table, said in (("[set]", common), ("[grid]", grid)):
            if word in said and (table == "[set]" or word not in AXES):
                place = right.get(word, "[grid]")
                raise UserError(f"{where}: {word} belongs into {place}, not into {table}.")
    for arm in arms:
        name = arm.get("name", "unnamed")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            rule = "a folder's, without / or leading dot"
            raise UserError(f"{where}: the name of an [[arm]] is {rule}, not {name!r}.")
    for name, value in grid.items():
        if isinstance(value, list) and (not value or len(set(map(str, value))) < len(value)):
            raise UserError(f"{where}, [grid]: {name} is a list without repetition, not {value}.")
    for arm in arms:
        for name in arm:
            if name in grid:
                raise UserError(f"{where}: {name} is in [grid] and in an [[arm]]; take one out.")
    for name in {name for skip in skips for name in skip}:
        said = dict.fromkeys(["name", *grid, *(it for arm in arms for it in arm)])
        _known(where, "[[skip]]", name, said)
        meant = [*_list(grid.get(name, [])), *(arm[name] for arm in arms if name in arm)]
        for value in (it for skip in skips for it in _list(skip.get(name, []))):
            _known(where, f"[[skip]] {name}", value, [*map(str, meant), *meant], "There is no")
    members = {"algorithm": config.ALGORITHMS, "strategy": config.STRATEGIES}
    for axis, known in members.items():
        for word in [*_list(grid.get(axis, [])), *(arm[axis] for arm in arms if axis in arm)]:
            _known(where, axis, word, known, f"There is no {axis}")


def _known(
    where: str, table: str, word: Any, words: Any, complaint: str = "There is no key"
) -> None:
    if not isinstance(word, str | int | float) or word not in words:
        place = f"{where}, {table}" if table else where
        listed = ", ".join(dict.fromkeys(map(str, words)))
        hint = nearest(str(word), map(str, words)) or f" There are {listed}."
        raise UserError(f"{place}: {complaint} {word}.{hint}")
