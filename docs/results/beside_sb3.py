"""Compare our gSDE with that of Stable-Baselines3: scores of five runs each.

    python docs/results/beside_sb3.py

A score is the mean return of a run's last three evaluations. Intervals are those of Student's t.
"""

import json
from pathlib import Path

import numpy as np
from scipy import stats

from discover_rl.storage.records import Record

RESULTS = Path(__file__).parents[2] / "results" / "checks"
LAST = 3


def interval(scores: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of the mean of scores, (runs,)."""
    half = stats.t.ppf(0.975, len(scores) - 1) * stats.sem(scores)
    return scores.mean() - half, scores.mean() + half


def main() -> None:
    for algorithm in ("sac", "ppo"):
        folder = RESULTS / f"{algorithm}-gsde"
        paths = sorted(folder.glob("*/*/*/seed-*/record.jsonl"))
        ours = [[np.mean(it["returns"]) for it in Record(path).evaluations] for path in paths]
        theirs = json.loads((folder / "stable-baselines3.json").read_text())["mean_returns"]
        for name, curves in (("discover_rl", ours), ("Stable-Baselines3", theirs)):
            scores = np.array([np.mean(curve[-LAST:]) for curve in curves])
            low, high = interval(scores)
            print(
                f"{algorithm} {name:<18} {scores.mean():6.0f} [{low:.0f}, {high:.0f}]  sd "
                f"{scores.std(ddof=1):.0f}  runs {' '.join(f'{score:.0f}' for score in scores)}"
            )
        test = stats.ttest_ind(*([np.mean(c[-LAST:]) for c in it] for it in (ours, theirs)))
        bounds = test.confidence_interval(0.95)
        print(
            f"{algorithm} difference [{bounds.low:.0f}, {bounds.high:.0f}], p = {test.pvalue:.2f}"
        )


if __name__ == "__main__":
    main()
