"""Stop a run that has learned enough: the settings eval.stop_at and eval.patience.

Both depend only on the mean returns of the evaluations in the run's record since learning started.
So a run that was killed and resumed stops at the same step as an uninterrupted one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from discover_rl.config import Eval, Run
from discover_rl.storage import scores
from discover_rl.storage.records import Record


def may_stop(settings: Eval) -> bool:
    """Whether these settings may end a run early."""
    return settings.stop_at < math.inf or settings.patience > 0


def reason(run: Run, record: Record) -> str:
    """Say why a run stops after the last evaluation in its record; '' if it does not."""
    means = scores.means_since_learning(record)
    if not means:
        return ""
    if means[-1] >= run.eval.stop_at:
        return f"its mean return, {means[-1]:.1f}, has reached eval.stop_at"
    if run.eval.patience and len(means) - 1 - means.index(max(means)) >= run.eval.patience:
        return f"for eval.patience, {run.eval.patience}, no evaluation was better than the best"
    return ""


def to_stop(runs: Sequence[Run], records: Sequence[Record]) -> dict[int, str]:
    """Return which of these runs stop now, by their index, and why."""
    if not may_stop(runs[0].eval):
        return {}
    reasons = enumerate(map(reason, runs, records))
    return {lane: why for lane, why in reasons if why}
