"""Files: what a run leaves on disk, and the functions that write and read it.

    <out>/
      <run>/record.jsonl         the run with all its settings; its evaluations and events (records)
      <run>/policy.*             the trained policy                                       (policies)
      <run>/policy-best.*        the one that was best in an evaluation                   (policies)
      <run>/critic.*             the trained critic, once the run has ended                (critics)
      <run>/replay.safetensors   with compute.keep_replay: its transitions           (replay_export)
      <run>/checkpoint/          its last one once it has ended, or while it is left at a step, to
                                 continue later                                   (kept_checkpoints)
      <run>/last-good/           of a run that diverged: its part of the last checkpoint before
      checkpoint-<step>/         all it takes to go on, until the cohort is done       (checkpoints)
      replay/<run>/              the replay buffers' contents, in segments         (replay_segments)
      .lock                      one process at a time works in a folder                     (files)

`results` gives the outcome of a run, from its record, and `scores` its score. `network_files`
writes and reads policies and critics. `manifests` checks the file that names all others of a
checkpoint, `lane_arrays` names the arrays of a lane, and `replay_refill` fills the replay buffers
of runs that start from another. `schemas` declares the shapes of files and checks them on reading,
and `array_files` reads arrays. Nothing is a pickle.
"""

from discover_rl.storage.critics import Critic
from discover_rl.storage.policies import Policy, find_policies, load_policy
from discover_rl.storage.records import Contents, Record, record_path
from discover_rl.storage.results import Result, load_run

__all__ = [
    "Contents",
    "Critic",
    "Policy",
    "Record",
    "Result",
    "find_policies",
    "load_policy",
    "load_run",
    "record_path",
]
