"""Train cohorts on a Ray cluster, or on a Ray that is started on this machine; a task each.

A task trains one cohort, in a process of its own, and writes records and checkpoints itself, into a
folder that all nodes share. One whose worker or node dies is begun again and goes on from the last
checkpoint.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from discover_rl.core.types import Stopped, UserError
from discover_rl.system import hardware
from discover_rl.training.engines import Hear, Outcome, ray_tasks
from discover_rl.training.events import Ended
from discover_rl.training.job import CHECKPOINT_SECONDS, PATIENCE, Job

DEATHS = 5
"""A cohort whose workers die so often without getting any further has failed."""
LEASE = 120.0
"""Seconds for which a file server may keep the lock of a node that is gone."""
HERE = "local"
HEAD = {"node:__internal_head__": 0.001}
"""A node without which there is no cluster anyway."""
OBJECTS = 128 * 2**20
"""Bytes of Ray's own memory for what is passed between tasks, which is next to nothing here."""


def run(
    jobs: Sequence[Job],
    hear: Hear,
    stopping: Callable[[], bool],
    patience: float = PATIENCE,
    *,
    address: str | None = None,
    processes: int = 0,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> list[Outcome]:
    """Train these cohorts on the cluster at this address, or at RAY_ADDRESS; else on this hardware.
    So many at a time at most, or as many as there is room for."""
    ray = ray_tasks.needed()
    if not jobs:
        return []
    with _connected(ray, address, processes):
        try:
            return _train(ray, jobs, hear, stopping, patience, processes, checkpoint_seconds)
        except ray.exceptions.RayError as error:
            raise ChildProcessError(
                f"Ray failed ({_brief(error)}); the same command again goes on from the last "
                "checkpoints."
            ) from error


class Attempt(NamedTuple):
    """A task for a job; a job has several attempts if workers die."""

    job: int  # its number
    number: int  # of the attempt


def _train(
    ray: Any,
    jobs: Sequence[Job],
    hear: Hear,
    stopping: Callable[[], bool],
    patience: float,
    processes: int,
    checkpoint_seconds: float,
) -> list[Outcome]:
    jobs, needs = _placed(ray, jobs)
    mailbox = ray.remote(ray_tasks.Mailbox).options(num_cpus=0, resources=HEAD).remote()
    # Workers may have been used before, by whatever it was: every task has a fresh one.
    work = ray.remote(max_calls=1, max_retries=0)(ray_tasks.work)
    outcomes: list[Outcome] = [None] * len(jobs)
    waiting, working = list(range(len(jobs))), dict[Any, Attempt]()
    deaths, reached = [0] * len(jobs), [0] * len(jobs)
    attempts, stopped = 0, False
    try:
        while waiting or working:
            if not stopped and stopping():
                stopped, begun = True, ray.get(mailbox.stop.remote())
                for task, attempt in [*working.items()]:
                    if attempt.number not in begun:  # and never will
                        ray.cancel(task)
                        del working[task]
                        waiting.append(attempt.job)
                for number in waiting:
                    outcomes[number] = Stopped(jobs[number].step)
                waiting.clear()
            while waiting and (not processes or len(working) < processes):
                number = waiting.pop(0)
                job = jobs[number]
                job.workdir.mkdir(parents=True, exist_ok=True)
                # An attempt after one that died waits for that one's lock to go.
                wait = max(patience, LEASE) if deaths[number] else patience
                given = mailbox, attempts, job, [*sys.path, os.getcwd()], checkpoint_seconds, wait
                task = work.options(**needs[job.place]).remote(*given)
                working[task] = Attempt(number, attempts)
                attempts += 1
            if not working:
                break
            ended, _ = ray.wait([*working], num_returns=len(working), timeout=0.2)
            # After the wait: all that ended tasks have sent is there.
            numbers = {attempt.number: attempt.job for attempt in working.values()}
            for attempt, event in ray.get(mailbox.collect.remote()):
                if attempt in numbers:  # else of one that is held for dead
                    hear(numbers[attempt], event)
            for task in ended:
                number = working.pop(task).job
                try:
                    outcomes[number] = ray.get(task)
                except ray.exceptions.RayTaskError as error:
                    outcomes[number] = ChildProcessError(f"A worker could not begin: {error}")
                except ray.exceptions.RayError as error:
                    before, reached[number] = reached[number], jobs[number].step
                    deaths[number] = 1 if reached[number] > before else deaths[number] + 1
                    if deaths[number] < DEATHS and not stopped:
                        waiting.insert(0, number)
                        continue
                    outcomes[number] = _died(error, reached[number], stopped)
                hear(number, Ended(outcomes[number]))
    finally:
        for task in working:
            ray.cancel(task, force=True)
        ray.kill(mailbox)
    return outcomes


def _died(error: Exception, step: int, stopped: bool) -> Exception:
    if stopped:
        return Stopped(step)
    return ChildProcessError(
        f"Workers died {DEATHS} times without getting beyond step {step:,} ({_brief(error)}); the "
        "same command again goes on from there."
    )


def _brief(error: Exception) -> str:
    """What an error says first, or after a traceback; Ray's go on for long."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    chosen = lines[-1 if any(line.startswith("Traceback") for line in lines) else 0]
    return chosen.strip().rstrip(".")


@contextlib.contextmanager
def _connected(ray: Any, address: str | None, processes: int) -> Iterator[None]:
    """With Ray: as whoever called has it already, else at the address, else started for this."""
    if ray.is_initialized():
        yield
        return
    address = address or os.environ.get("RAY_ADDRESS") or HERE
    options: dict[str, Any] = {"logging_level": logging.ERROR, "log_to_driver": False}
    if address == HERE:
        options |= {"num_cpus": processes or hardware.cores(), "object_store_memory": OBJECTS}
        options |= {"include_dashboard": False}
    before = signal.getsignal(signal.SIGTERM)
    try:
        _knock(address)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what they warn of is said by the error as well
            ray.init(address, **options)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        raise UserError(
            f"No Ray cluster can be reached at {address} ({_brief(error)}); `ray start --head` "
            "starts one, and without --address and RAY_ADDRESS none is needed."
        ) from error
    finally:
        # Ray takes this signal for itself, and would end us without a checkpoint.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Raise an OSError if nobody is at host:port; Ray would keep trying for minutes."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


def _placed(ray: Any, jobs: Sequence[Job]) -> tuple[list[Job], dict[str, dict[str, float]]]:
    """The jobs with the places that the cluster has for them and absolute paths; and the resources
    that a task needs in each place."""
    needs = {"cpu": {"num_cpus": 1.0}}
    if shares := _gpu_shares(ray):
        needs["gpu"] = {"num_gpus": 1.0, "num_cpus": min(shares)}
    placed = []
    for job in jobs:
        # This machine's GPU, by which the job was made, says nothing of the cluster's.
        on_gpu = "gpu" in needs and not job.runs[0].on_policy
        paths = {"out": job.out.absolute(), "workdir": job.workdir.absolute()}
        placed.append(job._replace(place="gpu" if on_gpu else "cpu", **paths))
    return placed, needs


def _gpu_shares(ray: Any) -> list[float]:
    """For each node with GPUs on which JAX computes: how many cores a GPU's environments get. Half
    of them are left to others, as on one hardware."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU")]
    ask = ray.remote(num_cpus=0)(ray_tasks.accelerated)
    shares = []
    for node in nodes:
        strategy = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
        try:
            able = ray.get(ask.options(scheduling_strategy=strategy).remote(), timeout=60)
        except ray.exceptions.RayError:  # it has gone since, or has not what we need
            able = False
        if able:
            cores, gpus = (node["Resources"].get(name, 0.0) for name in ("CPU", "GPU"))
            shares.append(max(min(1.0, cores), cores // (2 * gpus)))
    return shares
