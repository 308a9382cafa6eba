"""Load a policy and play an episode with it. NumPy computes the actions; JAX is not imported.

discover train Pendulum-v1 --steps 5000 --set hidden=64,64 --out runs/small
python examples/policy_without_jax.py runs/small/seed-0
"""

import sys

import gymnasium as gym

import discover_rl


def main(folder: str) -> float:
    """Play one episode, and return its return."""
    policy = discover_rl.load_policy(folder)
    env = gym.make(policy.about["task"])
    obs, _ = env.reset(seed=0)
    total, over = 0.0, False
    while not over:
        action, _ = policy.predict(obs)
        obs, reward, terminated, truncated, _ = env.step(action)
        total, over = total + float(reward), terminated or truncated
    assert "jax" not in sys.modules
    print(f"Return: {total:.1f}")
    return total


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Which policy? Name the folder of a run, as runs/small/seed-0.")
    main(sys.argv[1])
