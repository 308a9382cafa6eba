"""Which states two runs visited: how many, whether the same ones, and a map of them.

`states` reads what a run kept, `coverage` measures how much of it two runs share, `maps` puts it on
a plane, `figure` draws that.

The map is the paper's: principal components of each run's states, then one t-SNE of both runs. It
is for looking at. The numbers do not come from it, because t-SNE keeps neither distances nor
densities, and because states on the principal axes of one run cannot be compared with states on
another's.
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
