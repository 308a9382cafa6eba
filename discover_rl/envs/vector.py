"""The interface of a vector of environments, which both backends implement.

Every episode starts from a seed of its own, made from the run's seed and the episode's number. So
an episode can be repeated from two numbers and the actions since its start. That is how a run is
resumed exactly: `restore` repeats the actions and compares a digest of all that was observed.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from discover_rl.core.types import Spec, Transition
from discover_rl.envs.settings import PLAIN, Making


def episode_seed(seed: int, episode: int, number: int = 0) -> int:
    """The seed of one episode, unrelated to those of its neighbours.

    Args:
        seed: of the run.
        episode: its number in its environment, from 0 on.
        number: of the environment in its run.
    """
    entropy = [seed, episode, number] if number else [seed, episode]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0])


class EndedEpisodes(NamedTuple):
    """Training episodes that have ended: how many, and the sums of their returns and lengths."""

    number: int = 0
    returns: float = 0.0
    lengths: int = 0

    def plus(self, other: EndedEpisodes) -> EndedEpisodes:
        """Return the sum of these and others."""
        return EndedEpisodes(
            self.number + other.number,
            self.returns + other.returns,
            self.lengths + other.lengths,
        )


class Episode(NamedTuple):
    """Everything that is needed to repeat an episode up to now."""

    number: int
    actions: np.ndarray  # (steps, action) since its start
    digest: int  # of every observation and reward since its start
    before: EndedEpisodes = EndedEpisodes()  # which `take_ended` has not returned yet


class StepLog(NamedTuple):
    """The steps that a fused loop made in the environments."""

    executed: np.ndarray  # (steps, lanes, action)
    obs: np.ndarray  # (steps, lanes, observation) what it led to, in double precision
    reward: np.ndarray  # (steps, lanes)
    ended: np.ndarray  # (steps, lanes)


class VectorEnv(abc.ABC):
    """Environments of several lanes, `count` of each; in arrays those of a lane are adjacent.

    Where an episode ends, the next one starts at once. An environment that raises an error is not
    stepped again and answers NaN; other lanes are not affected.
    """

    spec: Spec
    obs: np.ndarray
    """(environments, observation) the present observation of each environment."""
    xla: Any = None
    """How a compiled program steps these environments itself (`EnvPoolXla`); None: it cannot."""

    def __init__(
        self,
        task: str,
        seeds: Sequence[int],
        reward_delay: int = 1,
        limit_terminates: bool = False,
        count: int = 1,
        making: Making = PLAIN,
    ):
        """Make environments of a task, `count` for each of the runs' seeds.

        Args:
            task: the task's id.
            seeds: of the runs, one per lane.
            reward_delay: steps over which rewards are summed before they are paid.
            limit_terminates: whether reaching the time limit counts as a termination.
            count: environments of each lane.
            making: how the environments are made.
        """
        self.making = making
        self.task, self.seeds, self.count = task, tuple(seeds), count
        self.reward_delay, self.limit_terminates = reward_delay, limit_terminates
        self.crashes: dict[int, str] = {}  # what environments raised, by their number
        self._ended = [EndedEpisodes()] * (len(self.seeds) * count)  # of each environment

    def crash(self, lane: int) -> str:
        """Describe the first error that a lane's environments raised; '' if there was none."""
        mine = range(lane * self.count, (lane + 1) * self.count)
        return next((self.crashes[env] for env in mine if env in self.crashes), "")

    def seed(self, env: int, episode: int) -> int:
        """The seed of an environment's episode."""
        lane, number = divmod(env, self.count)
        return episode_seed(self.seeds[lane], episode, number)

    def is_termination(self, terminated: Any, limit: Any) -> Any:
        """Whether an end is a termination; reaching the time limit may count as one."""
        return terminated | limit & self.limit_terminates

    def take_ended(self, lane: int) -> EndedEpisodes:
        """Return the episodes of a lane that have ended since the last call."""
        found = EndedEpisodes()
        for env in range(lane * self.count, (lane + 1) * self.count):
            found, self._ended[env] = found.plus(self._ended[env]), EndedEpisodes()
        return found

    @abc.abstractmethod
    def begin(self, env: int) -> None:
        """Start the next episode of an environment."""

    @abc.abstractmethod
    def send(self, actions: np.ndarray, alive: np.ndarray, truncate: bool = False) -> None:
        """Act in every environment that is alive.

        Args:
            actions: (environments, action) in −1 … 1.
            alive: (environments,).
            truncate: end all running episodes after this step.
        """

    @abc.abstractmethod
    def receive(self) -> Transition:
        """Return the answers, (environments, …); environments that are not alive answer zeros."""

    def step(self, actions: np.ndarray, alive: np.ndarray, truncate: bool = False) -> Transition:
        """`send`, then `receive`."""
        self.send(actions, alive, truncate)
        return self.receive()

    @abc.abstractmethod
    def episodes(self, lane: int) -> list[Episode]:
        """The running episodes of a lane's environments."""

    @abc.abstractmethod
    def restore(self, env: int, episode: Episode) -> bool:
        """Repeat an episode. Return False if it came out differently and a new one was started."""

    @abc.abstractmethod
    def close(self) -> None:
        """Close the environments."""


class Episodes(Protocol):
    """Single episodes from given seeds, for evaluation. They can be begun any number of times."""

    spec: Spec
    crashes: dict[int, str]
    """Errors of episodes' environments, by the episodes' numbers; their return is NaN."""

    def begin(self, which: np.ndarray) -> np.ndarray:
        """Start the episodes of these numbers, (n,); return (n, observation)."""
        ...

    def step(
        self, which: np.ndarray, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Act in these episodes, in the task's units; (n, observation), (n,) rewards, (n,)
        ended."""
        ...

    def close(self) -> None:
        """Close the environments."""
        ...
