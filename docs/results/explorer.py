"""Draw what explorers learned.

python docs/results/explorer.py STUDY [ARM] [FOLDER], e.g. ppo-hopper discover ppo-hopper
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from discover_rl import store, studies
from discover_rl.report import style
from discover_rl.store import Record

HERE = Path(__file__).parent
RECORDS = HERE.parents[1] / "results"
PANELS = {
    "saturation": "share of |ξ| above 0.95",
    "direction_spread": "standard deviation of ξ over states",
    "ratio": "squared TD error, directed / bare",
}


def main() -> None:
    study = studies.load(RECORDS / f"{sys.argv[1]}.toml")
    arm = sys.argv[2] if len(sys.argv) > 2 else "discover"
    out = RECORDS / (sys.argv[3] if len(sys.argv) > 3 else study.name)
    runs = next(it.runs for it in study.cells if it.arm == arm)
    lines = [
        [it for it in Record(store.record_of(out, run.name)).evaluations if it["step"]]
        for run in runs
    ]
    steps = np.array([it["step"] for it in lines[0]])
    told = {
        name: np.array([[it["report"][name] for it in run] for run in lines], float)
        for name in ("saturation", "direction_spread", "error_directed", "error_bare")
    }
    told["ratio"] = told["error_directed"] / told["error_bare"]
    with style.figure(9, 2.9) as drawn:
        for axes, (name, title) in zip(drawn.subplots(1, len(PANELS)), PANELS.items(), strict=True):
            low, middle, high = np.quantile(told[name], (0.25, 0.5, 0.75), axis=0)
            axes.plot(steps, told[name].T, color="grey", linewidth=0.4, alpha=0.5)
            axes.fill_between(steps, low, high, color=style.COLOURS[0], alpha=0.2, lw=0)
            axes.plot(steps, middle, color=style.COLOURS[0], linewidth=1.5)
            axes.set(title=title, xlabel="steps")
            style.steps_axis(axes.xaxis)
            if name == "ratio":
                axes.axhline(1, color="black", linewidth=0.8, linestyle="--")
                axes.set_yscale("log")
            print(f"{title}: median {middle[0]:.2f} at first, {middle[-10:].mean():.2f} at last")
        drawn.suptitle(
            f"{study.name}, {arm}: {len(runs)} runs, median and quartiles",
            fontsize=8,
            color="dimgrey",
        )
        content = style.rendered(drawn)["png"]
    (HERE / f"{study.name}-explorer.png").write_bytes(content)
    say(told, steps)


def say(told: dict[str, np.ndarray], steps: np.ndarray) -> None:
    """How the ratio fares in runs whose directions vary over states and in those where not."""
    settled, late = steps >= 100_000, steps >= 300_000
    constant = (told["direction_spread"][:, settled] < 0.01).all(axis=1)
    for name, rows in {"constant": constant, "varying": ~constant}.items():
        print(f"{name} from 100,000 steps on: {rows.sum()} of {len(rows)} runs")
        if rows.any():
            ratio = told["ratio"][rows]
            print(f"  ratio, median of runs, at {steps[1]:,} steps: {np.median(ratio[:, 1]):.2f}")
            print(f"  from 300,000 on: {np.median(ratio[:, late], axis=0).mean():.2f}")
            print(f"  of each run: {np.sort(ratio[:, late].mean(axis=1)).round(2).tolist()}")
            print(f"  above 1 in {100 * (ratio[:, late] > 1).mean():.0f} % of reports")
    print(
        f"above 1 in {100 * (told['ratio'] > 1).mean():.0f} % of all {told['ratio'].size} reports"
    )


if __name__ == "__main__":
    main()
