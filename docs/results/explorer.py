"""Draw what DISCOVER's explorer learned, from the diagnostics in a study's records.

    python docs/results/explorer.py STUDY [ARM] [FOLDER]

The arm is `discover` by default, the records' folder in results/ is named as the study.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from discover_rl import studies
from discover_rl.config import Run
from discover_rl.report import colours, style
from discover_rl.storage.records import Record, record_path

HERE = Path(__file__).parent
RECORDS = HERE.parents[1] / "results"
PANELS = {
    "saturation": "share of |ξ| above 0.95",
    "direction_spread": "standard deviation of ξ over states",
    "ratio": "squared TD error, directed / bare",
}
"""What is drawn, and the panels' titles."""


def main() -> None:
    """Draw the arm that the command line asks for, and print what the figure shows."""
    study = studies.load(RECORDS / f"{sys.argv[1]}.toml")
    arm = sys.argv[2] if len(sys.argv) > 2 else "discover"
    out = RECORDS / (sys.argv[3] if len(sys.argv) > 3 else study.name)
    runs = next(cell.runs for cell in study.cells if cell.arm == arm)
    steps, diagnostics = load_diagnostics(runs, out)
    content = draw(steps, diagnostics, f"{study.name}, {arm}")
    name = study.name if arm == "discover" else f"{study.name}-{arm}"
    (HERE / f"{name}-explorer.png").write_bytes(content)
    print_ratios(steps, diagnostics)


def load_diagnostics(runs: Sequence[Run], out: Path) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The steps of evaluations, (points,), and diagnostics by name, (runs, points)."""
    lines = [
        [line for line in Record(record_path(out, run.name)).evaluations if line["step"]]
        for run in runs
    ]
    steps = np.array([line["step"] for line in lines[0]])
    diagnostics = {
        name: np.array([[line["report"][name] for line in run] for run in lines], float)
        for name in ("saturation", "direction_spread", "error_directed", "error_bare")
    }
    diagnostics["ratio"] = diagnostics["error_directed"] / diagnostics["error_bare"]
    return steps, diagnostics


def draw(steps: np.ndarray, diagnostics: dict[str, np.ndarray], title: str) -> bytes:
    """A PNG file: every run as a thin line, with median and quartiles."""
    with style.figure(9, 2.9) as figure:
        panels = figure.subplots(1, len(PANELS))
        for axes, (name, panel_title) in zip(panels, PANELS.items(), strict=True):
            low, middle, high = np.quantile(diagnostics[name], (0.25, 0.5, 0.75), axis=0)
            axes.plot(steps, diagnostics[name].T, color="grey", linewidth=0.4, alpha=0.5)
            axes.fill_between(steps, low, high, color=colours.BLUE, alpha=0.2, lw=0)
            axes.plot(steps, middle, color=colours.BLUE, linewidth=1.5)
            axes.set(title=panel_title, xlabel="steps")
            style.steps_axis(axes.xaxis)
            if name == "ratio":
                axes.axhline(1, color="black", linewidth=0.8, linestyle="--")
                axes.set_yscale("log")
            first, last = middle[0], middle[-10:].mean()
            print(f"{panel_title}: median {first:.2f} at first, {last:.2f} at last")
        count = len(diagnostics["ratio"])
        title = f"{title}: {count} runs, median and quartiles"
        figure.suptitle(title, fontsize=8, color="dimgrey")
        return style.figure_files(figure)["png"]


def print_ratios(steps: np.ndarray, diagnostics: dict[str, np.ndarray]) -> None:
    """Print the ratio of TD errors, of runs whose directions vary over states and of the others."""
    settled, late = steps >= 100_000, steps >= 300_000
    constant = (diagnostics["direction_spread"][:, settled] < 0.01).all(axis=1)
    for name, rows in {"constant": constant, "varying": ~constant}.items():
        print(f"{name} from 100,000 steps on: {rows.sum()} of {len(rows)} runs")
        if rows.any():
            ratio = diagnostics["ratio"][rows]
            print(f"  ratio, median of runs, at {steps[1]:,} steps: {np.median(ratio[:, 1]):.2f}")
            print(f"  from 300,000 on: {np.median(ratio[:, late], axis=0).mean():.2f}")
            print(f"  of each run: {np.sort(ratio[:, late].mean(axis=1)).round(2).tolist()}")
            print(f"  above 1 in {100 * (ratio[:, late] > 1).mean():.0f} % of reports")
    ratios = diagnostics["ratio"]
    print(f"above 1 in {100 * (ratios > 1).mean():.0f} % of all {ratios.size} reports")


if __name__ == "__main__":
    main()
