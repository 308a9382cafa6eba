"""Measure how fast this machine is: short training of a cohort, and steps of a task."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from discover_rl.config import Metrics
from discover_rl.core.types import Stopped, UserError
from discover_rl.envs import tasks
from discover_rl.envs.answers import stepped
from discover_rl.envs.settings import PLAIN, Making
from discover_rl.system import hardware
from discover_rl.training.engines import local, places
from discover_rl.training.events import Event, Stepped
from discover_rl.training.job import Job

STEPS = 300
"""How many steps are measured. About as many come before and are not measured."""
STEPS_ON_GPU = 3000
"""How many steps are measured on a GPU, where a fused loop makes many steps at once."""
LENGTH, ON_POLICY_LENGTH = 10**5, 10**9
"""The most steps of cohorts that are measured; they are stopped when that is done. Off-policy, the
memory of a replay buffer grows with it."""

Mark = tuple[int, float]
"""A step, and the time at which a cohort had made it."""


def kind(job: Job, on_gpu: int = 1) -> str:
    """The name of the measurement for cohorts like this one, with `on_gpu` at once on a GPU."""
    run = job.runs[0]
    sizes = [f"{name}={getattr(run.hyper, name, '')}" for name in ("hidden", "batch_size")]
    sizes += [f"{name}={getattr(run.hyper, name, '')}" for name in ("updates", "train_every")]
    how = f"{job.place} {run.env.backend} {run.compute.precision}"
    if job.place == "gpu" and on_gpu > 1:
        how += f", {on_gpu} at once{' by MPS' if hardware.has_mps() else ''}"
    how += f", {run.env.count} environments" if run.env.count > 1 and not run.on_policy else ""
    return f"{run.algorithm} + {run.strategy}, {len(job.runs)} lanes, {' '.join(sizes)}, {how}"


def of_training(job: Job, measuring: Callable[[str], None], on_gpu: int = 1) -> dict[str, float]:
    """Measure a cohort, with as many others at once as in the study.

    Args:
        job: the cohort.
        measuring: is called before, with a description.
        on_gpu: how many copies of it train at once, on a GPU.

    Returns:
        Seconds per step and lane, and seconds to start and to compile the programs.

    Raises:
        UserError: the cohort ended before it could be measured.
    """
    run = job.runs[0]
    at_once, name = places(on_gpu=on_gpu)[job.place], kind(job, on_gpu)
    several = f", {at_once} at once" if job.place == "gpu" and at_once > 1 else ""
    measuring(f"{run.algorithm} + {run.strategy} on {run.task}, {len(job.runs)} lanes{several}")
    if run.on_policy:
        start, hyper = run.hyper.horizon * run.env.count, run.hyper
        steps, length = 2 * start, ON_POLICY_LENGTH
    else:
        # Whole steps of all environments, with some of each before and after.
        count = run.env.count
        start = max(-(-STEPS // count), -(-run.hyper.batch_size // count), 10) * count
        steps = -(-(STEPS_ON_GPU if job.place == "gpu" else STEPS) // count) * count
        hyper, length = replace(run.hyper, warmup=start // 2), max(LENGTH, 10 * (start + steps))
    length -= length % start
    evaluation = replace(run.eval, every=length, episodes=1, max_steps=10)
    short = [
        # Without metrics: in so few steps they would be more frequent than in a whole run.
        replace(it, steps=length, hyper=hyper, eval=evaluation, metrics=Metrics(every=-1))
        for it in job.runs
    ]
    marks: list[list[Mark]] = [[] for _ in range(at_once)]

    def on_event(number: int, event: Event) -> None:
        if isinstance(event, Stepped) and event.step >= start:
            marks[number].append((event.step, time.monotonic()))

    def measured() -> bool:
        return all(last - first >= steps for (first, _), (last, _) in together(marks))

    with tempfile.TemporaryDirectory() as folder:
        copies = []
        for i in range(at_once):
            out = Path(folder) / str(i)
            copies.append(Job(short, out, out / "work", job.place))
        began = time.monotonic()
        outcomes = local.run(copies, on_event, measured, places={job.place: at_once}, halt=True)
    for outcome in outcomes:
        if outcome is not None and not isinstance(outcome, Stopped):
            raise outcome
    if any(len(own) < 2 for own in marks):
        what = f"{run.algorithm} + {run.strategy} on {run.task}"
        raise UserError(f"{what} cannot be measured: it ended after a few steps.")
    spans = together(marks) if measured() else [(own[0], own[-1]) for own in marks]
    each = [(b[1] - a[1]) / (b[0] - a[0]) / len(job.runs) for a, b in spans]
    seconds = float(np.median(each))
    before = [own[0][1] - began - own[0][0] * seconds * len(job.runs) for own in marks]
    return {name: seconds, f"start of {name}": max(0.0, float(np.median(before)))}


def together(marks: list[list[Mark]]) -> list[tuple[Mark, Mark]]:
    """The first and the last mark of each cohort in the time in which all of them train.

    One that has compiled its programs first trains alone until the others have, too.

    Args:
        marks: of each cohort, in their order.

    >>> together([[(100, 1.0), (300, 2.0), (600, 4.0)], [(100, 1.9), (200, 3.9)]])
    [((300, 2.0), (600, 4.0)), ((100, 1.9), (200, 3.9))]
    >>> together([[(100, 1.0), (300, 2.0)], []])  # the second has not begun
    [((300, 2.0), (300, 2.0)), ((0, inf), (0, inf))]
    """
    since = max(own[0][1] if own else math.inf for own in marks)
    nothing = 0, math.inf
    found = []
    for own in marks:
        last = own[-1] if own else nothing
        found.append((next((mark for mark in own if mark[1] >= since), last), last))
    return found


def task_kind(task: str, making: Making) -> str:
    """The name of the measurement of a task's environments."""
    return f"step of {task}" + ("" if making == PLAIN else f" {making}")


def of_task(
    task: str, measuring: Callable[[str], None], making: Making = PLAIN
) -> dict[str, float]:
    """Measure seconds per step of a task, with random actions.

    Raises:
        UserError: the environment raised an error, or gave a useless answer.
    """
    measuring(task)
    env = tasks.make(task, making=making)
    try:
        env.reset(seed=0)
        env.action_space.seed(0)
        actions = [env.action_space.sample() for _ in range(STEPS)]
        began = time.perf_counter()
        for action in actions:
            _, _, terminated, truncated, _ = stepped(env.step(action))
            if terminated or truncated:
                env.reset()
        took = time.perf_counter() - began
    except Exception as error:
        raise UserError(f"{task} cannot be measured: {tasks.raised(error)}.") from error
    tasks.close(env)
    return {task_kind(task, making): took / STEPS}
