"""What this machine has, and what pays on it."""

from __future__ import annotations

import importlib.util
import os

MUJOCO = (
    *("Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "Swimmer", "Walker2d"),
    *("Reacher", "InvertedPendulum", "InvertedDoublePendulum", "Pusher"),
)
"""Gymnasium's tasks on MuJoCo, without their versions."""


def cores() -> int:
    """How many this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def pooled(task: str) -> bool:
    """Whether EnvPool has this task, with the physics and the observations that Gymnasium has."""
    return task.removesuffix("-v5") in MUJOCO and task.endswith("-v5")


def engine(task: str, environments: int) -> str:
    """What steps so many environments fastest. Handing one over to a thread takes about as long as
    stepping it, so there must be several cores and several environments for each."""
    installed = importlib.util.find_spec("envpool") is not None
    pays = cores() >= 4 and environments >= 2 * cores()
    return "envpool" if installed and pays and pooled(task) else "gymnasium"
