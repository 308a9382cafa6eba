"""Agents: an algorithm with a strategy, for all lanes of a cohort at once.

`interface` says what an agent is to the training loop, `build` makes one. `off_policy/` learns from
a replay buffer on the device (DDPG, TD3, SAC), `on_policy/` from rollouts gathered on the host
(A2C, PPO).
"""

from discover_rl.agents.build import build_agent, build_algorithm
from discover_rl.agents.interface import Agent, AgentSetup

__all__ = ["Agent", "AgentSetup", "build_agent", "build_algorithm"]
