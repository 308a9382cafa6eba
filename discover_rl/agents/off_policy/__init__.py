"""Agents that learn from a replay buffer on the device: DDPG, TD3 and SAC.

`step` has the order of acting, learning and storing in one environment step. `agent` makes such
steps one by one, `fused_loop` many in one program. `lane` has the functions of one lane, `schedule`
says which updates follow a step, and `transfer` and `packing` move data to the device and back.
`several_agent` and `several_lane` are for runs with several environments.
"""

from discover_rl.agents.off_policy.agent import OffPolicyAgent

__all__ = ["OffPolicyAgent"]
