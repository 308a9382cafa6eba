"""Write made-up curves in the form of the authors' files, to show what --published draws.

    python docs/gallery/made_up.py FOLDER

They are waves, which nobody takes for a measurement.
"""

import sys
from pathlib import Path

import numpy as np

LEVELS = {"InvertedPendulum-v2": (50, 150), "Reacher-v2": (-35, -15)}
"""Least and largest return, by task."""
PHASES = {"PPO": 0.0, "DISCOVER_PPO": 0.5}
"""In turns, by the name that files have for a policy."""
SEEDS, EVALUATIONS = 5, 1001
"""Of each; there is an evaluation every 1,000 steps of a million."""


def main(folder: Path) -> None:
    """Write a file for each task, policy and seed."""
    folder.mkdir(parents=True, exist_ok=True)
    turns = np.arange(EVALUATIONS) / 12
    for task, (low, high) in LEVELS.items():
        for policy, phase in PHASES.items():
            for seed in range(SEEDS):
                wave = np.sin(2 * np.pi * (turns + phase + 0.02 * seed))
                curve = low + (high - low) * (1 + wave) / 2
                np.save(folder / f"{policy}_{task}_{seed}.npy", curve)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
