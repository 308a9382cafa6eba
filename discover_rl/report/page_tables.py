"""Tables that the page alone has: every line against the baseline."""

from __future__ import annotations

from discover_rl.report import formatting, summary, tables
from discover_rl.report.comparisons import Analysis, Comparison
from discover_rl.report.resampling import Interval

NOTHING = "–"
"""The text for a missing number."""


def comparison_table(analysis: Analysis) -> tables.Table:
    """Every comparison of final scores: verdict, difference, probability, steps."""
    group, base = analysis.group, formatting.quoted(analysis.group.base)
    head = ["task", group.kind, "verdict", "difference of IQMs [95\xa0%]"]
    head += [f"a run is above one of {base} [95\xa0%]", f"steps to the score of {base} [95\xa0%]"]
    head += ["resamples that never reach it", "runs"]
    rows = []
    for compared in analysis.comparisons:
        better, steps, never = [NOTHING] * 3
        if compared.improvement is not None:
            better = summary.probability_text(compared.improvement)
        if compared.reached is not None:
            steps = summary.step_text(compared.reached)
            never = summary.never_reached_text(compared.reached) or NOTHING
        runs = f"{compared.runs[0]} and {compared.runs[1]}"
        texts = [better, steps, never, runs]
        entries = _verdict(compared, compared.difference, compared.claim)
        rows.append([*entries, *map(tables.Entry, texts)])
    return tables.Table(head, rows, f"Each compared with {base}")


def area_table(analysis: Analysis) -> tables.Table:
    """Every comparison of areas under the curve: verdict and difference."""
    base = formatting.quoted(analysis.group.base)
    head = ["task", analysis.group.kind, "verdict", "difference of IQMs of areas [95\xa0%]"]
    rows = [_verdict(it, it.area, it.area_claim) for it in analysis.comparisons]
    return tables.Table(head, rows, f"Each compared with {base}, by the same rules")


def _verdict(compared: Comparison, difference: Interval | None, claim: int) -> list[tables.Entry]:
    """The first entries of a comparison: panel, line, verdict, difference."""
    verdict, text = "nothing can be said yet", NOTHING
    if difference is not None:
        verdict = summary.verdict(difference, compared.runs, compared.label, compared.failed)
        text = summary.interval_text(difference)
    texts = compared.panel, compared.label, verdict, text
    return [tables.Entry(it, bool(claim) and i == 2) for i, it in enumerate(texts)]
