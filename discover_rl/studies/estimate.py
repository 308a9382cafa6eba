"""What a study will take: memory, disk, and hours on this machine.

Hours come from short measurements: for every algorithm × strategy of the study, cohorts of the
planned size are trained for a few hundred steps, on a GPU a few thousand, in a folder that is then
removed, as many at once as would be; for every task, an environment is stepped for a moment. They
are kept in the user's cache, so the next plan answers at once. Networks that are larger because
observations are, as Humanoid's, are not measured anew; episodes of evaluation are taken to last to
their limit.
"""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discover_rl import evaluate, machine, store, tasks
from discover_rl.algorithms import ON_POLICY
from discover_rl.engines import local, places
from discover_rl.jobs import Job
from discover_rl.studies import plan

STEPS = 300
"""Measured, after as many that are not."""
STEPS_ON_GPU = 3000
"""There they are short, and told of by the flight, see flight.py."""
ACTING = 1.3
"""An evaluation's step, in steps of the environment alone."""


class Cost(NamedTuple):
    """Of one cohort."""

    memory: int  # bytes, while it trains
    disk: int  # bytes, at most, while it trains
    kept: int  # bytes, when it is done
    seconds: float | None  # in a process of its own; None where nothing was measured


class Paces:
    """Seconds that things take on this machine, measured once and kept."""

    def __init__(self) -> None:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        self._path = Path(home) / "discover_rl" / f"paces-{machine.kind()}.json"
        try:
            self._known: dict[str, float] = json.loads(self._path.read_text())
        except (OSError, ValueError):
            self._known = {}

    def get(self, name: str, measure: Callable[[], dict[str, float]] | None) -> float | None:
        """What is known, or else what is measured now; None if nothing may be measured."""
        if name not in self._known and measure is not None:
            self._known |= measure()
            with contextlib.suppress(OSError):  # then it is measured again
                store.write(self._path, json.dumps(self._known, indent=1).encode())
        return self._known.get(name)


def costs(jobs: Sequence[Job], paces: Paces, measuring: Callable[[str], None] | None) -> list[Cost]:
    """Of every cohort. `measuring` is told of each measurement before it is made; None: nothing is
    measured, only what is known from before is used."""
    sizes: dict[Any, int] = {}
    first: dict[str, Job] = {}
    found = []
    for job in jobs:
        run = job.runs[0]
        size = (run.task, run.algorithm, run.hyper.hidden, getattr(run.hyper, "replay_size", 0))
        if size not in sizes:
            sizes[size] = plan.lane_bytes(run)
        # What the same algorithm and strategy do elsewhere tells about this, but for the task.
        like = first.setdefault(_kind(job), job)
        found.append(_cost(job, like, sizes[size], paces, measuring))
    return found


def hours(jobs: Sequence[Job], found: Sequence[Cost], processes: int = 0) -> float | None:
    """Of all cohorts, as many at once as there are places; None where one is not known."""
    taken = [0.0]
    for place, most in places(processes).items():
        seconds = [it.seconds for job, it in zip(jobs, found, strict=True) if job.place == place]
        if None in seconds:
            return None
        taken.append(sum(it or 0.0 for it in seconds) / max(1, min(most, len(seconds))))
    return max(taken) / 3600


def peak(jobs: Sequence[Job], found: Sequence[Cost]) -> tuple[int, int]:
    """Memory and disk while the largest cohorts train at once."""
    memory, disk = 0, sum(it.kept for it in found)
    for place, most in places().items():
        here = [it for job, it in zip(jobs, found, strict=True) if job.place == place]
        memory += sum(sorted(it.memory for it in here)[-most:])
        disk += sum(sorted(it.disk for it in here)[-most:])
    return memory, disk


def _cost(
    job: Job, like: Job, size: int, paces: Paces, measuring: Callable[[str], None] | None
) -> Cost:
    run, lanes = job.runs[0], len(job.runs)
    weights = 4 * sum(
        a * b for a, b in zip((64, *run.hyper.hidden), run.hyper.hidden, strict=False)
    )
    evaluations = 1 + math.ceil(run.steps / run.eval.every)
    kept = lanes * (evaluations * (200 + 30 * run.eval.episodes) + weights)
    filled = min(1.0, run.steps / run.hyper.replay_size) if run.algorithm not in ON_POLICY else 1.0
    disk = lanes * (int(size * filled) + 40 * weights)

    def physics(task: str) -> float | None:
        measure = functools.partial(_physics, task, measuring) if measuring else None
        return paces.get(f"step of {task}", measure)

    measure = functools.partial(_measured, like, measuring) if measuring else None
    learning, start = paces.get(_kind(like), measure), paces.get(f"start of {_kind(like)}", None)
    here, there = physics(run.task), physics(like.runs[0].task)
    if learning is None or start is None or here is None or there is None:
        return Cost(lanes * size, disk, kept, None)
    threads = machine.threads() if run.env.engine == "envpool" else 1
    training = lanes * run.steps * max(learning + (here - there) / threads, here / threads)
    training *= 1 - job.step / run.steps  # what was begun goes on
    steps = evaluations * evaluate.steps(run) * lanes * (1 - job.step / run.steps)
    evaluating = steps * ACTING * here / threads
    return Cost(lanes * size, disk, kept, start + training + evaluating)


def _kind(job: Job) -> str:
    """What a measurement is of."""
    run = job.runs[0]
    sizes = [f"{name}={getattr(run.hyper, name, '')}" for name in ("hidden", "batch_size")]
    sizes += [f"{name}={getattr(run.hyper, name, '')}" for name in ("updates", "train_every")]
    how = f"{job.place} {run.env.engine} {run.compute.precision}"
    return f"{run.algorithm} + {run.strategy}, {len(job.runs)} lanes, {' '.join(sizes)}, {how}"


def _measured(job: Job, measuring: Callable[[str], None]) -> dict[str, float]:
    """Seconds per step and lane of a cohort like this one, beside as many as would be, and those
    it takes to start, programs compiled."""
    run = job.runs[0]
    measuring(f"{run.algorithm} + {run.strategy} on {run.task}, {len(job.runs)} lanes")
    if run.algorithm in ON_POLICY:
        start = run.hyper.horizon * run.env.count
        end, hyper = 3 * start, run.hyper
    else:
        start = max(STEPS, run.hyper.batch_size)
        end = start + (STEPS_ON_GPU if job.place == "gpu" else STEPS)
        hyper = replace(run.hyper, warmup=start // 2)
    evaluation = replace(run.eval, every=end, episodes=1, max_steps=10)
    marks: dict[int, list[tuple[int, float]]] = {}

    def hear(number: int, event: str, details: tuple[Any, ...]) -> None:
        if event == "stepped" and details[0] >= start:
            marks.setdefault(number, []).append((details[0], time.monotonic()))

    at_once = places()[job.place]
    with tempfile.TemporaryDirectory() as folder:
        copies = []
        for i in range(at_once):
            out = Path(folder) / str(i)
            short = [replace(it, steps=end, hyper=hyper, eval=evaluation) for it in job.runs]
            copies.append(Job(short, out, out / "desk", job.place))
        began = time.monotonic()
        outcomes = local.run(copies, hear, bool, places={job.place: at_once})
    for outcome in outcomes:
        if outcome is not None:
            raise outcome
    spans = [(it[0], it[-1]) for it in marks.values()]
    each = [(b[1] - a[1]) / (b[0] - a[0]) / len(job.runs) for a, b in spans]
    pace = float(np.median(each))
    before = [a[1] - began - a[0] * pace * len(job.runs) for a, _ in spans]
    return {_kind(job): pace, f"start of {_kind(job)}": max(0.0, float(np.median(before)))}


def _physics(task: str, measuring: Callable[[str], None]) -> dict[str, float]:
    """Seconds per step of a task, actions drawn at random."""
    measuring(task)
    env = tasks.make(task)
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
    return {f"step of {task}": took / STEPS}
