"""Train SAC and PPO with gSDE by Stable-Baselines3, as sac-gsde.toml and ppo-gsde*.toml declare.

    .venv-peers/bin/python results/checks/sb3_gsde.py sac|ppo FILE.json [SEEDS, by default 5]

It runs in the environment of the peers, which `make bench` sets up, and writes the mean return of
every evaluation of each seed, at the steps at which the studies evaluate.
"""

import json
import sys
from pathlib import Path

import gymnasium
import stable_baselines3
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

TASK, EPISODES = "Pendulum-v1", 10
STEPS = {"sac": 10_000, "ppo": 102_400}
EVERY = {"sac": 1_000, "ppo": 10_240}


class Evaluation(BaseCallback):
    """Plays episodes by the mean action whenever `every` steps have passed."""

    def __init__(self, every: int):
        super().__init__()
        self.every, self.means = every, []
        self.task = gymnasium.make(TASK)

    def play(self, seed: int | None) -> float:
        obs, _ = self.task.reset(seed=seed)
        total, over = 0.0, False
        while not over:
            normalised = self.model.get_vec_normalize_env()
            seen = normalised.normalize_obs(obs) if normalised else obs
            action, _ = self.model.predict(seen, deterministic=True)
            obs, reward, ended, cut, _ = self.task.step(action)
            total, over = total + float(reward), ended or cut
        return total

    def evaluate(self) -> None:
        self.means.append(sum(self.play(None) for _ in range(EPISODES)) / EPISODES)

    def _on_step(self) -> bool:
        # PPO's rollouts end at multiples of `every`: what was learned from the last one is in here.
        if self.num_timesteps > 1 and (self.num_timesteps - 1) % self.every == 0:
            self.evaluate()
        return True


def model(algorithm: str, seed: int):
    env = DummyVecEnv([lambda: gymnasium.make(TASK)])
    if algorithm == "ppo":
        return stable_baselines3.PPO(
            "MlpPolicy",
            VecNormalize(env, gamma=0.9),
            learning_rate=1e-3,
            n_steps=2048,
            batch_size=64,
            n_epochs=10,
            gamma=0.9,
            gae_lambda=0.95,
            use_sde=True,
            sde_sample_freq=4,
            policy_kwargs={"log_std_init": -2},
            seed=seed,
            device="cpu",
        )
    return stable_baselines3.SAC(
        "MlpPolicy",
        env,
        learning_rate=1e-3,
        buffer_size=10_000,
        learning_starts=1_000,
        batch_size=128,
        train_freq=8,
        gradient_steps=8,
        use_sde=True,
        policy_kwargs={"net_arch": [64, 64]},
        seed=seed,
        device="cpu",
    )


def main() -> None:
    algorithm, path = sys.argv[1], Path(sys.argv[2])
    seeds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    torch.set_num_threads(1)
    curves = []
    for seed in range(seeds):
        evaluation = Evaluation(EVERY[algorithm])
        model(algorithm, seed).learn(STEPS[algorithm], callback=evaluation)
        evaluation.evaluate()
        curves.append(evaluation.means)
        print(seed, *(f"{mean:.0f}" for mean in evaluation.means), flush=True)
    versions = {"stable_baselines3": stable_baselines3.__version__, "torch": torch.__version__}
    steps = [EVERY[algorithm] * (i + 1) for i in range(len(curves[0]))]
    content = {"task": TASK, "versions": versions, "steps": steps, "mean_returns": curves}
    path.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
