"""How a study stands: read off its folder, whoever is at work in it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from discover_rl import checkpoint, store
from discover_rl.studies import Study, plan

TROUBLE = "trouble.json"
"""At a desk: why its cohort came to no end. It is tried again the next time."""
STATES = ("done", "running", "begun", "waiting", "failed")


class Standing(NamedTuple):
    """Of one run."""

    name: str
    state: str  # one of STATES
    step: int = 0
    reason: str = ""  # of a failure


def standings(study: Study, out: Path) -> list[Standing]:
    """Of all runs, in the study's order."""
    desks = plan.numbered(out)
    at = {desk: _at_desk(desk) for desk in set(desks.values())}
    found = []
    for name in study.names:
        glance = store.glance(out / name / "record.jsonl")
        step = glance.last.get("step", 0)
        state, begun, reason = at[desks[name]] if name in desks else ("waiting", 0, "")
        if glance.done:
            state, reason = "done", ""
        elif glance.failure:
            state, reason = "failed", glance.reason
        elif state != "waiting":
            step = max(step, begun)
        found.append(Standing(name, state, step, reason))
    return found


def counts(found: Sequence[Standing]) -> dict[str, int]:
    """How many runs there are in each state, those in none left out."""
    counted = Counter(it.state for it in found)
    return {state: counted[state] for state in STATES if counted[state]}


def note_trouble(desk: Path, error: Exception) -> None:
    """Leave word of what went wrong, if that can be written."""
    reason = str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        where = f" ({error.filename})" if error.filename else ""
        reason = f"the disk said: {error.strerror}{where}"
    details = {"reason": reason, "traceback": "".join(getattr(error, "__notes__", []))}
    try:
        store.write(desk / TROUBLE, json.dumps(details, indent=1).encode())
    except OSError:  # of a full disk, nothing can be written down; who started it was told
        return


def forget_trouble(desk: Path) -> None:
    store.remove(desk / TROUBLE)


def _at_desk(desk: Path) -> tuple[str, int, str]:
    """State, step and reason of the runs of a cohort that are not over."""
    step = checkpoint.step_of(desk)
    if store.taken(desk):
        return "running", step, ""
    try:
        return "failed", step, json.loads((desk / TROUBLE).read_text())["reason"]
    except (FileNotFoundError, ValueError):
        return "begun" if step else "waiting", step, ""
