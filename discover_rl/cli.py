"""The `discover` command. Everything heavy is imported inside the command that needs it."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from discover_rl._version import __version__
from discover_rl.types import Stopped, UserError

app = typer.Typer(
    help="Exploration in continuous control: train, compare and report.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

USER_ERROR, FAILED, INTERRUPTED = 2, 1, 130


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command()
def train(
    task: Annotated[str, typer.Argument(help="A Gymnasium id (Hopper-v5), or module:id.")],
    algorithm: Annotated[str, typer.Option(help="What learns; see `discover list`.")] = "td3",
    strategy: Annotated[
        str, typer.Option(help="How it explores; see `discover list`.")
    ] = "discover",
    steps: Annotated[int, typer.Option(help="Environment steps of each run.")] = 1_000_000,
    seeds: Annotated[int, typer.Option(help="How many seeds: 0, 1, …")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Folder for records and policies.", show_default="runs/…")
    ] = None,
    processes: Annotated[
        int,
        typer.Option(min=0, help="How many share the runs; 0: as many as pay.", metavar="<int>"),
    ] = 0,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A setting: gamma=0.98, strategy.lam=0.1, eval.every=1000, hidden=64,64; "
            "`discover list ALGORITHM` has all. Several values for a float (strategy.lam=0.1,0.3) "
            "make a run of each.",
        ),
    ] = None,
) -> None:
    """Train, or go on where the same command was stopped.

    Ctrl-C leaves a checkpoint; so does a crash, about once a minute. The same command again goes on
    from there, exactly.
    """
    from discover_rl import api, display

    overrides = dict(_pair(text) for text in settings or [])
    folder = out if out is not None else api.default_out(task, algorithm, strategy)
    results = api.launch(
        task, algorithm, strategy, steps, seeds, folder, overrides, processes=processes
    )
    display.show_results(results, folder)
    if any(result.failure for result in results):
        raise typer.Exit(FAILED)


@app.command()
def evaluate(
    path: Annotated[Path, typer.Argument(help="A run's folder, or one that holds several.")],
    episodes: Annotated[int, typer.Option(min=1, help="Episodes per policy.")] = 10,
    task: Annotated[str | None, typer.Option(help="Another task than it was trained on.")] = None,
) -> None:
    """Play saved policies greedily, from the states that their evaluations started from."""
    from rich.table import Table
    from rich.text import Text

    from discover_rl.display import console
    from discover_rl.evaluate import evaluate_policy
    from discover_rl.policy import find_policies, load_policy

    folders = find_policies(path)
    if not folders:
        raise UserError(f"There is no saved policy in {path}.")
    table = Table()
    for i, name in enumerate(
        ("policy", "trained on", "step", "mean return", "± sd", "mean length")
    ):
        table.add_column(name, justify="left" if i < 2 else "right", overflow="fold")
    for folder in folders:
        policy = load_policy(folder)
        scores = evaluate_policy(policy, task or policy.about["task"], episodes)
        table.add_row(
            Text(str(folder.relative_to(path) if folder != path else folder)),
            policy.about["task"],
            f"{policy.about['step']:,}",
            f"{scores.returns.mean():.1f}",
            f"{scores.returns.std():.1f}",
            f"{scores.lengths.mean():.0f}",
        )
    console.print(table)


@app.command(name="list")
def list_(
    name: Annotated[
        str | None, typer.Argument(help="An algorithm or strategy: its settings.")
    ] = None,
) -> None:
    """The algorithms and strategies there are; with a name, its settings and their defaults."""
    from discover_rl.algorithms import ALGORITHMS
    from discover_rl.strategies import STRATEGIES

    if name is not None:
        _describe(name)
        return
    for title, members in (("algorithms", ALGORITHMS), ("strategies", STRATEGIES)):
        typer.echo(title)
        for member, sentence in members.items():
            typer.echo(f"  {member:<10} {sentence}")
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
    from discover_rl.config import Compute, Env, Eval
    from discover_rl.hyper import nearest
    from discover_rl.strategies import STRATEGIES

    rooms = {"algorithms": ALGORITHMS, "strategies": STRATEGIES}
    room = next((room for room, members in rooms.items() if name in members), None)
    if room is None:
        known = [*ALGORITHMS, *STRATEGIES]
        raise UserError(f"There is no algorithm or strategy {name}.{nearest(name, known)}")
    module = importlib.import_module(f"discover_rl.{room}.{name}")
    prefix = "strategy." if room == "strategies" else ""
    shared = [("eval.", Eval), ("env.", Env), ("compute.", Compute)]
    groups = [(prefix, module.Hyper)] + ([] if prefix else shared)
    typer.echo(f"{name}: {rooms[room][name]}")
    for prefix, cls in groups:
        for field in dataclasses.fields(cls):
            default = field.default
            text = ",".join(map(str, default)) if isinstance(default, tuple) else str(default)
            words = "|".join(field.metadata["choices"])
            said = field.metadata["help"] + (f" ({words})" if words else "")
            typer.echo(f"  {prefix + field.name:<27} {text:<11} {said}")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise UserError(f"--set takes NAME=VALUE, not {text!r}.")
    return name.strip(), value.strip()


def main() -> NoReturn:
    """Run the command; mistakes are one sentence and exit code 2."""
    sys.path.append(os.getcwd())  # so that module:id finds a module of the user's own
    command = shlex.join(["discover", *sys.argv[1:]])
    try:
        code = app(standalone_mode=False)
    except UserError as error:
        _exit(str(error), USER_ERROR)
    except BrokenPipeError:  # who read our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except Stopped as stop:
        _exit(f"Stopped at step {stop.step:,}, all is saved. To go on: {command}", INTERRUPTED)
    except KeyboardInterrupt:
        _exit("Stopped at once; the last checkpoint is kept.", INTERRUPTED)
    except ChildProcessError as error:
        _exit(str(error), FAILED)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        _exit(
            f"The disk said: {error.strerror or error}{where}. Records and the last checkpoint are "
            f"whole; mend it and run the same command again: {command}",
            FAILED,
        )
    except Exception as error:
        # The command line's own complaints, of a word it does not know, say it in one sentence.
        if complaint := getattr(error, "format_message", None):
            _exit(complaint(), USER_ERROR)
        raise
    sys.exit(code or 0)


def _exit(message: str, code: int) -> NoReturn:
    print(message, file=sys.stderr)
    sys.exit(code)
