"""Two arms of a study, as the pages here compare them.

    python docs/results/contrasts.py STUDY FIRST SECOND [FOLDER UNTIL]

Prints the first's score less the second's, with 95 % bootstrap intervals: of final scores, by
interquartile means and by means; of whole curves, by means; and of the first half of them.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from discover_rl import stats, studies
from discover_rl.report import data

RECORDS = Path(__file__).parents[2] / "results"


def main() -> None:
    name, first, second, *more = sys.argv[1:]
    study = studies.load(str(RECORDS / f"{name}.toml"))
    folder, until = more if more else (name, None)
    found = data.load(study, RECORDS / folder, int(until) if until else None)
    arms = {it.cell.arm: it for it in found.cells}
    sides = [arms[first], arms[second]]
    half = (len(sides[0].steps) + 1) // 2
    contrasts = {
        "final, interquartile means": ([it.final for it in sides], stats.iqm),
        "final, means": ([it.final for it in sides], np.average),
        "whole curve, means": ([it.scores.mean(axis=1) for it in sides], np.average),
        "first half, means": ([it.scores[:, :half].mean(axis=1) for it in sides], np.average),
    }
    print(f"{first} - {second}, {found.standing}")
    for what, (scores, statistic) in contrasts.items():
        value, low, high = stats.difference(*scores, statistic, data.FINE)
        print(f"{what}: {value:+.1f} [{low:.1f}, {high:.1f}]")
    chance = stats.improvement(sides[0].final, sides[1].final, data.FINE)
    value, low, high = (100 * it for it in chance)
    print(f"a run of {first} scores above one of {second}: {value:.0f} % [{low:.0f}, {high:.0f}]")


if __name__ == "__main__":
    main()
