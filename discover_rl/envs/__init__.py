"""Environments: tasks by their id, and vectors of environments that the lanes of a cohort act in.

Tasks: `tasks` makes single Gymnasium environments, and `objects` those that have no id. `settings`
has the settings by which they are made, `space_rules` says which spaces can be trained on,
`versions` completes ids, `catalogue` lists the tasks that EnvPool has, `sparse` adds sparse ones,
`dm_control_tasks` brings dm_control's, `rewards` has wrappers that change rewards, `footprint` says
what environments take of memory, and `rendering` draws. `source` hashes the code of a user's own
task, strategy or algorithm, which `own_code` collects; `changing` finds the variables that this
code itself changes.

Vectors: `vector` is the interface; `gymnasium_vector` and `envpool_vector` are the two backends,
the latter on the pools of `envpool_pool`, and `backends` makes either. `envpool_xla` lets a
compiled program step EnvPool's environments itself. `observations` flattens observations, and
`answers` checks what environments return. Only `vector` is re-exported here: the others import
Gymnasium or JAX.
"""

from discover_rl.envs.vector import Episode, Episodes, StepLog, VectorEnv

__all__ = ["Episode", "Episodes", "StepLog", "VectorEnv"]
