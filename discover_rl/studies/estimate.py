"""Estimate what a study takes: memory, disk, and hours on this machine.

Hours are computed from short measurements. For every algorithm × strategy of the study, cohorts of
the planned size train for a few hundred steps, on a GPU for a few thousand, in a folder that is
removed afterwards, as many at once as in the study. For every task, an environment is stepped for a
moment. Measurements are kept in the user's cache, so the next estimate is immediate. On a GPU, both
single cohorts and several at once are measured, and `discover run` does what is faster. Three
things are simplified: copies of one cohort are measured, not a mixture of strategies; networks with
more inputs, as Humanoid's, are not measured separately; and episodes of evaluation are assumed to
last to their time limit.
"""

from __future__ import annotations

import contextlib
import functools
import heapq
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from discover_rl.config import Run
from discover_rl.core.types import Spec
from discover_rl.envs.backends import spaces
from discover_rl.envs.settings import PLAIN
from discover_rl.envs.tasks import choose_backend
from discover_rl.storage import files, schemas
from discover_rl.studies import plan, speed
from discover_rl.system import hardware
from discover_rl.training.engines import places
from discover_rl.training.evaluation import most_steps
from discover_rl.training.job import Job
from discover_rl.training.memory import Need, need

AT_ONCE = (2, 4)
"""Numbers of cohorts that are tried at once on a GPU, in addition to one."""
GAIN = 0.95
"""More cohorts at once count as faster below this share of the time, because times vary."""
ACTING = 1.3
"""The time of a step in an evaluation, relative to a step of the environment alone."""


class Cost(NamedTuple):
    """Memory, disk space and time that one cohort takes."""

    memory: int  # bytes, while it trains
    disk: int  # bytes, at most, while it trains
    kept: int  # bytes, when it is done
    seconds: float | None  # in a process of its own; None if nothing was measured


class Timings:
    """How many seconds things take on this machine: measured once, kept in the user's cache."""

    def __init__(self) -> None:
        self._path = hardware.cache_folder() / f"speeds-{hardware.processor_kind()}.json"
        self._known: dict[str, float] = {}
        with contextlib.suppress(OSError, schemas.Malformed):  # then all is measured again
            self._known = schemas.read_json(self._path, dict[str, float])

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
        first.setdefault(speed.kind(job), job)
    if len(mine) < 2:
        return 1
    largest = max(_need(job, {}).total * len(job.runs) for job in first.values())
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
    """Seconds for the steps of all cohorts, `count` at once; None if it is not known."""
    each = []
    for job in jobs:
        like = first[speed.kind(job)]
        measure = None
        if measuring:
            measure = functools.partial(speed.of_training, like, measuring, count)
        seconds = timings.get(speed.kind(like, count), measure)
        if seconds is None:
            return None
        each.append(len(job.runs) * (job.runs[0].steps - job.step) * seconds)
    return _until_all_end(each, count)


def _until_all_end(seconds: Sequence[float], at_once: int) -> float:
    """Seconds until all of these cohorts have ended, each begun where a place is free."""
    ends = [0.0] * at_once
    for each in seconds:
        heapq.heapreplace(ends, ends[0] + each)
    return max(ends)


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
    specs: dict[Any, Spec] = {}
    first: dict[str, Job] = {}
    found = []
    for job in jobs:
        # One measurement serves all cohorts of a kind: they differ in the task alone.
        like = first.setdefault(speed.kind(job), job)
        found.append(_cost(job, like, _need(job, specs), timings, measuring, on_gpu))
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
        seconds = timings.get(speed.kind(job), None)
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
        by_place.append(_until_all_end([each or 0.0 for each in seconds], most))
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


def _need(job: Job, specs: dict[Any, Spec]) -> Need:
    """What a run of a cohort takes of memory; `specs` has the spaces that are known, and gets
    others."""
    run = job.runs[0]
    key = run.task, run.env, job.place
    if key not in specs:
        specs[key] = spaces(*key)
    return need(run, specs[key])


def _cost(
    job: Job,
    like: Job,
    each: Need,
    timings: Timings,
    measuring: Callable[[str], None] | None,
    on_gpu: int,
) -> Cost:
    """The cost of a cohort; `like` is the cohort that is measured for it, `each` what one of its
    runs takes of memory."""
    run, lanes = job.runs[0], len(job.runs)
    evaluations = 1 + math.ceil(run.steps / run.eval.every)
    # The last checkpoint is kept without its replay. Until then there may be two of them.
    kept = lanes * (evaluations * (200 + 30 * run.eval.episodes) + each.networks)
    disk = lanes * (each.data + 2 * each.networks)

    def physics(run: Run) -> float | None:
        making = {} if run.env.making == PLAIN else {"making": run.env.making}
        measure = (
            functools.partial(speed.of_task, run.task, measuring, **making) if measuring else None
        )
        return timings.get(speed.task_kind(run.task, run.env.making), measure)

    here, there = physics(run), physics(like.runs[0])  # first: an error of the task is said there
    measure = functools.partial(speed.of_training, like, measuring, on_gpu) if measuring else None
    name = speed.kind(like, on_gpu)
    learning, start = timings.get(name, measure), timings.get(f"start of {name}", None)
    if learning is None or start is None or here is None or there is None:
        return Cost(lanes * each.total, disk, kept, None)
    backend = choose_backend(run.task, run.env.backend, job.place, run.env.making)
    threads = hardware.environment_threads() if backend == "envpool" else 1
    training = lanes * run.steps * max(learning + (here - there) / threads, here / threads)
    training *= 1 - job.step / run.steps  # a cohort with a checkpoint continues from there
    limit = spaces(run.task, run.env, job.place).time_limit
    steps = evaluations * most_steps(run, limit) * lanes * (1 - job.step / run.steps)
    evaluating = steps * ACTING * here / threads
    return Cost(lanes * each.total, disk, kept, start + training + evaluating)
