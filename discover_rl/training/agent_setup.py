"""Say what the agent of a cohort is built from."""

from __future__ import annotations

from discover_rl.agents.interface import AgentSetup
from discover_rl.config import Run
from discover_rl.core.types import Spec


def setup_of(run: Run, spec: Spec, metrics_every: int) -> AgentSetup:
    """Return what the agent of a cohort is built from.

    Args:
        run: any of the cohort's; they share all of this.
        spec: the spaces of their task.
        metrics_every: the steps between metrics of training.
    """
    return AgentSetup(
        spec=spec,
        algorithm=run.algorithm,
        hyper=run.hyper,
        strategy=run.strategy,
        strategy_hyper=run.strategy_hyper,
        steps=run.steps,
        environments=run.env.count,
        precision=run.compute.precision,
        transitions=run.start.transitions,
        metrics_every=metrics_every if metrics_every <= run.steps else 0,
    )
