"""Tuning: Optuna chooses hyper-parameters, and its trials train side by side as lanes.

`plan` checks a request, `ranges` reads ranges, `journal` keeps Optuna's journal and `journal_lines`
checks it, `databases` opens other storages, `carry_out` trains, `pruning` stops trials on the way,
`trials` has what came of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discover_rl.config import Request, check_processes
from discover_rl.system.paths import a_file, a_folder
from discover_rl.tuning.carry_out import carry_out
from discover_rl.tuning.plan import MANY, Plan, default_folder, make_plan
from discover_rl.tuning.trials import Trial, Tuning

if TYPE_CHECKING:
    from discover_rl.training.observers import Observer

__all__ = ["MANY", "Plan", "Trial", "Tuning", "carry_out", "default_folder", "make_plan", "tune"]


def tune(
    task: str | Callable[..., Any] | Any,
    ranges: Mapping[str, Any],
    *,
    algorithm: str = "td3",
    strategy: str = "discover",
    steps: int = 1_000_000,
    seeds: int | Iterable[int] = 1,
    trials: int = MANY,
    lanes: int | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    observer: Observer | Iterable[Observer | None] | None = None,
    checkpoint_seconds: float = 60.0,
    processes: int = 1,
    storage: str | Path | None = None,
    prune: str | None = None,
    **overrides: Any,
) -> Tuning:
    """Choose hyper-parameters with Optuna.

    As with `train`, what `out` already holds is not trained again.

    Args:
        task: as for `train`.
        ranges: by the name of a setting, (low, high), (low, high, "log") or a list of choices.
        algorithm: as for `train`.
        strategy: as for `train`.
        steps: as for `train`.
        seeds: how many runs a trial has (seeds 1000, 1001, …), or which seeds.
        trials: how many, including those that `out` holds.
        lanes: the largest number of runs side by side; those of 8 trials by default.
        seed: the seed of Optuna's proposals.
        out: folder for everything; runs/TASK-ALGORITHM-STRATEGY-tune by default.
        observer: as for `train`.
        checkpoint_seconds: as for `train`.
        processes: as for `train`.
        storage: where Optuna keeps trials, a URL such as "sqlite:///tuning.db" or a file for its
            journal; in `out` by default. Its study has the name of the folder `out`.
        prune: "median" to stop trials on the way that are worse than the median of earlier ones;
            by default all are trained to their end.
        **overrides: settings that are the same for all trials.

    Returns:
        The best parameters, and all trials.

    Examples:
        >>> import discover_rl
        >>> tuning = discover_rl.tune(  # doctest: +SKIP
        ...     "Pendulum-v1", {"strategy.lam": (0, 1)}, steps=10_000, seeds=3
        ... )
        >>> discover_rl.train(  # doctest: +SKIP
        ...     "Pendulum-v1", steps=10_000, seeds=10, **tuning.best
        ... )
    """
    # Here, because they import Gymnasium.
    from discover_rl.envs.objects import processes_for, task_of
    from discover_rl.envs.versions import completed

    name = completed(task) if isinstance(task, str) else task_of(task)
    processes = processes_for([name], check_processes(processes))
    if storage is not None and not isinstance(storage, str):
        storage = str(a_file(storage))
    request = Request(name, algorithm, strategy, steps, seeds, overrides)
    plan = make_plan(request, ranges, lanes, seed, prune)
    folder = default_folder(request) if out is None else a_folder(out)
    return carry_out(plan, folder, trials, observer, checkpoint_seconds, processes, storage)
