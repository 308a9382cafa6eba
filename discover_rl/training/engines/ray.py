"""Train cohorts on a Ray cluster, or by Ray on this machine, each in one task.

A task trains one cohort, in a process of its own, and writes records and checkpoints itself, into a
folder that all nodes share. If its worker or node dies, another task continues from the last
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
from discover_rl.system import hardware, provenance
from discover_rl.training.engines import OnEvent, Outcome, ray_tasks
from discover_rl.training.events import Ended
from discover_rl.training.job import CHECKPOINT_SECONDS, PATIENCE, Job

DEATHS = 5
"""A cohort has failed if this many workers in a row die before they make progress."""
LEASE = 120.0
"""Seconds for which a file server may keep the lock of a node that has died."""
HERE = "local"
"""The address that starts a Ray on this machine alone."""
HEAD = {"node:__internal_head__": 0.001}
"""A resource that only the head node has; without it there is no cluster."""
OBJECTS = 128 * 2**20
"""Bytes of Ray's object store. Tasks here pass almost nothing to each other."""


def run(
    jobs: Sequence[Job],
    on_event: OnEvent,
    stopping: Callable[[], bool],
    patience: float = PATIENCE,
    *,
    address: str | None = None,
    processes: int = 0,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
) -> list[Outcome]:
    """Train these cohorts on a Ray cluster (`engines.Engine`).

    Args:
        jobs: the cohorts.
        on_event: receives the events of each.
        stopping: if true, all stop after a checkpoint.
        patience: seconds that a task waits for the lock of its work folder.
        address: of the cluster; None: RAY_ADDRESS, or else a Ray of this machine's own.
        processes: how many are trained at once; 0: as many as the cluster has room for.
        checkpoint_seconds: time between checkpoints.

    Returns:
        The outcome of each: None, or the error that ended it.
    """
    ray = ray_tasks.needed()
    if not jobs:
        return []
    with _connected(ray, address, processes):
        try:
            return _train(ray, jobs, on_event, stopping, patience, processes, checkpoint_seconds)
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
    on_event: OnEvent,
    stopping: Callable[[], bool],
    patience: float,
    processes: int,
    checkpoint_seconds: float,
) -> list[Outcome]:
    jobs, needs = _placed(ray, jobs)
    mailbox = ray.remote(ray_tasks.Mailbox).options(num_cpus=0, resources=HEAD).remote()
    # Every task gets a new worker process: other code may have run in an old one.
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
                    if attempt.number not in begun:  # the mailbox keeps it from beginning now
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
                # After a death, the next attempt waits until the lock of the dead one is released.
                wait = max(patience, LEASE) if deaths[number] else patience
                given = mailbox, attempts, job, [*sys.path, os.getcwd()], checkpoint_seconds, wait
                task = work.options(**needs[job.place]).remote(*given)
                working[task] = Attempt(number, attempts)
                attempts += 1
            if not working:
                break
            ended, _ = ray.wait([*working], num_returns=len(working), timeout=0.2)
            # Collected after the wait, so that nothing from tasks that have ended is missing.
            numbers = {attempt.number: attempt.job for attempt in working.values()}
            for attempt, event in ray.get(mailbox.collect.remote()):
                if attempt in numbers:  # an attempt that is taken for dead may still send
                    on_event(numbers[attempt], event)
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
                on_event(number, Ended(outcomes[number]))
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
    """Return the first line of an error, or the last one of a traceback. Ray's errors are long."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    chosen = lines[-1 if any(line.startswith("Traceback") for line in lines) else 0]
    return chosen.strip().rstrip(".")


@contextlib.contextmanager
def _connected(ray: Any, address: str | None, processes: int) -> Iterator[None]:
    """A context with a connection to Ray: one that exists already, else to the address, else to a
    Ray that is started on this machine."""
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
        # Ray lets workers search the working directory first, before installed modules. Code that
        # happens to lie there must not run (`system.modules`), so it is another one meanwhile.
        with warnings.catch_warnings(), contextlib.chdir(provenance.ROOT.parent):
            warnings.simplefilter("ignore")  # the error says the same
            ray.init(address, **options)
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        raise UserError(
            f"No Ray cluster can be reached at {address} ({_brief(error)}); `ray start --head` "
            "starts one, and without --address and RAY_ADDRESS none is needed."
        ) from error
    finally:
        # Ray replaces the handler of this signal and would end the process without a checkpoint.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)
    try:
        yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """Raise an OSError if nothing listens at host:port; Ray would keep trying for minutes."""
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
        # The job's place is that of this machine; the cluster may differ in its GPUs.
        place = hardware.place(job.runs[0].on_policy, gpu="gpu" in needs)
        paths = {"out": job.out.absolute(), "workdir": job.workdir.absolute()}
        placed.append(job._replace(place=place, **paths))
    return placed, needs


def _gpu_shares(ray: Any) -> list[float]:
    """For each node on whose GPUs JAX computes, return the cores for one GPU's environments. Half
    of a node's cores are left to cohorts on the CPU, as on a single machine."""
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("GPU")]
    ask = ray.remote(num_cpus=0)(ray_tasks.accelerated)
    shares = []
    for node in nodes:
        strategy = NodeAffinitySchedulingStrategy(node_id=node["NodeID"], soft=False)
        try:
            able = ray.get(ask.options(scheduling_strategy=strategy).remote(), timeout=60)
        except ray.exceptions.RayError:  # the node has died, or lacks a package
            able = False
        if able:
            cores, gpus = (node["Resources"].get(name, 0.0) for name in ("CPU", "GPU"))
            shares.append(max(min(1.0, cores), cores // (2 * gpus)))
    return shares
