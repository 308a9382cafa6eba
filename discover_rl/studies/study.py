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

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

from discover_rl import config
from discover_rl.config import Request, Run
from discover_rl.core.hyperparameters import nearest
from discover_rl.core.types import UserError
from discover_rl.storage import schemas
from discover_rl.studies import checks
from discover_rl.studies.checks import AXES, as_list


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
            raise UserError(f"{self.where}: several values of {several} belong in [grid].")
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
    return {
        name: schemas.read_toml(file.read_text("utf-8"))["about"]
        for name, file in shipped().items()
    }


def load(word: str) -> Study:
    """Read a study.

    Args:
        word: the name of a study that comes with the package, or the path of a TOML file.

    Raises:
        UserError: there is no such study, or its file is wrong.
    """
    known, path = shipped(), Path(word)
    if word in known and not path.is_file():
        return declared(known[word].read_text("utf-8"), word, f"{word}.toml")
    if path.suffix != ".toml":
        files = Path("results", f"{word}.toml"), Path(f"{word}.toml")
        mine = [file for file in files if file.is_file()]
        near = f" Did you mean {mine[0]}?" if mine else nearest(word, known)
        own = "It is a folder; `discover evaluate` takes folders of runs." if path.is_dir() else ""
        hint = near or f" {own or 'A file of your own ends in .toml.'}"
        raise UserError(f"There is no study {word}.{hint}")
    try:
        path.name.encode()  # reports have it
        checks.check_folders("The name of a study", [path.stem])
        return declared(schemas.content(path).decode(), path.stem, path.name)
    except UnicodeEncodeError as error:
        raise UserError(f"{path} has a name that is no text; rename it.") from error
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
        content = schemas.read_toml(text)
    except ValueError as error:
        dotted = "mutate" in str(error) or "overwrite" in str(error)
        hint = ' (a name with a dot needs quotes: "strategy.lam" = 0.1)' * dotted
        raise UserError(f"{where} is not valid TOML: {error}{hint}.") from error
    for key in content:
        checks.check_known(where, "", key, checks.KEYS)
    for key in [key for key in ("steps", "grid") if key not in content]:
        raise UserError(f"{where} has no {key}.")
    if not isinstance(content.get("task_steps", {}), dict):
        raise UserError(f"{where}: task_steps is a table, under [task_steps].")
    common, grid = (_flat(where, key, content.get(key, {})) for key in ("set", "grid"))
    arms = [_flat(where, "[arm]", arm) for arm in _tables(where, "arm", content)] or [{}]
    skips = [_flat(where, "[skip]", skip) for skip in _tables(where, "skip", content)]
    checks.check_names(where, common, grid, arms, skips)
    points = len(arms) * math.prod(len(as_list(values)) for values in grid.values())
    seeds = checks.check_counts(where, content.get("seeds", 1), points)
    cells = []
    for arm, point in itertools.product(arms, _points(grid)):
        choice = {**point, **arm}
        if not any(_matches(choice, skip) for skip in skips):
            varied = {key: point[key] for key, values in grid.items() if len(as_list(values)) > 1}
            cells.append(_cell(where, content, seeds, common, choice, varied))
    if not cells:
        raise UserError(f"{where}: [[skip]] leaves no run.")
    (cell_name, times), *_ = Counter(cell.name for cell in cells).most_common(1)
    if times > 1:
        raise UserError(f"{where} has {cell_name} twice; give every [[arm]] a name of its own.")
    for task in content.get("task_steps", {}):
        checks.check_known(
            where, "task_steps", task, {cell.task: 0 for cell in cells}, "There is no task"
        )
    about, tuned = (str(content.get(key, "")) for key in ("about", "tuned"))
    return Study(name, about, max(it.steps for it in cells), cells, tuned)


def _matches(choice: Mapping[str, Any], skip: Mapping[str, Any]) -> bool:
    """Whether a combination has, for every name in a [[skip]], one of the values there."""
    return all(choice.get(key) in as_list(values) for key, values in skip.items())


def _cell(
    where: str,
    content: Mapping[str, Any],
    seeds: Sequence[int],
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
    checks.check_folders(where, parts)
    try:
        steps = config.check_steps(content.get("task_steps", {}).get(task, content["steps"]))
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
    for values in itertools.product(*map(as_list, grid.values())):
        yield dict(zip(grid, values, strict=True))


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
