"""What lies on disk, and what is read from it.

    <out>/
      <run>/record.jsonl         the run with all its settings; its evaluations and events (records)
      <run>/policy.*             the trained policy                                       (policies)
      <run>/policy-best.*        the one that was best in an evaluation                   (policies)
      <run>/critic.*             the trained critic, once the run has ended                (critics)
      <run>/replay.safetensors   with compute.keep_replay: its transitions           (replay_export)
      <run>/checkpoint/          with compute.keep_checkpoint: its last one       (kept_checkpoints)
      <run>/last-good/           of a run that diverged: its part of the last checkpoint before
      checkpoint-<step>/         all it takes to go on, until the cohort is done       (checkpoints)
      replay/<run>/              the replay buffers' contents, in segments             (checkpoints)
      .lock                      one process at a time works in a folder                     (files)

`results` is what a run came to, read from its record. `network_files` writes and reads policies and
critics. `schemas` has the shapes of what is read, and the reader that checks them. No pickle is
among them.
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
