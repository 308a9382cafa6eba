"""Environment steps per second of one cell here, learning included, evaluation and compiling not.

python benchmarks/ours.py TASK ALGORITHM STRATEGY SEEDS FROM TO [NAME=VALUE …]
"""

import json
import sys
import tempfile
import time
from typing import Any

import discover_rl
from discover_rl.observers import Observer


class Watch(Observer):
    """Notes when every run has reached two steps."""

    def __init__(self, start: int, end: int):
        self.marks = {start: 0.0, end: 0.0}

    def stepped(self, step: int) -> None:
        for mark, when in self.marks.items():
            if step >= mark and not when:
                self.marks[mark] = time.perf_counter()


def main() -> None:
    task, algorithm, strategy, *numbers = sys.argv[1:7]
    seeds, start, end = map(int, numbers)
    settings: dict[str, Any] = dict(word.split("=") for word in sys.argv[7:])
    watch = Watch(start, end)
    with tempfile.TemporaryDirectory() as out:
        discover_rl.train(
            task,
            algorithm=algorithm,
            strategy=strategy,
            steps=end,
            seeds=seeds,
            out=out,
            observer=watch,
            processes=0,
            **settings | {"eval.every": end, "eval.episodes": 1},
        )
    seconds = watch.marks[end] - watch.marks[start]
    print(json.dumps({"steps_per_second": seeds * (end - start) / seconds}))


if __name__ == "__main__":
    main()
