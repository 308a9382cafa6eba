"""The first line of a run's record: the run, and the code and machine that made it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discover_rl import algorithms, strategies
from discover_rl.config import Run
from discover_rl.envs import source
from discover_rl.envs.tasks import choose_backend
from discover_rl.storage.records import Record
from discover_rl.system import hardware, provenance


def sources(run: Run) -> dict[str, str]:
    """Hash the code of a run's task, strategy and algorithm, as far as it is the user's own."""
    found = {"task_source": source.fingerprint(run.task, run.env.making)}
    for kind, members in (("strategy", strategies), ("algorithm", algorithms)):
        if (member := members.registry.outside(getattr(run, kind))) is not None:
            found[f"{kind}_source"] = source.fingerprint_of_member(member)
    return {name: value for name, value in found.items() if value}


def changed_code(run: Run, there: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Find the user's own code that has changed since a run was recorded.

    Args:
        run: the run.
        there: the hashes in its record (`Record.sources`).

    Returns:
        For each changed part "task", "strategy" or "algorithm", the recorded hash, and the present
        one ('' for none).
    """
    here = sources(run) if there else {}
    pairs = [(name, before, here.get(name, "")) for name, before in there.items()]
    return [
        (name.removesuffix("_source"), before, now)
        for name, before, now in pairs
        if before and before != now
    ]


def header(run: Run, backend: str, own: Mapping[str, str]) -> dict[str, Any]:
    """The first line of a run's record.

    Args:
        run: the run.
        backend: what steps its environments.
        own: its `sources`, made once for all runs of a cohort.
    """
    about = {"commit": provenance.commit(), "device": hardware.device_name(), "backend": backend}
    scored = {"score.last": run.score.last} if run.score.last else {}
    return {"run": run.to_json(), "code": provenance.code(), **about, **scored, **own}


def backend(runs: Sequence[Run], records: Sequence[Record], resumed: bool) -> str:
    """Return the backend of a cohort's environments: chosen now, or the one that it began with.

    Args:
        runs: of the cohort.
        records: of these.
        resumed: whether they have begun.
    """
    first, asked = runs[0], runs[0].env.backend
    if resumed and asked == "auto":
        before = [record.header for record in records if record.header]
        asked = before[0].get("backend", asked) if before else asked
    return choose_backend(first.task, asked, hardware.place(first.on_policy), first.env.making)
