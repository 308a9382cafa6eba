"""Wrappers that change a task's rewards, and when they are paid."""

from __future__ import annotations

from typing import Any

import gymnasium

from discover_rl.envs.answers import stepped
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
        obs, reward, terminated, truncated, info = stepped(self.env.step(action))
        self._owed += reward
        self._steps += 1
        if self._steps % self.period and not (terminated or truncated):
            return obs, 0.0, terminated, truncated, info
        return obs, self.settle(), terminated, truncated, info

    def settle(self) -> float:
        """Pay what is owed: a period is over, or the episode is."""
        paid, self._owed = self._owed, 0.0
        return paid


class PositionReward(gymnasium.Wrapper, gymnasium.utils.RecordConstructorArgs):
    """Pays 1 for every step of a MuJoCo task that ends past a position along the track.

    The position is the simulator's, for an argument of the task may hide it from observations. The
    arguments here are recorded, so that `gymnasium.make(env.spec)` can make the task again.
    """

    def __init__(self, env: gymnasium.Env, position: float, beyond: bool):
        gymnasium.utils.RecordConstructorArgs.__init__(self, position=position, beyond=beyond)
        super().__init__(env)
        self.goal = Goal("", "", position, beyond)

    def step(self, action: Any) -> Any:
        """Step the environment, and pay for where it is."""
        obs, _, terminated, truncated, info = self.env.step(action)
        task: Any = self.unwrapped
        paid = float(self.goal.reached(task.data.qpos[0]))
        return obs, paid, terminated, truncated, info


class ActionRepeat(gymnasium.Wrapper):
    """Repeats every action `times` times, or until the episode ends, and sums the rewards."""

    def __init__(self, env: gymnasium.Env, times: int):
        super().__init__(env)
        self.times = times

    def step(self, action: Any) -> Any:
        """Step the environment several times; return the last observation."""
        obs, total, terminated, truncated, info = stepped(self.env.step(action))
        for _ in range(1, self.times):
            if terminated or truncated:
                break
            obs, reward, terminated, truncated, info = stepped(self.env.step(action))
            total += reward
        return obs, total, terminated, truncated, info
