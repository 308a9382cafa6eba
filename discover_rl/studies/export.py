"""Write all evaluations of a study as one tidy table, in a CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from discover_rl.core.types import UserError
from discover_rl.storage import files
from discover_rl.storage.records import Record, record_path
from discover_rl.studies.study import Study

ALWAYS = ("task", "algorithm", "strategy", "arm")
"""Columns that every table has, besides those of the settings that vary over the grid."""


def rows(study: Study, out: Path) -> Iterator[dict[str, Any]]:
    """One row for each evaluation, in the order of the study.

    Args:
        study: the study.
        out: the folder of its results.

    Yields:
        The columns by name: which cell and seed, the step, mean and standard deviation of the
        returns, the number of episodes, their mean length, and the report's numbers.
    """
    for cell in study.cells:
        about = {name: getattr(cell, name) for name in ALWAYS} | dict(cell.varied)
        for seed, name in zip(cell.seeds, cell.names, strict=True):
            for line in Record(record_path(out, name)).evaluations:
                returns = np.asarray(line["returns"])
                scores = {"return_mean": float(returns.mean()), "return_sd": float(returns.std())}
                scores |= {"episodes": len(returns), "length_mean": float(np.mean(line["lengths"]))}
                report = {f"report.{key}": value for key, value in line.get("report", {}).items()}
                yield about | {"seed": seed, "step": line["step"]} | scores | report


def write(study: Study, out: Path, path: Path) -> int:
    """Write the table to a CSV file.

    Args:
        study: the study.
        out: the folder of its results.
        path: the file to write.

    Returns:
        The number of rows.

    Raises:
        UserError: there is no evaluation yet.
    """
    found = list(rows(study, out))
    if not found:
        raise UserError(f"There is nothing to export: {out} holds no evaluation of {study.name}.")
    names = list(dict.fromkeys(name for row in found for name in row))
    text = io.StringIO()
    table = csv.DictWriter(text, names, restval="", lineterminator="\n")
    table.writeheader()
    table.writerows(found)
    files.write(path, text.getvalue().encode())
    return len(found)
