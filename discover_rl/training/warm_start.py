"""Warm starts: find the run that others start from, and check that they can."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discover_rl.config import Run, Start
from discover_rl.core.types import Spec, UserError
from discover_rl.storage import kept_checkpoints
from discover_rl.storage.policies import load_policy
from discover_rl.storage.records import RECORD_FILE, Record, read_record, record_paths
from discover_rl.storage.results import load_run
from discover_rl.training import headers
from discover_rl.training.job import difference

SHAPING = ("hidden", "activation", "layer_norm", "normalise", "normalise_rewards")
"""Settings that must be equal, because the meaning of the networks depends on them."""
SPACES = {
    "observation_shape": "the shape of observations",
    "action_shape": "the shape of actions",
    "low": "the least action",
    "high": "the greatest action",
}
"""Fields of a task's spaces that must be equal, with their names in messages."""
ELSEWHERE = ("env.backend", "env.count")
"""Settings of environments that do not change transitions."""


def started_from(
    source: Path, runs: Sequence[Run], spec: Spec, out: Path, fresh: bool = False
) -> list[Run]:
    """Return the same runs, with `start` filled in.

    Args:
        source: the folder of the other run, or one with no other run in it.
        runs: the runs that are going to start from it.
        spec: the spaces of their task.
        out: the folder for them. If runs there have started already, the other one may be gone.
        fresh: whether the contents of `out` are going to be moved aside.

    Raises:
        UserError: there is nothing to start from, or it does not fit.
    """
    if fresh and source.resolve().is_relative_to(out.resolve()):
        raise UserError(f"{source} is in {out}, which --fresh moves aside; choose another --out.")
    begun = Start() if fresh else _recorded(out)
    start = _find(source, runs[0], spec, begun)  # they differ in seeds and in floats alone
    return [dataclasses.replace(run, start=start) for run in runs]


def _find(source: Path, run: Run, spec: Spec, begun: Start) -> Start:
    """What a run is to start from; `begun`: what others in its folder have started from."""
    there = load_run(source) if source.exists() else None
    kept = kept_checkpoints.kept(there.path) if there else None
    if begun.run and kept is None:
        return begun
    if there is None:
        raise UserError(f"There is no run to start from in {source}.")
    if kept is None:
        raise UserError(
            f"{there.path} has no checkpoint to start from; a run keeps it when it ends, unless it "
            "failed or was pruned."
        )
    # A run that ended early has kept its checkpoint since it was asked for fewer steps.
    own = kept["run"] | {"steps": there.run["steps"]}
    last = Record(there.path / RECORD_FILE).lines[-1]["step"]
    if (own, kept.get("step")) != (there.run, last):
        raise UserError(
            f"The checkpoint in {there.path} is of another run, or of another step, than the "
            "record there; put back what was there."
        )
    _refuse_misfit(there.path, there.run, run, spec)
    checksum = kept_checkpoints.checksum(there.path)
    if begun.checksum == checksum:
        return begun
    counted, transitions = kept_checkpoints.counters(there.path), 0
    if counted and _same_task(there.path, there.run, run):
        transitions = int(np.sum(counted["inserted"] - counted["oldest"]))
    return Start(str(there.path), checksum, kept.get("step", 0), transitions)


def _recorded(out: Path) -> Start:
    """Return what the runs in a folder have started from, by the first record that says so."""
    for path in record_paths(out):
        header = read_record(path).header
        if header and (start := Start.of(header["run"]["settings"])).run:
            return start
    return Start()


def _refuse_misfit(folder: Path, there: Mapping[str, Any], run: Run, spec: Spec) -> None:
    """Raise a UserError if the networks of a recorded run do not fit this one."""
    here, trained = run.to_json(), load_policy(folder).spec
    names = [(name, there[name], here[name]) for name in ("algorithm", "strategy")]
    spaces = [(what, getattr(trained, name), getattr(spec, name)) for name, what in SPACES.items()]
    shaping = [
        {"algorithm": it["algorithm"]}
        | {name: value for name, value in it["settings"].items() if name in SHAPING}
        for it in (there, here)
    ]
    unlike = next(
        (f"{what} is {a} there and {b} here" for what, a, b in names + spaces if a != b),
        difference(*shaping),
    )
    if unlike:
        raise UserError(f"{folder} does not fit these runs: {unlike}.")


def _same_task(folder: Path, there: Mapping[str, Any], run: Run) -> bool:
    """Whether the transitions of a recorded run could come from this one's environments."""
    tasks = [
        {name: it[name] for name in ("task", "algorithm")}
        | {
            "settings": {
                name: value
                for name, value in it["settings"].items()
                if name.startswith("env.") and name not in ELSEWHERE
            }
        }
        for it in (there, run.to_json())
    ]
    sources = Record(folder / RECORD_FILE).sources
    changed = [kind for kind, _, _ in headers.changed_code(run, sources)]
    return not difference(*tasks) and "task" not in changed
