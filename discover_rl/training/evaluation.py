"""Evaluation: episodes without exploration for every lane, batched over lanes and episodes.

The paper's rules: an environment of its own, seeded with the run's seed + 100, so that every
evaluation of a run starts from the same states; no exploration, no learning. Policies act on the
host in NumPy, exactly as a saved policy does.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from discover_rl.config import Run, current_names
from discover_rl.core import networks
from discover_rl.core.types import Net, PolicyHead, UserError
from discover_rl.envs.backends import make_episodes
from discover_rl.envs.footprint import check_memory
from discover_rl.envs.settings import PLAIN, Making, making_of
from discover_rl.envs.source import fingerprint
from discover_rl.envs.tasks import check_backend
from discover_rl.envs.vector import episode_seed
from discover_rl.storage.policies import Policy
from discover_rl.storage.records import RECORD_FILE, read_record, sources_in

SEED_OFFSET = 100
"""Evaluation episodes start from the run's seed plus this."""
MAX_STEPS = 10_000
"""The largest number of steps in an episode of a saved policy on another task than its own."""


class Interrupted(Exception):
    """Evaluation was asked to stop before its end; it has no result."""


class Scores(NamedTuple):
    """The result of an evaluation."""

    returns: np.ndarray  # (lanes, episodes)
    lengths: np.ndarray  # (lanes, episodes)


class EvaluationSetup(NamedTuple):
    """Everything that is needed to evaluate the lanes of a cohort."""

    task: str
    seeds: Sequence[int]  # of the runs, one per lane
    episodes: int  # of each lane
    max_steps: int  # where an episode is cut
    backend: str = "gymnasium"
    filmed: int = 0  # how many of the only lane's are filmed; others are not even made
    making: Making = PLAIN


class PendingEvaluation(NamedTuple):
    """An evaluation that was begun and is not recorded yet."""

    step: int
    lanes: list[int]
    nets: Net
    report: Mapping[str, Any]


class BackgroundEvaluator(Protocol):
    """Evaluates policies, possibly while training continues."""

    def begin(
        self, nets: Net, head: PolicyHead, alive: np.ndarray, interrupted: Callable[[], bool], /
    ) -> None:
        """Begin to evaluate the living lanes; `nets` has lanes in front."""
        ...

    def ready(self) -> bool:
        """Whether the evaluation that was begun last has ended."""
        ...

    def scores(self) -> Scores:
        """Wait for the evaluation that was begun last; return its result."""
        ...

    def crash(self, lane: int) -> str:
        """The first error that one of a lane's environments raised; '' if none did."""
        ...

    def close(self) -> None:
        """Close the environments."""
        ...


class Evaluator:
    """Evaluates in this process."""

    def __init__(self, setup: EvaluationSetup):
        seeds, count = setup.seeds, setup.episodes
        self.max_steps, self.shape = setup.max_steps, (len(seeds), count)
        # The first episode starts from the run's seed + 100 itself, the others from seeds of it.
        starts = [
            it
            for seed in (seed + SEED_OFFSET for seed in seeds)
            for it in (seed, *(episode_seed(seed, i) for i in range(1, count)))
        ]
        made, filmed = starts[: setup.filmed or None], setup.filmed > 0
        self.episodes = make_episodes(setup.task, made, setup.backend, filmed, setup.making)
        self.spec = self.episodes.spec

    def __call__(
        self,
        nets: Net,
        head: PolicyHead,
        alive: np.ndarray,
        interrupted: Callable[[], bool] = bool,
    ) -> Scores:
        """Evaluate every living lane; `nets` has lanes in front."""
        running = np.flatnonzero(np.repeat(alive, self.shape[1]))
        return self.play(nets, head, running, interrupted)

    def play(
        self,
        nets: Net,
        head: PolicyHead,
        running: np.ndarray,
        interrupted: Callable[[], bool] = bool,
        after_step: Callable[[], None] = lambda: None,
    ) -> Scores:
        """Play some of the episodes, exactly as in an evaluation of all.

        Args:
            nets: the policies, lanes in front.
            head: how their outputs become actions.
            running: the episodes' numbers, counted through all lanes.
            interrupted: asked at every step; if true, `Interrupted` is raised.
            after_step: called where the episodes start and after every step.
        """
        number = self.shape[0] * self.shape[1]
        obs = np.zeros((number, self.spec.observation_size), np.float32)
        returns, lengths = np.zeros(number), np.zeros(number, int)
        if running.size:
            obs[running] = self.episodes.begin(running)
            after_step()
        for _ in range(self.max_steps):
            if not running.size:
                break
            if interrupted():
                raise Interrupted
            # Lanes and episodes that have ended are still computed: the batch keeps its shape, so
            # the actions of an episode do not depend on the others.
            with np.errstate(all="ignore"):  # a dead lane may hold anything
                by_lane = obs.reshape(*self.shape, -1)
                actions = np.asarray(networks.mean_action(head, nets, by_lane))
            boxed = self.spec.to_box(actions.reshape(number, -1)[running])
            obs[running], rewards, ended = self.episodes.step(running, boxed)
            returns[running] += rewards
            lengths[running] += 1
            after_step()
            running = running[~ended]
        return Scores(returns.reshape(self.shape), lengths.reshape(self.shape))

    def begin(
        self,
        nets: Net,
        head: PolicyHead,
        alive: np.ndarray,
        interrupted: Callable[[], bool] = bool,
    ) -> None:
        """Evaluate now, and keep the result for `scores`."""
        self._scores = self(nets, head, alive, interrupted)

    def ready(self) -> bool:
        """True: `begin` has done all of it."""
        return True

    def scores(self) -> Scores:
        """The result of the last `begin`."""
        return self._scores

    def crash(self, lane: int) -> str:
        """The first error that one of a lane's environments raised; '' if none did."""
        mine = range(lane * self.shape[1], (lane + 1) * self.shape[1])
        crashes = self.episodes.crashes
        return next((crashes[i] for i in mine if i in crashes), "")

    def close(self) -> None:
        """Close the environments."""
        self.episodes.close()


def most_steps(run: Run, time_limit: int | None) -> float:
    """Return the environment steps of one evaluation if every episode reaches its limit."""
    return run.eval.episodes * min(time_limit or math.inf, run.eval.max_steps)


def evaluate_policy(policy: Policy, task: str, episodes: int, seed: int | None = None) -> Scores:
    """Play a saved policy's episodes.

    Args:
        policy: the policy, which acts without exploration.
        task: the task's id.
        episodes: how many.
        seed: start from the states in which a run of this seed is evaluated; None: from those of
            the policy's own run.

    Returns:
        Returns and lengths of the episodes, (1, episodes).

    Raises:
        UserError: the task cannot be played, or not by this policy.
    """
    backend = backend_of(policy, task)
    with evaluator_of(policy, task, episodes, backend, seed=seed) as (evaluator, nets):
        scores = evaluator(nets, policy.head, np.ones(1, bool))
        check_played(evaluator, task, scores.returns)
        return scores


def check_played(evaluator: Evaluator, task: str, returns: Any) -> None:
    """Raise a UserError if episodes of one policy have no return, and say why."""
    if crash := evaluator.crash(0):
        raise UserError(f"{task} could not be played: {crash}.")
    if not np.isfinite(returns).all():
        raise UserError(f"{task} could not be played: the policy's actions are not finite.")


def is_own(policy: Policy, task: str) -> bool:
    """Whether a policy was trained on a task, whichever module registers that."""
    return task.rpartition(":")[2] == str(policy.about.get("task")).rpartition(":")[2]


def was_edited(policy: Policy, folder: Path, task: str) -> bool:
    """Whether the code of a policy's own task is another now than its run was trained on.

    Args:
        policy: the policy.
        folder: that of its run; where no record is in it, nothing is known.
        task: the task's id, with the module that has it.
    """
    trained_on = str(policy.about.get("task"))
    if task != trained_on and not task.endswith(f":{trained_on}"):
        return False
    found = read_record(folder / RECORD_FILE)
    before = sources_in(found.header or {}, *found.lines).get("task_source")
    return before not in (None, fingerprint(task, making_of(own_settings(policy, task))))


def own_settings(policy: Policy, task: str) -> dict[str, Any]:
    """The settings of the policy's run; none on another task than its own."""
    return current_names(policy.about.get("settings", {}) if is_own(policy, task) else {})


def backend_of(policy: Policy, task: str) -> str:
    """The backend that a policy's run was evaluated by; Gymnasium on another task than its own."""
    used = policy.about.get("backend", own_settings(policy, task).get("env.backend"))
    return "gymnasium" if used in (None, "auto") or not is_own(policy, task) else used


@contextlib.contextmanager
def evaluator_of(
    policy: Policy,
    task: str,
    episodes: int,
    backend: str = "gymnasium",
    filmed: int = 0,
    seed: int | None = None,
) -> Iterator[tuple[Evaluator, Net]]:
    """A context with an evaluator for one policy, and the policy's network as its only lane.

    Args:
        policy: the policy; a UserError if its spaces are not those of the task.
        task: the task's id.
        episodes: how many act together.
        backend: what steps the environments.
        filmed: how many of these are played and filmed; 0: all are played, and none is filmed.
        seed: start from the states in which a run of this seed is evaluated; None: the policy's.
    """
    start: int = policy.about.get("seed", 0) if seed is None else seed
    settings = own_settings(policy, task)
    making, max_steps = making_of(settings), settings.get("eval.max_steps", MAX_STEPS)
    check_backend(task, backend, making)
    # While the episodes of a batch act: the numbers of every layer, before and after activation.
    widths = sum(parts["bias"].size for parts in policy.net.values() if "bias" in parts)
    check_memory(task, filmed or episodes, 8 * episodes * widths)
    setup = EvaluationSetup(task, [start], episodes, max_steps, backend, filmed, making)
    evaluator = Evaluator(setup)
    try:
        if evaluator.spec != policy.spec:
            raise UserError(f"{task} has other spaces than this policy was trained for.")
        yield (
            evaluator,
            {
                layer: {name: array[None] for name, array in parts.items()}
                for layer, parts in policy.net.items()
            },
        )
    finally:
        evaluator.close()
