"""Train a cell of a stored study once more, as far as its first evaluations, and compare.

    python results/reproduce.py [STUDY] [CELL] [STEPS]

A run of A2C or PPO depends on its seed, the versions and the kind of processor alone. So where
these are as they were, every return comes out the same to the last bit. Elsewhere roundings differ
and runs soon part: there, the means of all seeds must agree as far as seeds scatter.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from discover_rl import store, studies, training
from discover_rl.config import Run
from discover_rl.observers import Observer
from discover_rl.store import Record
from discover_rl.types import Stopped

HERE = Path(__file__).parent
ERRORS = 4.0
"""Standard errors by which means may differ: chance exceeds it about once in a thousand times."""
Returns = Mapping[int, Sequence[Sequence[float]]]
"""By step, of every seed, of every episode."""


class Progress(Observer):
    """Asks to stop once a step is reached."""

    def __init__(self, until: int):
        self.step, self.until = 0, until

    def stepped(self, step: int) -> None:
        if step // 5000 > self.step // 5000:
            print(f"\r{step:,} of {self.until:,} steps", end="", flush=True)
        self.step = step

    def enough(self) -> bool:
        return self.step > self.until


def main() -> None:
    given = dict(enumerate(sys.argv[1:]))
    name, cell, steps = given.get(0, "ppo-hopper"), given.get(1, "discover"), given.get(2, "40000")
    study = studies.load(HERE / f"{name}.toml")
    runs = next(it.runs for it in study.cells if it.arm == cell)
    with tempfile.TemporaryDirectory() as folder:
        trained(runs, Path(folder), int(steps))
        new = evaluations(runs, Path(folder), int(steps))
    print(f"\r{study.name}, {cell}: {len(runs)} seeds, {int(steps):,} steps")
    sys.exit(not compared(evaluations(runs, HERE / name, int(steps)), new))


def trained(runs: Sequence[Run], out: Path, until: int) -> None:
    """The beginning of these runs: all of them would be a million steps."""
    progress = Progress(until)
    try:
        training.train(runs, out, progress, progress.enough, processes=0)
    except Stopped:
        return


def evaluations(runs: Sequence[Run], out: Path, until: int) -> Returns:
    records = [Record(store.record_of(out, run.name)) for run in runs]
    steps = [line["step"] for line in records[0].evaluations if line["step"] <= until]
    return {step: [_returns(record, step) for record in records] for step in steps}


def compared(stored: Returns, new: Returns) -> bool:
    """Whether they agree; said step by step."""
    agree = bool(stored) and list(stored) == list(new)
    for step in stored:
        theirs, ours = stored[step], new.get(step, [])
        if list(map(list, theirs)) == list(map(list, ours)):
            print(f"{step:9,}  the same to the last bit")
            continue
        before, after = ([sum(it) / len(it) for it in side] for side in (theirs, ours))
        apart = abs(_mean(after) - _mean(before))
        allowed = ERRORS * math.hypot(_error(before), _error(after))
        # Before anything is learned there is nothing to scatter but the last digits.
        limit = 0.01 * abs(_mean(before)) if step == 0 else allowed
        fine = apart <= limit
        agree &= fine
        verdict = "agrees" if fine else "DIFFERS"
        told = f"stored {_mean(before):.1f}, now {_mean(after):.1f}"
        print(f"{step:9,}  {told}: {verdict} (within {limit:.1f})")
    return agree


def _returns(record: Record, step: int) -> list[float]:
    return next(line["returns"] for line in record.evaluations if line["step"] == step)


def _mean(x: Sequence[float]) -> float:
    return sum(x) / len(x) if x else math.nan


def _error(x: Sequence[float]) -> float:
    mean = _mean(x)
    return math.sqrt(sum((it - mean) ** 2 for it in x) / max(1, len(x) - 1) / max(1, len(x)))


if __name__ == "__main__":
    main()
