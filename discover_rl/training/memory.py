"""Whether runs fit into memory: what they will take is added up before anything is allocated.

A replay buffer that does not fit would make the machine stand still, or the process be killed,
hours later or at its first checkpoint.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from discover_rl.config import Run
from discover_rl.core import replay_buffer
from discover_rl.core.types import Spec, UserError
from discover_rl.system import hardware

COPIES = 16
"""Networks of the actor's size that a lane has: critics, targets, moments, a strategy's own."""


class Need(NamedTuple):
    """Bytes that one run takes."""

    data: int  # of its replay buffer, or of its rollout
    networks: int  # with their targets and optimisers

    @property
    def total(self) -> int:
        """All of it."""
        return self.data + self.networks


def need(run: Run, spec: Spec) -> Need:
    """About what one run takes; computed, not tried, so that any number may be asked about."""
    obs, act = spec.observation_size, spec.action_size
    widths = (obs + act, *run.hyper.hidden, act)
    weights = sum(a * b for a, b in itertools.pairwise(widths))
    if run.on_policy:
        data = run.hyper.horizon * run.env.count * (2 * (obs + act) + 8) * 4
    else:
        capacity = min(run.hyper.replay_size, run.steps)
        # Observations; two actions, reward, the row and whether it terminated of each transition.
        data = 4 * replay_buffer.row_count(capacity) * obs + capacity * (8 * act + 9)
    return Need(data, 4 * COPIES * weights)


def check(runs: Sequence[Run], spec: Spec) -> None:
    """Raise a UserError if these runs, side by side, need more memory than there is.

    Args:
        runs: all that train at once; they differ in nothing that has a size.
        spec: the spaces of their task.
    """
    first, count = runs[0], len(runs)
    on_gpu = hardware.place(first.on_policy) == "gpu"
    there = hardware.gpu_memory() if on_gpu else hardware.available_memory()
    one = need(first, spec)
    if one.total * count <= there:
        return
    what = "rollouts" if first.on_policy else "replay"
    each = f"{count} runs, each {_gigabytes(one.data)}" if count > 1 else _gigabytes(one.data)
    raise UserError(
        f"{first.task} needs about {_gigabytes(one.total * count)} of memory ({each} of {what} and "
        f"{_gigabytes(one.networks)} of networks), and {'the GPU' if on_gpu else 'this machine'} "
        f"has {_gigabytes(there)}{'' if on_gpu else ' free'}; {_way_out(first, one, count, there)}."
    )


def _way_out(run: Run, one: Need, count: int, there: int) -> str:
    """Which setting to change, in words."""
    name = "horizon" if run.on_policy else "replay_size"
    present = run.hyper.horizon if run.on_policy else min(run.hyper.replay_size, run.steps)
    left = 0.8 * there / count - one.networks
    fitting = int(present * left / one.data)
    if fitting >= 1000:
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
