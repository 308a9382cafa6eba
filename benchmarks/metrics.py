"""What metrics of training cost: steps per second with them and without, and the time that
measuring takes by itself. Both take turns, and each is first as often as the other.

python benchmarks/metrics.py TASK ALGORITHM STRATEGY FROM TO [NAME=VALUE …]

Steps are counted from FROM to TO, so that neither compiling nor warm-up counts.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import discover_rl
from discover_rl.agents.on_policy.metrics import RolloutMetrics
from discover_rl.training.metrics import Meter

TURNS = 4


class Stopwatch(discover_rl.Observer):
    """Notes when two steps are reached, and the time that measuring took between them."""

    def __init__(self, start: int, end: int):
        self.start, self.end = start, end
        self.began = self.seconds = self.measuring = 0.0

    def timed(self, function: Callable[..., None]) -> Callable[..., None]:
        """The function; the time that it takes is added to `measuring`."""

        def call(*given: Any) -> None:
            before = time.perf_counter()
            function(*given)
            if self.began and not self.seconds:
                self.measuring += time.perf_counter() - before

        return call

    def stepped(self, step: int) -> None:
        if step >= self.start and not self.began:
            self.began = time.perf_counter()
        if step >= self.end and not self.seconds:
            self.seconds = time.perf_counter() - self.began


def trained(settings: dict[str, Any], every: int) -> Stopwatch:
    """A run of these settings, measured every so many steps; -1: never."""
    task, algorithm, strategy, start, end = sys.argv[1:6]
    watch = Stopwatch(int(start), int(end))
    measure, write, note = Meter.measure, Meter.write, RolloutMetrics.note
    Meter.measure, Meter.write = watch.timed(measure), watch.timed(write)
    RolloutMetrics.note = watch.timed(note)
    try:
        with tempfile.TemporaryDirectory() as out:
            discover_rl.train(
                task,
                algorithm=algorithm,
                strategy=strategy,
                steps=watch.end,
                out=out,
                observer=watch,
                **settings | {"metrics.every": every},
            )
    finally:
        Meter.measure, Meter.write, RolloutMetrics.note = measure, write, note
    return watch


def main() -> None:
    settings: dict[str, Any] = {"eval.every": int(sys.argv[5]), "eval.episodes": 1}
    settings |= dict(word.split("=") for word in sys.argv[6:])
    every = int(settings.pop("metrics.every", 0))
    found: dict[str, list[float]] = {"with": [], "without": [], "share": []}
    pair = [("with", every), ("without", -1)]
    for turn in range(TURNS):
        for name, cadence in pair if turn % 2 else reversed(pair):
            watch = trained(settings, cadence)
            found[name].append((watch.end - watch.start) / watch.seconds)
            if name == "with":
                found["share"].append(watch.measuring / watch.seconds)
    medians = {name: statistics.median(values) for name, values in found.items()}
    print(json.dumps({"medians": medians, "all": found}, indent=1))


if __name__ == "__main__":
    main()
