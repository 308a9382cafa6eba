"""Write all evaluations of a study as one tidy table, in a CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from discover_rl.core.types import UserError
from discover_rl.storage import files
from discover_rl.storage.records import Contents
from discover_rl.studies import status
from discover_rl.studies.status import RunStatus
from discover_rl.studies.study import Cell, Study

ALWAYS = ("task", "algorithm", "strategy", "arm")
"""Columns that every table has, besides those of the settings that vary over the grid."""


class Exported(NamedTuple):
    """What was written."""

    rows: int
    """How many evaluations."""
    left_out: list[RunStatus]
    """Runs whose records are damaged, or of another study, with the reasons."""


def rows(cell: Cell, seed: int, record: Contents) -> Iterator[dict[str, Any]]:
    """One row for each evaluation of a run.

    Args:
        cell: the run's cell.
        seed: its seed.
        record: what its record says.

    Yields:
        The columns by name: which cell and seed, the step, mean and standard deviation of the
        returns, the number of episodes, their mean length, and the report's numbers.
    """
    about = {name: getattr(cell, name) for name in ALWAYS} | dict(cell.varied)
    for line in record.evaluations:
        returns = np.asarray(line["returns"])
        scores = {"return_mean": float(returns.mean()), "return_sd": float(returns.std())}
        scores |= {"episodes": len(returns), "length_mean": float(np.mean(line["lengths"]))}
        report = {f"report.{key}": value for key, value in line.get("report", {}).items()}
        yield about | {"seed": seed, "step": line["step"]} | scores | report


def write(study: Study, out: Path, path: Path) -> Exported:
    """Write the table to a CSV file.

    Args:
        study: the study.
        out: the folder of its results.
        path: the file to write.

    Raises:
        UserError: there is no evaluation yet.
    """
    found, left_out, survey = [], [], status.survey(study, out)
    for cell in study.cells:
        for seed in cell.seeds:
            run, record = next(survey)
            found += rows(cell, seed, record)
            left_out += [run] if run.unreadable else []
    if not found:
        raise UserError(f"There is nothing to export: {out} holds no evaluation of {study.name}.")
    names = list(dict.fromkeys(name for row in found for name in row))
    text = io.StringIO()
    table = csv.DictWriter(text, names, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(found)
    files.write(path, text.getvalue().encode())
    return Exported(len(found), left_out)
