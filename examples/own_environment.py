"""Train on an environment of your own, and use the policy.

python examples/own_environment.py
"""

import gymnasium as gym
import numpy as np

import discover_rl


class Reach(gym.Env):
    """Walk along a line to 0: a reward of minus the distance, in steps of 0.1 at most."""

    observation_space = gym.spaces.Box(-6.0, 6.0, (1,))
    action_space = gym.spaces.Box(-0.1, 0.1, (1,))

    def reset(self, *, seed=None, options=None):
        """Start somewhere between −1 and 1."""
        super().reset(seed=seed, options=options)
        self.x = self.np_random.uniform(-1, 1, 1).astype(np.float32)
        return self.x, {}

    def step(self, action):
        """Walk; only the time limit ends an episode."""
        self.x = self.x + action
        return self.x, -abs(self.x.item()), False, False, {}


# Gymnasium takes a class as well as a function, which its annotation does not say.
gym.register("Reach-v0", Reach, max_episode_steps=50)  # pyright: ignore[reportArgumentType]


def main(steps: int = 3000, out: str = "runs/reach") -> None:
    """Train, and say what the policy does to the right of the goal."""
    (result,) = discover_rl.train("Reach-v0", steps=steps, out=out, hidden=(32, 32))
    print(result)
    action, _ = result.policy().predict([0.5])
    print(f"At 0.5 the policy walks {action[0]:+.2f}.")


if __name__ == "__main__":
    main()
