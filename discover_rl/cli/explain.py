"""`discover list TASK` and `discover list STUDY`: the settings of runs, and where each is from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import typer

from discover_rl.system.text import printable


def task(name: str, algorithm: str, strategy: str) -> None:
    """Print what a run on a task would use; a task that cannot be made is refused."""
    from discover_rl.config import Request, origins, resolve
    from discover_rl.envs import tasks
    from discover_rl.envs.versions import completed

    whole = completed(name)
    tasks.check(whole)
    (run,) = resolve(Request(whole, algorithm, strategy))
    command = f"discover train {whole} --algorithm {run.algorithm} --strategy {run.strategy}"
    _say(f"{command} would use, for {run.steps:,} steps:")
    _echo({setting: {found: None} for setting, found in _hashable(origins(run))})


def study(name: str) -> None:
    """Print what the runs of a study would use, a block for each algorithm."""
    from discover_rl.config import origins
    from discover_rl.studies import load

    declared = load(name)
    _say(f"{declared.name}: {declared.about}")
    cells = declared.cells
    tasks, arms = (dict.fromkeys(getattr(cell, it) for cell in cells) for it in ("task", "arm"))
    _say(f"  {len(declared.names):,} runs of {declared.steps:,} steps at most")
    _say(f"  tasks: {', '.join(tasks)}")
    _say(f"  arms: {', '.join(arms)}")
    for algorithm in dict.fromkeys(cell.algorithm for cell in cells):
        found: dict[str, dict[Any, None]] = {}
        for cell in (cell for cell in cells if cell.algorithm == algorithm):
            of_cell = origins(cell.runs[0], cell.settings, "the study")
            for setting, one in _hashable(of_cell):
                if setting.startswith("strategy."):
                    setting = f"{cell.strategy}: {setting.removeprefix('strategy.')}"
                found.setdefault(setting, {})[one] = None
        _say(f"{algorithm} would use:")
        _echo(found)


def _hashable(found: Mapping[str, tuple[Any, str]]) -> Iterable[tuple[str, tuple[str, str]]]:
    """Each setting with its value as text, and its origin."""
    for setting, (value, origin) in found.items():
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        yield setting, (text or "none", origin)


def _echo(found: Mapping[str, Iterable[tuple[str, str]]]) -> None:
    """Print each setting with its values and where they come from.

    Values that come from the same place share a line.
    """
    for setting, several in found.items():
        origins_of: dict[str, list[str]] = {}
        for text, origin in several:
            origins_of.setdefault(text, []).append(origin)
        values_from: dict[str, list[str]] = {}
        for text, origins in origins_of.items():
            values_from.setdefault("; ".join(origins), []).append(text)
        for said, values in values_from.items():
            _say(f"  {setting:<27} {' or '.join(values):<11} {said}")
            setting = ""


def _say(text: str) -> None:
    """Print a line; control characters, which a stranger's file may contain, are written out."""
    typer.echo(printable(text))
