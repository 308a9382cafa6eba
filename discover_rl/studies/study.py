"""A study: a grid of runs, declared in one TOML file:

    about = "one sentence"
    tuned = "nothing"                 # on its tasks; leaderboards quote it
    steps = 1_000_000
    seeds = 10                        # how many, or a list
    task_steps."Swimmer-v5" = 500_000 # a task whose runs have another length

    [set]                             # settings of every run
    "eval.every" = 1_000

    [grid]                            # every combination of these values
    task = ["Hopper-v5", "Swimmer-v5"]
    algorithm = "td3"
    strategy = ["none", "discover"]
    gamma = [0.98, 0.99]              # any setting, by the name it has everywhere

    [[arm]]                           # with each of these arms, which may set several things
    name = "without-tn"
    strategy = "discover"
    "strategy.target_network" = false

    [[skip]]                          # without the combinations that match all of this
    task = "Hopper-v5"
    strategy = "none"

Reading a study imports nothing heavy: the names and folders of its runs are known at once, their
settings are resolved when `runs` is used.
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
from discover_rl.algorithms import ALGORITHMS
from discover_rl.config import Request, Run
from discover_rl.core.hyperparameters import nearest
from discover_rl.core.types import UserError
from discover_rl.strategies import STRATEGIES

AXES = ("task", "algorithm", "strategy")
"""What every cell has; all other names in [grid] are settings."""
WORDS = (*AXES, "name", "steps", "seeds")
"""Names in a file that are not settings."""
NAME = re.compile(r"(?!\.)[^/\\:\x00-\x1f]{1,80}")
"""What the name of an arm must match: it is the name of a folder, too."""
KEYS = ("about", "source", "tuned", "steps", "task_steps", "seeds", "set", "grid", "arm", "skip")
"""The keys and tables that a file may have."""


@dataclass(frozen=True)
class Cell:
    """One combination of the grid and an arm, which is repeated with every seed."""

    task: str
    algorithm: str
    strategy: str
    arm: str
    """The name of its arm, or of its strategy if the arm has none; reports compare arms."""
    varied: Mapping[str, Any]
    """The settings that vary over the grid, with their values here."""
    name: str
    """Its folder, below the study's folder."""
    steps: int
    seeds: Sequence[int]
    settings: Mapping[str, Any]
    """All settings that the file gives it, by name."""
    where: str
    """The file that declares it, for error messages."""

    @property
    def names(self) -> list[str]:
        """The names of its runs, which are their folders below the study's folder."""
        return [f"{self.name}/seed-{seed}" for seed in self.seeds]

    @cached_property
    def runs(self) -> list[Run]:
        """Its runs, one for each seed; a UserError if a setting is wrong."""
        request = Request(
            self.task, self.algorithm, self.strategy, self.steps, self.seeds, self.settings
        )
        try:
            found = config.resolve(request)
        except UserError as error:
            raise UserError(f"{self.where}, {self.name}: {error}") from error
        settings = found[0].settings
        for name, value in self.varied.items():
            if isinstance(value, int) and isinstance(settings.get(name), list):
                raise UserError(f"{self.where}: {name} in [grid] is a list of lists.")
        if len(found) != len(self.seeds):
            several = next(name for name, it in self.settings.items() if isinstance(it, list))
            raise UserError(f"{self.where}: several values of {several} belong into [grid].")
        return [replace(run, name=f"{self.name}/{run.name}") for run in found]


@dataclass(frozen=True)
class Study:
    """A grid of runs."""

    name: str
    about: str
    """One sentence about its purpose; '' if the file has none."""
    steps: int
    """Environment steps of a run, of the longest if they differ."""
    cells: Sequence[Cell]
    """The combinations, in the order of the file."""
    tuned: str = ""
    """What was tuned on its tasks, and what was not; '' if the file does not say."""

    @property
    def names(self) -> list[str]:
        """The names of all runs, which are their folders below the study's folder."""
        return [name for cell in self.cells for name in cell.names]

    @property
    def runs(self) -> list[Run]:
        """All runs; a UserError if a setting is wrong."""
        return [run for cell in self.cells for run in cell.runs]

    @property
    def out(self) -> Path:
        """The default folder of its results, results/NAME."""
        return Path("results") / self.name


def shipped() -> dict[str, Any]:
    """The files of the studies that come with the package, by the studies' names."""
    folder = resources.files("discover_rl.studies") / "declared"
    found = {file.name: file for file in folder.iterdir() if file.name.endswith(".toml")}
    return {name.removesuffix(".toml"): found[name] for name in sorted(found)}


def abouts() -> dict[str, str]:
    """The sentences about the studies that come with the package, by the studies' names."""
    return {name: tomllib.loads(file.read_text())["about"] for name, file in shipped().items()}


def load(word: str) -> Study:
    """Read a study.

    Args:
        word: the name of a study that comes with the package, or the path of a TOML file.

    Raises:
        UserError: there is no such study, or its file is wrong.
    """
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
        raise UserError(f"{path} is not a text file.") from error


def declared(text: str, name: str, where: str) -> Study:
    """The study that a text declares.

    Args:
        text: TOML, as the module describes it.
        name: the study's name.
        where: the name of the file, for error messages.

    Raises:
        UserError: the first mistake in the text.

    >>> text = 'steps = 100\\n[grid]\\ntask = "Hopper-v5"\\nalgorithm = "td3"\\nstrategy = "none"'
    >>> declared(text, "mine", "mine.toml").names
    ['Hopper-v5/td3/none/seed-0']
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        hint = ""
        if "mutate" in str(error) or "overwrite" in str(error):
            hint = ' (a name with a dot needs quotes: "strategy.lam" = 0.1)'
        raise UserError(f"{where} is not valid TOML: {error}{hint}.") from error
    for key in content:
        _known(where, "", key, KEYS)
    for key in [key for key in ("steps", "grid") if key not in content]:
        raise UserError(f"{where} has no {key}.")
    common, grid = (_flat(where, key, content.get(key, {})) for key in ("set", "grid"))
    arms = [_flat(where, "[arm]", arm) for arm in _tables(where, "arm", content)] or [{}]
    skips = [_flat(where, "[skip]", skip) for skip in _tables(where, "skip", content)]
    _check_names(where, common, grid, arms, skips)
    cells = []
    for arm, point in itertools.product(arms, _points(grid)):
        choice = {**point, **arm}
        if not any(_matches(choice, skip) for skip in skips):
            varied = {key: point[key] for key, values in grid.items() if len(_list(values)) > 1}
            cells.append(_cell(where, content, common, choice, varied))
    if not cells:
        raise UserError(f"{where}: [[skip]] leaves no run.")
    if twice := [cell for cell in cells if [it.name for it in cells].count(cell.name) > 1]:
        raise UserError(f"{where} has {twice[0].name} twice; give every [[arm]] a name of its own.")
    for task in content.get("task_steps", {}):
        _known(where, "task_steps", task, {cell.task: 0 for cell in cells}, "There is no task")
    about, tuned = (str(content.get(key, "")) for key in ("about", "tuned"))
    return Study(name, about, max(it.steps for it in cells), cells, tuned)


def _matches(choice: Mapping[str, Any], skip: Mapping[str, Any]) -> bool:
    """Whether a combination has, for every name in a [[skip]], one of the values there."""
    return all(choice.get(key) in _list(values) for key, values in skip.items())


def _cell(
    where: str,
    content: Mapping[str, Any],
    common: Mapping[str, Any],
    choice: Mapping[str, Any],
    varied: Mapping[str, Any],
) -> Cell:
    """The cell of one combination: `choice` has its values, `varied` those that vary."""
    for axis in AXES:
        if axis not in choice:
            raise UserError(f"{where} has no {axis}; put it into [grid].")
        if not isinstance(choice[axis], str):
            raise UserError(f"{where}: {axis} must be a word, not {choice[axis]!r}.")
    task, algorithm, strategy = (choice[axis] for axis in AXES)
    arm = str(choice.get("name", strategy))
    own = {key: value for key, value in choice.items() if key not in (*AXES, "name")}
    parts = [task.replace(":", "-").replace("/", "-"), algorithm]
    parts += [strategy] if "strategy" in varied and arm != strategy else []
    settings = {key: value for key, value in varied.items() if key not in AXES}
    parts += [arm, *(f"{key}={_word(value)}" for key, value in settings.items())]
    try:
        steps = config.check_steps(content.get("task_steps", {}).get(task, content["steps"]))
        seeds = config.check_seeds(content.get("seeds", 1))
    except UserError as error:
        raise UserError(f"{where}: {error}") from error
    return Cell(
        task=task,
        algorithm=algorithm,
        strategy=strategy,
        arm=arm,
        varied=settings,
        name="/".join(parts),
        steps=steps,
        seeds=seeds,
        settings={**common, **own},
        where=where,
    )


def _points(grid: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Every combination of the grid's values."""
    for values in itertools.product(*map(_list, grid.values())):
        yield dict(zip(grid, values, strict=True))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _word(value: Any) -> str:
    """A value as part of the name of a folder."""
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return text.replace("/", "-").replace(":", "-")


def _tables(where: str, key: str, content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The tables under [[key]]."""
    tables = content.get(key, [])
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise UserError(f"{where}: {key} is a list of tables, each under [[{key}]].")
    return tables


def _flat(where: str, key: str, table: Any, prefix: str = "") -> dict[str, Any]:
    """A table with dotted names ("strategy.lam"), which a file may also write without quotes."""
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
    """Check the names in a file; raise a UserError about the first mistake.

    No name is misspelt, in the wrong table or in two tables, and all algorithms and strategies
    exist. Settings are checked when they are resolved.
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
                raise UserError(f"{where}: {word} belongs into {place}, not into {table}.")
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
        _known(where, "[[skip]]", name, keys)
        values = [*_list(grid.get(name, [])), *(arm[name] for arm in arms if name in arm)]
        for value in (value for skip in skips for value in _list(skip.get(name, []))):
            _known(where, f"[[skip]] {name}", value, [*map(str, values), *values], "There is no")
    members = {"algorithm": ALGORITHMS, "strategy": STRATEGIES}
    for axis, known in members.items():
        for word in [*_list(grid.get(axis, [])), *(arm[axis] for arm in arms if axis in arm)]:
            _known(where, axis, word, known, f"There is no {axis}")


def _known(
    where: str, table: str, word: Any, words: Any, complaint: str = "There is no key"
) -> None:
    """Raise a UserError, with the nearest word, unless a word is among these."""
    if not isinstance(word, str | int | float) or word not in words:
        place = f"{where}, {table}" if table else where
        listed = ", ".join(dict.fromkeys(map(str, words)))
        hint = nearest(str(word), map(str, words)) or f" There are {listed}."
        raise UserError(f"{place}: {complaint} {word}.{hint}")
