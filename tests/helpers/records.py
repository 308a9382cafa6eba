"""Studies made up for tests, records made up for them, and what reports make of both."""

import json
from pathlib import Path

import numpy as np

from discover_rl import studies
from discover_rl.report import comparisons, data
from discover_rl.storage import files
from discover_rl.storage.records import Record

HEADER = {"code": {"discover_rl": "0.1.0", "numpy": "2.4"}, "commit": "abc123"}
"""What the first line of every record says of the code."""
DIVERGED = {"event": "diverged", "step": 551, "quantity": "critic"}
"""The last line of a record whose run failed half way."""


def declare(grid, steps=1100, seeds=2, more=""):
    """A study with this grid; `more` is further text of its file."""
    lines = "\n".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in grid.items())
    text = f"about = 'A test'\nsteps = {steps}\nseeds = {seeds}\n[grid]\n{lines}\n{more}"
    return studies.declared(text, "test", "test.toml")


def write_record(out, cell, seed, scores, end=True, event=None, settings=None):
    """Write the record of one run, whose evaluations have these means, of two episodes each.

    They are spread evenly over the run, or over its first half if it did not `end`; an `event` is
    the last line; `settings` are those of the run.
    """
    steps = np.linspace(0, cell.steps, len(scores)).astype(int).tolist()
    steps = steps if end else [step // 2 for step in steps]
    run = {name: getattr(cell, name) for name in ("task", "algorithm", "strategy", "steps")}
    run |= {"seed": seed, "settings": settings or {}}
    lines: list = [{"run": run, **HEADER}]
    for step, score in zip(steps, scores, strict=True):
        lines.append({"step": step, "returns": [score - 1.0, score + 1.0], "lengths": [5, 5]})
    if event is not None:
        lines.append(event)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    files.write(out / f"{cell.name}/seed-{seed}/record.jsonl", text.encode())


def write_whole(folder, run):
    """Write the record of a run that is done, and return it; each of its returns is 1."""
    record = Record(folder / "record.jsonl")
    record.begin({"run": run.to_json()})
    count = run.eval.episodes
    for step in (*range(0, run.steps, run.eval.every), run.steps):
        record.append({"step": step, "returns": [1.0] * count, "lengths": [1] * count})
    return record


def write_records(out, study, level=lambda cell, seed: 100.0 + seed, points=12):
    """Write the records of all runs, each with the same score at every evaluation."""
    for cell in study.cells:
        for seed in cell.seeds:
            write_record(out, cell, seed, [level(cell, seed)] * points)


def analysed(study, out):
    """What is recorded of a study, and the analyses of its groups."""
    everything = data.load(study, out)
    return everything, comparisons.analyse(everything)


def file_contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder, by their path in it."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != ".lock"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}
