"""Make an algorithm with a strategy in it, and the agent that runs it."""

from __future__ import annotations

from typing import Any

from discover_rl import algorithms, strategies
from discover_rl.agents.interface import Agent, AgentSetup
from discover_rl.strategies.interface import Strategy


def build_algorithm(setup: AgentSetup) -> tuple[Any, Strategy]:
    """The algorithm that `setup` names, with the strategy that it names built in, and the
    latter."""
    module = algorithms.load(setup.algorithm)
    blueprint = module.blueprint(setup.spec, setup.hyper)
    made = strategies.load(setup.strategy).make(setup.spec, setup.strategy_hyper, blueprint)
    return module.make(setup.spec, setup.hyper, made), made


def build_agent(setup: AgentSetup) -> Agent:
    """The agent of the family that the algorithm belongs to."""
    if setup.hyper.on_policy:
        from discover_rl.agents.on_policy.agent import OnPolicyAgent

        return OnPolicyAgent(setup)
    from discover_rl.agents.off_policy.agent import OffPolicyAgent

    return OffPolicyAgent(setup)
