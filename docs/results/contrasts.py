"""Compare two arms of a study, as the pages here do.

    python docs/results/contrasts.py STUDY FIRST SECOND [--records FOLDER] [--until STEP]
        [--also STUDY] [--published FOLDER [--beside FIRST SECOND]]

Prints the first arm's score less the second's, with 95 % bootstrap intervals: of final scores and
of areas under the curve, by interquartile means and by means; of all evaluations, by means; and of
the first half of them. Whether a difference may be claimed is said of final scores and of areas, by
the rules of reports. With a
copy of the authors' curves it also prints their difference, and how much larger that is than the
measured one, with the runs of all four sides resampled, and each arm's part in that. The published
runs are those of the same two arms, or of the two that stand `--beside` them: for an arm that does
as the authors' code does, the runs that this code has made, whatever settings the paper gives.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discover_rl import studies
from discover_rl.core.hyperparameters import nearest
from discover_rl.core.types import UserError
from discover_rl.report import data, published, statistics, summary
from discover_rl.report.data import Results
from discover_rl.report.resampling import Interval, Statistic

RECORDS = Path(__file__).parents[2] / "results"
STATISTICS: dict[str, Statistic] = {"interquartile means": statistics.iqm, "means": np.average}
LAST = 10
"""How many evaluations a published run's final score is the mean of."""


def main() -> None:
    """Print the comparison that the command line asks for."""
    parser = argparse.ArgumentParser(description="Two arms of a study compared.")
    for name in ("study", "first", "second"):
        parser.add_argument(name)
    parser.add_argument("--records", help="in results/, if not named as the study")
    parser.add_argument("--until", type=int, help="look at runs up to this step")
    parser.add_argument("--also", metavar="STUDY", help="whose arms can be named as STUDY/ARM")
    parser.add_argument("--published", type=Path, help="a copy of the authors' curves")
    parser.add_argument("--beside", nargs=2, metavar="ARM", help="whose published runs to take")
    args = parser.parse_args()
    study = studies.load(str(RECORDS / f"{args.study}.toml"))
    found = data.load(study, RECORDS / (args.records or args.study), args.until)
    arms = {results.cell.arm: results for results in found.cells}
    if args.also:
        other = studies.load(str(RECORDS / f"{args.also}.toml"))
        for results in data.load(other, RECORDS / args.also, args.until).cells:
            arms[f"{args.also}/{results.cell.arm}"] = results
    for name in (args.first, args.second, *(args.beside or ())):
        if name not in arms:
            raise UserError(f"{args.study} has no arm {name}.{nearest(name, arms)}")
    sides = [arms[args.first], arms[args.second]]
    print(f"{args.first} - {args.second}, {found.progress}")
    runs, failed = [len(side.final) for side in sides], sum(side.failed for side in sides)
    for what, (scores, statistic) in contrasts(sides).items():
        difference = statistics.difference(*scores, statistic, data.FINE)
        claimed = statistic is statistics.iqm  # what reports claim by
        verdict = f": {summary.verdict(difference, runs, args.first, failed)}" if claimed else ""
        print(f"{what}: {_text(difference)}{verdict}")
    chance = statistics.improvement(sides[0].final, sides[1].final, data.FINE)
    value, low, high = (100 * number for number in chance)
    who = f"a run of {args.first} scores above one of {args.second}"
    print(f"{who}: {value:.0f} % [{low:.0f}, {high:.0f}]")
    if args.published:
        beside = [arms[name] for name in args.beside] if args.beside else sides
        compare_published(sides, beside, found.cells, args.published)


def contrasts(sides: Sequence[Results]) -> dict[str, tuple[list[np.ndarray], Statistic]]:
    """What is compared: by name, the scores of both sides, (runs,) each, and the statistic."""
    half = (len(sides[0].steps) + 1) // 2
    finals = [results.final for results in sides]
    areas = [results.area for results in sides]
    whole = [results.scores.mean(axis=1) for results in sides]
    first_half = [results.scores[:, :half].mean(axis=1) for results in sides]
    return {
        **{f"final, {name}": (finals, statistic) for name, statistic in STATISTICS.items()},
        **{f"area, {name}": (areas, statistic) for name, statistic in STATISTICS.items()},
        "whole curve, means": (whole, np.average),
        "first half, means": (first_half, np.average),
    }


def compare_published(
    sides: Sequence[Results], beside: Sequence[Results], cells: Sequence[Results], folder: Path
) -> None:
    """Print published less measured differences.

    Args:
        sides: The two arms that are measured.
        beside: The two arms whose published runs are taken; the baseline's for an arm without any.
        cells: All cells of the study.
        folder: The authors' curves.
    """
    keys = [published.key(results.cell) for results in cells]
    # The baseline's runs stand beside arms without any of their own.
    baseline = next((key for key in keys if key and key.strategy == "baseline"), None)
    named = [published.key(results.cell) or baseline for results in beside]
    curves = published.curves(folder).curves
    if None in named:
        raise UserError("There are no published runs of these arms.")
    found = [curves[key] for key in named if key]
    theirs = [runs[:, -LAST:].mean(axis=1) for runs in found]
    ours = [results.final for results in sides]
    for name, statistic in STATISTICS.items():
        print(f"published, {name}: {_text(statistics.difference(*theirs, statistic, data.FINE))}")
        more = _signed_sum(statistic, (1, -1, -1, 1), [*theirs, *ours])
        print(f"  published - measured: {_text(more)}")
        for part, sign, pair in zip(
            ("first", "second"), (1, -1), zip(theirs, ours, strict=True), strict=True
        ):
            print(f"    of the {part}: {_text(_signed_sum(statistic, (sign, -sign), pair))}")


def _signed_sum(
    statistic: Statistic, signs: Sequence[int], sides: Sequence[np.ndarray]
) -> Interval:
    """A signed sum of the statistic of several sides, with its interval.

    To the bootstrap the sides are tasks, so that the runs of each are resampled by themselves.
    """
    ends = np.cumsum([len(side) for side in sides])[:-1]

    def contrast(x: np.ndarray, axis: int, weights: np.ndarray) -> Any:
        del weights
        parts = np.split(x, ends, axis=axis)
        return sum(
            sign * statistic(part, axis=axis) for sign, part in zip(signs, parts, strict=True)
        )

    by_side = {str(i): side for i, side in enumerate(sides)}
    return statistics.bootstrap(by_side, contrast, data.FINE)


def _text(interval: Interval) -> str:
    return "{:+.1f} [{:.1f}, {:.1f}]".format(*interval)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
