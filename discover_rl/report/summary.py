"""A study's results in words, made from its numbers.

Nothing is claimed that an interval does not support, and what is missing is said first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from discover_rl.report import comparisons, conclusion, formatting
from discover_rl.report.across import Pair
from discover_rl.report.comparisons import Analysis, Comparison
from discover_rl.report.data import FEWEST_RUNS, Data, Results, RunInfo
from discover_rl.report.formatting import quoted
from discover_rl.report.resampling import Interval
from discover_rl.report.statistics import Reached

VERDICTS = {1: "{} is better", -1: "{} is worse", 0: "no difference can be claimed"}
"""The wording for a line, by `Comparison.claim`."""
MOST_LINES = 50
"""How many lines a list of runs may have."""


def text(everything: Data, analyses: Sequence[Analysis], notes: Sequence[str] = ()) -> str:
    """The summary as a page of Markdown; names in it are not escaped.

    Args:
        everything: What is recorded of a study.
        analyses: Of its groups.
        notes: Sentences for its end.
    """
    study = everything.study
    parts = [f"# {study.name}", study.about, f"{everything.progress}.", *missing(everything)]
    for analysis in analyses:
        parts += [f"## {analysis.group.title}", *sentences(analysis)]
    parts += ["## Where the numbers are from", *provenance(everything, notes)]
    if said := conclusion.sentences(analyses):
        parts += ["## Conclusion", *said]
    return "\n\n".join(filter(None, parts)) + "\n"


def missing(everything: Data) -> list[str]:
    """Paragraphs on runs that failed, with the reason, and on runs that are not over."""
    found = []
    for title, failed in (("Failed", True), ("Not over", False)):
        lines = [line for results in everything.cells for line in _lacking(results, failed)]
        more = f"\n- and {len(lines) - MOST_LINES:,} more" if len(lines) > MOST_LINES else ""
        if lines:
            found.append(f"{title}:\n\n" + "\n".join(lines[:MOST_LINES]) + more)
    return found


def _lacking(results: Results, failed: bool) -> list[str]:
    """Lines on runs that lack, those with the same state or reason in one line.

    '- Hopper-v5/ppo/psne, seeds 0–9: begun, step 420,000'
    """
    alike: dict[str, list[RunInfo]] = {}
    for run in results.runs:
        if run.state != "done" and (run.state == "failed") == failed:
            alike.setdefault(run.reason or run.state, []).append(run)
    lines = []
    for why, runs in alike.items():
        first, last = (pick(run.step for run in runs) for pick in (min, max))
        where = f", step {first:,}" if first == last else f", steps {first:,} to {last:,}"
        seeds = formatting.seeds([run.seed for run in runs])
        lines.append(f"- {results.cell.name}, {seeds}: {why}{'' if runs[0].reason else where}")
    return lines


def sentences(analysis: Analysis) -> list[str]:
    """What can be said of a group: Markdown paragraphs and lists, one string each."""
    group = analysis.group
    if not group.rivals:
        return [f"There is one {group.kind} only, {quoted(group.base)}: nothing to compare."]
    parts = [
        f"All is compared with {quoted(group.base)} ({group.why}): difference of interquartile "
        "means (IQMs) of final scores, with its 95 % bootstrap interval. The area under the curve "
        "is the mean return over a run, from step 0 to its end. It is compared in the same way and "
        "by the same rules, since two methods may end alike though one of them learns sooner."
    ]
    lines = [f"- {comparison_text(compared, group.base)}" for compared in analysis.comparisons]
    parts.append("\n".join(lines) or f"- There is nothing to compare with {quoted(group.base)}.")
    finals = sum(bool(compared.claim) for compared in analysis.comparisons)
    areas = sum(bool(compared.area_claim) for compared in analysis.comparisons)
    if finals or areas:
        able = sum(compared.claimable for compared in analysis.comparisons)
        many = "comparison" if able == 1 else "comparisons"
        parts.append(
            f"Of {able} {many} of final scores, {finals} came out one way, and of as many "
            f"of areas {areas}. Each is at 95 % by itself: of {2 * able} between equals, about "
            f"{2 * able / 20:.2g} would, too, and more where runs are few."
        )
    return parts + _over_all_tasks(analysis) + _efficiency(analysis)


def comparison_text(compared: Comparison, base: str) -> str:
    """One comparison, in a sentence.

    '“discover” − “gaussian” on Hopper-v5: +120 [−80, 310], 10 and 10 runs: no difference …'
    """
    what = f"{quoted(compared.label)} − {quoted(base)} on {compared.panel}"
    runs = f"{compared.runs[0]} and {compared.runs[1]} runs"
    if compared.difference is None or compared.improvement is None or compared.area is None:
        return f"{what}: nothing can be said, {runs} are done."
    difference, above = interval_text(compared.difference), _above(compared.improvement, base)
    conclusion, on_area = (
        verdict(interval, compared.runs, compared.label, compared.failed)
        for interval in (compared.difference, compared.area)
    )
    area = f"Area under the curve: {interval_text(compared.area)}: {on_area}."
    return f"{what}: {difference}, {runs}: {conclusion}; {above}. {area}"


def verdict(difference: Interval, runs: Sequence[int], label: str, failed: int = 0) -> str:
    """Say what can be claimed about a line, or why nothing can.

    Args:
        difference: To the baseline.
        runs: Finished runs of both sides.
        label: Of the line.
        failed: Failed runs of both sides.
    """
    if failed:
        return f"no difference can be claimed where runs failed, as {failed} here did"
    if min(runs) < FEWEST_RUNS:
        return f"no difference can be claimed of fewer than {FEWEST_RUNS} runs each"
    return VERDICTS[comparisons.claim(difference, runs)].format(quoted(label))


def interval_text(interval: Interval) -> str:
    """A difference with its interval.

    >>> interval_text(Interval(120.4, -80.2, 310.0))
    '+120 [−80, 310]'
    """
    largest = max(abs(number) for number in interval if number is not None)
    bounds = [bound for bound in interval[1:] if bound is not None]
    start = formatting.places(largest, 3)
    places = formatting.enough_places(start, bounds, most=max(6, start))
    value = formatting.fixed(interval.value, places, sign="+")
    if interval.low is None:
        return f"{value} (no interval)"
    low, high = (formatting.fixed(bound, places) for bound in bounds)
    return f"{value} [{low}, {high}]"


def probability_text(probability: Interval) -> str:
    """A probability with its interval; there is none if every pair of runs comes out the same way.

    >>> probability_text(Interval(0.55, 0.35, 0.75)), probability_text(Interval(1.0, 1.0, 1.0))
    ('55 % [35, 75]', '100 % (no interval)')
    """
    value = f"{100 * probability.value:.0f} %"
    if probability.low is None or probability.low == probability.high:
        return f"{value} (no interval)"
    return f"{value} [{100 * probability.low:.0f}, {100 * probability.high:.0f}]"


def step_text(reached: Reached) -> str:
    """When a level was reached, with the interval.

    >>> step_text(Reached(12_000, 8_000, 20_000, 1.0)), step_text(Reached(None, 8_000, None, 0.4))
    ('12,000 [8,000, 20,000]', 'not reached [8,000, never]')
    """
    text = "not reached" if reached.step is None else f"{reached.step:,}"
    if reached.step == 0:
        text += " (before any training)"
    if reached.low is not None:
        high = "never" if reached.high is None else f"{reached.high:,}"
        text += f" [{reached.low:,}, {high}]"
    return text


def never_reached_text(reached: Reached) -> str:
    """The share of resamples that never reach a level, '10 %'.

    It is '' where all of them do, and where the curve itself does not.
    """
    if reached.share is None or reached.high is not None or reached.step is None:
        return ""
    return f"{100 * (1 - reached.share):.0f} %"


def reached_text(reached: Reached, failed: int = 0) -> str:
    """When a level was reached, in how many resamples it never was, and how many runs failed.

    >>> reached_text(Reached(12_000, 8_000, None, 0.9))
    '12,000 [8,000, never], not reached in 10 % of resamples'
    """
    share = never_reached_text(reached)
    text = step_text(reached) + (f", not reached in {share} of resamples" if share else "")
    if failed:
        are = "are" if failed > 1 else "is"
        text += f"; {formatting.runs(failed)}, which failed, {are} not in it"
    return text


def provenance(everything: Data, notes: Sequence[str] = ()) -> list[str]:
    """Paragraphs on which code and versions made the runs, followed by `notes`."""
    origins = everything.origins
    made_by = [
        f"- {formatting.runs(commits.total())}: {versions}; commit {', '.join(sorted(commits))}"
        for versions, commits in origins.items()
    ]
    found = ["\n".join(made_by) or "No run has begun."]
    if len(origins) > 1:
        found.append("Not all runs were made by the same code and versions.")
    for name, states in everything.changed_code.items():
        found.append(
            f"The code of {name} is not the same in all runs: there are {states} states of it, and "
            "some runs went on by `--anyway`."
        )
    return found + list(notes)


def _over_all_tasks(analysis: Analysis) -> list[str]:
    """Paragraphs on all tasks together, if there are several."""
    if len({panel.task for panel in analysis.group.panels}) < 2:
        return []
    overall, parts = analysis.overall, []
    if overall.left_out:
        parts.append(f"Left out of figures over all tasks: {_reasons(overall.left_out)}.")
    pairs = [pair.common for pair in analysis.pairs if pair.common.several]
    if pairs:
        lines = [f"- {_pair_text(pair, analysis.group.base)}" for pair in analysis.pairs]
        parts.append("\n".join(lines))
    else:
        needed = f"It takes {FEWEST_RUNS} finished runs of both sides on two tasks at least."
        parts.append(f"Nothing can be said over all tasks. {needed}")
    used = {panel for scores in (overall, *pairs) if scores.several for panel in scores.panels}
    by_source: dict[str, list[str]] = {}
    for panel, scale in analysis.scales.items():
        if panel in used:
            ends = f"{scale.low:g}, {scale.high:g}".replace("-", "−")
            by_source.setdefault(scale.source, []).append(f"{panel} ({ends})")
    lines = [f"- {source}: {', '.join(panels)}" for source, panels in by_source.items()]
    if lines:
        parts.append("Scores over all tasks are normalised, (0 is, 1 is):\n\n" + "\n".join(lines))
    return parts


def _pair_text(pair: Pair, base: str) -> str:
    """'“discover” − “gaussian”, all (2 of 3 tasks), normalised: …'"""
    what = f"{quoted(pair.label)} − {quoted(base)}, {pair.common.name}"
    without = f" Without {_reasons(pair.common.left_out)}." if pair.common.left_out else ""
    if pair.difference is None or pair.improvement is None or pair.area is None:
        return f"{what}: nothing can be said over all tasks.{without}"
    conclusion, on_area = (
        verdict(interval, pair.runs, pair.label, pair.failed)
        for interval in (pair.difference, pair.area)
    )
    return (
        f"{what}, normalised: {interval_text(pair.difference)}: {conclusion}; "
        f"{_above(pair.improvement, base)}. Area under the curve, normalised: "
        f"{interval_text(pair.area)}: {on_area}.{without}"
    )


def _above(probability: Interval, base: str) -> str:
    chance = probability_text(probability)
    return f"a run scores above one of {quoted(base)} with probability {chance}"


def _reasons(left_out: Mapping[str, str]) -> str:
    return "; ".join(f"{what} ({why})" for what, why in left_out.items())


def _efficiency(analysis: Analysis) -> list[str]:
    """Paragraphs on when the baseline's final score was reached, by the baseline itself first."""
    base, parts = quoted(analysis.group.base), []
    lines: list[str] = []
    averaged: set[int] = set()
    windows: set[int] = set()
    for panel in analysis.group.panels:
        rivals = [
            compared
            for compared in analysis.comparisons
            if compared.panel == panel.title and compared.reached
        ]
        if rivals:
            own = panel.lines[analysis.group.base]
            averaged.add(own.averaged)
            windows.add(own.window)
            steps = reached_text(analysis.own[panel.title], own.failed)
            lines.append(f"- {base} itself on {panel.title}: {steps}")
        for compared in rivals:
            assert compared.reached is not None
            steps = reached_text(compared.reached, compared.failed)
            lines.append(f"- {quoted(compared.label)} on {compared.panel}: {steps}")
    if lines:
        last = formatting.last_evaluations(sorted(averaged))
        window = " or ".join(map(str, sorted(windows)))
        smoothed = "" if window == "1" else f", smoothed over {window} evaluations,"
        parts.append(
            f"Steps until the IQM of runs{smoothed} first reaches that of the final scores of "
            f"{base}, which are means of the last {last}. "
            "Brackets: its 95 % bootstrap interval, runs of both sides resampled; never: not "
            "within a run's steps.\n\n" + "\n".join(lines)
        )
    few = [compared for compared in analysis.comparisons if compared.reached is None]
    if few:
        which = ", ".join(
            f"{quoted(compared.label)} on {compared.panel} "
            f"({compared.runs[0]} and {compared.runs[1]})"
            for compared in few
        )
        parts.append(
            f"Too few runs to say when the final score of {base} is reached; it takes "
            f"{FEWEST_RUNS} finished runs of both sides: {which}."
        )
    return parts
