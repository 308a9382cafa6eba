"""Greedy episodes for every lane, batched over lanes and episodes.

The paper's rules: an environment of its own, seeded with the run's seed + 100, so that every
evaluation of a run starts from the same states; no exploration, no learning. Policies act on the
host in NumPy, exactly as a saved policy does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from discover_rl import envs, networks
from discover_rl.policy import Policy
from discover_rl.types import Form, Net, UserError

SEED_OFFSET = 100


class Interrupted(Exception):
    """Evaluation was asked to stop half-way; nothing has come of it."""


class Scores(NamedTuple):
    returns: np.ndarray  # (lanes, episodes)
    lengths: np.ndarray  # (lanes, episodes)


class Evaluator:
    def __init__(self, task: str, seeds: Sequence[int], episodes: int, max_steps: int):
        self.task, self.max_steps = task, max_steps
        # The first episode starts from the run's seed + 100 itself, the others from its offspring.
        first = [seed + SEED_OFFSET for seed in seeds]
        self.seeds = [
            [seed, *(envs.episode_seed(seed, i) for i in range(1, episodes))] for seed in first
        ]
        self.envs = [[envs.make(task) for _ in range(episodes)] for _ in seeds]
        self.spec = envs.spec_of(self.envs[0][0])

    def __call__(
        self, nets: Net, form: Form, alive: np.ndarray, interrupted: Callable[[], bool] = bool
    ) -> Scores:
        """One evaluation of every living lane; `nets` has lanes in front."""
        shape = len(self.envs), len(self.envs[0])
        obs = np.zeros((*shape, self.spec.observation_size), np.float32)
        returns, lengths = np.zeros(shape), np.zeros(shape, int)
        running = [(lane, i) for lane in np.flatnonzero(alive) for i in range(shape[1])]
        for lane, i in running:
            self.envs[lane][i] = envs.renewed(self.envs[lane][i], self.task)
            raw, _ = self.envs[lane][i].reset(seed=self.seeds[lane][i])
            obs[lane, i] = np.ravel(raw)
        for _ in range(self.max_steps):
            if not running:
                break
            if interrupted():
                raise Interrupted
            # Lanes and episodes that have ended go on being computed: a batch of constant shape
            # gives an episode the same actions whatever the others do.
            with np.errstate(all="ignore"):  # a dead lane may hold anything
                actions = self.spec.to_box(np.asarray(networks.mean_action(form, nets, obs)))
            still = []
            for lane, i in running:
                raw, reward, terminated, truncated, _ = self.envs[lane][i].step(actions[lane, i])
                obs[lane, i] = np.ravel(raw)
                returns[lane, i] += float(reward)
                lengths[lane, i] += 1
                if not (terminated or truncated):
                    still.append((lane, i))
            running = still
        return Scores(returns, lengths)

    def close(self) -> None:
        for lane in self.envs:
            for env in lane:
                env.close()


def evaluate_policy(policy: Policy, task: str, episodes: int, max_steps: int = 10_000) -> Scores:
    """A saved policy's episodes, from the states that its run's own evaluations started from."""
    evaluator = Evaluator(task, [policy.about.get("seed", 0)], episodes, max_steps)
    if evaluator.spec != policy.spec:
        raise UserError(f"{task} has other spaces than this policy was trained for.")
    try:
        lane = {
            layer: {name: array[None] for name, array in parts.items()}
            for layer, parts in policy.net.items()
        }
        return evaluator(lane, policy.form, np.ones(1, bool))
    finally:
        evaluator.close()
