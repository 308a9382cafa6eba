"""Environment steps per second of Stable-Baselines3 with the paper's settings, in its environment.

    python benchmarks/peers.py TASK ALGORITHM FROM TO

The settings are those of presets/ppo.toml and presets/a2c.toml: the same networks, rollouts,
minibatches and epochs, clipping, decay, normalised observations and rewards.
"""

import json
import sys
import time

import gymnasium
import torch
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize


class Watch(BaseCallback):
    def __init__(self, start: int, end: int):
        super().__init__()
        self.marks = {start: 0.0, end: 0.0}

    def _on_step(self) -> bool:
        for mark, when in self.marks.items():
            if self.num_timesteps > mark and not when:  # the first step after learning at `mark`
                self.marks[mark] = time.perf_counter()
        return True


def main() -> None:
    task, algorithm, *numbers = sys.argv[1:]
    start, end = map(int, numbers)
    torch.set_num_threads(1)  # faster than two with networks of this size
    env = VecNormalize(DummyVecEnv([lambda: gymnasium.make(task)]), gamma=0.99)
    if algorithm == "ppo":
        model = PPO(
            "MlpPolicy",
            env,
            learning_rate=lambda left: 3e-4 * left,
            n_steps=2048,
            batch_size=64,
            n_epochs=10,
            gae_lambda=0.95,
            clip_range=0.2,
            clip_range_vf=0.2,
            device="cpu",
        )
    else:
        model = A2C("MlpPolicy", env, learning_rate=1.3e-3, n_steps=32, device="cpu")
    watch = Watch(start, end)
    model.learn(end + 1, callback=watch)
    seconds = watch.marks[end] - watch.marks[start]
    print(json.dumps({"steps_per_second": (end - start) / seconds}))


if __name__ == "__main__":
    main()
