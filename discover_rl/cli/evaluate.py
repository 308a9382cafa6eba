"""`discover evaluate`: evaluate saved policies, and film one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from discover_rl.cli.options import Trust
from discover_rl.core.types import LARGEST_SEED, UserError
from discover_rl.system.paths import a_file, a_folder


def evaluate(
    path: Annotated[
        Path,
        typer.Argument(
            help="The folder of a run, or of several.", parser=a_folder, metavar="FOLDER"
        ),
    ],
    episodes: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, help="Episodes per policy.", show_default="10; of a video 1"
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            help="A task other than the one of training, or the module of that, as module:id."
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=LARGEST_SEED,
            help="Start from the states of a run of this seed.",
            show_default="each run's own",
        ),
    ] = None,
    video: Annotated[
        Path | None,
        typer.Option(help="Film the episodes of one policy.", metavar="FILE.mp4", parser=a_file),
    ] = None,
    best: Annotated[
        bool,
        typer.Option(
            "--best",
            metavar="",
            help="The policy that was best in an evaluation, not the last one.",
        ),
    ] = False,
    trust: Trust = None,
) -> None:
    """Evaluate saved policies without exploration.

    Episodes start from the states of the run's own evaluations, or from those of --seed. A policy's
    files run no code. If it was trained on a module:id, name that by --task: the module is imported
    only then.
    """
    from rich.table import Table

    from discover_rl.analysis.video import film
    from discover_rl.envs.versions import completed, is_registered
    from discover_rl.storage.policies import LAST, find_policies, load_policy
    from discover_rl.system.modules import check_named
    from discover_rl.training.evaluation import (
        backend_of,
        evaluate_policy,
        is_own,
        own_settings,
        was_edited,
    )
    from discover_rl.training.observers.terminal import console, say, shown

    if task == "":
        raise UserError("--task takes a Gymnasium id, or module:id, not ''.")
    task = completed(task) if task else None
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
        policy = load_policy(folder, best)
        own = policy.about.get("task", "")
        played = task or own
        if not played:
            raise UserError(f"{folder} does not say what it was trained on; name it by --task.")
        settings = own_settings(policy, played)
        if is_own(policy, played) and not is_registered(played):
            raise UserError(
                f"No module that is imported here registers {own}, which {folder} was trained on; "
                f"name the one that does: --task module:{own.rpartition(':')[2]}."
            )
        hint = "" if task or ":" not in own else f"--task {own}"
        check_named(folder / LAST.description, played, settings, [*(trust or []), task or ""], hint)
        if video:
            scores = film(policy, played, video, episodes or 1, seed)
            if backend_of(policy, played) == "envpool":
                say("The run was evaluated by EnvPool, whose episodes start from other states.")
        else:
            scores = evaluate_policy(policy, played, episodes or 10, seed)
        if was_edited(policy, folder, played):
            say(f"Note: the code of {played} has changed since {folder} was trained on it.")
        table.add_row(
            shown(str(folder.relative_to(path) if folder != path else folder)),
            shown(own),
            f"{policy.about.get('step', 0):,}",
            f"{scores.returns.mean():.1f}",
            f"{scores.returns.std():.1f}",
            f"{scores.lengths.mean():.0f}",
        )
    console.print(table)
    if video:
        say(f"Video: {video}")
