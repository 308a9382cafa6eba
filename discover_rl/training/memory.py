"""Check that runs fit into memory, before anything is allocated.

A replay buffer that does not fit would slow the machine to a halt or get the process killed, hours
later or at its first checkpoint.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from discover_rl.config import Run, cohorts
from discover_rl.core import replay_buffer
from discover_rl.core.types import Spec, UserError
from discover_rl.envs.footprint import environment_bytes
from discover_rl.system import hardware

COPIES = 16
"""Networks of the actor's size that a lane has: critics, targets, moments, a strategy's own."""
PROCESS = 4 * 10**8
"""Bytes of a process that trains, before it has a run."""


class Need(NamedTuple):
    """Bytes that one run takes."""

    data: int  # of its replay buffer, or of its rollout
    networks: int  # with their targets and optimisers
    batches: int  # and what networks compute from them
    environments: int  # for training and for evaluation

    @property
    def total(self) -> int:
        """The sum of all four."""
        return sum(self)


def need(run: Run, spec: Spec) -> Need:
    """Estimate the memory of one run on a task with these spaces. Nothing is allocated."""
    obs, act = spec.observation_size, spec.action_size
    widths = (obs + act, *run.hyper.hidden, act)
    weights = sum(a * b for a, b in itertools.pairwise(widths))
    if run.on_policy:
        steps = run.hyper.horizon * run.env.count
        data = steps * (2 * (obs + act) + 8) * 4
        batch = -(-steps // run.hyper.minibatches)
    else:
        count, transitions = run.env.count, run.steps + run.start.transitions
        capacity = replay_buffer.capacity_of(run.hyper.replay_size, transitions, count)
        # Observations; two actions, reward, the row and whether it terminated of each transition.
        data = 4 * replay_buffer.row_count(capacity) * obs + capacity * (8 * act + 9)
        data *= count
        batch = run.hyper.batch_size
    batches = 4 * batch * (2 * (obs + act) + COPIES // 2 * sum(run.hyper.hidden))
    environments = environment_bytes(run.task) * (run.env.count + run.eval.episodes)
    return Need(data, 4 * COPIES * weights, batches, environments)


def check(runs: Sequence[Run], spec: Spec, processes: int = 1) -> None:
    """Raise a UserError if these runs, side by side, need more memory than there is.

    Args:
        runs: all runs that train at once. Those of a tuning may differ in their sizes.
        spec: the spaces of their task.
        processes: how many share them.
    """
    on_gpu = hardware.place(runs[0].on_policy) == "gpu"
    there = hardware.gpu_memory() if on_gpu else hardware.available_memory()
    alike = [(need(group[0], spec), group) for group in cohorts(runs)]
    beside = PROCESS * (processes - 1)
    total = sum(one.total * len(group) for one, group in alike) + beside
    if total <= there:
        return
    one, (first, *_) = max(alike, key=lambda it: it[0].total)
    count = len(runs)
    what = "rollouts" if first.on_policy else "replay"
    which = "each" if len(alike) == 1 else "the largest"
    size = _gigabytes(one.data)
    each = f"{count} runs, {which} {size}" if count > 1 else size
    place, free = ("the GPU", "") if on_gpu else ("this machine", " free")
    raise UserError(
        f"{first.task} needs about {_gigabytes(total)} of memory ({each} of {what} and "
        f"{_gigabytes(one.total - one.data)} of networks, batches and environments), and {place} "
        f"has {_gigabytes(there)}{free}; {_way_out(first, one, count, there - beside)}."
    )


def _way_out(run: Run, one: Need, count: int, there: int) -> str:
    """Say which setting to change."""
    if run.on_policy:
        sizes = {"horizon": (run.hyper.horizon, one.data + one.batches)}
    else:
        sizes = {
            "replay_size": (
                min(run.hyper.replay_size, run.steps + run.start.transitions),
                one.data,
            ),
            "batch_size": (run.hyper.batch_size, one.batches),
        }
    for setting, number in (("eval.episodes", run.eval.episodes), ("env.count", run.env.count)):
        sizes[setting] = number, environment_bytes(run.task) * number
    name = max(sizes, key=lambda name: sizes[name][1])
    present, size = sizes[name]
    left = 0.8 * there / count - (one.total - size)
    fitting = int(present * left / size)
    if fitting >= (1000 if name in ("horizon", "replay_size") else 1):
        digits = len(str(fitting)) - 1
        return f"--set {name}={fitting // 10**digits * 10**digits} would fit"
    if one.networks * count > 0.8 * there and one.networks * 2 > one.total:
        return f"choose smaller networks than hidden={','.join(map(str, run.hyper.hidden))}"
    return "train fewer at once (--seeds, --processes), or choose a smaller task"


def _gigabytes(size: float) -> str:
    """A number of bytes, in words.

    >>> _gigabytes(113.92e9), _gigabytes(2.5e9), _gigabytes(3e6)
    ('114 GB', '2.5 GB', '0.003 GB')
    """
    number = size / 1e9
    return f"{number:,.0f} GB" if number >= 10 else f"{number:.2g} GB"
