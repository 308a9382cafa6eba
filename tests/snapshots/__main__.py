"""Proof that a change moves no number: train a fixed set of short runs, before it and after it.

    python -m tests.snapshots make FOLDER            train them all, about five minutes
    python -m tests.snapshots make FOLDER NAME …     only some of them: td3-discover, ppo-none, …
    python -m tests.snapshots compare FOLDER OTHER   compare records and policies, bit for bit

Every algorithm is trained with `none`, `gaussian`, `discover` and a strategy that perturbs
parameters; others cover sweeps, delayed rewards, EnvPool, `meta` and a kept replay. Each set of
runs is stopped once on its way and resumed. Both sides must be made on the same machine with the
same packages: the last bits of a matrix product depend on the processor.
"""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import discover_rl

OFF = {"hidden": "32,32", "batch_size": 32, "warmup": 200, "eval.every": 250, "eval.episodes": 2}
ON = {"hidden": "32,32", "eval.every": 256, "eval.episodes": 2}
PPO = ON | {"horizon": 256, "minibatches": 4, "epochs": 2}
OWN: dict[str, dict[str, Any]] = {"ddpg": OFF, "td3": OFF, "sac": OFF, "ppo": PPO, "a2c": ON}
FOURTH = {"ddpg": "psne", "td3": "psne", "sac": "coherent", "ppo": "psne", "a2c": "coherent"}

Request = tuple[str, str, str, int, dict[str, Any]]
MATRIX: dict[str, Request] = {
    f"{algorithm}-{strategy}": ("Pendulum-v1", algorithm, strategy, 768, OWN[algorithm])
    for algorithm in OWN
    for strategy in ("none", "gaussian", "discover", FOURTH[algorithm])
}
MORE: dict[str, Request] = {
    "ppo-coherent": ("Pendulum-v1", "ppo", "coherent", 768, PPO),
    "ppo-noisynet": ("Pendulum-v1", "ppo", "noisynet", 768, PPO | {"env.count": 4, "horizon": 64}),
    "sac-noisynet": ("Pendulum-v1", "sac", "noisynet", 500, OFF),
    "td3-ou": ("Pendulum-v1", "td3", "ou", 500, OFF | {"env.reward_delay": 5, "updates": 3}),
    "td3-lambda": ("Hopper-v5", "td3", "discover", 500, OFF | {"strategy.lam": [0.1, 0.3]}),
    "ddpg-meta": ("Pendulum-v1", "ddpg", "meta", 768, OFF | {"strategy.teacher_steps": 50}),
    "td3-replay": ("Pendulum-v1", "td3", "discover", 500, OFF | {"compute.keep_replay": True}),
    "td3-envpool": ("Hopper-v5", "td3", "discover", 500, OFF | {"env.engine": "envpool"}),
    "ppo-envpool": ("Hopper-v5", "ppo", "discover", 768, PPO | {"env.engine": "envpool"}),
    "sac-limits": ("Swimmer-v5", "sac", "discover", 500, OFF | {"env.limit_terminates": True}),
}
RENAMED = {"env.engine": "env.backend"}
"""Settings whose name has changed: old → new."""


class StopOnce(discover_rl.Observer):
    """Ask training to stop at the first evaluation past the middle."""

    def __init__(self, step: int):
        self.step, self.asked = step, False

    def evaluated(self, run: Any, step: int, *rest: Any) -> None:
        if step >= self.step and not self.asked:
            self.asked = True
            signal.raise_signal(signal.SIGINT)


def make(folder: Path, names: list[str]) -> None:
    """Train the sets of runs of these names, or all of them if none is given, in `folder`."""
    everything = MATRIX | MORE
    for name in names or everything:
        task, algorithm, strategy, steps, settings = everything[name]
        request = {
            "algorithm": algorithm,
            "strategy": strategy,
            "steps": steps,
            "seeds": 2,
            "out": folder / name,
            **settings,
        }
        print(name, flush=True)
        try:
            discover_rl.train(task, observer=StopOnce(steps // 3), **request)
        except discover_rl.Stopped:
            discover_rl.train(task, observer=discover_rl.Observer(), **request)


def contents(folder: Path) -> dict[str, Any]:
    """What is compared, by file: records without the code that made them, arrays as bytes."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.name == "record.jsonl":
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            found[name] = [renamed(lines[0]["run"]), *lines[1:]]
        elif path.name == "policy.json":
            meaning = json.loads(path.read_text())
            found[name] = meaning | {"about": renamed(meaning["about"])}
        elif path.suffix == ".safetensors":
            found[name] = path.read_bytes()
    return found


def renamed(run: dict[str, Any]) -> dict[str, Any]:
    settings = {RENAMED.get(name, name): value for name, value in run["settings"].items()}
    return run | {"settings": settings}


def compare(one: Path, other: Path) -> int:
    """Print every file of `one` that differs in `other` or is not there; return how many.

    Files that only `other` has are counted: a later version may write more.
    """
    left, right = contents(one), contents(other)
    unlike = [name for name in sorted(left) if left[name] != right.get(name)]
    for name in unlike:
        print("differs:" if name in right else "missing:", name)
    more = len(right.keys() - left.keys())
    print(f"{len(left)} files, {len(unlike)} differ or are missing; {more} more in {other}")
    return len(unlike)


def main(verb: str = "", *given: str) -> int | str:
    """Do what the command line asks; return an exit status, or what to say about a wrong one."""
    if verb == "make" and given and set(given[1:]) <= (MATRIX | MORE).keys():
        make(Path(given[0]), list(given[1:]))
        return 0
    if verb == "compare" and len(given) == 2:
        return min(1, compare(Path(given[0]), Path(given[1])))
    return f"{__doc__}\nNames: {', '.join(MATRIX | MORE)}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
