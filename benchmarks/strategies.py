"""What a step costs with each strategy, in multiples of what it costs with Gaussian noise.

    python benchmarks/strategies.py [--turns 30] [--only REGEX] [--out FILE.json]

A run of HalfCheetah-v5 with each strategy, learning included, evaluation and compiling not. All
runs of an algorithm are in one process and take short turns: some steps of one, as many of the
next, then the first again. So other work on the machine hits all of them alike. Times are the
processor's, on one thread. A ratio is the median of the turns' own ratios, with their quartiles.

The last ratio is without the environments: what a robot does makes its physics cheaper or dearer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from pathlib import Path
from statistics import median, quantiles
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import numpy as np

from discover_rl.agents.build import build_agent
from discover_rl.config import Request, resolve
from discover_rl.config.resolve import pairs
from discover_rl.core.pytrees import stack_floats
from discover_rl.envs.gymnasium_vector import GymnasiumVector
from discover_rl.system import hardware, provenance
from discover_rl.training.agent_setup import setup_of

TASK, BASE, STEPS = "HalfCheetah-v5", "gaussian", 1_000_000
OFF_POLICY, ON_POLICY = ("td3", "sac", "ddpg"), ("ppo", "a2c")
TURN = dict.fromkeys(OFF_POLICY, 50) | dict.fromkeys(ON_POLICY, 2_048)
"""Steps of a turn: on-policy, a rollout of PPO and 64 of A2C."""
ALIVE = np.ones(1, bool)


class TimedVector(GymnasiumVector):
    """Environments that add up the processor's time they take."""

    seconds = 0.0

    def receive(self) -> Any:
        start = time.thread_time()
        answer = super().receive()
        self.seconds += time.thread_time() - start
        return answer


class Runner:
    """A run that goes on by turns."""

    def __init__(self, algorithm: str, strategy: str):
        own = {"warmup": 1_000, "replay_size": 10_000} if algorithm in OFF_POLICY else {}
        (run,) = resolve(Request(TASK, algorithm, strategy, STEPS, 1, own))
        self.vector, self.step, self.turn = TimedVector(TASK, [run.seed]), 0, TURN[algorithm]
        self.agent = build_agent(setup_of(run, self.vector.spec, 0))
        self.vector.begin(0)
        hypers = stack_floats([run.hyper]), stack_floats([run.strategy_hyper])
        state = self.agent.init(np.asarray([run.seed], np.uint32), *hypers)
        self.state = self.agent.enter(state, self.vector.obs.copy(), ALIVE, 0)
        self.go(1_100 if own else self.turn)  # compiles, and fills the replay

    def go(self, steps: int) -> None:
        """Act and learn on for so many steps."""
        until = self.step + steps
        while self.step < until:
            self.state, self.step, _ = self.agent.advance(
                self.state, self.vector, ALIVE, self.step, until
            )
        jax.block_until_ready(self.state)

    def timed(self) -> tuple[float, float]:
        """Milliseconds of a step in a turn, and those of it that its environment takes."""
        start, physics = time.process_time(), self.vector.seconds
        self.go(self.turn)
        spans = time.process_time() - start, self.vector.seconds - physics
        whole, environment = (1e3 * span / self.turn for span in spans)
        return whole, environment


def main() -> None:
    parser = argparse.ArgumentParser(description="What a step costs with each strategy.")
    parser.add_argument("--turns", type=int, default=30)
    parser.add_argument("--only", default="", help="cells this matches, such as 'td3 (pink|see)'")
    parser.add_argument("--out", type=Path, default=Path("strategies.json"))
    args = parser.parse_args()
    found = [cell for cell in pairs() if re.search(args.only, " ".join(cell))]
    measured: dict[str, list[tuple[float, float]]] = {}
    print(f"{'ms a step, median':<24} times {BASE} (quartiles)  without environments")
    for algorithm in dict.fromkeys(cell[0] for cell in found):
        names = list(dict.fromkeys([BASE, *(own for its, own in found if its == algorithm)]))
        runners = {name: Runner(algorithm, name) for name in names}
        turns: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
        for number in range(args.turns):
            for name in names if number % 2 else reversed(names):
                turns[name].append(runners[name].timed())
        for name in names:
            print(line(f"{algorithm} {name}", turns[name], turns[BASE]), flush=True)
            measured[f"{algorithm} {name}"] = turns[name]
    content = {
        "unit": "milliseconds of the processor for a step, and those of its environment, by turns",
        "processor": hardware.device_name(),
        "code": provenance.code(),
        "commit": provenance.commit(),
        "measured": measured,
    }
    args.out.write_text(json.dumps(content, indent=1) + "\n")


def line(name: str, turns: list[tuple[float, float]], base: list[tuple[float, float]]) -> str:
    """What is printed of a strategy."""
    pairs_of_turns = list(zip(turns, base, strict=True))
    whole = [one / other for (one, _), (other, _) in pairs_of_turns]
    rest = [(one - env) / (other - away) for (one, env), (other, away) in pairs_of_turns]
    low, _, high = quantiles(whole * 2, n=4, method="inclusive")  # twice, for it wants two at least
    ratio = f"{median(whole):.3f} ({low:.3f}–{high:.3f})  {median(rest):.3f}"
    return f"{name:<14} {median(time for time, _ in turns):8.3f}  {ratio}"


if __name__ == "__main__":
    main()
