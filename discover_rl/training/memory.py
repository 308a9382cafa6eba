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


ENVIRONMENT = 10**6
"""Bytes of an environment: about MuJoCo's, most others take less."""
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
        """All of it."""
        return sum(self)


def need(run: Run, spec: Spec) -> Need:
    """About what one run takes; computed, not tried, so that any number may be asked about."""
    obs, act = spec.observation_size, spec.action_size
    widths = (obs + act, *run.hyper.hidden, act)
    weights = sum(a * b for a, b in itertools.pairwise(widths))
    if run.on_policy:
        steps = run.hyper.horizon * run.env.count
        data = steps * (2 * (obs + act) + 8) * 4
        batch = -(-steps // run.hyper.minibatches)
    else:
        capacity = min(run.hyper.replay_size, run.steps + run.start.transitions)
        # Observations; two actions, reward, the row and whether it terminated of each transition.
        data = 4 * replay_buffer.row_count(capacity) * obs + capacity * (8 * act + 9)
        batch = run.hyper.batch_size
    batches = 4 * batch * (2 * (obs + act) + COPIES // 2 * sum(run.hyper.hidden))
    environments = ENVIRONMENT * (run.env.count + run.eval.episodes)
    return Need(data, 4 * COPIES * weights, batches, environments)


def check(runs: Sequence[Run], spec: Spec, processes: int = 1) -> None:
    """Raise a UserError if these runs, side by side, need more memory than there is.

    Args:
        runs: all that train at once; they differ in nothing that has a size.
        spec: the spaces of their task.
        processes: how many share them.
    """
    first, count = runs[0], len(runs)
    on_gpu = hardware.place(first.on_policy) == "gpu"
    there = hardware.gpu_memory() if on_gpu else hardware.available_memory()
    one = need(first, spec)
    beside = PROCESS * (processes - 1)
    total = one.total * count + beside
    if total <= there:
        return
    what = "rollouts" if first.on_policy else "replay"
    each = f"{count} runs, each {_gigabytes(one.data)}" if count > 1 else _gigabytes(one.data)
    place, free = ("the GPU", "") if on_gpu else ("this machine", " free")
    raise UserError(
        f"{first.task} needs about {_gigabytes(total)} of memory ({each} of {what} and "
        f"{_gigabytes(one.total - one.data)} of networks, batches and environments), and {place} "
        f"has {_gigabytes(there)}{free}; {_way_out(first, one, count, there - beside)}."
    )


def _way_out(run: Run, one: Need, count: int, there: int) -> str:
    """Which setting to change, in words."""
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
    sizes["eval.episodes"] = run.eval.episodes, ENVIRONMENT * run.eval.episodes
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
