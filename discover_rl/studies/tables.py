"""A study's evaluations as one tidy table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from discover_rl import store
from discover_rl.store import Record
from discover_rl.studies import Study
from discover_rl.types import UserError

ALWAYS = ("task", "algorithm", "strategy", "arm")


def rows(study: Study, out: Path) -> Iterator[dict[str, Any]]:
    """One for each evaluation, in the study's order: which run, which step, and how it went."""
    for cell in study.cells:
        about = {name: getattr(cell, name) for name in ALWAYS} | dict(cell.varied)
        for seed, name in zip(cell.seeds, cell.names, strict=True):
            for line in Record(store.record_of(out, name)).evaluations:
                returns = np.asarray(line["returns"])
                scores = {"return_mean": float(returns.mean()), "return_sd": float(returns.std())}
                scores |= {"episodes": len(returns), "length_mean": float(np.mean(line["lengths"]))}
                told = {f"report.{key}": value for key, value in line.get("report", {}).items()}
                yield about | {"seed": seed, "step": line["step"]} | scores | told


def write(study: Study, out: Path, path: Path) -> int:
    """Write the table; the number of its rows."""
    found = list(rows(study, out))
    if not found:
        raise UserError(f"There is nothing to export: {out} holds no evaluation of {study.name}.")
    names = list(dict.fromkeys(name for row in found for name in row))
    text = io.StringIO()
    table = csv.DictWriter(text, names, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(found)
    store.write(path, text.getvalue().encode())
    return len(found)
