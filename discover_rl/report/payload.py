"""The data that the page shows, as one tree of lists, dictionaries, numbers and texts.

Every number is computed here or in the modules that this one uses; the page's script only draws.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from discover_rl.config import current_names
from discover_rl.report import (
    bands,
    conclusion,
    discovery,
    formatting,
    page_tables,
    statistics,
    style,
    summary,
    tables,
)
from discover_rl.report.comparisons import Analysis
from discover_rl.report.data import Data, Results, RunInfo
from discover_rl.studies import status

Tree: TypeAlias = dict[str, Any]
"""A part of the data."""
CurveCache: TypeAlias = dict[str, Tree]
"""Curves of earlier pages, by a hash of what they are computed from."""
WINDOWS = (1, 5, 10)
"""How many evaluations curves may be smoothed over, where there are enough of them."""
KINDS = {
    "paper": ("Mean ± ½ sd", "Mean of runs, half a standard deviation to either side"),
    "iqm": ("IQM, 95 %", "Interquartile mean of runs, 95 % bootstrap interval"),
}
"""Kinds of curves, each with a short and a long name."""
MOST_POINTS = 30_000
"""How many points all curves have together, before windows and bands: it keeps the file at a few
megabytes."""
FEWEST_POINTS = 60
"""How many points every curve may have, however many curves there are."""
NUMBER = re.compile(r"\[?([+−-]?[\d,]*\.?\d+)")
"""The beginning of an entry that is sorted by its number."""
DASHES: dict[Any, tuple[float, ...]] = {"-": (), "--": (3.7, 1.6), "-.": (6.4, 1.6, 1, 1.6)}
"""Dashes and gaps that Matplotlib has names for, in widths of the line."""


def build(
    everything: Data, analyses: Sequence[Analysis], notes: Sequence[str], cache: CurveCache
) -> Tree:
    """All data of the page.

    Args:
        everything: What is recorded of a study.
        analyses: Of its groups.
        notes: Sentences on where numbers are from.
        cache: Curves of an earlier page, or empty. Afterwards it holds those of this page.
    """
    places = {id(results): i for i, results in enumerate(everything.cells)}
    grids: dict[tuple[int, ...], int] = {}  # steps that several curves share are listed once
    evaluations = max((len(results.steps) for results in everything.cells), default=0)
    windows = sorted({bands.window_of(evaluations, window) for window in WINDOWS})
    curves = _curves(everything.cells, windows, cache)
    cells = []
    for results, drawn in zip(everything.cells, curves, strict=True):
        steps = tuple(drawn["steps"])
        own = {name: value for name, value in drawn.items() if name != "steps"}
        cells.append(own | {"grid": grids.setdefault(steps, len(grids)), "count": results.count})
    states = Counter(run.state for run in everything.runs)
    return {
        "study": everything.study.name,
        "about": everything.study.about,
        "progress": everything.progress,
        "states": [[state, states[state]] for state in status.STATES if states[state]],
        "facts": _facts(everything),
        "conclusion": conclusion.sentences(analyses),
        "windows": windows,
        "window": bands.window_of(evaluations),
        "kinds": KINDS,
        "groups": [_group(analysis, places) for analysis in analyses],
        "grids": list(grids),
        "cells": cells,
        "origin": blocks(summary.provenance(everything, notes)),
        "failed": _failed(everything),
        "missing": _missing(everything),
        **_runs(everything),
    }


def blocks(parts: Sequence[str]) -> list[Tree]:
    """The summary's Markdown, which has paragraphs and lists only, as {'text': …} and {'list': …}.

    >>> blocks(["One:\\n\\n- a\\n- b"])
    [{'text': 'One:'}, {'list': ['a', 'b']}]
    """
    found: list[Tree] = []
    for part in "\n\n".join(parts).split("\n\n"):
        lines = part.split("\n")
        if all(line.startswith("- ") for line in lines):
            found.append({"list": [line[2:] for line in lines]})
        else:
            found.append({"text": part})
    return found


def _facts(everything: Data) -> list[list[str]]:
    """How many tasks, algorithms, arms, runs and steps there are: number and name each."""
    cells = everything.study.cells
    counted = {
        "task": len({cell.task for cell in cells}),
        "algorithm": len({cell.algorithm for cell in cells}),
        "arm": len({(cell.strategy, cell.arm) for cell in cells}),
        "run": len(everything.runs),
    }
    found = [[f"{count:,}", f"{name}{'s' * (count != 1)}"] for name, count in counted.items()]
    part = f" of {everything.full_steps:,}" if everything.full_steps else ""
    most = "up to " if len({cell.steps for cell in cells}) > 1 else ""
    return [*found, [f"{most}{everything.study.steps:,}", f"steps{part} a run"]]


def _curves(cells: Sequence[Results], windows: list[int], cache: CurveCache) -> list[Tree]:
    """The curves of each cell, from the cache where they have not changed."""
    points = max(FEWEST_POINTS, min(bands.POINTS, MOST_POINTS // max(1, len(cells))))
    found = []
    for results in cells:
        shape = str(results.scores.shape)
        chosen = f"{points} {windows}"
        texts = (chosen, shape, results.steps.tobytes(), results.scores.tobytes())
        raw = b"\0".join(text.encode() if isinstance(text, str) else text for text in texts)
        key = hashlib.sha256(raw).hexdigest()
        found.append((key, cache.get(key) or _cell_curves(results, windows, points)))
    cache.clear()
    cache.update(found)
    return [curves for _, curves in found]


def _cell_curves(results: Results, windows: list[int], points: int) -> Tree:
    """A cell's curves with every window and band, and how many runs they are of at each point."""
    drawn: Tree = {"steps": [], "curves": {}}
    for window in windows if len(results.steps) else ():
        usual = window == bands.WINDOW and points == bands.POINTS
        curves = results.curves if usual else results.smoothed(window, points)
        first = next(iter(curves.values()))
        drawn["steps"] = first.steps.tolist()
        runs = first.runs.tolist()
        drawn["curves"][str(window)] = {
            "runs": runs[0] if len(set(runs)) == 1 else runs,
            "ends": first.ends,
            **{kind: _numbers(curve) for kind, curve in curves.items()},
        }
    return drawn


def _numbers(curve: bands.Curve) -> list[Any]:
    """Value and bounds, rounded to a few thousandths of their span; None where there is none."""
    rows = np.stack([curve.value, curve.low, curve.high])
    finite = rows[np.isfinite(rows)]
    if not finite.size:
        return [None, None, None]
    span = float(finite.max() - finite.min()) or float(abs(finite.max())) or 1.0
    places = min(9, max(0, 3 - math.floor(math.log10(span))))
    return [_rounded(row, places) if np.isfinite(row).any() else None for row in rows]


def _rounded(row: np.ndarray, places: int) -> list[float | int | None]:
    rounded = [round(x, places) if math.isfinite(x) else None for x in row.tolist()]
    return rounded if places else [None if x is None else int(x) for x in rounded]


def _group(analysis: Analysis, places: Mapping[int, int]) -> Tree:
    """A group's lines, panels, sentences and tables; `places` has the number of each cell."""
    group, styles = analysis.group, style.line_styles(analysis.group)
    numbers = {label: i for i, label in enumerate(group.labels)}
    return {
        "name": group.name,
        "title": group.title,
        "base": group.base,
        "lines": [
            {
                "label": label,
                "light": styles[label].colour,
                "dark": styles[label].dark,
                "dash": _dash(styles[label].dashes),
                "marker": styles[label].marker,
                "begun": group.begun(label),
            }
            for label in group.labels
        ],
        "panels": [
            {
                "title": panel.title,
                "lines": [
                    [numbers[label], places[id(results)]] for label, results in panel.lines.items()
                ],
            }
            for panel in group.panels
        ],
        "words": blocks(summary.sentences(analysis)),
        "tables": _tables(analysis),
    }


def _dash(dashes: Any) -> tuple[float, ...]:
    return DASHES[dashes] if isinstance(dashes, str) else dashes[1]


def _tables(analysis: Analysis) -> list[Tree]:
    overview, details = tables.overview(analysis), tables.details(analysis)
    area = tables.overview(analysis, "area")
    found = [_table("Final scores", overview, tables.remarks(analysis))]
    if analysis.comparisons:
        found.append(_table("Against the baseline", page_tables.comparison_table(analysis), []))
        found.append(_table("Areas against the baseline", page_tables.area_table(analysis), []))
    more = {"Suite score": discovery.suite(analysis), "Reward found": discovery.table(analysis)}
    found += [_table(title, table, []) for title, table in more.items() if table is not None]
    found.append(_table("Area under the curve", area, []))
    return [*found, _table("In detail", details, tables.published_remarks(analysis))]


def _table(title: str, table: tables.Table, notes: Sequence[str]) -> Tree:
    """A table as the page needs it.

    Entries are [text, what to sort by, whether bold]. A column of numbers is sorted by them. A
    column without any entry is left out.
    """
    texts = [[row[i].text for row in table.rows] for i in range(len(table.head))]
    kept = [i for i, column in enumerate(texts) if not i or set(column) - {page_tables.NOTHING}]
    numeric = {i: _numeric(texts[i]) for i in kept}

    def entry(found: tables.Entry, by_number: bool) -> list[Any]:
        return [found.text, _sort_key(found.text) if by_number else found.text, found.bold]

    return {
        "title": title,
        "caption": table.caption and f"{table.caption}.",
        "notes": list(notes),
        "head": [table.head[i] for i in kept],
        "numeric": [numeric[i] for i in kept],
        "rows": [[entry(row[i], numeric[i]) for i in kept] for row in table.rows],
    }


def _numeric(texts: Sequence[str]) -> bool:
    """Whether a column has numbers."""
    written = [text for text in texts if not text.startswith((page_tables.NOTHING, "not reached"))]
    return bool(written) and all(NUMBER.match(text) for text in written)


def _sort_key(text: str) -> float | None:
    """The number that an entry begins with."""
    found = NUMBER.match(text)
    return float(found[1].replace(",", "").replace("−", "-")) if found else None


def _failed(everything: Data) -> Tree:
    rows = [[run.name, f"{run.step:,}", run.reason] for run in everything.failed]
    table = tables.Table(["run", "step", "reason"], _entries(rows), "")
    return _table("Failures", table, [])


def _missing(everything: Data) -> Tree:
    """Cells with runs that are not done, and how many runs are in each state."""
    rows = []
    for results in everything.cells:
        states = Counter(run.state for run in results.runs)
        if states["done"] < len(results.runs):
            counted = [str(states[state] or page_tables.NOTHING) for state in status.STATES]
            rows.append([results.cell.name, *counted])
    table = tables.Table(["runs of", *status.STATES], _entries(rows), "")
    return _table("Not done", table, [])


def _entries(rows: Sequence[Sequence[str]]) -> list[list[tables.Entry]]:
    return [[tables.Entry(text) for text in row] for row in rows]


def _runs(everything: Data) -> Tree:
    """A row for each run; settings and versions, which many runs share, are listed once."""
    setups: dict[str, int] = {}
    codes: dict[str, int] = {}
    rows = []
    for results in everything.cells:
        spread = [statistics.mean_sd(results.final)] if len(results.final) else []
        number = formatting.number_format(spread)
        scores = iter(results.final.tolist())
        for run in results.runs:
            score = next(scores) if run.state == "done" else None
            header = run.header or {}
            settings = current_names(header.get("run", {}).get("settings", {}))
            rows.append(
                {
                    "name": run.name,
                    "state": run.state,
                    "step": run.step,
                    "score": [number(score), score],
                    "commit": header.get("commit") or "",
                    "reason": run.reason,
                    "setup": setups.setdefault(_as_text(settings), len(setups)),
                    "code": codes.setdefault(_as_text(header.get("code", {})), len(codes)),
                }
                | _declared(results, run)
            )
    shared = {"setups": setups, "codes": codes}
    return {"runs": rows} | {
        name: [json.loads(text) for text in texts] for name, texts in shared.items()
    }


def _declared(results: Results, run: RunInfo) -> Tree:
    cell = results.cell
    return {"task": cell.task, "algorithm": cell.algorithm, "arm": cell.arm, "seed": run.seed}


def _as_text(settings: Mapping[str, Any]) -> str:
    return json.dumps({name: str(value) for name, value in settings.items()})
