"""A film strip: pictures of one greedy episode, evenly spaced, beside each other.

python docs/gallery/strip.py RUN FILE.png
"""

import os
import sys

import gymnasium as gym
import numpy as np

import discover_rl
from discover_rl.analysis.video import render_without_screen

PICTURES = 6


def episode(folder: str) -> tuple[list[np.ndarray], float]:
    """The pictures of an episode, one after each step, and its return."""
    policy = discover_rl.load_policy(folder)
    env = gym.make(policy.about["task"], render_mode="rgb_array")
    obs, _ = env.reset(seed=0)
    frames, total, over = [np.asarray(env.render())], 0.0, False
    while not over:
        obs, reward, terminated, truncated, _ = env.step(policy.predict(obs)[0])
        frames.append(np.asarray(env.render()))
        total, over = total + float(reward), terminated or truncated
    return frames, total


def main(folder: str, path: str) -> None:
    """Draw the strip, with the step above each picture."""
    render_without_screen()
    os.environ.setdefault("MPLBACKEND", "agg")
    import matplotlib.pyplot as plt

    frames, total = episode(folder)
    picked = np.linspace(0, len(frames) - 1, PICTURES).round().astype(int)
    figure, panels = plt.subplots(1, PICTURES, figsize=(12, 1.9), layout="constrained")
    for axes, step in zip(panels, picked, strict=True):
        axes.imshow(frames[step])
        axes.set_title(f"step {step}", fontsize=9)
        axes.set_axis_off()
    figure.savefig(path, dpi=80)
    print(f"{len(frames) - 1} steps, return {total:.1f}: {path}")


if __name__ == "__main__":
    main(*sys.argv[1:])
