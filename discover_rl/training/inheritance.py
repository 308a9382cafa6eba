"""The initial state of runs that start from another run (a warm start).

Networks, targets, optimisers, running statistics, the replay buffer and the strategy's learned
state are those of the other run. Hyper-parameters, random numbers, episodes, rollouts and the count
of steps are new.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from discover_rl.agents.interface import Agent
from discover_rl.config import Start
from discover_rl.core.hyperparameters import with_hyper_of
from discover_rl.core.types import UserError
from discover_rl.storage import kept_checkpoints

LEARNED = ("learner", "obs_stats", "return_stats")
"""The entries of an agent's state that are taken over; the last two exist only on-policy."""


def inherited(agent: Agent, fresh: Any, start: Start) -> Any:
    """The state of lanes that start from a run.

    Args:
        agent: of these lanes.
        fresh: the state as `agent.init` has made it, lanes in front.
        start: the run.

    Raises:
        UserError: that run is gone, has changed, or does not fit.
    """
    folder = Path(start.run)
    if kept_checkpoints.kept(folder) is None:
        raise UserError(f"{folder} is gone, or its checkpoint, and these runs start from that.")
    if kept_checkpoints.checksum(folder) != start.checksum:
        raise UserError(f"{folder} has changed since these runs were asked to start from it.")
    ours = {name: getattr(fresh, name) for name in LEARNED if hasattr(fresh, name)}
    theirs = kept_checkpoints.load(folder, ours)
    own = agent.strategy.inherit(ours["learner"].strategy, theirs["learner"].strategy)
    learner = with_hyper_of(ours["learner"], theirs["learner"])._replace(strategy=own)
    state = fresh._replace(**theirs | {"learner": learner})
    if start.transitions:
        state = state._replace(replay=kept_checkpoints.load_replay(folder, state.replay))
    return agent.place(state)


def in_words(start: Start) -> str:
    """Describe what a run starts with, for observers."""
    taken = f" and {start.transitions:,} transitions" if start.transitions else ""
    return f"starts with the networks{taken} of {start.run} at step {start.step:,}"
