"""How a study stands: read off its folder, whoever is at work in it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from discover_rl import checkpoint, store
from discover_rl.studies import Cell, Study, plan

TROUBLE = "trouble.json"
"""At a desk: why its cohort came to no end. It is tried again the next time."""
FOREIGN = "its record is of another study"
STATES = ("done", "running", "begun", "waiting", "failed")


class Standing(NamedTuple):
    """Of one run."""

    name: str
    state: str  # one of STATES
    step: int = 0
    reason: str = ""  # of a failure
    made_by: str = ""  # a hash of the code that began it


def standings(study: Study, out: Path) -> list[Standing]:
    """Of all runs, in the study's order."""
    desks = plan.numbered(out)
    at = {desk: _at_desk(desk) for desk in set(desks.values())}
    found = []
    for cell in study.cells:
        for name in cell.names:
            glance = store.glance(store.record_of(out, name))
            made_by = glance.header.get("code", {}).get("source", "") if glance.header else ""
            state, step, reason = at[desks[name]] if name in desks else ("waiting", 0, "")
            if unlike := _unlike(cell, glance):
                state, reason = "failed", f"{FOREIGN}: {unlike}"
            elif glance.over:
                state, step = "done" if glance.done else "failed", glance.last["step"]
                reason = glance.reason
            elif state == "running":
                step = max(step, glance.last.get("step", 0))
            found.append(Standing(name, state, step, reason, made_by))
    return found


def _unlike(cell: Cell, glance: store.Glance) -> str:
    """In what a record differs from what the study says now, as far as that is seen at a glance:
    what presets and defaults come to is not."""
    if glance.header is None:
        return ""
    run = glance.header["run"]
    here = {name: getattr(cell, name) for name in ("task", "algorithm", "strategy", "steps")}
    here |= {k: v for k, v in cell.settings.items() if isinstance(v, int | float | list)}
    there = {**run.get("settings", {}), **run}
    for name, value in here.items():
        # A list of one may be written without brackets; 0 leaves the cadence open.
        alike = there.get(name) in (value, [value]) or (name, value) == ("eval.every", 0)
        if name in there and not alike:
            return f"{name} is {there[name]} there and {value} here"
    return ""


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
        return "begun" if checkpoint.find(desk) else "waiting", step, ""
