"""Environments: tasks by their id, and vectors of environments that the lanes of a cohort act in.

`tasks` makes single Gymnasium environments, `objects` those that have no id, `rewards` changes what
they pay, `rendering` draws them. `vector` says what a vector of environments is; `gymnasium_vector`
and `envpool_vector` are the two backends. `envpool_xla` lets a compiled program step EnvPool's
environments itself. Only `vector` is re-exported here: the others import Gymnasium or JAX.
"""

from discover_rl.envs.vector import Episode, Episodes, StepLog, VectorEnv

__all__ = ["Episode", "Episodes", "StepLog", "VectorEnv"]
