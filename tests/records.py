"""Studies made up for tests, with records made up for them."""

import json

import numpy as np

from discover_rl import store, studies

HEADER = {"code": {"discover_rl": "0.1.0", "numpy": "2.4"}, "commit": "abc123"}


def declare(grid, steps=1100, seeds=2, more=""):
    lines = "\n".join(f"{json.dumps(name)} = {json.dumps(it)}" for name, it in grid.items())
    text = f"about = 'A test'\nsteps = {steps}\nseeds = {seeds}\n[grid]\n{lines}\n{more}"
    return studies.declared(text, "test", "test.toml")


def put(out, cell, seed, scores, end=True, event=None):
    """A record whose evaluations have these means, of two episodes each."""
    steps = np.linspace(0, cell.steps, len(scores)).astype(int).tolist()
    steps = steps if end else [step // 2 for step in steps]
    lines = [{"run": {"steps": cell.steps, "seed": seed}, **HEADER}]
    for step, score in zip(steps, scores, strict=True):
        lines.append({"step": step, "returns": [score - 1.0, score + 1.0], "lengths": [5, 5]})
    if event is not None:
        lines.append(event)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    store.write(out / f"{cell.name}/seed-{seed}/record.jsonl", text.encode())


def fill(out, study, level=lambda cell, seed: 100.0 + seed, points=12):
    for cell in study.cells:
        for seed in cell.seeds:
            put(out, cell, seed, [level(cell, seed)] * points)
