"""What the runs of a screening were paid while they trained, from the metrics in their records.

    python docs/results/paid.py STUDY [--less ARM]

STUDY is a file of results/ without its ending, such as screening/seek-variants-hopper. Prints a row
per task and arm: how many runs were paid, the median step by which those were, the mean return of
training episodes and the area under the curve of evaluations, both as interquartile means with 95 %
intervals. With --less, the last two are the arm's less those of that ARM on the same task.

Episodes count from the end of the warm-up on. A run is paid when the mean return of the episodes
that ended between two lines of metrics is above what an evaluation must be to have found the reward
(`discover_rl.report.discovery`). Nothing is claimed of a screening, so no number is in bold.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

from discover_rl import studies
from discover_rl.core.hyperparameters import nearest
from discover_rl.core.types import UserError
from discover_rl.report import data, discovery, statistics
from discover_rl.storage.records import Record, record_path
from discover_rl.studies import Study

RECORDS = Path(__file__).parents[2] / "results"
HEAD = [
    "task",
    "arm",
    "runs that were paid",
    "median step of it",
    "return while training",
    "area under the curve",
]


class Paid(NamedTuple):
    """What the finished runs of a cell were paid.

    Attributes:
        first: The step by which each run was paid first; infinite: it never was. (runs,)
        returns: The mean return of its training episodes. (runs,)
        areas: The area under the curve of its evaluations. (runs,)
    """

    first: np.ndarray
    returns: np.ndarray
    areas: np.ndarray


def main() -> None:
    """Print the table that the command line asks for."""
    parser = argparse.ArgumentParser(description="What runs were paid while they trained.")
    parser.add_argument("study")
    parser.add_argument("--less", metavar="ARM", help="the arm whose numbers are taken off")
    args = parser.parse_args()
    study = studies.load(str(RECORDS / f"{args.study}.toml"))
    arms = [cell.arm for cell in study.cells]
    if args.less and args.less not in arms:
        raise UserError(f"{args.study} has no arm {args.less}.{nearest(args.less, arms)}")
    print("\n".join(table(study, RECORDS / args.study, args.less)))


def table(study: Study, out: Path, less: str | None) -> list[str]:
    """The lines of the table; `less` is the arm whose numbers are taken off, if any."""
    found = {
        (results.cell.task, results.cell.arm): paid(results, out)
        for results in data.load(study, out).cells
    }
    lines = [f"| {' | '.join(HEAD)} |", "|---|---|" + "---:|" * (len(HEAD) - 2)]
    for (task, arm), mine in found.items():
        other = found[task, less] if less else None
        first = mine.first[np.isfinite(mine.first)]
        row = [task, arm, f"{len(first)} of {len(mine.first)}"]
        row += [f"{np.median(first):,.0f}" if len(first) else "–"]
        row += [_text(mine.returns, other and other.returns)]
        row += [_text(mine.areas, other and other.areas)]
        lines.append(f"| {' | '.join(row)} |")
    return lines


def paid(results: data.Results, out: Path) -> Paid:
    """What the finished runs of a cell were paid."""
    scale = discovery.references()[results.cell.task]
    level = max(discovery.SHARE * scale.high, scale.luck)
    first, returns = [], []
    for run in itertools.compress(results.cell.runs, results.done):
        measured = [
            (line["step"], line["metrics"]["episodes"], line["metrics"]["return"])
            for line in Record(record_path(out, run.name)).contents.lines
            if "metrics" in line and line["step"] > run.hyper.warmup and line["metrics"]["episodes"]
        ]
        if not measured:  # of so short a run nothing can be said
            continue
        steps, episodes, means = (np.array(it, float) for it in zip(*measured, strict=True))
        first.append(steps[means > level].min(initial=np.inf))
        returns.append(np.average(means, weights=episodes))
    return Paid(np.array(first), np.array(returns), results.area)


def _text(mine: np.ndarray, other: np.ndarray | None) -> str:
    """An interquartile mean, or the difference of two, with its interval."""
    if min(len(mine), len(mine if other is None else other)) < 2:
        return "–"
    if other is None:
        value, low, high = statistics.bootstrap(mine, resampling=data.FINE)
        text = f"{value:.1f} [{low:.1f}, {high:.1f}]"
    else:
        value, low, high = statistics.difference(mine, other, resampling=data.FINE)
        text = f"{value:+.1f} [{low:.1f}, {high:.1f}]"
    return text.replace("-", "−")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
