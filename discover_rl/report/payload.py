"""What the page shows, as one tree of plain values. Every number is worked out here or in the
modules that this one asks; the page only draws."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from discover_rl import stats
from discover_rl.report import data, style, summary, tables, writing
from discover_rl.report.comparisons import Analysis
from discover_rl.report.data import Data, Results, RunInfo
from discover_rl.studies import progress

Tree: TypeAlias = dict[str, Any]
Kept: TypeAlias = dict[str, Tree]
"""Curves of earlier pages, by a hash of what they are made from."""
WINDOWS = (1, 5, 10)
KINDS = {
    "paper": ("Mean ± ½ sd", "Mean of runs, half a standard deviation to either side"),
    "iqm": ("IQM, 95 %", "Interquartile mean of runs, 95 % bootstrap interval"),
}
MOST_POINTS = 30_000
"""Of all curves together, before windows and bands: what keeps the file at a few megabytes."""
FEWEST_POINTS = 60
NUMBER = re.compile(r"\[?([+−-]?[\d,]*\.?\d+)")
NOTHING = "–"
# The figures' colours, lifted for a dark ground.
DARK: dict[str, str] = dict(
    zip(
        ("black", *style.COLOURS),
        ("#F1F3F5", "#4CA6E0", "#F58A45", "#2CC39A", "#E29AC4", "#F2B632", "#9AD6F8", "#C9935A"),
        strict=True,
    )
)
DASHES: dict[Any, tuple[float, ...]] = {"-": (), "--": (3.7, 1.6), "-.": (6.4, 1.6, 1, 1.6)}
"""Of the names that Matplotlib has for some, in widths of the line."""


def tree(everything: Data, analyses: Sequence[Analysis], notes: Sequence[str], kept: Kept) -> Tree:
    """All of the page. `kept` is what it was last time, and is left with what this one needs."""
    places = {id(it): i for i, it in enumerate(everything.cells)}
    grids: dict[tuple[int, ...], int] = {}
    curves = _curves(everything.cells, kept)
    cells = []
    for it, found in zip(everything.cells, curves, strict=True):
        steps = tuple(found["steps"])
        own = {name: value for name, value in found.items() if name != "steps"}
        cells.append(own | {"grid": grids.setdefault(steps, len(grids)), "count": it.count})
    states = Counter(run.state for run in everything.runs)
    return {
        "study": everything.study.name,
        "about": everything.study.about,
        "standing": everything.standing,
        "states": [[state, states[state]] for state in progress.STATES if states[state]],
        "facts": _facts(everything),
        "windows": WINDOWS,
        "window": data.WINDOW,
        "kinds": KINDS,
        "groups": [_group(it, places) for it in analyses],
        "grids": list(grids),
        "cells": cells,
        "origin": words(summary.provenance(everything, notes)),
        "failed": _failed(everything),
        "missing": _missing(everything),
        **_runs(everything),
    }


def words(parts: Sequence[str]) -> list[Tree]:
    """The summary's Markdown, which has paragraphs and lists only."""
    found: list[Tree] = []
    for part in "\n\n".join(parts).split("\n\n"):
        lines = part.split("\n")
        if all(line.startswith("- ") for line in lines):
            found.append({"list": [line[2:] for line in lines]})
        else:
            found.append({"text": part})
    return found


def _facts(everything: Data) -> list[list[str]]:
    cells = everything.study.cells
    counted = {
        "task": len({it.task for it in cells}),
        "algorithm": len({it.algorithm for it in cells}),
        "arm": len({(it.strategy, it.arm) for it in cells}),
        "run": len(everything.runs),
    }
    found = [[f"{count:,}", f"{name}{'s' * (count != 1)}"] for name, count in counted.items()]
    part = f" of {everything.whole:,}" if everything.whole else ""
    return [*found, [f"{everything.study.steps:,}", f"steps{part} a run"]]


def _curves(cells: Sequence[Results], kept: Kept) -> list[Tree]:
    most = max(FEWEST_POINTS, min(data.POINTS, MOST_POINTS // max(1, len(cells))))
    found = []
    for it in cells:
        parts = (str(most), str(it.scores.shape), it.steps.tobytes(), it.scores.tobytes())
        raw = b"\0".join(part.encode() if isinstance(part, str) else part for part in parts)
        key = hashlib.sha256(raw).hexdigest()
        found.append((key, kept.get(key) or _drawn(it, most)))
    kept.clear()
    kept.update(found)
    return [drawn for _, drawn in found]


def _drawn(it: Results, most: int) -> Tree:
    """A cell's curves with every window and band, and at how many runs they are of."""
    drawn: Tree = {"steps": [], "curves": {}}
    for window in WINDOWS if len(it.steps) else ():
        usual = window == data.WINDOW and most == data.POINTS
        curves = it.curves if usual else it.smoothed(window, most)
        first = next(iter(curves.values()))
        drawn["steps"] = first.steps.tolist()
        runs = first.runs.tolist()
        drawn["curves"][str(window)] = {
            "runs": runs[0] if len(set(runs)) == 1 else runs,
            "ends": first.ends,
            **{kind: _numbers(curve) for kind, curve in curves.items()},
        }
    return drawn


def _numbers(curve: data.Curve) -> list[Any]:
    """Value and bounds, to a few thousandths of what they span; None where there is none."""
    three = np.stack([curve.value, curve.low, curve.high])
    finite = three[np.isfinite(three)]
    if not finite.size:
        return [None, None, None]
    span = float(finite.max() - finite.min()) or float(abs(finite.max())) or 1.0
    places = min(9, max(0, 3 - math.floor(math.log10(span))))
    return [_rounded(row, places) if np.isfinite(row).any() else None for row in three]


def _rounded(row: np.ndarray, places: int) -> list[float | int | None]:
    shown = [round(x, places) if math.isfinite(x) else None for x in row.tolist()]
    return shown if places else [None if x is None else int(x) for x in shown]


def _group(analysis: Analysis, places: Mapping[int, int]) -> Tree:
    group, looks = analysis.group, style.looks(analysis.group)
    numbers = {label: i for i, label in enumerate(group.labels)}
    return {
        "name": group.name,
        "title": group.title,
        "base": group.base,
        "lines": [
            {
                "label": label,
                "light": "#111418" if looks[label].colour == "black" else looks[label].colour,
                "dark": DARK[looks[label].colour],
                "dash": _dash(looks[label].dashes),
                "marker": looks[label].marker,
                "begun": group.begun(label),
            }
            for label in group.labels
        ],
        "panels": [
            {
                "title": panel.title,
                "lines": [[numbers[label], places[id(it)]] for label, it in panel.lines.items()],
            }
            for panel in group.panels
        ],
        "words": words(summary.sentences(analysis)),
        "tables": _tables(analysis),
    }


def _dash(dashes: Any) -> tuple[float, ...]:
    return DASHES[dashes] if isinstance(dashes, str) else dashes[1]


def _tables(analysis: Analysis) -> list[Tree]:
    overview, details = tables.overview(analysis), tables.details(analysis)
    shown = [_table("Final scores", overview, tables.remarks(analysis))]
    if analysis.comparisons:
        shown.append(_table("Against the baseline", _compared(analysis), []))
    return [*shown, _table("In detail", details, tables.source(analysis))]


def _compared(analysis: Analysis) -> tables.Table:
    group, base = analysis.group, writing.quoted(analysis.group.base)
    head = ["task", group.kind, "verdict", "difference of IQMs [95\xa0%]"]
    head += [f"a run is above one of {base} [95\xa0%]", f"steps to the score of {base} [95\xa0%]"]
    head += ["resamples that never reach it", "runs"]
    rows = []
    for it in analysis.comparisons:
        verdict, difference, better, steps, never = "nothing can be said yet", *[NOTHING] * 4
        if it.difference is not None and it.improvement is not None:
            difference, better = summary.signed(it.difference), summary.chance(it.improvement)
            verdict = summary.verdict(it.difference, it.runs, it.label, it.failed)
        if it.reached is not None:
            steps, never = summary.when(it.reached), summary.never(it.reached) or NOTHING
        runs = f"{it.runs[0]} and {it.runs[1]}"
        texts = [it.panel, it.label, verdict, difference, better, steps, never, runs]
        rows.append([tables.Entry(text, bool(it.claim) and i == 2) for i, text in enumerate(texts)])
    return tables.Table(head, rows, f"Each compared with {base}")


def _table(title: str, table: tables.Table, notes: Sequence[str]) -> Tree:
    """Entries are [text, what to sort by, whether bold]; a column of numbers is sorted by them, and
    one that says nothing is left out."""
    texts = [[row[i].text for row in table.rows] for i in range(len(table.head))]
    shown = [i for i, them in enumerate(texts) if not i or set(them) - {NOTHING}]
    numeric = {i: _numeric(texts[i]) for i in shown}

    def entry(it: tables.Entry, number: bool) -> list[Any]:
        return [it.text, _key(it.text) if number else it.text, it.bold]

    return {
        "title": title,
        "caption": table.caption and f"{table.caption}.",
        "notes": list(notes),
        "head": [table.head[i] for i in shown],
        "numeric": [numeric[i] for i in shown],
        "rows": [[entry(row[i], numeric[i]) for i in shown] for row in table.rows],
    }


def _numeric(texts: Sequence[str]) -> bool:
    written = [text for text in texts if not text.startswith((NOTHING, "not reached"))]
    return bool(written) and all(NUMBER.match(text) for text in written)


def _key(text: str) -> float | None:
    found = NUMBER.match(text)
    return float(found[1].replace(",", "").replace("−", "-")) if found else None


def _failed(everything: Data) -> Tree:
    rows = [[it.name, f"{it.step:,}", it.reason] for it in everything.failed]
    table = tables.Table(["run", "step", "reason"], _entries(rows), "")
    return _table("Failures", table, [])


def _missing(everything: Data) -> Tree:
    """Cells that lack runs, and how those stand."""
    rows = []
    for it in everything.cells:
        states = Counter(run.state for run in it.runs)
        if states["done"] < len(it.runs):
            counted = [str(states[state] or NOTHING) for state in progress.STATES]
            rows.append([it.cell.name, *counted])
    table = tables.Table(["runs of", *progress.STATES], _entries(rows), "")
    return _table("Not done", table, [])


def _entries(rows: Sequence[Sequence[str]]) -> list[list[tables.Entry]]:
    return [[tables.Entry(text) for text in row] for row in rows]


def _runs(everything: Data) -> Tree:
    """A row for each run; settings and versions, which many share, are kept once."""
    setups: dict[str, int] = {}
    codes: dict[str, int] = {}
    rows = []
    for it in everything.cells:
        shown = writing.digits([stats.mean_sd(it.final)] if len(it.final) else [])
        scores = iter(it.final.tolist())
        for run in it.runs:
            score = next(scores) if run.state == "done" else None
            header = run.header or {}
            settings = header.get("run", {}).get("settings", {})
            rows.append(
                {
                    "name": run.name,
                    "state": run.state,
                    "step": run.step,
                    "score": [shown(score), score],
                    "commit": header.get("commit") or "",
                    "reason": run.reason,
                    "setup": setups.setdefault(_text(settings), len(setups)),
                    "code": codes.setdefault(_text(header.get("code", {})), len(codes)),
                }
                | _declared(it, run)
            )
    shared = {"setups": setups, "codes": codes}
    return {"runs": rows} | {name: [json.loads(it) for it in them] for name, them in shared.items()}


def _declared(it: Results, run: RunInfo) -> Tree:
    cell = it.cell
    return {"task": cell.task, "algorithm": cell.algorithm, "arm": cell.arm, "seed": run.seed}


def _text(settings: Mapping[str, Any]) -> str:
    return json.dumps({name: str(it) for name, it in settings.items()})
