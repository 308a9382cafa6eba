"""A corridor with a little reward near one end of it and much at the other, which is far away."""

from typing import Any

import gymnasium
import numpy as np

from discover_rl.agents.build import build_agent
from discover_rl.agents.interface import AgentSetup
from discover_rl.core.types import Transition
from discover_rl.envs.gymnasium_vector import GymnasiumVector
from tests.helpers import cells

LENGTH = 40
FAR = 0.9
"""Where the unvisited side begins."""


class Chain(gymnasium.Env):
    """x ← clip(x + a / 10) from 0 on. 0.1 per step for x ≤ −0.2, 1 for x = 1; 40 steps an episode.

    It takes ten steps to the right in a row to see the large reward. By uniform actions an episode
    in 200 gets there, and all that is rewarded before it lies to the left.
    """

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, pays: bool = True):
        self.pays = pays

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.x, self.steps = 0.0, 0
        return np.asarray([self.x], np.float32), {}

    def step(self, action):
        self.x = float(np.clip(self.x + action[0] / 10, -1.0, 1.0))
        self.steps += 1
        reward = self.pays * (0.1 * (self.x <= -0.2) + (self.x >= 1.0))
        return np.asarray([self.x], np.float32), reward, False, self.steps == LENGTH, {}


gymnasium.register("Chain-v0", entry_point=Chain)
gymnasium.register("Chain-nothing-v0", entry_point=Chain, kwargs={"pays": False})


class Watched:
    """A vector of chains that notes when each was on the far side for the first time."""

    xla = None

    def __init__(self, seeds: list[int]):
        self.vector = GymnasiumVector("Chain-v0", seeds)
        self.spec, self.steps = self.vector.spec, 0
        self.first = np.full(len(seeds), np.inf)
        for env in range(len(seeds)):
            self.vector.begin(env)

    def send(self, actions: np.ndarray, alive: np.ndarray, truncate: bool = False) -> None:
        self.vector.send(actions, alive, truncate)

    def receive(self) -> Transition:
        transition = self.vector.receive()
        self.steps += 1
        there = transition.next_obs[:, 0] >= FAR
        self.first = np.where(there, np.minimum(self.first, self.steps), self.first)
        return transition


def first_visits(
    algorithm: str, strategy: str, seeds: list[int], steps: int, **settings: Any
) -> np.ndarray:
    """The step at which each seed was on the far side first; infinity if never.

    Args:
        algorithm: its name, an off-policy one.
        strategy: its name.
        seeds: one for each lane.
        steps: of every lane.
        settings: as `cells.hypers` takes them.
    """
    vector = Watched(seeds)
    hypers = cells.hypers(algorithm, strategy, **settings)
    agent = build_agent(AgentSetup(vector.spec, algorithm, hypers[0], strategy, hypers[1], steps))
    state = cells.begin(agent, seeds, *hypers, vector.vector.obs)
    alive, step = np.ones(len(seeds), bool), 0
    while step < steps and not np.isfinite(vector.first).all():
        state, step, diverged = agent.advance(state, vector, alive, step, steps)
        assert not diverged
    return vector.first
