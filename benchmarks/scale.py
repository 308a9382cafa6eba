"""Cost as work grows: lane-steps per second and memory against lanes, replay and observation.

    python benchmarks/scale.py [--backend envpool] [--one-by-one] [--precision tf32] \
        [--out scale.json] TASK:LANES[:REPLAY] …

Trains as `discover train` does, TD3 with DISCOVER by default, and learns at every step; evaluation
and compilation are not counted. Beside each figure stand its limits: the time of the environments
alone, of learning alone (updates back to back), and of acting alone (one round trip to the
device).
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

from discover_rl.agents.interface import AgentSetup
from discover_rl.agents.off_policy import transfer
from discover_rl.agents.off_policy.agent import LONGEST_CYCLE, OffPolicyAgent, StepByStep
from discover_rl.config import Request, resolve
from discover_rl.core.pytrees import stack_floats
from discover_rl.envs.envpool_vector import EnvPoolVector
from discover_rl.envs.gymnasium_vector import GymnasiumVector
from discover_rl.system import hardware, provenance

WARMUP = 1000
"""Steps before learning starts."""


def milliseconds(work: Any, times: int, repetitions: int = 3) -> float:
    """Milliseconds of one round of work, the median of some repetitions.

    Args:
        work: takes how many rounds to do.
        times: rounds of each repetition.
        repetitions: how many.
    """
    seconds = []
    for _ in range(repetitions):
        start = time.perf_counter()
        work(times)
        seconds.append((time.perf_counter() - start) / times)
    return 1e3 * statistics.median(seconds)


def measure(args: argparse.Namespace, task: str, lanes: int, replay: int) -> dict[str, Any]:
    """Measure one point: this many lanes with replay buffers of this size."""
    settings = {"warmup": WARMUP, "replay_size": replay}
    runs = resolve(Request(task, args.algorithm, args.strategy, replay, lanes, settings))
    first, seeds = runs[0], [run.seed for run in runs]
    vector: Any = (EnvPoolVector if args.backend == "envpool" else GymnasiumVector)(task, seeds)
    if args.one_by_one:
        vector.xla = None
    agent = OffPolicyAgent(
        AgentSetup(
            spec=vector.spec,
            algorithm=first.algorithm,
            hyper=first.hyper,
            strategy=first.strategy,
            strategy_hyper=first.strategy_hyper,
            steps=first.steps,
            precision=args.precision,
        )
    )
    hypers = (
        stack_floats([run.hyper for run in runs]),
        stack_floats([run.strategy_hyper for run in runs]),
    )
    state = agent.init(np.asarray(seeds, np.uint32), *hypers)
    for env in range(lanes):
        vector.begin(env)
    alive = np.ones(lanes, bool)
    state = agent.enter(state, vector.obs, alive, np.int32(0))
    compiling = time.perf_counter()
    agent.prepare(state, vector, WARMUP)
    compiling = time.perf_counter() - compiling
    step = 0

    def train(steps: int) -> None:
        nonlocal state, step
        until = step + steps
        while step < until:
            state, step, bad = agent.advance(state, vector, alive, step, until)
            assert not bad
        jax.block_until_ready(state)

    train(300)  # something to learn from
    step = WARMUP
    train(64)
    # Whole cycles: what is left of one would be made step by step, by programs not compiled yet.
    rounds = args.seconds / milliseconds(train, 32) * 1e3 / LONGEST_CYCLE
    each = LONGEST_CYCLE * max(2, round(rounds))
    whole = milliseconds(train, each)
    actions = np.zeros((lanes, vector.spec.action_size), np.float32)
    physics = milliseconds(lambda n: [vector.step(actions, alive) for _ in range(n)], 50)
    transition, operations = vector.step(actions, alive), StepByStep(agent, vector, alive, state)
    state = agent._packed(state)

    def learn(times: int) -> None:
        nonlocal state
        for i in range(times):
            now = WARMUP + 1 + i
            state, _ = operations.learn(agent.due(now), state, None, now, None)
        jax.block_until_ready(state)

    def act(times: int) -> None:
        nonlocal state
        fine = np.full(lanes, -1, np.int32)
        for i in range(times):
            now = WARMUP + 1 + i
            inbox = agent._sent(transfer.plain(transition, now))
            state, _, _ = operations.act(state, inbox, fine, now)
            operations.read_reply(now)

    learn(2)
    act(2)
    learning, acting = milliseconds(learn, max(4, each // 2)), milliseconds(act, max(4, each // 2))
    stats = jax.devices()[0].memory_stats() or {}
    held = sum(leaf.nbytes for leaf in jax.tree.leaves(state))
    of_process = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak = stats.get("peak_bytes_in_use", of_process)
    fused = agent.fuses(vector)
    vector.close()
    return {
        "task": task,
        "lanes": lanes,
        "replay": replay,
        "fused": fused,
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
    backends = ("gymnasium", "envpool")
    parser.add_argument("--backend", "--engine", default="gymnasium", choices=backends)
    parser.add_argument("--one-by-one", action="store_true", help="without the fused loop")
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
        "backend": args.backend,
        "precision": args.precision,
        "machine": {
            "device": jax.devices()[0].device_kind,
            "cores": hardware.cores(),
            "machine": platform.machine(),
        },
        "code": provenance.code(),
        "commit": provenance.commit(),
        "measured": measured,
    }
    args.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
