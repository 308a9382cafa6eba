"""Estimate what a study takes: memory, disk, and hours on this machine.

Hours are computed from short measurements. For every algorithm × strategy of the study, cohorts of
the planned size train for a few hundred steps, on a GPU for a few thousand, in a folder that is
removed afterwards, as many at once as in the study. For every task, an environment is stepped for a
moment. Measurements are kept in the user's cache, so the next estimate is immediate. On a GPU,
cohorts are measured one after the other and several at once, and what is faster is what `discover
run` does. Copies of one cohort are measured, not a mixture of strategies. Two more things are
simplified: networks with more inputs, as Humanoid's, are not measured separately, and episodes of
evaluation are assumed to last to their time limit.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discover_rl.config import Run
from discover_rl.envs import tasks
from discover_rl.envs.settings import PLAIN, Making
from discover_rl.envs.spaces import spaces
from discover_rl.envs.tasks import choose_backend
from discover_rl.storage import files
from discover_rl.studies import plan
from discover_rl.system import hardware
from discover_rl.training.engines import local, places
from discover_rl.training.evaluation import most_steps
from discover_rl.training.events import Event, Stepped
from discover_rl.training.job import Job

STEPS = 300
"""How many steps are measured. About as many come before and are not measured."""
STEPS_ON_GPU = 3000
"""How many steps are measured on a GPU, where a fused loop makes many steps at once."""
AT_ONCE = (2, 4)
"""How many cohorts at once are tried on a GPU, beside one."""
GAIN = 0.95
"""Several at once must take less than this share of the time of fewer: measurements scatter."""
ACTING = 1.3
"""The time of a step in an evaluation, relative to a step of the environment alone."""


class Cost(NamedTuple):
    """What one cohort takes."""

    memory: int  # bytes, while it trains
    disk: int  # bytes, at most, while it trains
    kept: int  # bytes, when it is done
    seconds: float | None  # in a process of its own; None if nothing was measured


class Timings:
    """How many seconds things take on this machine: measured once, kept in the user's cache."""

    def __init__(self) -> None:
        self._path = hardware.cache_folder() / f"paces-{hardware.processor_kind()}.json"
        try:
            self._known: dict[str, float] = json.loads(self._path.read_text())
        except (OSError, ValueError):
            self._known = {}

    def get(self, name: str, measure: Callable[[], dict[str, float]] | None) -> float | None:
        """A measurement by its name.

        Args:
            name: what was measured.
            measure: is called if the measurement is not known; returns new ones by their names.
                None: nothing is measured.

        Returns:
            Seconds; None if the measurement is not known.
        """
        if name not in self._known and measure is not None:
            self._known |= measure()
            with contextlib.suppress(OSError):  # the next estimate measures again
                files.write(self._path, json.dumps(self._known, indent=1).encode())
        return self._known.get(name)


def at_once(
    jobs: Sequence[Job], timings: Timings, measuring: Callable[[str], None] | None = None
) -> int:
    """How many cohorts are trained at once on the GPU: as many as were measured to be faster.

    Args:
        jobs: the cohorts.
        timings: measurements so far; new ones are added.
        measuring: is called before each measurement with its description. None: nothing is
            measured, only earlier measurements are used.

    Returns:
        1 where nothing was measured, where memory does not hold more, and where more are no faster.
    """
    mine, first = [job for job in jobs if job.place == "gpu"], {}
    for job in mine:
        first.setdefault(kind(job), job)
    if len(mine) < 2:
        return 1
    largest = max(len(job.runs) * plan.lane_bytes(job.runs[0]) for job in first.values())
    best, least = 1, _learning(mine, first, 1, timings, measuring)
    for count in AT_ONCE:
        if least is None or count > len(mine):
            break
        if count * largest > plan.MEMORY_SHARE * hardware.gpu_memory():
            break
        seconds = _learning(mine, first, count, timings, measuring)
        if seconds is not None and seconds < GAIN * least:
            best, least = count, seconds
    return best


def _learning(
    jobs: Sequence[Job],
    first: Mapping[str, Job],
    count: int,
    timings: Timings,
    measuring: Callable[[str], None] | None,
) -> float | None:
    """Seconds that the steps of all cohorts take, so many at once; None if it is not known."""
    total = 0.0
    for job in jobs:
        like = first[kind(job)]
        measure = functools.partial(_measured, like, measuring, count) if measuring else None
        seconds = timings.get(kind(like, count), measure)
        if seconds is None:
            return None
        total += len(job.runs) * (job.runs[0].steps - job.step) * seconds / count
    return total


def costs(
    jobs: Sequence[Job],
    timings: Timings,
    measuring: Callable[[str], None] | None,
    on_gpu: int = 1,
) -> list[Cost]:
    """Estimate the cost of every cohort.

    Args:
        jobs: the cohorts.
        timings: measurements so far; new ones are added.
        measuring: is called before each measurement with its description. None: nothing is
            measured, only earlier measurements are used.
        on_gpu: how many are trained at once on the GPU.
    """
    sizes: dict[Any, int] = {}
    first: dict[str, Job] = {}
    found = []
    for job in jobs:
        run = job.runs[0]
        size = (run.task, run.algorithm, run.hyper.hidden, getattr(run.hyper, "replay_size", 0))
        if size not in sizes:
            sizes[size] = plan.lane_bytes(run)
        # One measurement serves all cohorts of a kind: they differ in the task alone.
        like = first.setdefault(kind(job), job)
        found.append(_cost(job, like, sizes[size], timings, measuring, on_gpu))
    return found


def step_seconds(jobs: Sequence[Job], timings: Timings) -> dict[tuple[str, str], float]:
    """What a step of a run costs, where it was measured.

    Args:
        jobs: the cohorts whose steps are asked for.
        timings: measurements so far; none is made.

    Returns:
        Seconds per step of a lane, by algorithm and strategy: the median over cohorts.
    """
    found: dict[tuple[str, str], list[float]] = {}
    for job in jobs:
        seconds = timings.get(kind(job), None)
        if seconds is not None:
            for pair in {(run.algorithm, run.strategy) for run in job.runs}:
                found.setdefault(pair, []).append(seconds)
    return {pair: float(np.median(each)) for pair, each in found.items()}


def hours(
    jobs: Sequence[Job], found: Sequence[Cost], processes: int = 0, on_gpu: int = 1
) -> float | None:
    """How many hours all cohorts take together.

    Args:
        jobs: the cohorts.
        found: the cost of each.
        processes: how many are trained at once; 0: as many as are faster.
        on_gpu: how many are faster on the GPU.

    Returns:
        Hours; None if the time of a cohort is not known.
    """
    by_place = [0.0]
    for place, most in places(processes, on_gpu).items():
        pairs = zip(jobs, found, strict=True)
        seconds = [cost.seconds for job, cost in pairs if job.place == place]
        if None in seconds:
            return None
        total = sum(each or 0.0 for each in seconds)
        by_place.append(total / max(1, min(most, len(seconds))))
    return max(by_place) / 3600


def peak(jobs: Sequence[Job], found: Sequence[Cost], on_gpu: int = 1) -> tuple[int, int]:
    """The largest use of memory and disk, in bytes: when the largest cohorts train at once.

    Args:
        jobs: the cohorts.
        found: the cost of each.
        on_gpu: how many are trained at once on the GPU.
    """
    memory, disk = 0, sum(cost.kept for cost in found)
    for place, most in places(on_gpu=on_gpu).items():
        here = [cost for job, cost in zip(jobs, found, strict=True) if job.place == place]
        memory += sum(sorted(cost.memory for cost in here)[-most:])
        disk += sum(sorted(cost.disk for cost in here)[-most:])
    return memory, disk


def _cost(
    job: Job,
    like: Job,
    size: int,
    timings: Timings,
    measuring: Callable[[str], None] | None,
    on_gpu: int,
) -> Cost:
    """The cost of a cohort; `like` is the cohort that is measured for it, `size` the bytes of a
    lane."""
    run, lanes = job.runs[0], len(job.runs)
    weights = 4 * sum(
        a * b for a, b in zip((64, *run.hyper.hidden), run.hyper.hidden, strict=False)
    )
    evaluations = 1 + math.ceil(run.steps / run.eval.every)
    kept = lanes * (evaluations * (200 + 30 * run.eval.episodes) + weights)
    filled = min(1.0, run.steps / run.hyper.replay_size) if not run.on_policy else 1.0
    disk = lanes * (int(size * filled) + 40 * weights)

    def physics(run: Run) -> float | None:
        making = {} if run.env.making == PLAIN else {"making": run.env.making}
        measure = functools.partial(_physics, run.task, measuring, **making) if measuring else None
        return timings.get(_physics_kind(run.task, run.env.making), measure)

    measure = functools.partial(_measured, like, measuring, on_gpu) if measuring else None
    name = kind(like, on_gpu)
    learning, start = timings.get(name, measure), timings.get(f"start of {name}", None)
    here, there = physics(run), physics(like.runs[0])
    if learning is None or start is None or here is None or there is None:
        return Cost(lanes * size, disk, kept, None)
    backend = choose_backend(run.task, run.env.backend, job.place, run.env.making)
    threads = hardware.environment_threads() if backend == "envpool" else 1
    training = lanes * run.steps * max(learning + (here - there) / threads, here / threads)
    training *= 1 - job.step / run.steps  # a cohort with a checkpoint continues from there
    limit = spaces(run.task, run.env, job.place).time_limit
    steps = evaluations * most_steps(run, limit) * lanes * (1 - job.step / run.steps)
    evaluating = steps * ACTING * here / threads
    return Cost(lanes * size, disk, kept, start + training + evaluating)


def kind(job: Job, on_gpu: int = 1) -> str:
    """The name of the measurement that serves this cohort, with so many at once on a GPU."""
    run = job.runs[0]
    sizes = [f"{name}={getattr(run.hyper, name, '')}" for name in ("hidden", "batch_size")]
    sizes += [f"{name}={getattr(run.hyper, name, '')}" for name in ("updates", "train_every")]
    how = f"{job.place} {run.env.backend} {run.compute.precision}"
    how += f", {on_gpu} at once" if job.place == "gpu" and on_gpu > 1 else ""
    return f"{run.algorithm} + {run.strategy}, {len(job.runs)} lanes, {' '.join(sizes)}, {how}"


def _measured(job: Job, measuring: Callable[[str], None], on_gpu: int = 1) -> dict[str, float]:
    """Measure a cohort, with as many others at once as in the study.

    Returns:
        Seconds per step and lane, and seconds to start and to compile the programs.
    """
    run = job.runs[0]
    at_once, name = places(on_gpu=on_gpu)[job.place], kind(job, on_gpu)
    several = f", {at_once} at once" if job.place == "gpu" and at_once > 1 else ""
    measuring(f"{run.algorithm} + {run.strategy} on {run.task}, {len(job.runs)} lanes{several}")
    if run.on_policy:
        start = run.hyper.horizon * run.env.count
        end, hyper = 3 * start, run.hyper
    else:
        start = max(STEPS, run.hyper.batch_size)
        end = start + (STEPS_ON_GPU if job.place == "gpu" else STEPS)
        hyper = replace(run.hyper, warmup=start // 2)
    evaluation = replace(run.eval, every=end, episodes=1, max_steps=10)
    marks: dict[int, list[tuple[int, float]]] = {}

    def hear(number: int, event: Event) -> None:
        if isinstance(event, Stepped) and event.step >= start:
            marks.setdefault(number, []).append((event.step, time.monotonic()))

    with tempfile.TemporaryDirectory() as folder:
        copies = []
        for i in range(at_once):
            out = Path(folder) / str(i)
            short = [replace(run, steps=end, hyper=hyper, eval=evaluation) for run in job.runs]
            copies.append(Job(short, out, out / "work", job.place))
        began = time.monotonic()
        outcomes = local.run(copies, hear, bool, places={job.place: at_once})
    for outcome in outcomes:
        if outcome is not None:
            raise outcome
    spans = [(own[0], own[-1]) for own in marks.values()]  # of each copy: (step, time), twice
    each = [(b[1] - a[1]) / (b[0] - a[0]) / len(job.runs) for a, b in spans]
    seconds = float(np.median(each))
    before = [a[1] - began - a[0] * seconds * len(job.runs) for a, _ in spans]
    return {name: seconds, f"start of {name}": max(0.0, float(np.median(before)))}


def _physics_kind(task: str, making: Making) -> str:
    """The name of the measurement of a task's environments."""
    return f"step of {task}" + ("" if making == PLAIN else f" {making}")


def _physics(
    task: str, measuring: Callable[[str], None], making: Making = PLAIN
) -> dict[str, float]:
    """Measure seconds per step of a task, with random actions."""
    measuring(task)
    env = tasks.make(task, making=making)
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(STEPS)]
    began = time.perf_counter()
    for action in actions:
        _, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            env.reset()
    took = time.perf_counter() - began
    env.close()
    return {_physics_kind(task, making): took / STEPS}
