"""Where cohorts are trained: `local`, in processes of this machine; `ray`, on a cluster.

An engine has one function, `run(jobs, hear, stopping, …)`: it trains the cohorts, as many at once
as there are places for, tells of what happens in which of them, and returns what became of each:
None, or why it did not come to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Hear = Callable[[int, str, tuple[Any, ...]], None]
"""Is told the job's number, an observer's method and what to call it with."""
Outcome = Exception | None
