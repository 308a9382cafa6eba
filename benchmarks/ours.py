"""Environment steps per second of one cell here, learning included, evaluation and compiling not.

python benchmarks/ours.py TASK ALGORITHM STRATEGY SEEDS FROM TO [NAME=VALUE …]
"""

import json
import sys
import tempfile
import time
from typing import Any

import discover_rl


class Marks(discover_rl.Observer):
    """Notes when every run has reached each of two steps."""

    def __init__(self, start: int, end: int):
        self.times = {start: 0.0, end: 0.0}

    def stepped(self, step: int) -> None:
        for mark, when in self.times.items():
            if step >= mark and not when:
                self.times[mark] = time.perf_counter()


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
    seconds = marks.times[end] - marks.times[start]
    print(json.dumps({"steps_per_second": seeds * (end - start) / seconds}))


if __name__ == "__main__":
    main()
