"""What a study says, in words made from its numbers. Nothing is claimed that an interval does not
support, and what is missing is said first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from discover_rl.report import comparisons, data, writing
from discover_rl.report.across import Pair
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
    bounds = [it for it in interval[1:] if it is not None]
    start = writing.places(largest, 3)
    places = writing.visible(start, bounds, most=max(6, start))
    value = writing.fixed(interval.value, places, sign="+")
    if interval.low is None:
        return f"{value} (no interval)"
    low, high = (writing.fixed(it, places) for it in bounds)
    return f"{value} [{low}, {high}]"


def chance(better: Interval) -> str:
    """'55% [35%, 75%]'."""
    if better.low is not None and better.low == better.high:
        return f"{better.value:.0%} (every pair comes out the same way, so there is no interval)"
    bounds = "" if better.low is None else f" [{better.low:.0%}, {better.high:.0%}]"
    return f"{better.value:.0%}{bounds}"


def when(reached: Reached) -> str:
    """'12,000 [8,000, 20,000]', 'not reached [8,000, never]'."""
    text = "not reached" if reached.step is None else f"{reached.step:,}"
    if reached.step == 0:
        text += " (before any training)"
    if reached.low is not None:
        high = "never" if reached.high is None else f"{reached.high:,}"
        text += f" [{reached.low:,}, {high}]"
    if reached.share is not None and reached.high is None and reached.step is not None:
        text += f", not reached in {1 - reached.share:.0%} of resamples"
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
    if len({panel.task for panel in analysis.group.panels}) < 2:
        return []
    drawn, said = analysis.overall, []
    if drawn.left_out:
        said.append(f"Left out of figures over all tasks: {_reasons(drawn.left_out)}.")
    pairs = [pair.common for pair in analysis.pairs if pair.common.several]
    if pairs:
        said.append("\n".join(f"- {_whole(pair, analysis.group.base)}" for pair in analysis.pairs))
    else:
        needed = f"It takes {data.FEWEST} finished runs of both sides on two tasks at least."
        said.append(f"Nothing can be said over all tasks. {needed}")
    used = {panel for it in (drawn, *pairs) if it.several for panel in it.panels}
    scales: dict[str, list[str]] = {}
    for panel, it in analysis.scales.items():
        if panel in used:
            ends = f"{it.low:g}, {it.high:g}".replace("-", "−")
            scales.setdefault(it.source, []).append(f"{panel} ({ends})")
    lines = [f"- {source}: {', '.join(panels)}" for source, panels in scales.items()]
    if lines:
        said.append("Scores over all tasks are normalised, (0 is, 1 is):\n\n" + "\n".join(lines))
    return said


def _whole(pair: Pair, base: str) -> str:
    """'discover − gaussian, all (2 of 3 tasks), normalised: …'"""
    what = f"{pair.label} − {base}, {pair.common.name}"
    without = f" Without {_reasons(pair.common.left_out)}." if pair.common.left_out else ""
    if pair.difference is None or pair.improvement is None:
        return f"{what}: nothing can be said over all tasks.{without}"
    said = verdict(pair.difference, pair.runs, pair.label, pair.failed)
    return (
        f"{what}, normalised: {signed(pair.difference)}: {said}. A run of it scores above one of "
        f"{base} with probability {chance(pair.improvement)}.{without}"
    )


def _reasons(left_out: Mapping[str, str]) -> str:
    return "; ".join(f"{what} ({why})" for what, why in left_out.items())


def _efficiency(analysis: Analysis) -> list[str]:
    """When the baseline's final score was reached."""
    base, said = analysis.group.base, []
    lines = [
        f"- {it.label} on {it.panel}: {when(it.reached)}"
        + (f"; {it.failed} runs, which failed, are not in it" if it.failed else "")
        for it in analysis.comparisons
        if it.reached is not None
    ]
    if lines:
        said.append(
            f"Steps until the IQM of runs first reaches that of {base}'s final scores. Brackets: "
            "its 95 % bootstrap interval, runs of both sides resampled; never: not within a run's "
            "steps.\n\n" + "\n".join(lines)
        )
    few = [it for it in analysis.comparisons if it.reached is None]
    if few:
        which = ", ".join(f"{it.label} on {it.panel} ({it.runs[0]} and {it.runs[1]})" for it in few)
        said.append(
            f"Too few runs to say when {base}'s final score is reached; it takes {data.FEWEST} "
            f"finished runs of both sides: {which}."
        )
    return said
