"""What came of a run, read off its record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from discover_rl.policy import Policy, load_policy
from discover_rl.store import Record


@dataclass(frozen=True)
class Result:
    """One run's outcome."""

    path: Path
    """Its folder: record.jsonl, policy.safetensors, policy.json."""
    run: dict[str, Any]
    """The run, fully resolved: task, algorithm, strategy, steps, seed, settings."""
    steps: list[int]
    """When it was evaluated."""
    returns: list[list[float]]
    """What it scored then, episode by episode."""
    failure: dict[str, Any] | None = None
    """What ended it early, if anything did."""
    reason: str = ""
    """That, in words."""

    def score(self, last: int = 10) -> float:
        """Mean return of the last evaluations; the paper takes ten."""
        ends = [sum(returns) / len(returns) for returns in self.returns[-last:]]
        return sum(ends) / len(ends) if ends else float("nan")

    def policy(self) -> Policy:
        return load_policy(self.path)


def read(record: Record) -> Result:
    assert record.header is not None
    return Result(
        path=record.path.parent,
        run=record.header["run"],
        steps=[line["step"] for line in record.evaluations],
        returns=[line["returns"] for line in record.evaluations],
        failure=record.failure,
        reason=record.glance.reason,
    )
