"""Two arms of a study, as the pages here compare them.

    python docs/results/contrasts.py STUDY FIRST SECOND [--records FOLDER] [--until STEP]
        [--published FOLDER]

Prints the first's score less the second's, with 95 % bootstrap intervals: of final scores, by
interquartile means and by means; of whole curves, by means; and of the first half of them. With a
copy of the authors' curves, also what these differ by and how much more that is, runs of all four
sides drawn anew, and which part of it is whose.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from discover_rl import stats, studies
from discover_rl.hyper import nearest
from discover_rl.report import data, published
from discover_rl.types import UserError

RECORDS = Path(__file__).parents[2] / "results"
STATISTICS = {"interquartile means": stats.iqm, "means": np.average}


def main() -> None:
    parser = argparse.ArgumentParser(description="Two arms of a study compared.")
    for name in ("study", "first", "second"):
        parser.add_argument(name)
    parser.add_argument("--records", help="in results/, if not named as the study")
    parser.add_argument("--until", type=int, help="look at runs up to this step")
    parser.add_argument("--published", type=Path, help="a copy of the authors' curves")
    args = parser.parse_args()
    study = studies.load(str(RECORDS / f"{args.study}.toml"))
    found = data.load(study, RECORDS / (args.records or args.study), args.until)
    arms = {it.cell.arm: it for it in found.cells}
    for name in (args.first, args.second):
        if name not in arms:
            raise UserError(f"{args.study} has no arm {name}.{nearest(name, arms)}")
    sides = [arms[args.first], arms[args.second]]
    half = (len(sides[0].steps) + 1) // 2
    contrasts: dict[str, tuple[list[np.ndarray], Callable[..., Any]]] = {
        **{f"final, {name}": ([it.final for it in sides], it) for name, it in STATISTICS.items()},
        "whole curve, means": ([it.scores.mean(axis=1) for it in sides], np.average),
        "first half, means": ([it.scores[:, :half].mean(axis=1) for it in sides], np.average),
    }
    print(f"{args.first} - {args.second}, {found.standing}")
    for what, (scores, statistic) in contrasts.items():
        print(f"{what}: {_told(stats.difference(*scores, statistic, data.FINE))}")
    chance = stats.improvement(sides[0].final, sides[1].final, data.FINE)
    value, low, high = (100 * it for it in chance)
    who = f"a run of {args.first} scores above one of {args.second}"
    print(f"{who}: {value:.0f} % [{low:.0f}, {high:.0f}]")
    if args.published:
        compare(sides, found.cells, args.published)


def compare(sides: list[data.Results], others: list[data.Results], folder: Path) -> None:
    """With the last ten evaluations of published runs: of the same, or else the baseline's."""
    keys = [published.key(it.cell) for it in others]
    baseline = next(it for it in keys if it is not None and it.strategy == "baseline")
    curves = published.curves(folder).curves
    found = [curves[published.key(it.cell) or baseline] for it in sides]
    theirs, ours = [it[:, -10:].mean(axis=1) for it in found], [it.final for it in sides]
    for name, statistic in STATISTICS.items():
        print(f"published, {name}: {_told(stats.difference(*theirs, statistic, data.FINE))}")
        more = _sum(statistic, (1, -1, -1, 1), [*theirs, *ours])
        print(f"  published - measured: {_told(more)}")
        for part, sign, them, us in zip(("first", "second"), (1, -1), theirs, ours, strict=True):
            print(f"    of the {part}: {_told(_sum(statistic, (sign, -sign), [them, us]))}")


def _sum(
    statistic: Callable[..., Any], signs: Sequence[int], sides: Sequence[np.ndarray]
) -> stats.Interval:
    """A signed sum of a statistic of several sides, with its interval: to the bootstrap they are
    tasks, whose runs are drawn anew each in itself."""
    ends = np.cumsum([len(it) for it in sides])[:-1]

    def contrast(x: np.ndarray, axis: int, weights: np.ndarray) -> Any:
        del weights
        parts = np.split(x, ends, axis=axis)
        return sum(sign * statistic(it, axis=axis) for sign, it in zip(signs, parts, strict=True))

    return stats.bootstrap({str(i): it for i, it in enumerate(sides)}, contrast, data.FINE)


def _told(interval: stats.Interval) -> str:
    return "{:+.1f} [{:.1f}, {:.1f}]".format(*interval)


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
