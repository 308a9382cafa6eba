"""Train the first steps of a stored study's arm again, and compare them with the records.

    python results/reproduce.py [STUDY] [ARM] [STEPS]

A run of A2C or PPO depends on its seed, the versions and the kind of processor alone. If these are
the same as they were, every return is the same to the last bit. Otherwise rounding differs and runs
soon go their own ways: then the means over all seeds must agree as well as seeds scatter.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from discover_rl import studies
from discover_rl.config import Run
from discover_rl.core.types import Stopped
from discover_rl.storage.records import Record, record_path
from discover_rl.training import launch
from discover_rl.training.observers import Observer

HERE = Path(__file__).parent
ERRORS = 4.0
"""How many standard errors means may differ by: chance exceeds this about once in a thousand."""
Returns = Mapping[int, Sequence[Sequence[float]]]
"""By step: for each seed the returns of its episodes."""


class Progress(Observer):
    """Prints the step, and knows when it is past the last one that is wanted."""

    def __init__(self, until: int):
        self.step, self.until = 0, until

    def stepped(self, step: int) -> None:
        """Print every 5,000 steps."""
        if step // 5000 > self.step // 5000:
            print(f"\r{step:,} of {self.until:,} steps", end="", flush=True)
        self.step = step

    def enough(self) -> bool:
        """Whether training may stop."""
        return self.step > self.until


def main() -> None:
    """Exit with 0 if the arm that is asked for agrees with its records, else with 1."""
    defaults = ["ppo-hopper", "discover", "40000"]
    name, arm, steps = (sys.argv[1:] + defaults[len(sys.argv) - 1 :])[:3]
    study = studies.load(HERE / f"{name}.toml")
    runs = next(cell.runs for cell in study.cells if cell.arm == arm)
    with tempfile.TemporaryDirectory() as folder:
        train_beginning(runs, Path(folder), int(steps))
        new = evaluations(runs, Path(folder), int(steps))
    print(f"\r{study.name}, {arm}: {len(runs)} seeds, {int(steps):,} steps")
    sys.exit(not agree(evaluations(runs, HERE / name, int(steps)), new))


def train_beginning(runs: Sequence[Run], out: Path, until: int) -> None:
    """Train runs into a folder, and stop soon after step `until`."""
    progress = Progress(until)
    try:
        launch.train(runs, out, progress, progress.enough, processes=0)
    except Stopped:
        return


def evaluations(runs: Sequence[Run], out: Path, until: int) -> Returns:
    """The returns that a folder's records have up to step `until`."""
    records = [Record(record_path(out, run.name)) for run in runs]
    steps = [line["step"] for line in records[0].evaluations if line["step"] <= until]
    return {step: [_returns(record, step) for record in records] for step in steps}


def agree(stored: Returns, new: Returns) -> bool:
    """Whether new returns agree with stored ones; prints the comparison step by step."""
    all_agree = bool(stored) and list(stored) == list(new)
    for step in stored:
        before, after = stored[step], new.get(step, [])
        if list(map(list, before)) == list(map(list, after)):
            print(f"{step:9,}  the same to the last bit")
            continue
        old_means, new_means = ([_mean(returns) for returns in side] for side in (before, after))
        apart = abs(_mean(new_means) - _mean(old_means))
        allowed = ERRORS * math.hypot(_standard_error(old_means), _standard_error(new_means))
        # Before anything is learned, only the last digits can differ.
        limit = 0.01 * abs(_mean(old_means)) if step == 0 else allowed
        fine = apart <= limit
        all_agree &= fine
        verdict = "agrees" if fine else "DIFFERS"
        means = f"stored {_mean(old_means):.1f}, now {_mean(new_means):.1f}"
        print(f"{step:9,}  {means}: {verdict} (within {limit:.1f})")
    return all_agree


def _returns(record: Record, step: int) -> list[float]:
    return next(line["returns"] for line in record.evaluations if line["step"] == step)


def _mean(x: Sequence[float]) -> float:
    return sum(x) / len(x) if x else math.nan


def _standard_error(x: Sequence[float]) -> float:
    mean = _mean(x)
    squares = sum((number - mean) ** 2 for number in x)
    return math.sqrt(squares / max(1, len(x) - 1) / max(1, len(x)))


if __name__ == "__main__":
    main()
