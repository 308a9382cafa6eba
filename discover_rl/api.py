"""The Python interface: what `import discover_rl` gives.

Nothing heavy is imported before it is needed: `import discover_rl` and `discover --help` are quick.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discover_rl.config import Request, check_processes, check_seconds, resolve
from discover_rl.core.types import UserError
from discover_rl.storage import results
from discover_rl.storage.files import move_aside
from discover_rl.storage.results import Result
from discover_rl.system import hardware
from discover_rl.system.paths import a_folder
from discover_rl.training.signals import stop_on_signal

if TYPE_CHECKING:
    from discover_rl.training.observers import Observer


def train(
    task: str | Callable[..., Any] | Any = None,
    *,
    env: str | Callable[..., Any] | Any = None,
    env_kwargs: Mapping[str, Any] | None = None,
    algorithm: str = "td3",
    strategy: str = "discover",
    steps: int = 1_000_000,
    seeds: int | Iterable[int] = 1,
    out: str | Path | None = None,
    observer: Observer | Iterable[Observer | None] | None = None,
    checkpoint_seconds: float = 60.0,
    processes: int = 1,
    fresh: bool = False,
    anyway: bool = False,
    wrappers: Iterable[str | Callable[[Any], Any]] = (),
    start_from: str | Path | None = None,
    **overrides: Any,
) -> list[Result]:
    """Train on a Gymnasium task, several seeds in lockstep; return one Result per run.

    Runs that `out` already holds are not trained again. After a crash, or after Ctrl-C, the same
    call continues from the last checkpoint.

    Args:
        task: a Gymnasium id ("Hopper-v5"), or "module:id" for an id that `module` registers; a
            function or class that makes an environment; or an environment, which is copied for each
            seed and stays as it is.
        env: the same, by another name.
        env_kwargs: arguments of `gymnasium.make`, or of the function or class.
        algorithm: a name from ALGORITHMS.
        strategy: a name from STRATEGIES.
        steps: environment steps of each run.
        seeds: how many seeds (0, 1, …), or a list of them.
        out: folder for records and policies; runs/TASK-ALGORITHM-STRATEGY by default.
        observer: receives the events of training; one or several. None, also among several, stands
            for the one that shows progress on the terminal.
        checkpoint_seconds: time between checkpoints.
        processes: the largest number of processes; 0: as many as are faster. With more than one,
            the script that calls this needs the usual `if __name__ == "__main__":` around it.
        fresh: start over; the contents of `out` are moved aside, to OUT.old-1, OUT.old-2, …
        anyway: continue in `out` even if the code of your own task has changed since; the records
            say so.
        wrappers: Gymnasium wrappers around the task, the innermost first: functions or classes,
            or their names, "module:function".
        start_from: the folder of a run whose networks, optimisers, strategy and replay the new runs
            start with; it has its replay if compute.keep_checkpoint was true. The default of `out`
            is then runs/TASK-ALGORITHM-STRATEGY-warm.
        **overrides: settings by name: gamma=0.98, **{"strategy.lam": 0.1, "eval.every": 500}.
            A list for a float makes a run of each value, all in lockstep.

    Examples:
        >>> import discover_rl
        >>> results = discover_rl.train("Pendulum-v1", steps=15_000, seeds=3)  # doctest: +SKIP
        >>> results[0].policy().predict([1.0, 0.0, 0.0])[0].shape  # doctest: +SKIP
        (1,)
    """
    # Here, because they import Gymnasium.
    from discover_rl.envs.objects import processes_for, task_of, wrapper_names
    from discover_rl.envs.versions import completed

    given = [it for it in (task, env) if it is not None]
    if len(given) != 1:
        raise UserError("train takes one task: an id, a function, a class or an environment.")
    name = completed(given[0]) if isinstance(given[0], str) else task_of(given[0])
    named = wrapper_names(wrappers)
    processes = processes_for((name, *named), check_processes(processes))
    if not isinstance(env_kwargs or {}, Mapping):
        raise UserError(f"env_kwargs are arguments by name, not {type(env_kwargs).__name__}.")
    if env_kwargs:
        overrides["env.kwargs"] = dict(env_kwargs)
    if named:
        overrides["env.wrappers"] = named
    request = Request(name, algorithm, strategy, steps, seeds, overrides, str(start_from or ""))
    folder = request.default_folder if out is None else a_folder(out)
    return launch(request, folder, observer, checkpoint_seconds, processes, fresh, anyway)


def launch(
    request: Request,
    folder: Path,
    observer: Observer | Iterable[Observer | None] | None = None,
    checkpoint_seconds: float = 60.0,
    processes: int = 1,
    fresh: bool = False,
    anyway: bool = False,
) -> list[Result]:
    """Like `train`, for a request."""
    with contextlib.ExitStack() as stack:
        stopping = stack.enter_context(stop_on_signal())  # importing takes a second, too
        from discover_rl.envs.backends import spaces
        from discover_rl.training import launch as training
        from discover_rl.training import warm_start
        from discover_rl.training.observers import listed, terminal

        asked, processes = listed(observer), check_processes(processes)
        seconds = check_seconds("checkpoint_seconds", checkpoint_seconds)
        runs = resolve(request if fresh else training.spaced_as_before(request, folder))
        # Before anything is written, so that a wrong task leaves no trace.
        spec = spaces(request.task, runs[0].env, hardware.place(runs[0].on_policy))
        if request.start_from:
            runs = warm_start.started_from(Path(request.start_from), runs, spec, folder, fresh)
        if fresh:
            move_aside(folder)
        everyone = stack.enter_context(terminal.together(asked, folder))
        records = training.train(runs, folder, everyone, stopping, seconds, processes, anyway)
    return [results.read(records[run.name], run.score.last) for run in runs]
