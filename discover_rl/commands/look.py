"""`discover evaluate` and `discover list`: what there is, and how it plays."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discover_rl.types import UserError


def evaluate(
    path: Annotated[Path, typer.Argument(help="A run's folder, or one that holds several.")],
    episodes: Annotated[
        int | None,
        typer.Option(min=1, help="Episodes per policy.", show_default="10; of a video 1"),
    ] = None,
    task: Annotated[str | None, typer.Option(help="Another task than it was trained on.")] = None,
    video: Annotated[
        Path | None, typer.Option(help="Film the episodes of one policy.", metavar="FILE.mp4")
    ] = None,
) -> None:
    """Play saved policies greedily, from the states that their evaluations started from."""
    from rich.table import Table
    from rich.text import Text

    from discover_rl import film
    from discover_rl.display import console, say
    from discover_rl.evaluate import evaluate_policy
    from discover_rl.policy import find_policies, load_policy

    folders = find_policies(path)
    if not folders:
        raise UserError(f"There is no saved policy in {path}.")
    if video and len(folders) > 1:
        raise UserError(f"A video is of one policy; name one of {', '.join(map(str, folders))}.")
    table = Table()
    for i, name in enumerate(
        ("policy", "trained on", "step", "mean return", "± sd", "mean length")
    ):
        table.add_column(name, justify="left" if i < 2 else "right", overflow="fold")
    for folder in folders:
        policy = load_policy(folder)
        played = task or policy.about["task"]
        if video:
            scores = film.film(policy, played, video, episodes or 1)
            if policy.about.get("settings", {}).get("env.engine") == "envpool":
                say("The run was evaluated by EnvPool, whose episodes start elsewhere than these.")
        else:
            scores = evaluate_policy(policy, played, episodes or 10)
        table.add_row(
            Text(str(folder.relative_to(path) if folder != path else folder)),
            policy.about["task"],
            f"{policy.about['step']:,}",
            f"{scores.returns.mean():.1f}",
            f"{scores.returns.std():.1f}",
            f"{scores.lengths.mean():.0f}",
        )
    console.print(table)
    if video:
        say(f"Video: {video}")


def list_(
    name: Annotated[
        str | None, typer.Argument(help="An algorithm or strategy: its settings.")
    ] = None,
) -> None:
    """The algorithms, strategies and studies there are; with a name, its settings and defaults."""
    from discover_rl import studies
    from discover_rl.algorithms import ALGORITHMS
    from discover_rl.strategies import STRATEGIES

    if name is not None:
        _describe(name)
        return
    for title, members in (("algorithms", ALGORITHMS), ("strategies", STRATEGIES)):
        typer.echo(title)
        for member, sentence in members.items():
            typer.echo(f"  {member:<10} {sentence}")
    typer.echo("studies")
    for study, sentence in studies.abouts().items():
        typer.echo(f"  {study:<20} {sentence}")
    for line in _matrix():
        typer.echo(line)
    typer.echo("`discover list NAME` shows the settings.")


def _matrix() -> list[str]:
    """Which strategy exists for which algorithm, a line for each."""
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
    import dataclasses
    import importlib

    from discover_rl.algorithms import ALGORITHMS
    from discover_rl.config import SHARED
    from discover_rl.hyper import nearest
    from discover_rl.strategies import STRATEGIES

    rooms = {"algorithms": ALGORITHMS, "strategies": STRATEGIES}
    room = next((room for room, members in rooms.items() if name in members), None)
    if room is None:
        known = [*ALGORITHMS, *STRATEGIES]
        raise UserError(f"There is no algorithm or strategy {name}.{nearest(name, known)}")
    module = importlib.import_module(f"discover_rl.{room}.{name}")
    prefix = "strategy." if room == "strategies" else ""
    groups = [(prefix, module.Hyper), *([] if prefix else SHARED.items())]
    typer.echo(f"{name}: {rooms[room][name]}")
    for prefix, cls in groups:
        for field in dataclasses.fields(cls):
            default = field.default
            text = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
            words = "|".join(field.metadata["choices"])
            said = field.metadata["help"] + (f" ({words})" if words else "")
            typer.echo(f"  {prefix + field.name:<27} {text:<11} {said}")
