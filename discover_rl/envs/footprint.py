"""How much memory environments take, so that no more are made than fit.

The numbers were measured on Linux: what a process grows by with each environment that is made,
reset and stepped.
"""

from __future__ import annotations

from discover_rl.core.types import UserError
from discover_rl.envs.catalogue import DM_CONTROL, ROBOTICS
from discover_rl.system import hardware

BYTES = {
    f"{DM_CONTROL}dog-": 110 * 10**6,
    DM_CONTROL: 14 * 10**6,
    f"{ROBOTICS}FrankaKitchen": 55 * 10**6,
    ROBOTICS: 7 * 10**6,
    "CarRacing": 25 * 10**5,
}
"""Bytes of one environment, by how a task's id begins; the first entry that fits counts."""
OTHERS = 10**6
"""Bytes of one of any other task: about MuJoCo's, most take less."""


def environment_bytes(task: str) -> int:
    """Return about how many bytes one environment of a task takes.

    >>> environment_bytes("dm_control/dog-run-v0"), environment_bytes("Hopper-v5")
    (110000000, 1000000)
    """
    return next((size for begin, size in BYTES.items() if task.startswith(begin)), OTHERS)


def check_memory(task: str, count: int, more: int = 0) -> None:
    """Raise a UserError if environments of a task do not fit into the memory that is free.

    Args:
        task: the task's id.
        count: how many.
        more: bytes that are needed beside them.
    """
    needed, there = count * environment_bytes(task) + more, hardware.available_memory()
    if needed > there:
        raise UserError(
            f"{count:,} episodes of {task} at once need about {needed / 1e9:,.0f} GB of memory, "
            f"and this machine has {there / 1e9:,.1f} GB free; ask for fewer episodes."
        )
