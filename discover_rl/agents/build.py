"""Make an algorithm with a strategy in it, and the agent that runs it."""

from __future__ import annotations

from discover_rl import algorithms, strategies
from discover_rl.agents.interface import Agent, AgentSetup
from discover_rl.algorithms import OffPolicyAlgorithm, OnPolicyAlgorithm
from discover_rl.strategies.interface import Strategy


def build_algorithm(
    setup: AgentSetup,
) -> tuple[OffPolicyAlgorithm | OnPolicyAlgorithm, Strategy]:
    """Build the algorithm and the strategy that `setup` names.

    Returns:
        The algorithm, with the strategy built in, and the strategy itself.
    """
    module = algorithms.load(setup.algorithm)
    blueprint = module.blueprint(setup.spec, setup.hyper)
    made = strategies.load(setup.strategy).make(setup.spec, setup.strategy_hyper, blueprint)
    return module.make(setup.spec, setup.hyper, made), made


def build_agent(setup: AgentSetup) -> Agent:
    """Build the agent of the family that the algorithm belongs to, off-policy or on-policy."""
    if setup.hyper.on_policy:
        from discover_rl.agents.on_policy.agent import OnPolicyAgent

        return OnPolicyAgent(setup)
    if setup.environments > 1:
        from discover_rl.agents.off_policy.several_agent import SeveralAgent

        return SeveralAgent(setup)
    from discover_rl.agents.off_policy.agent import OffPolicyAgent

    return OffPolicyAgent(setup)
