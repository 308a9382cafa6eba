"""`discover list TASK` and `discover list STUDY`: what runs would use, and who says so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import typer

from discover_rl.system.text import printable


def task(name: str, algorithm: str, strategy: str) -> None:
    """Print what a run on a task would use."""
    from discover_rl.config import Request, origins, resolve
    from discover_rl.envs.versions import completed

    whole = completed(name)
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
    """Print a line for each setting: its name, its values and where they come from."""
    for setting, several in found.items():
        values = " or ".join(dict.fromkeys(text for text, _ in several))
        said = "; ".join(dict.fromkeys(origin for _, origin in several))
        _say(f"  {setting:<27} {values:<11} {said}")


def _say(text: str) -> None:
    """Print a line; what a terminal would obey, of a stranger's file, is written out."""
    typer.echo(printable(text))
