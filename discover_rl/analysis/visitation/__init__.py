"""Which states two runs visited: how many, whether the same ones, and a map of them.

`states` reads the replay buffer that a run kept, `coverage` measures how much of the state space
two runs share, `maps` puts states on a plane, and `figure` draws the map.

The map is the paper's: principal components of each run's states, then one t-SNE of both runs. It
is for looking at. The numbers do not come from it: t-SNE keeps neither distances nor densities, and
each run has principal axes of its own.
"""

from discover_rl.analysis.visitation.coverage import AXES, CUBE, SPLITS, measure
from discover_rl.analysis.visitation.states import (
    STAGES,
    VisitedStates,
    check_same_task,
    load,
    stage_of,
)

__all__ = [
    "AXES",
    "CUBE",
    "SPLITS",
    "STAGES",
    "VisitedStates",
    "check_same_task",
    "load",
    "measure",
    "stage_of",
]
