"""The first line of a run's record: the run, and what made it."""

from __future__ import annotations

from typing import Any

from discover_rl.config import Run
from discover_rl.envs import source
from discover_rl.system import hardware, provenance


def task_source(run: Run) -> str:
    """The hash of the code of a run's task, where that is of the user's own; else ''."""
    return source.fingerprint(run.task, run.env.making)


def header(run: Run, backend: str, source_hash: str) -> dict[str, Any]:
    """The first line of a run's record.

    Args:
        run: the run.
        backend: what steps its environments.
        source_hash: its `task_source`, made once for all runs of a cohort.
    """
    about = {"commit": provenance.commit(), "device": hardware.device_name(), "backend": backend}
    scored = {"score.last": run.score.last} if run.score.last else {}
    own = {"task_source": source_hash} if source_hash else {}
    return {"run": run.to_json(), "code": provenance.code(), **about, **scored, **own}
