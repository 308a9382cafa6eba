"""What a study says, in words made from its numbers. Nothing is claimed that an interval does not
support, and what is missing is said first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from discover_rl.report import comparisons, data, writing
from discover_rl.report.across import Pair
from discover_rl.report.comparisons import Analysis, Comparison
from discover_rl.report.data import Data, Results, RunInfo
from discover_rl.report.writing import quoted
from discover_rl.stats import Interval, Reached

VERDICTS = {1: "{} is better", -1: "{} is worse", 0: "no difference can be claimed"}
MOST = 50
"""Lines of a list of runs."""


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
    for title, failed in (("Failed", True), ("Not over", False)):
        lines = [line for it in everything.cells for line in _lacking(it, failed)]
        more = f"\n- and {len(lines) - MOST:,} more" if len(lines) > MOST else ""
        if lines:
            found.append(f"{title}:\n\n" + "\n".join(lines[:MOST]) + more)
    return found


def _lacking(it: Results, failed: bool) -> list[str]:
    """'- Hopper-v5/ppo/psne, seeds 0–9: begun, step 420,000': those that stand alike, in a line."""
    alike: dict[str, list[RunInfo]] = {}
    for run in it.runs:
        if run.state != "done" and (run.state == "failed") == failed:
            alike.setdefault(run.reason or run.state, []).append(run)
    lines = []
    for why, runs in alike.items():
        first, last = (pick(run.step for run in runs) for pick in (min, max))
        where = f", step {first:,}" if first == last else f", steps {first:,} to {last:,}"
        seeds = writing.seeds([run.seed for run in runs])
        lines.append(f"- {it.cell.name}, {seeds}: {why}{'' if runs[0].reason else where}")
    return lines


def sentences(analysis: Analysis) -> list[str]:
    """What is said of a group."""
    group = analysis.group
    if not group.rivals:
        return [f"There is one {group.kind} only, {quoted(group.base)}: nothing to compare."]
    said = [
        f"All is compared with {quoted(group.base)} ({group.why}): difference of interquartile "
        "means (IQMs) of final scores, with its 95 % bootstrap interval."
    ]
    lines = [f"- {compared(it, group.base)}" for it in analysis.comparisons]
    said.append("\n".join(lines) or f"- There is nothing to compare with {quoted(group.base)}.")
    claims = [it for it in analysis.comparisons if it.claim]
    if claims:
        able = sum(it.claimable for it in analysis.comparisons)
        said.append(
            f"Of {able} comparisons, {len(claims)} came out one way. Each is at 95 % by itself: of "
            f"{able} between equals, about {able / 20:.2g} would, too, and more where runs are few."
        )
    said += _overall(analysis)
    said += _efficiency(analysis)
    return said


def compared(it: Comparison, base: str) -> str:
    """'“discover” − “gaussian” on Hopper-v5: +120 [−80, 310], 10 and 10 runs: no difference …'"""
    what = f"{quoted(it.label)} − {quoted(base)} on {it.panel}"
    runs = f"{it.runs[0]} and {it.runs[1]} runs"
    if it.difference is None or it.improvement is None:
        return f"{what}: nothing can be said, {runs} are done."
    said = verdict(it.difference, it.runs, it.label, it.failed)
    return f"{what}: {signed(it.difference)}, {runs}: {said}; {_above(it.improvement, base)}."


def verdict(difference: Interval, runs: Sequence[int], label: str, failed: int = 0) -> str:
    if failed:
        return f"no difference can be claimed where runs failed, as {failed} here did"
    if min(runs) < data.FEWEST:
        return f"no difference can be claimed of fewer than {data.FEWEST} runs each"
    return VERDICTS[comparisons.claim(difference, runs)].format(quoted(label))


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
    """'55 % [35, 75]'; where every pair of runs comes out the same way there is no interval."""
    value = f"{100 * better.value:.0f} %"
    if better.low is None or better.low == better.high:
        return f"{value} (no interval)"
    return f"{value} [{100 * better.low:.0f}, {100 * better.high:.0f}]"


def when(reached: Reached) -> str:
    """'12,000 [8,000, 20,000]', 'not reached [8,000, never]'."""
    text = "not reached" if reached.step is None else f"{reached.step:,}"
    if reached.step == 0:
        text += " (before any training)"
    if reached.low is not None:
        high = "never" if reached.high is None else f"{reached.high:,}"
        text += f" [{reached.low:,}, {high}]"
    return text


def never(reached: Reached) -> str:
    """The share of resamples that do not reach it, '10 %'; nothing where all of them do, or where
    the curve itself does not."""
    if reached.share is None or reached.high is not None or reached.step is None:
        return ""
    return f"{100 * (1 - reached.share):.0f} %"


def provenance(everything: Data, notes: Sequence[str] = ()) -> list[str]:
    origins = everything.origins
    made = [
        f"- {writing.runs(commits.total())}: {versions}; commit {', '.join(sorted(commits))}"
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
    """'“discover” − “gaussian”, all (2 of 3 tasks), normalised: …'"""
    what = f"{quoted(pair.label)} − {quoted(base)}, {pair.common.name}"
    without = f" Without {_reasons(pair.common.left_out)}." if pair.common.left_out else ""
    if pair.difference is None or pair.improvement is None:
        return f"{what}: nothing can be said over all tasks.{without}"
    said = verdict(pair.difference, pair.runs, pair.label, pair.failed)
    return (
        f"{what}, normalised: {signed(pair.difference)}: {said}; "
        f"{_above(pair.improvement, base)}.{without}"
    )


def _above(better: Interval, base: str) -> str:
    return f"a run scores above one of {quoted(base)} with probability {chance(better)}"


def _reasons(left_out: Mapping[str, str]) -> str:
    return "; ".join(f"{what} ({why})" for what, why in left_out.items())


def _efficiency(analysis: Analysis) -> list[str]:
    """When the baseline's final score was reached, by itself first."""
    base, said = quoted(analysis.group.base), []
    lines: list[str] = []
    last: set[int] = set()
    for panel in analysis.group.panels:
        rivals = [it for it in analysis.comparisons if it.panel == panel.title and it.reached]
        if rivals:
            own = panel.lines[analysis.group.base]
            last.add(own.averaged)
            step = analysis.own[panel.title]
            lines.append(f"- {base} itself on {panel.title}: {in_steps(step, own.failed)}")
        for it in rivals:
            assert it.reached is not None
            steps = in_steps(it.reached, it.failed)
            lines.append(f"- {quoted(it.label)} on {it.panel}: {steps}")
    if lines:
        count = " or ".join(map(str, sorted(last)))
        said.append(
            f"Steps until the IQM of runs, smoothed over {data.WINDOW} evaluations, first reaches "
            f"that of the final scores of {base}, which are means of the last {count} evaluations. "
            "Brackets: its 95 % bootstrap interval, runs of both sides resampled; never: not "
            "within a run's steps.\n\n" + "\n".join(lines)
        )
    few = [it for it in analysis.comparisons if it.reached is None]
    if few:
        which = ", ".join(
            f"{quoted(it.label)} on {it.panel} ({it.runs[0]} and {it.runs[1]})" for it in few
        )
        said.append(
            f"Too few runs to say when the final score of {base} is reached; it takes "
            f"{data.FEWEST} finished runs of both sides: {which}."
        )
    return said


def in_steps(reached: Reached, failed: int = 0) -> str:
    """'12,000 [8,000, never], not reached in 10 % of resamples; 1 run, which failed, is not …'"""
    share = never(reached)
    text = when(reached) + (f", not reached in {share} of resamples" if share else "")
    if failed:
        are = "are" if failed > 1 else "is"
        text += f"; {writing.runs(failed)}, which failed, {are} not in it"
    return text
