"""`discover list`: the algorithms, strategies and studies, and their settings."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from discover_rl.cli import explain
from discover_rl.cli.options import (
    Algorithm,
    Strategy,
    algorithm_names,
    strategy_names,
    study_names,
)
from discover_rl.core.types import UserError


def _known_names() -> list[str]:
    """What a shell completes: algorithms, strategies and the studies of the package."""
    return [*algorithm_names(), *strategy_names(), *study_names()]


def list_(
    name: Annotated[
        str | None,
        typer.Argument(
            help="An algorithm, a strategy, a task or a study.", autocompletion=_known_names
        ),
    ] = None,
    algorithm: Algorithm = "td3",
    strategy: Strategy = "discover",
) -> None:
    """List algorithms, strategies and studies; with a name, its settings and their limits.

    With a task or a study: the settings of its runs, and where each number comes from.
    """
    from discover_rl.algorithms import ALGORITHMS
    from discover_rl.strategies import STRATEGIES
    from discover_rl.studies import abouts

    if name is not None:
        if name in abouts() or name.endswith(".toml"):
            explain.study(name)
        elif name in ALGORITHMS or name in STRATEGIES or not _is_a_task(name):
            _describe(name)
        else:
            explain.task(name, algorithm, strategy)
        return
    for title, members in (("algorithms", ALGORITHMS), ("strategies", STRATEGIES)):
        typer.echo(title)
        for member, sentence in members.items():
            typer.echo(f"  {member:<10} {sentence}")
    typer.echo("studies")
    for study, sentence in abouts().items():
        typer.echo(f"  {study:<20} {sentence}")
    for line in _matrix():
        typer.echo(line)
    typer.echo("`discover list NAME` shows the settings.")


def _is_a_task(name: str) -> bool:
    """Whether a name is meant as a task: it has a version, or Gymnasium knows one of that name."""
    if name.startswith("dm_control/") or re.search(r"-v\d+$", name):
        return True
    from discover_rl.envs.versions import full_id

    return ":" not in name and full_id(name) != name


def _matrix() -> list[str]:
    """Which strategy exists for which algorithm, a line for each strategy."""
    from discover_rl.algorithms import ALGORITHMS
    from discover_rl.config import pairs
    from discover_rl.strategies import STRATEGIES

    existing = set(pairs())
    rows = [("pairs", list(ALGORITHMS))]
    for strategy in STRATEGIES:
        marks = ["x" if (name, strategy) in existing else "–" for name in ALGORITHMS]
        rows.append((f"  {strategy}", marks))
    return [
        f"{head:<12} {''.join(f'{cell:<6}' for cell in cells)}".rstrip() for head, cells in rows
    ]


def _describe(name: str) -> None:
    """Print the settings of an algorithm or a strategy."""
    import dataclasses
    import typing

    from discover_rl import algorithms, strategies
    from discover_rl.algorithms import ALGORITHMS
    from discover_rl.config import SHARED, preset_values
    from discover_rl.core.hyperparameters import limits, nearest
    from discover_rl.core.schedules import Amplitude
    from discover_rl.strategies import STRATEGIES
    from discover_rl.system import registry

    if ":" in name:  # of a module that registers it
        name = registry.imported(name)
    known = {**ALGORITHMS, **STRATEGIES}
    if name not in known:
        hint = nearest(name, known)
        raise UserError(f"There is no algorithm, strategy, study or task {name}.{hint}")
    if name in STRATEGIES:
        groups = [("strategy.", strategies.load(name).Hyper)]
    else:
        groups = [("", algorithms.load(name).Hyper), *SHARED.items()]
    presets = preset_values(name) if name in ALGORITHMS else {}
    typer.echo(f"{name}: {known[name]}")
    for prefix, cls in groups:
        kinds = typing.get_type_hints(cls)
        for field in dataclasses.fields(cls):
            default = field.default
            text = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
            text = text or "none"
            words = "|".join(field.metadata["choices"]) or limits(field.metadata)
            if kinds[field.name] is Amplitude:
                words += ", or linear:FROM:TO:SHARE"
            sentence = field.metadata["help"] + (f" ({words})" if words else "")
            others = presets.get(prefix + field.name, [])
            if others := [value for value in others if value != text]:
                sentence += f" (presets of tasks: {' or '.join(others)})"
            typer.echo(f"  {prefix + field.name:<27} {text:<11} {sentence}")
