"""A run's score: the mean return of its last evaluations, and which evaluations these are.

Of 50 evaluations or more, the last ten count, as in the paper. Of fewer, the last tenth counts, but
at least one. The setting `score.last` chooses another number. Evaluations before learning starts,
the one at step 0 among them, do not count: they would mix the untrained policy into the score of a
short run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from discover_rl.config import Run, current_names
from discover_rl.storage.records import Record

MOST = 10
"""How many evaluations count in a run that has `ENOUGH` of them."""
ENOUGH = 50
"""From this many evaluations on, the last `MOST` of them count."""


def first_step(run: Mapping[str, Any]) -> int:
    """The first step at which something has been learned.

    Off-policy, the first one after the warm-up; on-policy, that of the first full rollout.

    Args:
        run: the run as its record has it; settings that it lacks count as 0.

    >>> first_step({"settings": {"warmup": 1000}}), first_step({"settings": {"horizon": 2048}})
    (1001, 2048)
    """
    settings = current_names(run.get("settings", {}))
    if "horizon" in settings:
        return max(1, settings["horizon"] * settings.get("env.count", 1))
    return settings.get("warmup", 0) + 1


def how_many(evaluations: int, last: int = 0) -> int:
    """Return how many evaluations at the end of a run count, if learning started before them.

    Args:
        evaluations: how many the run has, all of them.
        last: the setting `score.last`; 0: by the rule.

    >>> [how_many(count) for count in (1, 9, 29, 49, 50, 1001)]
    [1, 1, 2, 4, 10, 10]
    """
    return last or (MOST if evaluations >= ENOUGH else max(1, evaluations // 10))


def counted(steps: Sequence[int], first: int, last: int = 0) -> list[int]:
    """Indices of the evaluations that a run's score is the mean of.

    Args:
        steps: of all evaluations, in order.
        first: see `first_step`.
        last: the setting `score.last`; 0: by the rule.

    Returns:
        At most `how_many`. If the run ends before learning starts, the last evaluation; none, if
        the only one is at step 0.

    >>> counted([0, 1000, 2000, 3000], first=1001, last=3), counted([0, 500], 1001), counted([0], 1)
    ([2, 3], [1], [])
    """
    after = [i for i, step in enumerate(steps) if step >= max(1, first)]
    if not after:
        return [len(steps) - 1] if any(steps) else []
    return after[-how_many(len(steps), last) :]


def mean(returns: Sequence[float]) -> float:
    """The mean return of an evaluation's episodes."""
    return sum(returns) / len(returns)


def means_since_learning(record: Record) -> list[float]:
    """The mean return of every evaluation in a record since learning started, in order."""
    assert record.header is not None
    first = first_step(record.header["run"])
    return [mean(line["returns"]) for line in record.evaluations if line["step"] >= first]


def is_best(record: Record, step: int, returns: Sequence[float]) -> bool:
    """Whether an evaluation is better than all that a record has since learning started.

    Args:
        record: of the run, without this evaluation or what came after it.
        step: at which it was evaluated; before learning starts nothing is best.
        returns: what it scored.
    """
    assert record.header is not None
    before = max(means_since_learning(record), default=float("-inf"))
    return step >= first_step(record.header["run"]) and mean(returns) > before


def planned(run: Run) -> int:
    """How many evaluations the score of a run will be the mean of, when it is done."""
    steps = [*range(0, run.steps, run.eval.every), run.steps]
    return len(counted(steps, first_step(run.to_json()), run.score.last))


def in_words(count: int) -> str:
    """Say what a score is the mean of.

    >>> in_words(1), in_words(10)
    ('last evaluation', 'mean of last 10 evaluations')
    """
    return "last evaluation" if count == 1 else f"mean of last {count} evaluations"
