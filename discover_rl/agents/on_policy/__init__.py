"""Agents that learn from rollouts of their present policy: A2C and PPO.

`agent` acts on the host and learns by a compiled program. `rollout_buffer` holds the steps of
rollouts, `noise` their random numbers, `memories` the strategy's memories of episodes, and
`metrics` measures what was learned.
"""

from discover_rl.agents.on_policy.agent import OnPolicyAgent

__all__ = ["OnPolicyAgent"]
