"""A study's conclusion: what its comparisons allow to claim, in a few sentences."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from discover_rl.report import comparisons
from discover_rl.report.comparisons import Analysis, Comparison
from discover_rl.report.data import FEWEST_RUNS
from discover_rl.report.formatting import quoted

MOST = 3
"""How many tasks, and how many lines, are named one by one."""
MEASURES: dict[str, Callable[[Comparison], int]] = {
    "Final scores": lambda compared: compared.claim,
    "Areas under the curve": lambda compared: compared.area_claim,
}
"""The wording of a claim, by what is compared."""


def sentences(analyses: Sequence[Analysis]) -> list[str]:
    """Say what can be claimed, in a sentence or two for each group with comparisons."""
    return [text for analysis in analyses if (text := _conclusion(analysis))]


def _conclusion(analysis: Analysis) -> str:
    group, able = analysis.group, [it for it in analysis.comparisons if it.claimable]
    if not group.rivals:
        return ""
    head = f"{group.title}, against {quoted(group.base)}"
    if not able:
        return (
            f"{head}: nothing can be claimed yet. It takes {FEWEST_RUNS} finished runs of both "
            "sides, and none that failed."
        )
    parts = [f"{name}: {_claims(able, claim)}." for name, claim in MEASURES.items()]
    if both := _over_all_tasks(analysis):
        parts.append(both)
    return f"{head}. {' '.join(parts)}"


def _claims(able: Sequence[Comparison], claim: Callable[[Comparison], int]) -> str:
    """Say what one measure supports: '“a” is better on X; no difference … in the other 2'."""
    said = []
    for sign, word in ((1, "better"), (-1, "worse")):
        panels: dict[str, list[str]] = {}
        for compared in able:
            if claim(compared) == sign:
                panels.setdefault(compared.label, []).append(compared.panel)
        alike: dict[str, list[str]] = {}  # lines of which the same is said
        for label, where in panels.items():
            alike.setdefault(_tasks(where), []).append(label)
        said += [f"{_named(labels)} {word} on {where}" for where, labels in alike.items()]
    if not said:
        return f"no difference can be claimed in any of {_many(len(able))}"
    if left := sum(not claim(compared) for compared in able):
        said.append(f"no difference can be claimed in {left} of {_many(len(able))}")
    return "; ".join(said)


def _over_all_tasks(analysis: Analysis) -> str:
    pairs = [it for it in analysis.pairs if it.difference is not None]
    if not pairs:
        return ""
    found = []
    for sign, word in ((1, "better"), (-1, "worse")):
        lines = [
            it.label for it in pairs if comparisons.claim(it.difference, it.runs, it.failed) == sign
        ]
        if lines:
            found.append(f"{_named(lines)} {word}")
    return f"Over all tasks: {'; '.join(found) or 'no difference can be claimed'}."


def _tasks(panels: Sequence[str]) -> str:
    return f"{len(panels)} tasks" if len(panels) > MOST else _listed(panels)


def _named(labels: Sequence[str]) -> str:
    """'“a” is', '“a” and “b” are', '“a”, “b”, “c” and 2 more are'; a fourth is named, too."""
    names = [*map(quoted, labels)]
    if len(labels) > MOST + 1:
        names[MOST:] = [f"{len(labels) - MOST} more"]
    return f"{_listed(names)} {'is' if len(labels) == 1 else 'are'}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))


def _many(count: int) -> str:
    return f"{count} comparison{'s' * (count != 1)}"
