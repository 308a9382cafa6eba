"""Curves in the form of the authors' files, to show what --published draws. They are made up:
waves, which nobody takes for a measurement.

    python docs/gallery/made_up.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np

LEVELS = {"InvertedPendulum-v2": (50, 150), "Reacher-v2": (-35, -15)}
PHASES = {"PPO": 0.0, "DISCOVER_PPO": 0.5}
SEEDS, EVALUATIONS = 5, 1001  # every 1,000 steps of a million


def main(folder: Path) -> None:
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
