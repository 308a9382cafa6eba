"""Final scores and areas under the curve as tables: Markdown, LaTeX (booktabs) and CSV.

Every group has an overview of either in the layout of the paper's Table 1, mean ± standard
deviation over seeds, and a table of details with a row for each cell. The CSV has the details in
full precision.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from discover_rl.report import comparisons, formatting, published, statistics
from discover_rl.report.comparisons import Analysis
from discover_rl.report.data import FEWEST_RUNS, FINE, Measure, Results
from discover_rl.report.groups import Group, Panel
from discover_rl.storage import scores

DETAILS = (
    *("task", "algorithm", "line", "runs", "of", "mean", "sd", "iqm", "low", "high", "bold"),
    *("span", "published_mean", "published_sd", "published_task", "published_source"),
    *("published_span", "area_mean", "area_sd", "area_iqm", "area_low", "area_high", "area_bold"),
)
"""Columns of the CSV with the details."""
AREA = "area under the curve: mean return over a run, from step 0 to its end"
"""The explanation of areas, see `Results.area`."""
SUFFIXES = (".md", ".tex", "-area.tex", "-details.tex", ".csv", "-comparisons.csv")
"""How the names of a group's files end."""


class Entry(NamedTuple):
    """One entry of a table."""

    text: str
    bold: bool = False


class Table(NamedTuple):
    """A table before it is written in some format.

    Attributes:
        head: The names of the columns.
        rows: Each with an entry for every column.
        caption: What the table shows, without a full stop.
        words: How many columns, from the left, have words in place of numbers.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[Entry]]
    caption: str
    words: int = 1


def files(analysis: Analysis) -> dict[str, bytes]:
    """All files of a group, by how their names end."""
    first, second, notes = overview(analysis), details(analysis), remarks(analysis)
    area = overview(analysis, "area")
    on_published = published_remarks(analysis)
    parts = [
        f"# {formatting.markdown(analysis.group.title)}",
        markdown(first),
        markdown(area),
        *map(formatting.markdown, notes),
        markdown(second),
        *map(formatting.markdown, on_published),
    ]
    texts = (
        "\n\n".join(parts) + "\n",
        latex(first, notes),
        latex(area, notes),
        latex(second, notes + on_published),
        as_csv(analysis),
        comparisons.as_csv(analysis),
    )
    return {suffix: text.encode() for suffix, text in zip(SUFFIXES, texts, strict=True)}


def overview(analysis: Analysis, measure: Measure = "final") -> Table:
    """Mean ± standard deviation: lines down and tasks across, or, with more tasks than lines, the
    other way round.

    Args:
        analysis: Of a group.
        measure: What of its runs: final scores or areas under the curve.
    """
    group = analysis.group
    tasks_down = len(group.panels) > len(group.labels)
    entries = {
        (panel.title, label): _entry(analysis, panel, label, measure)
        for panel in group.panels
        for label in group.labels
    }
    titles = [panel.title for panel in group.panels]
    if tasks_down:
        rows = [[Entry(task), *(entries[task, label] for label in group.labels)] for task in titles]
        head = ["task", *group.labels]
    else:
        rows = [
            [Entry(label), *(entries[task, label] for task in titles)] for label in group.labels
        ]
        head = [group.kind, *titles]
    what = _measure(group) if measure == "final" else AREA
    return Table(head, rows, f"{group.title}: {what}")


def details(analysis: Analysis) -> Table:
    """A row for each cell: IQM, which decides what is bold, mean, and what was published."""
    rows, found = [], _detail_rows(analysis)
    for row in found:
        beside = [other for other in found if other["task"] == row["task"] and other["runs"]]
        text = formatting.number_format((other["mean"], other["sd"]) for other in beside)
        interval, area = (
            "–" if low is None else f"[{text(low)}, {text(high)}]"
            for low, high in ((row["low"], row["high"]), (row["area_low"], row["area_high"]))
        )
        published_text = "–"
        if row["published_mean"] is not None:
            numbers = row["published_mean"], row["published_sd"]
            spread = " ± ".join(map(formatting.number_format([numbers]), numbers))
            published_text = f"{spread} ({row['published_task']})"
        texts = [row["task"], row["line"], f"{row['runs']} of {row['of']}"]
        texts += [text(row["iqm"]), interval, text(row["mean"]), text(row["sd"])]
        texts += [text(row["area_iqm"]), area, published_text]
        bold = {3: row["bold"], 7: row["area_bold"]}
        rows.append([Entry(entry, bold.get(i, False)) for i, entry in enumerate(texts)])
    head = ["task", analysis.group.kind, "runs", "IQM", "95 % interval of IQM", "mean", "sd"]
    head += ["area under the curve, IQM", "95 % interval of it"]
    caption = f"{analysis.group.title}: {_measure(analysis.group)}, in detail"
    return Table([*head, "published mean ± sd"], rows, caption, words=2)


def as_csv(analysis: Analysis) -> str:
    """The details in full precision; what is not known is empty."""
    text = io.StringIO()
    table = csv.DictWriter(text, DETAILS, lineterminator="\n")
    table.writeheader()
    table.writerows(_detail_rows(analysis))
    return text.getvalue()


def remarks(analysis: Analysis) -> list[str]:
    """Sentences that a reader of the overview has to know."""
    found = [
        f"± is one standard deviation over runs. Bold: its IQM is above that of every other by the "
        f"95 % bootstrap interval of the difference, with at least {FEWEST_RUNS} runs of each."
    ]
    if not all(line.done.all() for line in _lines(analysis.group)):
        found.append("Scores are of runs that came to their end; (9 of 10) says how many did.")
    return found


def published_remarks(analysis: Analysis) -> list[str]:
    """Sentences on published numbers: where they are from, and what they are the means of."""
    tasks_of: dict[str, dict[str, None]] = {}
    for row in _detail_rows(analysis):
        if row["published_source"] is not None:
            tasks_of.setdefault(row["published_source"], {})[row["published_task"]] = None
    return [
        f"Published: {source}, of {', '.join(tasks)}: older versions, and DISCOVER's directions "
        "scaled by λ². They are not targets."
        for source, tasks in tasks_of.items()
    ] + _span_remark(analysis)


def _span_remark(analysis: Analysis) -> list[str]:
    """A sentence for when published scores are means over other stretches than measured ones."""
    beside = [line for line in _lines(analysis.group) if published.number(line.cell) is not None]
    measured = sorted({span for line in beside for span in line.spans})
    if not set(measured) - {published.SPAN}:
        return []
    here = " or ".join(
        f"last {count}, {steps:,} steps" if count > 1 else "the last one alone"
        for count, steps in measured
    )
    count, steps = published.SPAN
    return [
        "Published and measured scores are means over different stretches of training. Paper: last "
        f"{count} evaluations, {steps:,} steps; here: {here}."
    ]


def markdown(table: Table) -> str:
    """A table in Markdown, its caption above it."""

    def line(texts: Sequence[str]) -> str:
        return f"| {' | '.join(texts)} |"

    def written(entry: Entry) -> str:
        text = formatting.markdown(entry.text)
        return f"**{text}**" if entry.bold else text

    head = line([formatting.markdown(text) for text in table.head])
    rule = "|".join(["---"] * table.words + ["---:"] * (len(table.head) - table.words))
    rows = [line([written(entry) for entry in row]) for row in table.rows]
    return "\n".join([f"{formatting.markdown(table.caption)}.", "", head, f"|{rule}|", *rows])


def latex(table: Table, notes: Sequence[str] = ()) -> str:
    r"""A table in LaTeX, with notes after its caption. It needs \usepackage{booktabs}."""

    def written(entry: Entry) -> str:
        text = formatting.latex(entry.text)
        return rf"\textbf{{{text}}}" if entry.bold else text

    def line(entries: Sequence[Entry]) -> str:
        return f"        {' & '.join(written(entry) for entry in entries)} \\\\"

    caption = " ".join([f"{table.caption}.", *notes])
    columns = "l" * table.words + "r" * (len(table.head) - table.words)
    return "\n".join(
        [
            r"\begin{table}[!hbt]",
            r"\begin{center}",
            rf"    \caption{{{formatting.latex(caption)}}}",
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


def _lines(group: Group) -> list[Results]:
    return [line for panel in group.panels for line in panel.lines.values()]


def _entry(analysis: Analysis, panel: Panel, label: str, measure: Measure) -> Entry:
    """Mean ± standard deviation, and how many runs are done if not all are."""
    line = panel.lines.get(label)
    if line is None or not len(line.final):
        return Entry("–" if line is None else f"– (0 of {len(line.runs)})")
    found = [other.measured(measure) for other in panel.lines.values()]
    number = formatting.number_format([statistics.mean_sd(x) for x in found if len(x)])
    mean, sd = statistics.mean_sd(line.measured(measure))
    text = number(mean) if sd is None else f"{number(mean)} ± {number(sd)}"
    if not line.done.all():
        text += f" ({len(line.final)} of {len(line.runs)})"
    best = analysis.best if measure == "final" else analysis.best_area
    return Entry(text, best[panel.title] == label)


def _detail_rows(analysis: Analysis) -> list[dict[str, Any]]:
    """The details as numbers, a row for each cell; None where there is no number."""
    rows = []
    for panel in analysis.group.panels:
        for label, line in panel.lines.items():
            row: dict[str, Any] = dict.fromkeys(DETAILS)
            row |= {"task": panel.title, "algorithm": line.cell.algorithm, "line": label}
            row |= {"runs": len(line.final), "of": len(line.runs)}
            row |= _scores(line) | {"bold": analysis.best[panel.title] == label}
            row |= {"area_bold": analysis.best_area[panel.title] == label}
            row |= {"span": _span_text(line.spans)}
            if (number := published.number(line.cell)) is not None:
                kind = line.cell.task.rpartition("-v")[0]
                row |= {"published_mean": number.mean, "published_sd": number.sd}
                row |= {"published_task": f"{kind}-{number.version}"}
                row |= {"published_source": f"{number.source}, {number.seeds} seeds"}
                row |= {"published_span": _span_text([published.SPAN])}
            rows.append(row)
    return rows


def _span_text(spans: Sequence[tuple[int, int]]) -> str:
    return " or ".join(
        f"{count} evaluations over {steps} steps" if count > 1 else "1 evaluation"
        for count, steps in spans
    )


def _scores(line: Results) -> dict[str, float | None]:
    if not len(line.final):
        return {}
    found: dict[str, float | None] = {}
    for prefix, runs in (("", line.final), ("area_", line.area)):
        numbers = *statistics.mean_sd(runs), *statistics.bootstrap(runs, resampling=FINE)
        names = (f"{prefix}{name}" for name in ("mean", "sd", "iqm", "low", "high"))
        found |= zip(names, numbers, strict=True)
    return found


def _measure(group: Group) -> str:
    """Describe a score in words."""
    lines = [line for line in _lines(group) if len(line.steps)]
    counts = sorted({line.averaged for line in lines}) or [scores.MOST]
    steps = sorted({line.cell.steps for line in _lines(group)})
    many = formatting.last_evaluations(counts)
    after = " or ".join(f"{count:,}" for count in steps)
    totals = sorted({len(line.steps) for line in lines})
    facts = [f"of {' or '.join(map(str, totals))}"] * (counts != [scores.MOST])
    episodes = sorted({count for line in lines for count in line.episodes})
    if episodes:
        facts.append(f"{' or '.join(map(str, episodes))} episodes each")
    apart = {int(distance) for line in lines for distance in np.diff(line.steps)}
    if len(apart) == 1:
        facts.append(f"every {apart.pop():,} steps")
    in_brackets = f" ({', '.join(facts)})" if facts else ""
    span = f"runs of {after} steps"
    if any(line.is_partial for line in lines):
        span = f"the first {after} steps of runs"
    return f"return, mean of the last {many}{in_brackets} of {span}"
