"""Environment steps per second of one cell here, learning included, evaluation and compiling not.

    python benchmarks/ours.py TASK ALGORITHM STRATEGY SEEDS FROM TO [NAME=VALUE …]

Prints them by the clock and, of one seed, by the time that its process had a processor. The latter
says more where the machine does other work, and counts all threads.
"""

import json
import sys
import tempfile
import time
from typing import Any

import discover_rl


class Marks(discover_rl.Observer):
    """Notes when every run has reached each of two steps, by the clock and by processor time."""

    def __init__(self, start: int, end: int):
        self.times: dict[int, tuple[float, float]] = {}
        self.steps = start, end

    def stepped(self, step: int) -> None:
        for mark in self.steps:
            if step >= mark and mark not in self.times:
                self.times[mark] = time.perf_counter(), time.process_time()


def main() -> None:
    task, algorithm, strategy, *numbers = sys.argv[1:7]
    seeds, start, end = map(int, numbers)
    settings: dict[str, Any] = dict(word.split("=") for word in sys.argv[7:])
    settings |= {"eval.every": end, "eval.episodes": 1}
    marks = Marks(start, end)
    with tempfile.TemporaryDirectory() as out:
        discover_rl.train(
            task,
            algorithm=algorithm,
            strategy=strategy,
            steps=end,
            seeds=seeds,
            out=out,
            observer=marks,
            processes=0,
            **settings,
        )
    names = ("steps_per_second", "steps_per_processor_second")[: 1 + (seeds == 1)]
    pairs = zip(names, marks.times[start], marks.times[end], strict=False)
    print(json.dumps({name: seeds * (end - start) / (to - since) for name, since, to in pairs}))


if __name__ == "__main__":
    main()
