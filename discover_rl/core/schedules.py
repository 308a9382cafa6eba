"""Amplitudes that may change over a run: a constant, or linear from one value to another.

strategy.sigma = 0.3                  0.3 all the time
strategy.sigma = linear:0.6:0.1:0.5   from 0.6 to 0.1 over the first half of the run, then 0.1
"""

from __future__ import annotations

import dataclasses
from typing import Any

from discover_rl.core.networks import namespace

TINY = 1e-12
"""The smallest number that `progress` is divided by: a smaller share is replaced by it."""


@dataclasses.dataclass(frozen=True, eq=False)
class Amplitude:
    """A number that goes linearly from `start` to `end` over the first `share` of a run.

    It is a pytree of three floats, so lanes may differ in each of them. A constant amplitude
    compares equal to its number.

    >>> Amplitude(0.6, 0.1, 0.5).at(0.25), Amplitude.constant(0.3).at(0.9)
    (0.35, 0.3)
    >>> Amplitude.constant(0.3) == 0.3, str(Amplitude(0.6, 0.1, 0.5))
    (True, 'linear:0.6:0.1:0.5')
    """

    start: Any
    end: Any
    share: Any = 1.0
    """The share of the run after which the number is `end`."""

    @classmethod
    def constant(cls, value: float) -> Amplitude:
        """Return the amplitude that is the same number all the time."""
        return cls(value, value)

    def at(self, progress: Any) -> Any:
        """Return the number at `progress`, the share of the run that is done."""
        share = self.share
        if not isinstance(share, float):  # a lane that has failed is all zeros
            share = namespace(share).maximum(share, TINY)
        passed = progress / share
        if isinstance(passed, float):
            passed = min(passed, 1.0)
        else:
            passed = namespace(passed).minimum(passed, 1.0)
        return self.start + (self.end - self.start) * passed

    @property
    def _key(self) -> tuple[Any, Any, Any]:
        """Return what equality compares: of a constant, the share makes no difference."""
        return self.start, self.end, 1.0 if self.start == self.end else self.share

    def to_json(self) -> float | str:
        """Return the number of a constant, or the string that is parsed to this amplitude."""
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


class Settled(Amplitude):
    """An amplitude at one moment: its number, whatever the progress. It is no pytree.

    >>> Settled(0.35, 0.35).at(0.9)
    0.35
    """

    def at(self, progress: Any) -> Any:
        """Return the number."""
        del progress
        return self.start


def settled(tree: Any, progress: Any) -> Any:
    """Return a pytree with every amplitude in it as it is at `progress`, computed once."""
    import jax  # here, because saved policies do without JAX

    def each(leaf: Any) -> Any:
        if not isinstance(leaf, Amplitude):
            return leaf
        number = leaf.at(progress)
        return Settled(number, number)

    return jax.tree.map(each, tree, is_leaf=lambda leaf: isinstance(leaf, Amplitude))
