"""Hyper-parameters chosen by Optuna, whose trials train side by side as lanes.

Optuna is asked for a batch of trials, all of them are given to one training, and then it is told
what they came to. What a batch tries depends on the batches before it, the seed and its number, and
on nothing else: not on the process, nor on how far a batch that was stopped had come. So a tuning
that was killed goes on to what it would have come to undisturbed.

    <out>/request.json            what was asked for
    <out>/journal.log             Optuna's own: every trial, its parameters, what it came to
    <out>/batch-000/trial-0/…     the runs of a trial, a folder per seed
    <out>/trials.csv              a line per trial
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

from discover_rl import results, store
from discover_rl.api import default_out, stop_on_signal
from discover_rl.tuning.ranges import Range, parse, possible
from discover_rl.tuning.trials import Journal, Tuning, needed, write_table
from discover_rl.types import Stopped, UserError

if TYPE_CHECKING:
    from discover_rl.config import Run
    from discover_rl.observers import Observer

BATCH = 8
"""Trials at a time. More fill a device better; fewer let Optuna learn from each other sooner."""
FIRST_SEED = 1000
"""Tuning has seeds of its own, so that those of `train`, from 0 on, are fresh."""
MANY = 32
"""Trials of a tuning that was not told how many."""


@dataclass(frozen=True)
class Plan:
    """What is to be tuned, checked."""

    task: str
    algorithm: str
    strategy: str
    steps: int
    seeds: tuple[int, ...]
    overrides: Mapping[str, Any]
    ranges: Mapping[str, Range]
    seed: int
    batch: int

    def runs(self, number: int, parameters: Mapping[str, Any]) -> list[Run]:
        """The runs of a trial, one per seed."""
        named = self.task, self.algorithm, self.strategy, self.steps, self.seeds
        runs = _resolved(*named, {**self.overrides, **parameters})
        return [dataclasses.replace(it, name=f"trial-{number}/seed-{it.seed}") for it in runs]

    def to_json(self) -> dict[str, Any]:
        """The request, fully resolved but for what is tuned."""
        named = {name: it.values for name, it in self.ranges.items()}
        first = possible(named, lambda chosen: self.runs(0, chosen)[0].to_json())
        fixed = {name: it for name, it in first["settings"].items() if name not in self.ranges}
        ranges = {f"--range {name}": str(it) for name, it in self.ranges.items()}
        ours = {"seeds": list(self.seeds), "seed": self.seed, "trials at a time": self.batch}
        return {**first, **ours, "settings": fixed, "ranges": ranges}


def tune(
    task: str,
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
    observer: Observer | None = None,
    checkpoint_seconds: float = 60.0,
    processes: int = 1,
    **overrides: Any,
) -> Tuning:
    """Choose hyper-parameters by Optuna; the best, and all trials.

    What `out` already holds of it is not done again, as with `train`.

    Args:
        task, algorithm, strategy, steps: as for `train`.
        ranges: by the name of a setting, (low, high), (low, high, "log") or a list of choices.
        seeds: how many runs a trial has (seeds 1000, 1001, …), or which seeds.
        trials: how many, those that `out` holds counted in.
        lanes: runs side by side at most; 8 trials by default.
        seed: Optuna's.
        out: folder for everything; runs/TASK-ALGORITHM-STRATEGY-tune by default.
        observer, checkpoint_seconds, processes: as for `train`.
        **overrides: settings that are the same for all trials.

    Example:
        tuning = discover_rl.tune("Pendulum-v1", {"strategy.lam": (0, 1)}, steps=10_000, seeds=3)
        discover_rl.train("Pendulum-v1", steps=10_000, seeds=10, **tuning.best)
    """
    made = plan(task, algorithm, strategy, steps, seeds, ranges, overrides, lanes, seed)
    folder = Path(out) if out is not None else folder_of(task, algorithm, strategy)
    return carry_out(made, folder, trials, observer, checkpoint_seconds, processes)


def folder_of(task: str, algorithm: str, strategy: str) -> Path:
    """Where a tuning goes that was not told."""
    folder = default_out(task, algorithm, strategy)
    return folder.with_name(f"{folder.name}-tune")


def plan(
    task: str,
    algorithm: str,
    strategy: str,
    steps: int,
    seeds: int | Iterable[int],
    ranges: Mapping[str, Any],
    overrides: Mapping[str, Any],
    lanes: int | None = None,
    seed: int = 0,
) -> Plan:
    """The request, checked; a UserError for the first thing in it that cannot be."""
    many = int(seeds) if isinstance(seeds, Integral) else None
    listed: Any = seeds if many is None else range(FIRST_SEED, FIRST_SEED + many)
    named = task, algorithm, strategy, steps, tuple(listed)
    if both := sorted(ranges.keys() & overrides.keys()):
        raise UserError(f"{both[0]} is both set and tuned; leave one of --set and --range away.")

    def cast(chosen: Mapping[str, Any]) -> Mapping[str, Any]:
        return _resolved(*named, {**overrides, **chosen})[0].to_json()["settings"]

    parsed = parse(ranges, cast)
    count = len(named[-1])
    if lanes is not None and lanes < count:
        raise UserError(f"lanes must be at least {count}, one for each seed, not {lanes}.")
    if not 0 <= seed < 2**32:
        raise UserError(f"seed must be at least 0 and below 2³², not {seed}.")
    batch = BATCH if lanes is None else lanes // count
    return Plan(*named, dict(overrides), parsed, seed, batch)


def _resolved(
    task: str,
    algorithm: str,
    strategy: str,
    steps: int,
    seeds: Sequence[int],
    overrides: Mapping[str, Any],
) -> list[Run]:
    """A run per seed; a UserError where a setting is given several values."""
    from discover_rl import config

    runs = config.resolve(task, algorithm, strategy, steps, seeds, overrides)
    if len(runs) > len(seeds):
        ends = [run.to_json()["settings"] for run in (runs[0], runs[-1])]
        name = next(name for name in overrides if ends[0][name] != ends[1][name])
        raise UserError(f"{name} has several values; --range {name}=a,b tries one or the other.")
    return runs


def carry_out(
    made: Plan,
    out: Path,
    count: int,
    observer: Observer | None = None,
    checkpoint_seconds: float = 60.0,
    processes: int = 1,
) -> Tuning:
    """Do what is missing of a plan in `out`. Trials that were begun are ended, asked for or not."""
    from discover_rl import display, envs, training

    if count < 1:
        raise UserError(f"trials must be at least 1, not {count}.")
    needed()
    envs.make(made.task).close()  # before anything is written, as in training
    shown = display.on_terminal(out) if observer is None else contextlib.nullcontext(observer)
    with store.locked(out):
        _claim(made, out)
        journal = Journal(out, made.ranges)
        count = max(count, len(journal.trials))
        with shown as listener, stop_on_signal() as stopping:

            def train(runs: list[Run], folder: Path) -> dict[str, store.Record]:
                if stopping():
                    raise Stopped(0)
                options = listener, stopping, checkpoint_seconds, processes
                return training.train(runs, folder, *options)

            for start in range(0, count, made.batch):
                journal.propose(start, min(made.batch, count - start), made.seed)
                if _end(made, journal, start, out, train) and observer is None:
                    display.say(_so_far(Tuning(out, journal.trials), count))
                write_table(out / "trials.csv", journal.trials, made.seeds)
        return Tuning(out, journal.trials)


def _so_far(tuning: Tuning, count: int) -> str:
    over = sum(it.over for it in tuning.trials)
    best = next((f"trial {it.number} with {it.score:.1f}" for it in tuning.ranking), "none")
    return f"{over} of {count} trials; the best is {best}."


def _claim(made: Plan, out: Path) -> None:
    """Write the request down; a UserError if the folder holds something else."""
    path, ours = out / "request.json", made.to_json()
    if not path.exists():
        if next(out.rglob("record.jsonl"), None):
            raise UserError(f"{out} holds runs that are no tuning's; choose another --out.")
        store.write(path, json.dumps(ours, indent=1, ensure_ascii=False).encode())
        return
    try:
        there = json.loads(path.read_bytes())
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}); choose another --out.") from error
    there, here = (
        {**it, **it["settings"], **it["ranges"], "settings": None, "ranges": None}
        for it in (there, ours)
    )
    for name in sorted(there.keys() | here.keys()):
        old, new = (it.get(name, "nothing") for it in (there, here))
        if old != new:
            raise UserError(
                f"{out} holds another tuning: {name} is {old} there and {new} here; "
                "choose another --out."
            )


def _end(
    made: Plan,
    journal: Journal,
    start: int,
    out: Path,
    train: Callable[[list[Run], Path], Mapping[str, store.Record]],
) -> bool:
    """Train what is open of a batch and tell Optuna; whether there was anything."""
    batch = journal.trials[start : start + made.batch]
    if all(trial.over for trial in batch):
        return False
    first: dict[str, int] = {}  # parameters may come again, most of all where they are choices
    for trial in journal.trials:
        first.setdefault(str(trial.parameters), trial.number)
    runs: dict[int, list[Run]] = {}
    refused: dict[int, str] = {}
    for trial in batch:
        if first[str(trial.parameters)] == trial.number:
            try:
                runs[trial.number] = made.runs(trial.number, trial.parameters)
            except UserError as error:  # each value is possible, but not all of them together
                refused[trial.number] = str(error)
    everyone = [run for its in runs.values() for run in its]
    folder = out / f"batch-{start // made.batch:03}"
    records = train(everyone, folder) if everyone else {}
    for trial in batch:
        twin = journal.trials[first[str(trial.parameters)]]
        if trial.over:
            continue
        if twin.number < trial.number:
            journal.tell(trial.number, twin.scores, twin.failure)
        elif trial.number in refused:
            journal.tell(trial.number, (), refused[trial.number])
        else:
            ended = [results.read(records[run.name]) for run in runs[trial.number]]
            scores = [result.score() for result in ended]
            journal.tell(trial.number, scores, _failure(ended))
    return True


def _failure(ended: Sequence[results.Result]) -> str | None:
    """What ended a run early, if anything ended one."""
    for result in ended:
        if result.failure:
            return f"{result.reason}, seed {result.run['seed']}"
    return None
