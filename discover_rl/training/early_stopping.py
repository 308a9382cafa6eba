"""When a run has learned enough: the settings eval.stop_at and eval.patience.

Both look at the mean returns of the evaluations in the run's record since learning started, and at
nothing else. So a run that was killed and resumed stops where the uninterrupted one does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from discover_rl.config import Eval, Run
from discover_rl.storage import scores
from discover_rl.storage.records import Record


def may_stop(settings: Eval) -> bool:
    """Whether runs with these settings may end early by them."""
    return settings.stop_at < math.inf or settings.patience > 0


def reason(run: Run, record: Record) -> str:
    """Why a run is to stop after the last evaluation in its record, in words; '' if it is not."""
    means = scores.means_since_learning(record)
    if not means:
        return ""
    if means[-1] >= run.eval.stop_at:
        return f"its mean return, {means[-1]:.1f}, has reached eval.stop_at"
    if run.eval.patience and len(means) - 1 - means.index(max(means)) >= run.eval.patience:
        return f"for eval.patience, {run.eval.patience}, no evaluation was better than the best"
    return ""


def to_stop(runs: Sequence[Run], records: Sequence[Record]) -> dict[int, str]:
    """Which of these runs are to stop by their settings, by their places in the list, and why."""
    if not may_stop(runs[0].eval):
        return {}
    reasons = enumerate(map(reason, runs, records))
    return {lane: why for lane, why in reasons if why}
