"""Theorem 1 of the DISCOVER paper in tables: how many actions each kind of exploration needs.

`tasks` has small tasks with known values, `agents` the kinds of exploration, `learning` Q-learning
and the count of actions until the policy is optimal, `measurement` growth with the number of
states, with intervals. `report` puts what was measured into tables and words, `figure` draws it.
"""

from discover_rl.analysis.theory import figure, report
from discover_rl.analysis.theory.agents import AGENTS, VARIANTS, Value
from discover_rl.analysis.theory.learning import Agent, Policy, Table, count
from discover_rl.analysis.theory.measurement import (
    SIZES,
    Cell,
    Growth,
    Measured,
    growth,
    measure,
    numbers,
    ratio,
)
from discover_rl.analysis.theory.tasks import TASKS, Outcome, Task

__all__ = [
    "AGENTS",
    "SIZES",
    "TASKS",
    "VARIANTS",
    "Agent",
    "Cell",
    "Growth",
    "Measured",
    "Outcome",
    "Policy",
    "Table",
    "Task",
    "Value",
    "count",
    "figure",
    "growth",
    "measure",
    "numbers",
    "ratio",
    "report",
]
