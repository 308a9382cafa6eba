"""Cost as work grows: lane-steps per second and memory against lanes, replay and observation.

    python benchmarks/scale.py [--backend envpool] [--one-by-one] [--precision tf32] \
        [--set NAME=VALUE] [--against NAME=VALUE] [--out scale.json] TASK:LANES[:REPLAY] …

Trains as `discover train` does, TD3 with DISCOVER by default, and learns at every step; evaluation
and compilation are not counted. Beside each figure stand its limits: the time of the environments
alone, of learning alone (updates back to back), and of acting alone (one round trip to the
device); and the roofline of learning (`roofline.py`). `--against` measures what a setting costs:
with it and without it by turns, in one process.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np
from roofline import roofline

from discover_rl.agents.off_policy import transfer
from discover_rl.agents.off_policy.agent import LONGEST_CYCLE, OffPolicyAgent, StepByStep
from discover_rl.config import Request, resolve
from discover_rl.core.pytrees import stack_floats
from discover_rl.envs.backends import make_vector
from discover_rl.system import hardware, provenance
from discover_rl.training.agent_setup import setup_of

WARMUP = 1000
"""Steps before learning starts."""
REPETITIONS = 3
"""How often each time is measured; the median counts."""
TURNS = 9
"""How often a setting is compared with going without it."""


def milliseconds(work: Callable[[int], object], times: int) -> float:
    """Milliseconds of one round of work.

    Args:
        work: takes how many rounds to do.
        times: that many.
    """
    start = time.perf_counter()
    work(times)
    return 1e3 * (time.perf_counter() - start) / times


def median(work: Callable[[int], object], times: int) -> float:
    """The median of some repetitions of `milliseconds`."""
    return statistics.median(milliseconds(work, times) for _ in range(REPETITIONS))


class Training:
    """Lanes with replay buffers of some size, ready to train."""

    def __init__(
        self,
        args: argparse.Namespace,
        task: str,
        lanes: int,
        replay: int,
        settings: Mapping[str, Any],
    ):
        """Make the environments and the agent, and compile its programs."""
        asked = {"warmup": WARMUP, "replay_size": replay, "compute.precision": args.precision}
        of_runs = task, args.algorithm, args.strategy, replay, lanes
        runs = resolve(Request(*of_runs, {**asked, **settings}))
        first, seeds = runs[0], [run.seed for run in runs]
        self.vector: Any = make_vector(first.task, seeds, first.env, args.backend)
        if args.one_by_one:
            self.vector.xla = None
        self.agent = OffPolicyAgent(setup_of(first, self.vector.spec, 0))
        hypers = (
            stack_floats([run.hyper for run in runs]),
            stack_floats([run.strategy_hyper for run in runs]),
        )
        self.state = self.agent.init(np.asarray(seeds, np.uint32), *hypers)
        for env in range(lanes):
            self.vector.begin(env)
        self.alive = np.ones(lanes, bool)
        self.state = self.agent.enter(self.state, self.vector.obs, self.alive, np.int32(0))
        compiling = time.perf_counter()
        self.agent.prepare(self.state, self.vector, WARMUP)
        self.compile_seconds = time.perf_counter() - compiling
        self.step = 0
        self.go(300)  # something to learn from
        self.step = WARMUP
        self.go(64)

    def go(self, steps: int) -> None:
        """Train for so many steps."""
        until = self.step + steps
        while self.step < until:
            self.state, self.step, bad = self.agent.advance(
                self.state, self.vector, self.alive, self.step, until
            )
            assert not bad
        jax.block_until_ready(self.state)

    def steps_in(self, seconds: float) -> int:
        """About how many steps that is, in whole cycles: what is left of one would be made step
        by step, by programs not compiled yet."""
        rounds = seconds / median(self.go, 32) * 1e3 / LONGEST_CYCLE
        return LONGEST_CYCLE * max(2, round(rounds))

    def limits(self, times: int) -> tuple[dict[str, float], dict[str, float]]:
        """Milliseconds of environments, learning and acting, each alone, and the roofline of
        learning; nothing is trained any more after this."""
        agent, vector, lanes = self.agent, self.vector, len(self.alive)
        actions = np.zeros((lanes, vector.spec.action_size), np.float32)
        physics = median(lambda n: [vector.step(actions, self.alive) for _ in range(n)], 50)
        transition = vector.step(actions, self.alive)
        operations = StepByStep(agent, vector, self.alive, self.state)
        state = agent._packed(self.state)
        del self.state  # its arrays are handed on

        def learn(times: int) -> None:
            nonlocal state
            for now in range(WARMUP + 1, WARMUP + 1 + times):
                state, _ = operations.learn(agent.due(now), state, None, now, None)
            jax.block_until_ready(state)

        def act(times: int) -> None:
            nonlocal state
            fine = np.full(lanes, -1, np.int32)
            for now in range(WARMUP + 1, WARMUP + 1 + times):
                inbox = agent.sent(transfer.plain(transition, now))
                state, _, _ = operations.act(state, inbox, fine, now)
                operations.read_reply(now)

        learn(2)
        act(2)
        alone = {"learning": median(learn, times), "acting": median(act, times)}
        return {"environments": physics, **alone}, roofline(agent, state, WARMUP, alone["learning"])


def measure(args: argparse.Namespace, task: str, lanes: int, replay: int) -> dict[str, Any]:
    """Measure one point: this many lanes with replay buffers of this size."""
    variants = [dict(args.set), *([dict(args.set) | dict(args.against)] if args.against else [])]
    training, *others = [Training(args, task, lanes, replay, it) for it in variants]
    times = training.steps_in(args.seconds)
    turns = TURNS if others else REPETITIONS
    found: dict[str, Any] = {"task": task, "lanes": lanes, "replay": replay}
    found["fused"] = training.agent.fuses(training.vector)
    pairs = [[milliseconds(it.go, times) for it in (training, *others)] for _ in range(turns)]
    whole, *others_whole = (statistics.median(each) for each in zip(*pairs, strict=True))
    found["lane_steps_per_second"] = 1e3 * lanes / whole
    for other, with_it in zip(others, others_whole, strict=True):
        found["against"] = {
            "settings": dict(args.against),
            "fused": other.agent.fuses(other.vector),
            "lane_steps_per_second": 1e3 * lanes / with_it,
            "ratios": [b / a for a, b in pairs],
        }
        other.vector.close()
    held = sum(leaf.nbytes for leaf in jax.tree.leaves(training.state))
    limits, roof = training.limits(max(4, times // 2)) if args.limits else ({}, {})
    training.vector.close()
    stats = jax.devices()[0].memory_stats() or {}
    of_process = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found | {
        "milliseconds": {"step": whole, **limits},
        "roofline": roof,
        "compile_seconds": training.compile_seconds,
        "state_gb": held / 1e9,
        "peak_gb": stats.get("peak_bytes_in_use", of_process) / 1e9,
    }


def named(text: str) -> tuple[str, str]:
    """NAME=VALUE as a pair."""
    name, sign, value = text.partition("=")
    if not sign:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost as work grows.")
    parser.add_argument("points", nargs="+", metavar="TASK:LANES[:REPLAY]")
    parser.add_argument("--algorithm", default="td3")
    parser.add_argument("--strategy", default="discover")
    backends = ("gymnasium", "envpool")
    parser.add_argument("--backend", "--engine", default="gymnasium", choices=backends)
    parser.add_argument("--one-by-one", action="store_true", help="without the fused loop")
    parser.add_argument("--precision", default="float32", choices=("float32", "tf32", "bf16"))
    both = {"type": named, "metavar": "NAME=VALUE", "action": "append", "default": []}
    parser.add_argument("--set", help="a setting of the runs", **both)
    parser.add_argument("--against", help="a setting to be compared with going without it", **both)
    help = "only whole steps, not what limits them"
    parser.add_argument("--no-limits", dest="limits", action="store_false", help=help)
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
        "settings": dict(args.set),
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
