"""Compare our gSDE with that of Stable-Baselines3: scores of runs of the same settings.

    python docs/results/beside_sb3.py

A score is the mean return of a run's last three evaluations. Intervals are those of Student's t.
What is printed is the table of gsde.md, then the score of every run.
"""

import json
from pathlib import Path

import numpy as np
from scipy import stats

from discover_rl.storage.records import Record

RESULTS = Path(__file__).parents[2] / "results" / "checks"
LAST = 3
STUDIES = {
    "sac-gsde": "SAC, 10,000 steps",
    "ppo-gsde": "PPO, 102,400 steps",
    "ppo-gsde-same": "PPO, weights and losses alike, too",
}
"""Studies, and what each is called in the table."""
THEIRS = {"ppo-gsde-same": "ppo-gsde"}
"""Studies whose runs of Stable-Baselines3 are another study's: its settings are the same there."""


def scores(study: str) -> tuple[np.ndarray, np.ndarray]:
    """The scores of our runs and of theirs, (runs,) each."""
    folder, beside = RESULTS / study, RESULTS / THEIRS.get(study, study)
    ours = [
        [np.mean(it["returns"]) for it in Record(path).evaluations]
        for path in sorted(folder.glob("*/*/*/seed-*/record.jsonl"))
    ]
    theirs = json.loads((beside / "stable-baselines3.json").read_text())["mean_returns"]
    here, there = (np.array([np.mean(it[-LAST:]) for it in curves]) for curves in (ours, theirs))
    return here, there


def rounded(number: float) -> str:
    """A number without decimals, with a minus sign for printing."""
    return f"{number:.0f}".replace("-", "−")


def between(value: float, low: float, high: float) -> str:
    """A number and its 95 % interval."""
    return f"{rounded(value)} [{rounded(low)}, {rounded(high)}]"


def mean(runs: np.ndarray) -> str:
    """The mean of scores, (runs,), and its interval."""
    half = stats.t.ppf(0.975, len(runs) - 1) * stats.sem(runs)
    return between(runs.mean(), runs.mean() - half, runs.mean() + half)


def row(study: str) -> str:
    """A study's line of the table."""
    ours, theirs = scores(study)
    bounds = stats.ttest_ind(ours, theirs).confidence_interval(0.95)
    apart = between(ours.mean() - theirs.mean(), bounds.low, bounds.high)
    runs = f"{len(ours)} and {len(theirs)}"
    return f"| {STUDIES[study]} | {runs} | {mean(ours)} | {mean(theirs)} | {apart} |"


def main() -> None:
    print(*map(row, STUDIES), sep="\n")
    for study in STUDIES:
        for name, runs in zip(("here", "there"), scores(study), strict=True):
            print(f"{study}, {name}: {', '.join(map(rounded, runs))}")


if __name__ == "__main__":
    main()
