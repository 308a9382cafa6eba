"""The interface between the training loop and an agent, and the data to build an agent from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from discover_rl.core.finite import Divergence
from discover_rl.core.types import Array, CriticHead, Net, PolicyHead, Spec
from discover_rl.envs.vector import VectorEnv
from discover_rl.strategies.interface import Strategy

AgentState = Any
"""Everything in a cohort that training changes: a pytree of arrays with lanes in front."""


@dataclass(frozen=True)
class AgentSetup:
    """Everything that `build_agent` needs."""

    spec: Spec
    algorithm: str
    hyper: Any
    """The algorithm's hyper-parameters. Only the static ones are used; `init` gets the floats."""
    strategy: str
    strategy_hyper: Any
    """The strategy's hyper-parameters, likewise."""
    steps: int
    """Environment steps of a run."""
    environments: int = 1
    """Environments of each lane."""
    precision: str = "float32"
    """The precision of matrix products on a GPU."""
    transitions: int = 0
    """Transitions of another run with which the replay buffer starts, for a warm start."""
    metrics_every: int = 0
    """Environment steps between two calls of `Agent.metrics`; 0: it is never called."""


class Agent(Protocol):
    """Acts and learns for all lanes of a cohort. All states have lanes in front."""

    @property
    def head(self) -> PolicyHead:
        """How the networks of `nets` become actions."""
        ...

    @property
    def strategy(self) -> Strategy:
        """The strategy by which it explores."""
        ...

    def init(self, seeds: np.ndarray, hyper: Any, strategy_hyper: Any, /) -> AgentState:
        """Return the state of new lanes.

        Args:
            seeds: (lanes,) of the runs.
            hyper: the algorithm's hyper-parameters; floats are (lanes,).
            strategy_hyper: the strategy's, likewise.
        """
        ...

    def like(self, seeds: np.ndarray, hyper: Any, strategy_hyper: Any, /) -> AgentState:
        """Return the shapes and dtypes of the state that `init` makes of the same arguments,
        without computing it."""
        ...

    def place(self, state: AgentState, /) -> AgentState:
        """Put a state that was read from disk where the agent needs it: on the device or host."""
        ...

    def enter(
        self, state: AgentState, obs: np.ndarray, fresh: np.ndarray, step: Any, /
    ) -> AgentState:
        """Start episodes, and choose their first actions.

        Args:
            state: of all lanes.
            obs: (environments, observation) where they start; environments of all lanes, those of
                a lane one after the other.
            fresh: (environments,) in which of them an episode starts.
            step: environment steps made so far.

        Returns:
            The new state.
        """
        ...

    def prepare(self, state: AgentState, vector: VectorEnv, step: int, /) -> None:
        """Compile the programs that the next steps need, several at a time.

        Args:
            state: of all lanes.
            vector: the environments of all lanes.
            step: environment steps made so far.
        """
        ...

    def advance(
        self, state: AgentState, vector: VectorEnv, alive: np.ndarray, step: int, until: int, /
    ) -> tuple[AgentState, int, list[Divergence]]:
        """Continue to act and learn, at most up to step `until`.

        It returns after some steps, so that the caller can look at the clock.

        Args:
            state: of all lanes.
            vector: the environments of all lanes.
            alive: (lanes,) which lanes are trained.
            step: environment steps made so far.
            until: the step to stop at.

        Returns:
            The new state, the step that was reached, and the lanes that diverged on the way.
        """
        ...

    def nets(self, state: AgentState, /) -> Net:
        """The networks that evaluation uses, on the host, lanes in front."""
        ...

    def critics(self, state: AgentState, /) -> Net:
        """The critics' networks, on the host, lanes in front."""
        ...

    @property
    def critic_head(self) -> CriticHead:
        """Which inputs the networks of `critics` take."""
        ...

    def report(self, state: AgentState, step: Any, /) -> dict[str, Array]:
        """Return diagnostics of `state` after `step` steps, by name, (lanes,) each."""
        ...

    def metrics(self, state: AgentState, step: int, /) -> dict[str, Array]:
        """Return metrics of training, the diagnostics among them, as `report` does.

        `AgentSetup.metrics_every` says when they are due.
        """
        ...
