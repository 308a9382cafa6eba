"""Compare strategies from Python: declare a study, train it, read its table.

python examples/study_from_python.py
"""

import csv
import statistics
from pathlib import Path

from discover_rl import studies
from discover_rl.studies import campaign, export
from discover_rl.training import engines
from discover_rl.training.observers import Observer

STUDY = """
about = "Does noise that lasts help on a pendulum?"
steps = {steps}
seeds = 3

[set]
hidden = [32, 32]
"eval.every" = {steps}

[grid]
task = "Pendulum-v1"
algorithm = "td3"
strategy = ["none", "gaussian", "pink"]
"""


def main(steps: int = 6000, out: str = "runs/study") -> dict[str, float]:
    """Train what is missing, and return the mean final return of each strategy."""
    study = studies.declared(STUDY.format(steps=steps), "lasting", "study_from_python.py")
    cohorts = campaign.prepare(study, Path(out))
    engine = engines.choose("local", processes=1)
    campaign.carry_out(cohorts, engine, campaign.Board(), Observer(), lambda: False)
    table = Path(out) / "lasting.csv"
    export.write(study, Path(out), table)
    with table.open() as file:
        rows = [row for row in csv.DictReader(file) if int(row["step"]) == steps]
    strategies = dict.fromkeys(row["strategy"] for row in rows)
    means = {
        name: statistics.fmean(float(row["return_mean"]) for row in rows if row["strategy"] == name)
        for name in strategies
    }
    for name, mean in means.items():
        print(f"{name:<10} {mean:8.1f}")
    return means


if __name__ == "__main__":
    main()
