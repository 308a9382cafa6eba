"""The Python interface: `discover_rl.train`, and what it returns.

Nothing heavy is imported before it is needed: `import discover_rl` and `discover --help` are quick.
"""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discover_rl import results
from discover_rl.results import Result

if TYPE_CHECKING:
    from discover_rl.observers import Observer


def default_out(task: str, algorithm: str, strategy: str) -> Path:
    """Where runs go that were not told."""
    return Path("runs") / f"{task.replace(':', '-').replace('/', '-')}-{algorithm}-{strategy}"


def train(
    task: str,
    *,
    algorithm: str = "td3",
    strategy: str = "discover",
    steps: int = 1_000_000,
    seeds: int | Iterable[int] = 1,
    out: str | Path | None = None,
    observer: Observer | Iterable[Observer | None] | None = None,
    checkpoint_seconds: float = 60.0,
    processes: int = 1,
    **overrides: Any,
) -> list[Result]:
    """Train on a Gymnasium task, several seeds in lockstep; one Result per run.

    What `out` already holds of it is not done again: call it once more after a crash, or after
    Ctrl-C, and it goes on where it was.

    Args:
        task: a Gymnasium id ("Hopper-v5"), or "module:id" for an id that `module` registers.
        algorithm: a name from ALGORITHMS.
        strategy: a name from STRATEGIES.
        steps: environment steps of each run.
        seeds: how many (0, 1, …), or which.
        out: folder for records and policies; runs/TASK-ALGORITHM-STRATEGY by default.
        observer: hears of progress, one or several; None, also among several, shows it on the
            terminal.
        checkpoint_seconds: how far apart checkpoints are.
        processes: how many share the runs at most; 0: as many as pay. Above 1, the script that
            calls this needs the usual `if __name__ == "__main__":` around it.
        **overrides: settings by name: gamma=0.98, **{"strategy.lam": 0.1, "eval.every": 500}.
            A list for a float makes a run of each value, all in lockstep.

    Example:
        results = discover_rl.train("Pendulum-v1", steps=15_000, seeds=3)
        action, _ = results[0].policy().predict(obs)
    """
    folder = Path(out) if out is not None else default_out(task, algorithm, strategy)
    return launch(
        task,
        algorithm,
        strategy,
        steps,
        seeds,
        folder,
        overrides,
        observer,
        checkpoint_seconds,
        processes,
    )


def launch(
    task: str,
    algorithm: str,
    strategy: str,
    steps: int,
    seeds: int | Iterable[int],
    folder: Path,
    overrides: Mapping[str, Any],
    observer: Observer | Iterable[Observer | None] | None = None,
    checkpoint_seconds: float = 60.0,
    processes: int = 1,
) -> list[Result]:
    """`train`, with the settings in a mapping, where no name can be taken for an argument."""
    with contextlib.ExitStack() as stack:
        stopping = stack.enter_context(stop_on_signal())  # importing takes a second, too
        from discover_rl import config, display, tasks, training
        from discover_rl.observers import Several

        runs = config.resolve(task, algorithm, strategy, steps, seeds, overrides)
        tasks.make(task).close()  # before anything is written, so that a wrong task leaves no trace
        asked = list(observer) if isinstance(observer, Iterable) else [observer]
        everyone = Several(
            stack.enter_context(display.on_terminal(folder)) if it is None else it for it in asked
        )
        records = training.train(runs, folder, everyone, stopping, checkpoint_seconds, processes)
    return [results.read(records[run.name]) for run in runs]


@contextlib.contextmanager
def stop_on_signal() -> Iterator[Callable[[], bool]]:
    """Ctrl-C and SIGTERM ask training to stop after a checkpoint; a second one stops it at once."""
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False  # signals belong to the main thread
        return
    asked = threading.Event()

    def ask(number: int, frame: Any) -> None:
        del number, frame
        if asked.is_set():
            print("Stopped at once; the last checkpoint is kept.", file=sys.stderr)
            raise KeyboardInterrupt
        asked.set()

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
