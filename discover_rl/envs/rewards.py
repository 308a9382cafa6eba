"""Wrappers that change what a task pays, and when."""

from __future__ import annotations

from typing import Any

import gymnasium

from discover_rl.envs.answers import number
from discover_rl.envs.sparse import Goal


class DelayedReward(gymnasium.Wrapper):
    """Sums rewards and pays them every `period` steps of an episode, and at its end."""

    def __init__(self, env: gymnasium.Env, period: int):
        super().__init__(env)
        self.period = period
        self._owed, self._steps = 0.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Start an episode that owes nothing."""
        self._owed, self._steps = 0.0, 0
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any) -> Any:
        """Step the environment; the reward is 0 until a period is over."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        self._owed += number(reward)
        self._steps += 1
        if self._steps % self.period and not (terminated or truncated):
            return obs, 0.0, terminated, truncated, info
        return obs, self.settle(), terminated, truncated, info

    def settle(self) -> float:
        """Pay what is owed: a period is over, or the episode is."""
        paid, self._owed = self._owed, 0.0
        return paid


class PositionReward(gymnasium.Wrapper):
    """Pays 1 for every step that ends past a position, which is the first number observed."""

    def __init__(self, env: gymnasium.Env, position: float, beyond: bool):
        super().__init__(env)
        self.goal = Goal("", "", position, beyond)

    def step(self, action: Any) -> Any:
        """Step the environment, and pay for where it is."""
        obs, _, terminated, truncated, info = self.env.step(action)
        return obs, float(self.goal.reward(obs)), terminated, truncated, info


class ActionRepeat(gymnasium.Wrapper):
    """Repeats every action so many times, or until the episode ends, and sums the rewards."""

    def __init__(self, env: gymnasium.Env, times: int):
        super().__init__(env)
        self.times = times

    def step(self, action: Any) -> Any:
        """Step the environment several times; what is observed is what comes last."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        total = number(reward)
        for _ in range(1, self.times):
            if terminated or truncated:
                break
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += number(reward)
        return obs, total, terminated, truncated, info
