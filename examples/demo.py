"""Train TD3 on a task that it never solves without exploring, by three strategies, four seeds each.

MountainCarContinuous-v0 pays at the top of a hill alone and charges for every push, so whoever has
not been there learns to stand still. `make demo` runs this. It writes runs/demo: a folder per
strategy and seed, and curves.png. Stop it with Ctrl-C and run it again: it goes on where it was.
"""

import sys
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

import discover_rl
from discover_rl import Stopped
from discover_rl.storage.records import Record

OUT = Path("runs/demo")
TASK = "MountainCarContinuous-v0"
SEEDS = 4
SOLVED = 90
# Label and colour (of Okabe and Ito's palette, made for all kinds of colour vision), line style.
STRATEGIES = {
    "none": ("TD3, greedy", "#D55E00", "--"),
    "discover": ("TD3 + discover", "#0072B2", "-."),
    "corner": ("TD3 + corner", "#009E73", "-"),
}
# Chosen for this task by trying, and its length on these seeds: a run that has solved the task may
# lose it again, so the table also says which ever had. This shows what can happen, and no more.
SETTINGS = {
    "hidden": (64, 64),
    "batch_size": 64,
    "actor_lr": 1e-3,
    "critic_lr": 1e-3,
    "eval.every": 2_000,
    "eval.episodes": 3,
}
NOTE = "This is a demonstration and no study: four seeds of a task chosen for its need to explore."
NEXT = f"discover train {TASK} --algorithm sac --strategy pink --steps 20000 --set hidden=64,64"


def train() -> dict[str, list[discover_rl.Result]]:
    """The runs of each strategy. Those that are done already are only read."""
    return {
        strategy: discover_rl.train(
            TASK,
            algorithm="td3",
            strategy=strategy,
            steps=30_000,
            seeds=SEEDS,
            out=OUT / strategy,
            **SETTINGS,
        )
        for strategy in STRATEGIES
    }


def table(results: dict[str, list[discover_rl.Result]]) -> Table:
    title = f"Return on {TASK} at the end (solved: {SOLVED})"
    shown = Table(title=title, title_justify="left")
    shown.add_column("strategy")
    for seed in range(SEEDS):
        shown.add_column(f"seed {seed}", justify="right")
    shown.add_column("ever solved", justify="right")
    for strategy, runs in results.items():
        last = [str(round(run.score(last=1))) for run in runs]
        solved = sum(max(map(np.mean, run.returns)) >= SOLVED for run in runs)
        shown.add_row(STRATEGIES[strategy][0], *last, f"{solved} of {SEEDS}")
    return shown


def draw(results: dict[str, list[discover_rl.Result]], path: Path) -> None:
    """Mean over seeds against steps, in a band from the worst seed to the best."""
    mpl.use("agg")
    figure, axes = plt.subplots(figsize=(7, 4.3), layout="constrained")
    for strategy, runs in results.items():
        label, colour, style = STRATEGIES[strategy]
        returns = np.mean([run.returns for run in runs], axis=2)  # (seeds, evaluations)
        steps, low, high = runs[0].steps, returns.min(axis=0), returns.max(axis=0)
        axes.plot(steps, returns.mean(axis=0), style, color=colour, linewidth=2, label=label)
        axes.fill_between(steps, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.set_title(f"{TASK}, {SEEDS} seeds: mean, worst and best", fontsize=13)
    axes.set_xlabel("environment steps", fontsize=12)
    axes.set_ylabel("return per episode", fontsize=12)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=12, loc="upper left")
    figure.savefig(path, dpi=150)


def main() -> None:
    records = [OUT / name / f"seed-{i}/record.jsonl" for name in STRATEGIES for i in range(SEEDS)]
    again = all(Record(path).done for path in records)
    try:
        results = train()
    except Stopped as stop:
        print(f"Stopped at step {stop.step:,}, all is saved. To go on: make demo", file=sys.stderr)
        sys.exit(130)
    except discover_rl.UserError as error:
        sys.exit(f"{error} To start the demo over: rm -r {OUT}")
    draw(results, OUT / "curves.png")
    Console().print(table(results))
    print(NOTE)
    print(f"Learning curves: {OUT / 'curves.png'}")
    print(f"Next, with SAC and pink noise: .venv/bin/{NEXT}")
    if again:
        print(f"The demo was done already, nothing was trained. To start over: rm -r {OUT}")


if __name__ == "__main__":
    main()
