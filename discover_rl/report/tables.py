"""Final scores as tables: Markdown, LaTeX (booktabs) and CSV.

Of every group there is an overview in the layout of the paper's Table 1, mean ± standard deviation
over seeds, and a list of details with a row for each cell. The CSV has the details in full
precision, for further use.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from discover_rl import stats
from discover_rl.report import comparisons, data, published, writing
from discover_rl.report.comparisons import Analysis
from discover_rl.report.data import Results
from discover_rl.report.groups import Group, Panel

DETAILS = (
    *("task", "algorithm", "line", "runs", "of", "mean", "sd", "iqm", "low", "high", "bold"),
    *("span", "published_mean", "published_sd", "published_task", "published_source"),
    "published_span",
)
SUFFIXES = (".md", ".tex", "-details.tex", ".csv", "-comparisons.csv")
"""Of the files of a group."""


class Entry(NamedTuple):
    text: str
    bold: bool = False


class Table(NamedTuple):
    head: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    caption: str
    words: int = 1
    """How many columns, from the left, have words and not numbers."""


def files(analysis: Analysis) -> dict[str, bytes]:
    """By suffix of their names."""
    first, second, notes = overview(analysis), details(analysis), remarks(analysis)
    theirs = source(analysis)
    title = f"# {writing.markdown(analysis.group.title)}"
    below, end = ([writing.markdown(it) for it in them] for them in (notes, theirs))
    pages = [title, markdown(first), *below, markdown(second), *end]
    texts = (
        "\n\n".join(pages) + "\n",
        latex(first, notes),
        latex(second, notes + theirs),
        as_csv(analysis),
        comparisons.as_csv(analysis),
    )
    return {suffix: text.encode() for suffix, text in zip(SUFFIXES, texts, strict=True)}


def overview(analysis: Analysis) -> Table:
    """Rows are lines and columns are tasks, or the other way round where there are more tasks."""
    group = analysis.group
    turned = len(group.panels) > len(group.labels)
    cells = {
        (panel.title, label): _entry(analysis, panel, label)
        for panel in group.panels
        for label in group.labels
    }
    titles = [panel.title for panel in group.panels]
    if turned:
        rows = [[Entry(it), *(cells[it, label] for label in group.labels)] for it in titles]
    else:
        rows = [[Entry(label), *(cells[it, label] for it in titles)] for label in group.labels]
    head = ["task" if turned else group.kind, *(group.labels if turned else titles)]
    return Table(head, rows, f"{group.title}: {_measure(group)}")


def details(analysis: Analysis) -> Table:
    """A row for each cell: IQM, which decides what is bold, mean, and what was published."""
    rows, found = [], _records(analysis)
    for row in found:
        beside = [it for it in found if it["task"] == row["task"] and it["runs"]]
        shown = writing.digits((it["mean"], it["sd"]) for it in beside)
        interval = "–"
        if row["low"] is not None:
            interval = f"[{shown(row['low'])}, {shown(row['high'])}]"
        theirs = "–"
        if row["published_mean"] is not None:
            numbers = row["published_mean"], row["published_sd"]
            spread = " ± ".join(map(writing.digits([numbers]), numbers))
            theirs = f"{spread} ({row['published_task']})"
        texts = [row["task"], row["line"], f"{row['runs']} of {row['of']}"]
        texts += [shown(row["iqm"]), interval, shown(row["mean"]), shown(row["sd"]), theirs]
        rows.append([Entry(text, row["bold"] and i == 3) for i, text in enumerate(texts)])
    head = ["task", analysis.group.kind, "runs", "IQM", "95 % interval of IQM", "mean", "sd"]
    caption = f"{analysis.group.title}: {_measure(analysis.group)}, in detail"
    return Table([*head, "published mean ± sd"], rows, caption, words=2)


def as_csv(analysis: Analysis) -> str:
    text = io.StringIO()
    table = csv.DictWriter(text, DETAILS, lineterminator="\n")
    table.writeheader()
    table.writerows(_records(analysis))
    return text.getvalue()


def remarks(analysis: Analysis) -> list[str]:
    """What a reader of the table has to know."""
    found = [
        f"± is one standard deviation over runs. Bold: its IQM is above that of every other by the "
        f"95 % bootstrap interval of the difference, with at least {data.FEWEST} runs of each."
    ]
    everyone = [it for panel in analysis.group.panels for it in panel.lines.values()]
    if not all(it.done.all() for it in everyone):
        found.append("Scores are of runs that came to their end; (9 of 10) says how many did.")
    return found


def source(analysis: Analysis) -> list[str]:
    """Where published numbers are from, if there are any, and what they are the means of."""
    named: dict[str, dict[str, None]] = {}
    for row in _records(analysis):
        if row["published_source"] is not None:
            named.setdefault(row["published_source"], {})[row["published_task"]] = None
    return [
        f"Published: {where}, of {', '.join(tasks)}: older versions, and DISCOVER's directions "
        "scaled by λ². They are not targets."
        for where, tasks in named.items()
    ] + _cadence(analysis)


def _cadence(analysis: Analysis) -> list[str]:
    """What scores are the means of, where published ones stand beside others of another kind."""
    lines = [it for panel in analysis.group.panels for it in panel.lines.values()]
    beside = [it for it in lines if published.number(it.cell) is not None]
    ours = sorted({span for it in beside for span in it.spans})
    if not set(ours) - {published.SPAN}:
        return []
    here = " or ".join(f"last {count}, {steps:,} steps" for count, steps in ours)
    count, steps = published.SPAN
    return [
        "Published and measured scores are means over different stretches of training. Paper: last "
        f"{count} evaluations, {steps:,} steps; here: {here}."
    ]


def markdown(table: Table) -> str:
    def line(texts: Sequence[str]) -> str:
        return f"| {' | '.join(texts)} |"

    def shown(it: Entry) -> str:
        text = writing.markdown(it.text)
        return f"**{text}**" if it.bold else text

    head = line([writing.markdown(text) for text in table.head])
    rule = "|".join(["---"] * table.words + ["---:"] * (len(table.head) - table.words))
    rows = [line([shown(it) for it in row]) for row in table.rows]
    return "\n".join([f"{writing.markdown(table.caption)}.", "", head, f"|{rule}|", *rows])


def latex(table: Table, notes: Sequence[str] = ()) -> str:
    r"""Needs \usepackage{booktabs}."""

    def shown(it: Entry) -> str:
        text = writing.latex(it.text)
        return rf"\textbf{{{text}}}" if it.bold else text

    def line(entries: Sequence[Entry]) -> str:
        return f"        {' & '.join(shown(it) for it in entries)} \\\\"

    caption = " ".join([f"{table.caption}.", *notes])
    columns = "l" * table.words + "r" * (len(table.head) - table.words)
    return "\n".join(
        [
            r"\begin{table}[!hbt]",
            r"\begin{center}",
            rf"    \caption{{{writing.latex(caption)}}}",
            rf"    \begin{{tabular}}{{@{{}} {columns} @{{}}}}",
            r"        \toprule",
            line([Entry(text, bold=True) for text in table.head]),
            r"        \midrule",
            *(line(row) for row in table.rows),
            r"        \bottomrule",
            r"    \end{tabular}",
            r"\end{center}",
            r"\end{table}",
            "",
        ]
    )


def _entry(analysis: Analysis, panel: Panel, label: str) -> Entry:
    line = panel.lines.get(label)
    if line is None or not len(line.final):
        return Entry("–" if line is None else f"– (0 of {len(line.runs)})")
    beside = [stats.mean_sd(it.final) for it in panel.lines.values() if len(it.final)]
    shown = writing.digits(beside)
    mean, sd = stats.mean_sd(line.final)
    text = shown(mean) if sd is None else f"{shown(mean)} ± {shown(sd)}"
    if not line.done.all():
        text += f" ({len(line.final)} of {len(line.runs)})"
    return Entry(text, analysis.best[panel.title] == label)


def _records(analysis: Analysis) -> list[dict[str, Any]]:
    """The details as numbers, None where there is none."""
    rows = []
    for panel in analysis.group.panels:
        for label, line in panel.lines.items():
            row: dict[str, Any] = dict.fromkeys(DETAILS)
            row |= {"task": panel.title, "algorithm": line.cell.algorithm, "line": label}
            row |= {"runs": len(line.final), "of": len(line.runs)}
            row |= _scores(line) | {"bold": analysis.best[panel.title] == label}
            row |= {"span": _spans(line.spans)}
            if (theirs := published.number(line.cell)) is not None:
                kind = line.cell.task.rpartition("-v")[0]
                row |= {"published_mean": theirs.mean, "published_sd": theirs.sd}
                row |= {"published_task": f"{kind}-{theirs.version}"}
                row |= {"published_source": f"{theirs.source}, {theirs.seeds} seeds"}
                row |= {"published_span": _spans([published.SPAN])}
            rows.append(row)
    return rows


def _spans(spans: Sequence[tuple[int, int]]) -> str:
    return " or ".join(f"{count} evaluations over {steps} steps" for count, steps in spans)


def _scores(line: Results) -> dict[str, float | None]:
    if not len(line.final):
        return {}
    mean, sd = stats.mean_sd(line.final)
    return {"mean": mean, "sd": sd} | dict(
        zip(("iqm", "low", "high"), stats.bootstrap(line.final, how=data.FINE), strict=True)
    )


def _measure(group: Group) -> str:
    """What a score is, in words."""
    lines = [it for panel in group.panels for it in panel.lines.values() if len(it.steps)]
    counts = sorted({it.averaged for it in lines}) or [data.LAST]
    steps = sorted({it.cell.steps for panel in group.panels for it in panel.lines.values()})
    many = " or ".join(map(str, counts))
    after = " or ".join(f"{it:,}" for it in steps)
    how = ["there are no more"] * (len(counts) == 1 and counts != [data.LAST])
    episodes = sorted({count for it in lines for count in it.episodes})
    if episodes:
        how.append(f"{' or '.join(map(str, episodes))} episodes each")
    apart = {int(step) for it in lines for step in np.diff(it.steps)}
    if len(apart) == 1:
        how.append(f"every {apart.pop():,} steps")
    aside = f" ({', '.join(how)})" if how else ""
    span = f"runs of {after} steps"
    if any(it.part for it in lines):
        span = f"the first {after} steps of runs"
    return f"return, mean of the last {many} evaluations{aside} of {span}"
