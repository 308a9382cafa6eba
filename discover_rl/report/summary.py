"""What a study says, in words made from its numbers. Nothing is claimed that an interval does not
support, and what is missing is said first."""

from __future__ import annotations

from collections.abc import Sequence

from discover_rl import stats
from discover_rl.report import comparisons, data
from discover_rl.report.comparisons import Analysis, Comparison
from discover_rl.report.data import Data
from discover_rl.stats import Interval, Reached

VERDICTS = {1: "{} is better", -1: "{} is worse", 0: "no difference can be claimed"}
MOST = 50
"""Runs that are listed by name in each state."""


def text(everything: Data, analyses: Sequence[Analysis], notes: Sequence[str] = ()) -> str:
    """A page of Markdown."""
    study = everything.study
    parts = [f"# {study.name}", study.about, f"{everything.standing}.", *missing(everything)]
    for analysis in analyses:
        parts += [f"## {analysis.group.title}", *sentences(analysis)]
    parts += ["## Where the numbers are from", *provenance(everything, notes)]
    return "\n\n".join(filter(None, parts)) + "\n"


def missing(everything: Data) -> list[str]:
    """Runs that failed, with the reason, and runs that are not over."""
    found = []
    for title, runs in (("Failed", everything.failed), ("Not over", everything.unfinished)):
        lines = [f"- {it.name}: {it.reason or f'{it.state}, step {it.step:,}'}" for it in runs]
        more = f"\n- and {len(lines) - MOST:,} more" if len(lines) > MOST else ""
        if lines:
            found.append(f"{title}:\n\n" + "\n".join(lines[:MOST]) + more)
    return found


def sentences(analysis: Analysis) -> list[str]:
    """What is said of a group."""
    group = analysis.group
    if not group.rivals:
        return [f"There is one arm only, {group.base}: nothing to compare."]
    said = [
        f"All is compared with {group.base} ({group.why}): difference of interquartile means of "
        "final scores, with its 95 % bootstrap interval."
    ]
    lines = [f"- {compared(it, group.base)}" for it in analysis.comparisons]
    said.append("\n".join(lines) or f"- There is nothing to compare with {group.base}.")
    claims = [it for it in analysis.comparisons if it.claim]
    if claims:
        able = sum(it.claimable for it in analysis.comparisons)
        said.append(
            f"{len(claims)} of {able} comparisons come out one way. Each is at 95 % by itself: of "
            f"{able} between equals, about {able / 20:.2g} would, too, and more where runs are few."
        )
    said += _overall(analysis)
    said += _efficiency(analysis)
    return said


def compared(it: Comparison, base: str) -> str:
    """'discover − gaussian on Hopper-v5: +120 [−80, 310], 10 and 10 runs: no difference …'"""
    what = f"{it.label} − {base} on {it.panel}"
    runs = f"{it.runs[0]} and {it.runs[1]} runs"
    if it.difference is None:
        return f"{what}: nothing can be said, {runs} are done."
    said = verdict(it.difference, it.runs, it.label, it.failed)
    return f"{what}: {signed(it.difference)}, {runs}: {said}."


def verdict(difference: Interval, runs: Sequence[int], label: str, failed: int = 0) -> str:
    if failed:
        return f"no difference can be claimed where runs failed, as {failed} here did"
    if min(runs) < data.FEWEST:
        return f"no difference can be claimed of fewer than {data.FEWEST} runs each"
    return VERDICTS[comparisons.claim(difference, runs)].format(label)


def signed(interval: Interval) -> str:
    """'+120 [−80, 310]'."""
    largest = max(abs(it) for it in interval if it is not None)
    places = 0 if largest >= 100 else 1 if largest >= 10 else 2 if largest >= 0.1 else 3
    bounds = [it for it in interval[1:] if it]
    while places < 6 and any(float(f"{it:.{places}f}") == 0 for it in bounds):
        places += 1  # a bound that is not 0 is not written as 0
    value = f"{interval.value:+.{places}f}"
    if interval.low is None:
        return f"{value} (no interval)".replace("-", "−")
    return f"{value} [{interval.low:.{places}f}, {interval.high:.{places}f}]".replace("-", "−")


def chance(better: Interval) -> str:
    """'55% [35%, 75%]'."""
    if better.low is not None and better.low == better.high:
        return f"{better.value:.0%} (every pair comes out the same way, so there is no interval)"
    bounds = "" if better.low is None else f" [{better.low:.0%}, {better.high:.0%}]"
    return f"{better.value:.0%}{bounds}"


def when(reached: Reached) -> str:
    """'12,000 [8,000, never]'."""
    text = "not reached" if reached.step is None else f"{reached.step:,}"
    if reached.share:
        ends = ["never" if end is None else f"{end:,}" for end in reached[1:3]]
        text += f" [{ends[0]}, {ends[1]}]"
    return text


def provenance(everything: Data, notes: Sequence[str] = ()) -> list[str]:
    origins = everything.origins
    made = [
        f"- {commits.total():,} runs: {versions}; commit {', '.join(sorted(commits))}"
        for versions, commits in origins.items()
    ]
    found = ["\n".join(made) or "No run has begun."]
    if len(origins) > 1:
        found.append("Not all runs were made by the same code and versions.")
    return found + list(notes)


def _overall(analysis: Analysis) -> list[str]:
    """Over all tasks, where there are several."""
    group, overall = analysis.group, analysis.overall
    if len({panel.task for panel in group.panels}) < 2:
        return []
    said = []
    if overall.left_out:
        why = "; ".join(f"{panel} ({reason})" for panel, reason in overall.left_out.items())
        said.append(f"Left out of what is said over all tasks: {why}.")
    if not overall.several or group.base not in overall.scores:
        return [*said, "Nothing can be said over all tasks."]
    base, lines = overall.scores[group.base], []
    for label in group.rivals:
        if label not in overall.scores:
            continue
        own = overall.scores[label]
        difference, better = stats.difference(own, base), stats.improvement(own, base)
        runs = [min(map(len, them.values())) for them in (own, base)]
        failed = sum(
            panel.lines[it].failed
            for panel in group.panels
            if panel.title in own
            for it in (label, group.base)
        )
        line = (
            f"- {label} − {group.base}, {overall.over}, normalised: "
            f"{signed(difference)}: {verdict(difference, runs, label, failed)}."
        )
        if min(runs) >= data.FEWEST:
            line += f" A run of it scores above one of {group.base} with probability "
            line += f"{chance(better)}."
        lines.append(line)
    said.append("\n".join(lines))
    scales: dict[str, list[str]] = {}
    for panel, it in overall.scales.items():
        where = scales.setdefault(it.source, [])
        ends = f"{it.low:g}, {it.high:g}".replace("-", "−")
        where.append(f"{panel} ({ends})")
    lines = [f"- {source}: {', '.join(panels)}" for source, panels in scales.items()]
    said.append("Scores over all tasks are normalised, (0 is, 1 is):\n\n" + "\n".join(lines))
    return [it for it in said if it]


def _efficiency(analysis: Analysis) -> list[str]:
    """When the baseline's final score was reached."""
    base, lines = analysis.group.base, []
    for it in analysis.comparisons:
        if it.reached is None:
            continue
        lines.append(f"- {it.label} on {it.panel}: {when(it.reached)}")
    if not lines:
        return []
    return [f"Steps until the IQM reaches {base}'s final score:\n\n" + "\n".join(lines)]
