"""How fast, against peers, on this machine: medians of interleaved repetitions, and a JSON file.

    make bench                 # sets up both environments, then
    python benchmarks/bench.py --peers .venv-peers/bin/python [--repetitions 3] [--out bench.json]

Every number is environment steps per second with learning, without evaluation and compiling. Cells
and peers take turns, so that a slow minute of the machine hits all of them alike. On a machine that
does other work, --clock processor counts the time that a run had a processor, of one seed.

    git worktree add ../before COMMIT
    make bench BEFORE=../before        # or --before: that checkout, too, in turns with this one
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from discover_rl import algorithms
from discover_rl.system import hardware, provenance

HERE = Path(__file__).parent


class Cell(NamedTuple):
    name: str
    command: list[str]  # after the interpreter
    peer: str = ""  # the cell it is measured against; peers have none
    checkout: Path = HERE.parent  # where the package is


BEFORE = ", before"
TASK = "HalfCheetah-v5"
PPO = ("4096", "20480")  # from the end of the second rollout to that of the tenth
A2C = ("4096", "24576")
OFF = ("1100", "2100")  # of the steps that learn
TEN = ("1050", "1250")
LEARNS = "warmup=1000"


def ours(name: str, algorithm: str, strategy: str, span: tuple[str, str], peer: str) -> list[Cell]:
    """A run, and ten of them at once."""
    more = [] if algorithms.load(algorithm).Hyper.on_policy else [LEARNS]
    few = TEN if more else span
    one = ["ours.py", TASK, algorithm, strategy, "1", *span, *more]
    ten = ["ours.py", TASK, algorithm, strategy, "10", *few, *more]
    return [Cell(name, one, peer), Cell(f"{name}, ten seeds", ten, peer)]


def peer(library: str, algorithm: str, *span: str) -> Cell:
    return Cell(
        f"{library.upper()} {algorithm.upper()}", ["peers.py", library, TASK, algorithm, *span]
    )


CELLS = [
    peer("sb3", "td3", "1100", "1700"),
    peer("sbx", "td3", "1100", "1700"),
    *ours("TD3", "td3", "none", OFF, "SBX TD3"),
    *ours("TD3 + Gaussian", "td3", "gaussian", OFF, "SBX TD3"),
    *ours("TD3 + DISCOVER", "td3", "discover", OFF, "SBX TD3"),
    peer("sb3", "sac", "1100", "1700"),
    peer("sbx", "sac", "1100", "1700"),
    *ours("SAC", "sac", "none", OFF, "SBX SAC"),
    peer("sb3", "ppo", "2048", "8192"),
    peer("sbx", "ppo", "2048", "8192"),
    *ours("PPO", "ppo", "none", PPO, "SB3 PPO"),
    *ours("PPO + DISCOVER", "ppo", "discover", PPO, "SB3 PPO"),
    peer("sb3", "a2c", "2048", "12288"),
    *ours("A2C", "a2c", "none", A2C, "SB3 A2C"),
]


def earlier(cell: Cell, checkout: Path) -> list[Cell]:
    """The same cell with the package of another checkout; none of a peer."""
    return [cell._replace(name=cell.name + BEFORE, checkout=checkout)] if cell.peer else []


def measure(cell: Cell, peers: str, quantity: str) -> float:
    interpreter = sys.executable if cell.peer else peers
    command = [interpreter, str(HERE / cell.command[0]), *cell.command[1:]]
    env = os.environ | {"PYTHONPATH": str(cell.checkout.resolve())}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        raise SystemExit(f"{cell.name} failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])[quantity]


def main() -> None:
    parser = argparse.ArgumentParser(description="How fast, against peers, on this machine.")
    parser.add_argument("--peers", required=True, help="the Python that has the peers")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument(
        "--only", default="", help="cells whose name this matches, a regular expression"
    )
    parser.add_argument(
        "--before", type=Path, help="another checkout, whose package is measured, too"
    )
    parser.add_argument("--clock", choices=("wall", "processor"), default="wall")
    parser.add_argument("--out", type=Path, default=Path("bench.json"))
    args = parser.parse_args()
    chosen = [cell for cell in CELLS if re.search(args.only, cell.name)]
    unit, quantity = "second", "steps_per_second"
    if args.clock == "processor":
        chosen = [cell for cell in chosen if not cell.name.endswith("ten seeds")]
        unit, quantity = "second of processor time", "steps_per_processor_second"
    if args.before:
        chosen = [it for cell in chosen for it in (*earlier(cell, args.before), cell)]
    measured: dict[str, list[float]] = {cell.name: [] for cell in chosen}
    for _ in range(args.repetitions):
        for cell in chosen:
            measured[cell.name].append(measure(cell, args.peers, quantity))
            print(f"{cell.name:<28} {measured[cell.name][-1]:8,.0f} steps/s", flush=True)
    medians = {name: statistics.median(values) for name, values in measured.items()}
    heads = "times the peer  times before" if args.before else "times the peer"
    print(f"\n{'median of ' + str(args.repetitions):<28} {'steps/s':>8}  {heads}")
    for cell in chosen:
        found, old = medians[cell.name], medians.get(cell.name + BEFORE)
        ratio = f"{found / medians[cell.peer]:.1f}" if cell.peer in medians else ""
        change = f"{found / old:.3f}" if old else ""
        print(f"{cell.name:<28} {found:8,.0f}  {ratio:<14}  {change}".rstrip())
    machine = {"cores": hardware.cores(), "machine": platform.machine()}
    content = {
        "unit": f"environment steps per {unit}",
        "machine": machine | {"processor": hardware.device_name()},
        "code": provenance.code(),
        "commit": provenance.commit(),
        "measured": measured,
    }
    args.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
