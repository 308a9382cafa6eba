"""Amplitudes that may change over a run: a constant, or linear from one value to another.

strategy.sigma = 0.3                  0.3 all the time
strategy.sigma = linear:0.6:0.1:0.5   from 0.6 to 0.1 over the first half of the run, then 0.1
"""

from __future__ import annotations

import dataclasses
from typing import Any

from discover_rl.core.networks import namespace

TINY = 1e-12
"""The least share that is divided by."""


@dataclasses.dataclass(frozen=True, eq=False)
class Amplitude:
    """A number that is `start` when a run begins and `end` once a share of it lies behind.

    It is a pytree of three floats, so that lanes may differ in all of them. A constant equals the
    number that it is.

    >>> Amplitude(0.6, 0.1, 0.5).at(0.25), Amplitude.constant(0.3).at(0.9)
    (0.35, 0.3)
    >>> Amplitude.constant(0.3) == 0.3, str(Amplitude(0.6, 0.1, 0.5))
    (True, 'linear:0.6:0.1:0.5')
    """

    start: Any
    end: Any
    share: Any = 1.0
    """Of the run, after which it is at its end."""

    @classmethod
    def constant(cls, value: float) -> Amplitude:
        """The same number all the time."""
        return cls(value, value)

    def at(self, progress: Any) -> Any:
        """The number at a point of the run; `progress` is the share of it that lies behind."""
        share = self.share
        if not isinstance(share, float):  # the numbers of a lane that has failed are 0
            share = namespace(share).maximum(share, TINY)
        passed = progress / share
        if isinstance(passed, float):
            passed = min(passed, 1.0)
        else:
            passed = namespace(passed).minimum(passed, 1.0)
        return self.start + (self.end - self.start) * passed

    @property
    def _key(self) -> tuple[Any, Any, Any]:
        """What distinguishes it from others: the share of a constant makes no difference."""
        return self.start, self.end, 1.0 if self.start == self.end else self.share

    def to_json(self) -> float | str:
        """A constant as its number, anything else as the word that makes it."""
        return self.start if self.start == self.end else str(self)

    def __str__(self) -> str:
        if self.start == self.end:
            return f"{self.start}"  # with all digits: folders of swept runs are named by it
        return f"linear:{self.start}:{self.end}:{self.share}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, int | float):
            return self.start == other and self.end == other
        return isinstance(other, Amplitude) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self.start if self.start == self.end else self._key)
