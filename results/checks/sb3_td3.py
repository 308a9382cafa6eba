"""Train TD3 by Stable-Baselines3 with the settings of studies of this folder.

    .venv-peers/bin/python -m pip install -c constraints.txt dm-control shimmy
    .venv-peers/bin/python results/checks/sb3_td3.py STUDY FIRST_SEED [LAST_SEED]

It runs in the environment of the peers, which `make bench` sets up, and uses nothing of this
project: the task is dm_control's own, by shimmy. STUDY is one of SETTINGS. Every seed writes
stable-baselines3/seed-N.json in the study's folder, the returns of its evaluations and the steps
at which the study evaluates. A seed that has its file is not trained again.
"""

import json
import sys
from pathlib import Path
from typing import NamedTuple

import gymnasium
import numpy as np
import shimmy  # noqa: F401, registers dm_control's tasks
import stable_baselines3
import torch
from gymnasium.wrappers import FlattenObservation
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.noise import NormalActionNoise

EPISODES = 10


class Settings(NamedTuple):
    """What a study sets; the rest is what both programs have."""

    task: str
    repeat: int
    steps: int
    every: int
    warmup: int


SETTINGS = {
    "td3-beside-sb3": Settings("pendulum-swingup", 4, 125_000, 6_250, 2_500),
    "td3-dm-control": Settings("ball_in_cup-catch", 1, 100_000, 10_000, 5_000),
}


class Repeat(gymnasium.Wrapper):
    """Repeats every action and sums the rewards."""

    def __init__(self, env: gymnasium.Env, times: int):
        super().__init__(env)
        self.times = times

    def step(self, action):
        total = 0.0
        for _ in range(self.times):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += reward
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info


def make(settings: Settings) -> gymnasium.Env:
    env = gymnasium.make(f"dm_control/{settings.task}-v0")
    return Repeat(FlattenObservation(env), settings.repeat)


class Evaluation(BaseCallback):
    """Plays the same episodes without noise, first and whenever `every` steps have passed."""

    def __init__(self, settings: Settings):
        super().__init__()
        self.task, self.every, self.returns = make(settings), settings.every, []

    def play(self, seed: int) -> float:
        obs, _ = self.task.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            action, _ = self.model.predict(obs, deterministic=True)
            obs, reward, ended, cut, _ = self.task.step(action)
            total, over = total + float(reward), ended or cut
        return total

    def evaluate(self) -> None:
        self.returns.append([self.play(1_000_000 + episode) for episode in range(EPISODES)])

    def _on_training_start(self) -> None:
        self.evaluate()

    def _on_step(self) -> bool:
        # A step is counted before its update: here the updates of `num_timesteps` - 1 are done.
        if self.num_timesteps > 1 and (self.num_timesteps - 1) % self.every == 0:
            self.evaluate()
        return True


def train(settings: Settings, seed: int) -> list[list[float]]:
    """Train one run; return the returns of every evaluation."""
    env = make(settings)
    deviation = np.full(env.action_space.shape, 0.3)
    model = stable_baselines3.TD3(
        "MlpPolicy",
        env,
        learning_rate=1e-3,
        buffer_size=200_000,
        learning_starts=settings.warmup,
        batch_size=128,
        tau=0.005,
        gamma=0.99,
        train_freq=1,
        gradient_steps=1,
        action_noise=NormalActionNoise(np.zeros_like(deviation), deviation),
        policy_delay=2,
        target_policy_noise=0.2,
        target_noise_clip=0.5,
        policy_kwargs={"net_arch": [64, 64]},
        seed=seed,
        device="cpu",
    )
    evaluation = Evaluation(settings)
    model.learn(settings.steps, callback=evaluation)
    evaluation.evaluate()
    return evaluation.returns


def main() -> None:
    study, first = sys.argv[1], int(sys.argv[2])
    last = int(sys.argv[3]) if len(sys.argv) > 3 else first
    settings = SETTINGS[study]
    folder = Path(__file__).parent / study / "stable-baselines3"
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    versions = {"stable_baselines3": stable_baselines3.__version__, "torch": torch.__version__}
    for seed in range(first, last + 1):
        path = folder / f"seed-{seed}.json"
        if path.exists():
            continue
        returns = train(settings, seed)
        steps = [settings.every * i for i in range(len(returns))]
        content = {**settings._asdict(), "seed": seed, "versions": versions}
        path.write_text(json.dumps({**content, "at": steps, "returns": returns}) + "\n")
        print(seed, *(f"{np.mean(these):.0f}" for these in returns), flush=True)


if __name__ == "__main__":
    main()
