"""The outcome of a run, read from its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from discover_rl.core.types import UserError
from discover_rl.storage import scores
from discover_rl.storage.critics import Critic, load_critic
from discover_rl.storage.policies import Policy, load_policy
from discover_rl.storage.records import Record, record_paths
from discover_rl.system.paths import a_folder
from discover_rl.system.text import printable


@dataclass(frozen=True)
class Result:
    """One run's outcome."""

    path: Path
    """Its folder: the record, the policies, the critic."""
    run: dict[str, Any]
    """The run, fully resolved: task, algorithm, strategy, steps, seed, settings."""
    steps: list[int]
    """The steps at which it was evaluated."""
    returns: list[list[float]]
    """The returns of each evaluation, one for each episode."""
    failure: Mapping[str, Any] | None = None
    """The event by which it failed, if it did."""
    reason: str = ""
    """Why it failed or ended early, in words; else ''."""
    score_last: int = 0
    """The setting score.last: how many evaluations its score is the mean of; 0: by the rule."""

    def __repr__(self) -> str:
        """The run and its outcome, in one line."""
        run = self.run
        named = " ".join(str(run[name]) for name in ("task", "algorithm", "strategy"))
        ended = f"failed: {self.reason}" if self.failure else f"score {self.score():.4g}"
        at = f"{self.steps[-1]:,}" if self.steps else "no"
        line = f"Result({named} seed {run['seed']}: {ended} after {at} steps, in {self.path})"
        return printable(line)

    def counted(self, last: int | None = None) -> list[int]:
        """Indices of the evaluations that its score is the mean of; `storage.scores` has the rule.

        Args:
            last: how many; None: as its setting score.last says; 0: by the rule.
        """
        chosen = self.score_last if last is None else last
        return scores.counted(self.steps, scores.first_step(self.run), chosen)

    def score(self, last: int | None = None) -> float:
        """Mean return of the evaluations that count; NaN if there is none.

        Args:
            last: how many; None: as its setting score.last says; 0: by the rule.
        """
        ends = [scores.mean(self.returns[i]) for i in self.counted(last)]
        return scores.mean(ends) if ends else float("nan")

    def policy(self, best: bool = False) -> Policy:
        """Load the trained policy: the last one, or the one that was best in an evaluation."""
        return load_policy(self.path, best)

    @cached_property
    def critic(self) -> Critic:
        """The trained critic: critic(obs, action) off-policy, critic(obs) on-policy."""
        return load_critic(self.path)


def load_run(path: str | Path) -> Result:
    """Read the outcome of a run. JAX is not imported.

    Args:
        path: the folder of the run, or one with no other run in it.

    Raises:
        UserError: there is no record, there are several, or it cannot be read.

    Examples:
        >>> run = load_run("runs/Pendulum-v1-td3-discover/seed-0")  # doctest: +SKIP
        >>> action, _ = run.policy(best=True).predict([1.0, 0.0, 0.0])  # doctest: +SKIP
        >>> value = run.critic([1.0, 0.0, 0.0], action)  # doctest: +SKIP
    """
    found = record_paths(a_folder(path))
    if len(found) != 1:
        names = ", ".join(str(file.parent) for file in found)
        problem = f"holds several runs; name one of {names}" if found else "holds no run"
        raise UserError(f"{path} {problem}.")
    record = Record(found[0])
    if record.header is None:
        raise UserError(f"{found[0]} is empty: its run has not begun.")
    return read(record)


def read(record: Record, last: int | None = None) -> Result:
    """Return the result of a run from its record, which must have a header.

    Args:
        record: of the run.
        last: the setting score.last, if it has changed since the run began.
    """
    assert record.header is not None
    return Result(
        path=record.path.parent,
        run=record.header["run"],
        steps=[line["step"] for line in record.evaluations],
        returns=[line["returns"] for line in record.evaluations],
        failure=record.failure,
        reason=record.contents.reason,
        score_last=record.header.get("score.last", 0) if last is None else last,
    )
