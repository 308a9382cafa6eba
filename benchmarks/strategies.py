"""What a step costs with each strategy, in multiples of what it costs with Gaussian noise.

    python benchmarks/strategies.py [--repetitions 3] [--only REGEX] [--out FILE.json]

One run of HalfCheetah-v5 after another, learning included, evaluation and compiling not. Times are
the processor's, on one thread, so that other work on the machine hardly matters. All strategies
take turns; a ratio is that of medians.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import discover_rl
from discover_rl.config.resolve import pairs
from discover_rl.system import hardware, provenance

TASK, BASE = "HalfCheetah-v5", "gaussian"
SPANS = {"td3": (1_100, 1_500), "sac": (1_100, 1_400), "ppo": (4_096, 8_192)}
"""Between which steps time is taken, of an algorithm: all of them learn."""


class Marks(discover_rl.Observer):
    """Notes the processor's time when a run has reached each of two steps."""

    def __init__(self, start: int, end: int):
        self.times = {start: 0.0, end: 0.0}

    def stepped(self, step: int) -> None:
        for mark, when in self.times.items():
            if step >= mark and not when:
                self.times[mark] = time.process_time()


def measure(algorithm: str, strategy: str) -> float:
    """Milliseconds of a step."""
    start, end = SPANS[algorithm]
    settings: dict[str, Any] = {"eval.every": end, "eval.episodes": 1}
    if algorithm != "ppo":
        settings |= {"warmup": 1_000, "replay_size": 10_000}
    marks = Marks(start, end)
    with tempfile.TemporaryDirectory() as out:
        discover_rl.train(
            TASK,
            algorithm=algorithm,
            strategy=strategy,
            steps=end,
            out=out,
            observer=marks,
            processes=1,
            **settings,
        )
    return 1e3 * (marks.times[end] - marks.times[start]) / (end - start)


def main() -> None:
    parser = argparse.ArgumentParser(description="What a step costs with each strategy.")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--only", default="", help="cells this matches, such as 'td3 (pink|see)'")
    parser.add_argument("--out", type=Path, default=Path("strategies.json"))
    args = parser.parse_args()
    found = [cell for cell in pairs() if cell[0] in SPANS and re.search(args.only, " ".join(cell))]
    bases = [(algorithm, BASE) for algorithm in dict.fromkeys(cell[0] for cell in found)]
    cells = list(dict.fromkeys([*bases, *found]))
    times: dict[str, list[float]] = {" ".join(cell): [] for cell in cells}
    for _ in range(args.repetitions):
        for cell in cells:
            times[" ".join(cell)].append(measure(*cell))
            print(f"{' '.join(cell):<20} {times[' '.join(cell)][-1]:8.3f} ms", flush=True)
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"\n{'median':<20} {'ms a step':>9}  times {BASE}")
    for algorithm, strategy in cells:
        name = f"{algorithm} {strategy}"
        ratio = medians[name] / medians[f"{algorithm} {BASE}"]
        print(f"{name:<20} {medians[name]:9.3f}  {ratio:.2f}")
    content = {
        "unit": "milliseconds of the processor for a step, one thread",
        "processor": hardware.device_name(),
        "code": provenance.code(),
        "commit": provenance.commit(),
        "measured": times,
    }
    args.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
