"""A leaderboard: one page and one figure that rank the arms of a study of sparse tasks.

Everything on it is read from records and from the study's file, but for the cost of a step, which
`discover plan` measured on this machine. A new arm in the study's file is a new row of the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from discover_rl.core.types import UserError
from discover_rl.report import (
    comparison_figures,
    comparisons,
    data,
    discovery,
    formatting,
    statistics,
    style,
    summary,
)
from discover_rl.report.comparison_figures import Mark
from discover_rl.report.comparisons import Analysis, claim
from discover_rl.report.data import FINE, Data
from discover_rl.report.methods import unusual_settings
from discover_rl.report.page_tables import NOTHING
from discover_rl.report.resampling import Interval
from discover_rl.report.tables import Entry, Table, markdown
from discover_rl.storage import files
from discover_rl.studies import estimate, plan
from discover_rl.studies.study import Study


class Row(NamedTuple):
    """One arm of the leaderboard.

    Attributes:
        label: Of the arm.
        score: Its suite score: IQM of normalised final scores over tasks and runs.
        area: The same of areas under the curve.
        found: How many runs on sparse tasks found the reward.
        runs: How many there are.
        half: The step by which half of these had found it; infinite if fewer than half did.
        cost: Seconds per step, relative to the greedy arm; None if it was not measured.
        settings: The settings that the study gives it, other than by default and preset.
    """

    label: str
    score: Interval
    area: Interval
    found: int
    runs: int
    half: float
    cost: float | None
    settings: str


def rows(analysis: Analysis, seconds: Mapping[str, float]) -> list[Row]:
    """The arms of a group, the one with the greatest suite score first.

    Args:
        analysis: Of the group.
        seconds: Per step, by strategy, as far as they were measured.
    """
    group, overall = analysis.group, analysis.overall
    greedy = seconds.get("none")
    found = []
    for label, by_task in overall.scores.items():
        lines = [panel.lines[label] for panel in group.panels if label in panel.lines]
        first = discovery.first_found_anywhere(analysis, label)
        own = seconds.get(lines[0].cell.strategy)
        found.append(
            Row(
                label=label,
                score=statistics.bootstrap(by_task, resampling=FINE),
                area=statistics.bootstrap(overall.areas[label], resampling=FINE),
                found=int(np.isfinite(first).sum()),
                runs=len(first),
                half=float(np.quantile(first, 0.5, method="higher")) if len(first) else np.inf,
                cost=own / greedy if own and greedy else None,
                settings=_settings(unusual_settings(lines[0].cell)),
            )
        )
    return sorted(found, key=lambda row: -row.score.value)


def write(study: Study, out: Path, file: Path, until: int | None = None) -> list[Path]:
    """Write the page, and a figure for each algorithm as PNG beside it.

    Args:
        study: What is declared.
        out: The study's folder; records in it may be missing.
        file: The page, Markdown.
        until: Look at runs up to this step, as if they ended there.

    Returns:
        The files that were written.

    Raises:
        UserError: there are not two sparse tasks with finished runs.
    """
    if file.suffix != ".md":
        raise UserError(f"A leaderboard is a Markdown file, so {file} must end in .md.")
    everything = data.load(study, out, until)
    suites = [it for it in comparisons.analyse(everything) if discovery.suite(it) is not None]
    if not suites:
        raise UserError(
            f"{study.name} has no leaderboard in {out} yet: it takes finished runs on two sparse "
            "tasks at least."
        )
    seconds = estimate.step_seconds(plan.kept(study, out), estimate.Timings())
    parts, written = [_head(everything, file)], [file]
    for analysis in suites:
        algorithm = analysis.group.algorithm
        own = {name: it for (kind, name), it in seconds.items() if kind == algorithm}
        found = rows(analysis, own)
        picture = file.with_name(f"{file.stem}-{analysis.group.name}.png")
        files.write(picture, figure(analysis, found))
        written.append(picture)
        parts += _section(analysis, found, picture.name)
    parts += ["## What was tuned, and what was not", _tuned(everything)]
    parts += ["## Where the numbers are from", *summary.provenance(everything)]
    files.write(file, ("\n\n".join(parts) + "\n").encode())
    return written


def figure(analysis: Analysis, found: Sequence[Row]) -> bytes:
    """Suite scores and areas with their intervals, and the share of runs that found the reward."""
    styles = style.line_styles(analysis.group)
    panels = {
        "suite score, 1 solves a task": [
            Mark(row.label, *row.score, styles[row.label]) for row in found
        ],
        "area under the curve": [Mark(row.label, *row.area, styles[row.label]) for row in found],
        "share of runs that found it": [
            Mark(row.label, row.found / row.runs, None, None, styles[row.label])
            for row in found
            if row.runs
        ],
    }
    title = (
        f"{analysis.group.title}: {analysis.overall.over}, greatest suite score first\n"
        "bars: 95 % bootstrap intervals"
    )
    return comparison_figures.forest(panels, title, "")["png"]


def table(analysis: Analysis, found: Sequence[Row]) -> Table:
    """The ranking: a row for each arm."""
    base = formatting.quoted(analysis.group.base)
    pairs = {pair.label: pair for pair in analysis.pairs}
    lines = []
    for place, row in enumerate(found, 1):
        pair = pairs.get(row.label)
        gain, better = NOTHING, False
        if pair is not None and pair.difference is not None:
            gain = summary.interval_text(pair.difference)
            better = claim(pair.difference, pair.runs, pair.failed) > 0
        share = NOTHING
        if row.runs:
            share = f"{100 * row.found / row.runs:.0f} % ({row.found} of {row.runs})"
        half = f"{row.half:,.0f}" if np.isfinite(row.half) else "never"
        cost = NOTHING if row.cost is None else f"{row.cost:.2f}"
        texts = [str(place), row.label, _interval(row.score), _interval(row.area)]
        texts += [gain, share, half, cost, row.settings or "by default"]
        lines.append([Entry(text, better and i == 4) for i, text in enumerate(texts)])
    head = ["", analysis.group.kind, "suite score [95 %]", "area under the curve [95 %]"]
    head += [f"suite score − that of {base} [95 %]", "runs that found the reward"]
    head += ["half of them by step", "cost of a step", "settings"]
    return Table(head, lines, f"{analysis.group.title}: {analysis.overall.over}", words=2)


def task_table(analysis: Analysis, found: Sequence[Row]) -> Table:
    """IQM of final scores of every arm, a row each, on every task; bold as in reports."""
    columns = []
    for panel in analysis.group.panels:
        done = {label: line.final for label, line in panel.lines.items() if len(line.final)}
        number = formatting.number_format([statistics.mean_sd(x) for x in done.values()])
        texts = {label: number(float(statistics.iqm(x))) for label, x in done.items()}
        best = analysis.best[panel.title]
        columns.append({label: Entry(text, label == best) for label, text in texts.items()})
    lines = [
        [Entry(row.label), *(column.get(row.label, Entry(NOTHING)) for column in columns)]
        for row in found
    ]
    head = [analysis.group.kind, *(panel.title for panel in analysis.group.panels)]
    return Table(head, lines, f"{analysis.group.title}: IQM of final returns, task by task")


def found_table(analysis: Analysis, found: Sequence[Row]) -> Table:
    """How many runs of every arm, a row each, found the reward, and the median step of those."""
    known = {(it.panel, it.label): it for it in discovery.discoveries(analysis)}
    panels = dict.fromkeys(panel for panel, _ in known)

    def text(panel: str, label: str) -> str:
        it = known.get((panel, label))
        if it is None:
            return NOTHING
        return f"{it.found} of {it.runs}" + (f", {it.steps:,.0f}" if it.found else "")

    lines = [[Entry(row.label), *(Entry(text(it, row.label)) for it in panels)] for row in found]
    caption = "runs that found the reward, and the median step at which these did"
    head = [analysis.group.kind, *panels]
    return Table(head, lines, f"{analysis.group.title}: {caption}")


def _head(everything: Data, file: Path) -> str:
    study = everything.study
    command = f"discover report {study.name} --leaderboard {file.name}"
    return (
        f"# Leaderboard: {formatting.markdown(study.name)}\n\n{formatting.markdown(study.about)}.\n"
        f"{everything.progress}. Made by `{command}`; nothing on this page is written by hand."
    )


def _section(analysis: Analysis, found: Sequence[Row], picture: str) -> list[str]:
    left_out = "; ".join(f"{what} ({why})" for what, why in analysis.overall.left_out.items())
    notes = [
        "Suite score: interquartile mean, over tasks and runs, of final returns divided by what "
        "solves the task. Area under the curve: the same of the mean return over a run, so that it "
        "rewards learning early. Intervals: 95 %, stratified bootstrap over runs. Bold: the "
        "difference is above 0 by its interval, with at least five runs a side and none failed; "
        "each is at 95 % by itself.",
        "A run has found the reward when an evaluation, without exploration, scores more than a "
        "hundredth of what solves the task, and more than policies did that had learned nothing; "
        "dense tasks do not count. *Half of them by step*: runs that never found it count as later "
        "than all others.",
        "Cost of a step: seconds per environment step of a run, of the greedy arm's, as "
        "`discover plan` measured it on the machine that made this page"
        + ("." if any(row.cost for row in found) else "; it has not been measured there."),
    ]
    if left_out:
        notes.append(f"Left out: {formatting.markdown(left_out)}.")
    tables = table(analysis, found), task_table(analysis, found), found_table(analysis, found)
    ranking, *by_task = map(markdown, tables)
    image = f"![suite scores with 95 % intervals]({picture})"
    return [f"## {analysis.group.title}", image, ranking, *notes, "### Task by task", *by_task]


def _tuned(everything: Data) -> str:
    said = everything.study.tuned or "The study's file does not say what was tuned."
    return (
        f"{formatting.markdown(said)} *Settings* lists what the study gives an arm; all else is "
        "the task's preset and the strategy's default, and every value that was tried is a row."
    )


def _settings(settings: Mapping) -> str:
    return ", ".join(f"{name.removeprefix('strategy.')}={it}" for name, it in settings.items())


def _interval(interval: Interval) -> str:
    if interval.low is None:
        return f"{interval.value:.3f}"
    return f"{interval.value:.3f} [{interval.low:.3f}, {interval.high:.3f}]".replace("-", "−")
