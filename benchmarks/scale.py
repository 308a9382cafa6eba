"""Cost as work grows: lane-steps per second and memory against lanes, replay and observation.

    python benchmarks/scale.py [--engine envpool] [--one-by-one] [--precision tf32] \
        [--out scale.json] TASK:LANES[:REPLAY] …

Training as `discover train` does it, TD3 with DISCOVER by default, learning at every step, without
evaluation and compiling. Beside each figure stand its limits: the environments alone, learning
alone (updates back to back), and acting alone (one round trip to the device).
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np

from discover_rl import machine, provenance
from discover_rl.agent import CYCLE, Agent
from discover_rl.config import resolve
from discover_rl.envs import Lanes
from discover_rl.parcels import opened
from discover_rl.pools import Pool
from discover_rl.trees import stack

WARMUP = 1000


def milliseconds(work: Any, times: int, repetitions: int = 3) -> float:
    """Of one, the median of repetitions; `work` is called with how often to do it."""
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        work(times)
        seconds.append((time.perf_counter() - start) / times)
    return 1e3 * statistics.median(seconds)


def measure(args: argparse.Namespace, task: str, lanes: int, replay: int) -> dict[str, Any]:
    settings = {"warmup": WARMUP, "replay_size": replay}
    runs = resolve(task, args.algorithm, args.strategy, replay, lanes, settings)
    first, seeds = runs[0], [run.seed for run in runs]
    envs: Any = (Pool if args.engine == "envpool" else Lanes)(task, seeds)
    if args.one_by_one:
        envs.calls = None
    agent = Agent(
        envs.spec,
        first.algorithm,
        first.hyper,
        first.strategy,
        first.strategy_hyper,
        first.steps,
        precision=args.precision,
    )
    hypers = stack([run.hyper for run in runs]), stack([run.strategy_hyper for run in runs])
    state = agent.init(np.asarray(seeds, np.uint32), *hypers)
    for env in range(lanes):
        envs.begin(env)
    alive = np.ones(lanes, bool)
    state = agent.enter(state, envs.obs, alive, np.int32(0))
    compiling = time.perf_counter()
    agent.prepare(state, envs, WARMUP)
    compiling = time.perf_counter() - compiling
    step = 0

    def train(steps: int) -> None:
        nonlocal state, step
        until = step + steps
        while step < until:
            state, step, bad = agent.advance(state, envs, alive, step, until)
            assert not bad
        jax.block_until_ready(state)

    train(300)  # something to learn from
    step = WARMUP
    train(64)
    # Whole cycles: what is left of one would be made step by step, by programs not compiled yet.
    each = CYCLE * max(2, round(args.seconds / milliseconds(train, 32) * 1e3 / CYCLE))
    whole = milliseconds(train, each)
    actions = np.zeros((lanes, envs.spec.action_size), np.float32)
    physics = milliseconds(lambda n: [envs.step(actions, alive) for _ in range(n)], 50)
    seen, state = envs.step(actions, alive), agent._packed(state)

    def learn(times: int) -> None:
        nonlocal state
        for i in range(times):
            state, _ = agent.learn(state, None, WARMUP + 1 + i)
        jax.block_until_ready(state)

    def act(times: int) -> None:
        nonlocal state
        fine = np.full(lanes, -1, np.int32)
        for i in range(times):
            state, _, reply = agent.meet(state, seen, fine, WARMUP + 1 + i)
            opened(reply)

    learn(2)
    act(2)
    learning, acting = milliseconds(learn, max(4, each // 2)), milliseconds(act, max(4, each // 2))
    stats = jax.devices()[0].memory_stats() or {}
    held = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    peak = stats.get("peak_bytes_in_use", 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    envs.close()
    return {
        "task": task,
        "lanes": lanes,
        "replay": replay,
        "flies": agent.flies(envs),
        "lane_steps_per_second": 1e3 * lanes / whole,
        "milliseconds": {
            "step": whole,
            "environments": physics,
            "learning": learning,
            "acting": acting,
        },
        "compile_seconds": compiling,
        "state_gb": held / 1e9,
        "peak_gb": peak / 1e9,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost as work grows.")
    parser.add_argument("points", nargs="+", metavar="TASK:LANES[:REPLAY]")
    parser.add_argument("--algorithm", default="td3")
    parser.add_argument("--strategy", default="discover")
    parser.add_argument("--engine", default="gymnasium", choices=("gymnasium", "envpool"))
    parser.add_argument("--one-by-one", action="store_true", help="steps, not flights")
    parser.add_argument("--precision", default="float32", choices=("float32", "tf32"))
    parser.add_argument("--seconds", type=float, default=1.0, help="of each repetition")
    parser.add_argument("--out", type=Path, default=Path("scale.json"))
    args = parser.parse_args()
    measured = []
    for point in args.points:
        task, lanes, *replay = point.split(":")
        measured.append(measure(args, task, int(lanes), int(float(replay[0])) if replay else 10**6))
        print(json.dumps(measured[-1]), flush=True)
    content = {
        "algorithm": args.algorithm,
        "strategy": args.strategy,
        "engine": args.engine,
        "precision": args.precision,
        "machine": {
            "device": jax.devices()[0].device_kind,
            "cores": machine.cores(),
            "machine": platform.machine(),
        },
        "code": provenance.code(),
        "commit": provenance.commit(),
        "measured": measured,
    }
    args.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
