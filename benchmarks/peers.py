"""Environment steps per second of a peer with this project's settings, in the peer's environment.

    python benchmarks/peers.py sb3|sbx TASK ALGORITHM FROM TO [PROCESSES]

The settings are those of discover_rl/config/presets: the same networks, batches, updates per step,
rollouts, minibatches and epochs, clipping, decay, normalised observations and rewards. With
PROCESSES, so many runs at once, each in a process of its own with one thread, the way to run seeds
with a peer. One run is also measured by the time that its process had a processor.
"""

import json
import multiprocessing
import os
import sys
import time
from typing import Any


def model(library: str, task: str, algorithm: str) -> Any:
    import gymnasium
    import stable_baselines3
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    if library == "sbx":
        import sbx as package
    else:
        import torch

        package = stable_baselines3
        # One is faster than two with networks as narrow as on-policy ones.
        if algorithm in ("ppo", "a2c"):
            torch.set_num_threads(1)
    make = getattr(package, algorithm.upper())
    env = DummyVecEnv([lambda: gymnasium.make(task)])
    normalised = VecNormalize(env, gamma=0.99)
    if algorithm == "ppo":
        return make(
            "MlpPolicy",
            normalised,
            learning_rate=lambda left: 3e-4 * left,
            n_steps=2048,
            batch_size=64,
            n_epochs=10,
            gae_lambda=0.95,
            clip_range=0.2,
            device="cpu",
            # SBX has no clipping of values.
            **({} if library == "sbx" else {"clip_range_vf": 0.2}),
        )
    if algorithm == "a2c":
        return make("MlpPolicy", normalised, learning_rate=1.3e-3, n_steps=32, device="cpu")
    return make(
        "MlpPolicy",
        env,
        learning_rate=3e-4,
        batch_size=256,
        learning_starts=1000,
        train_freq=1,
        gradient_steps=1,
        policy_kwargs={"net_arch": [256, 256]},
        device="cpu",
    )


def measure(library: str, task: str, algorithm: str, start: int, end: int, threads: int) -> Any:
    """When learning at `start` and at `end` was over, by the clock and by processor time."""
    if threads:
        os.environ["OMP_NUM_THREADS"] = str(threads)
        os.environ["XLA_FLAGS"] = (
            "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        )
    from stable_baselines3.common.callbacks import BaseCallback

    class Watch(BaseCallback):
        def __init__(self) -> None:
            super().__init__()
            self.marks = {}

        def _on_step(self) -> bool:
            for mark in (start, end):
                if self.num_timesteps > mark and mark not in self.marks:  # learning there is over
                    self.marks[mark] = time.time(), time.process_time()
            return True

    watch = Watch()
    model(library, task, algorithm).learn(end + 1, callback=watch)
    return watch.marks[start], watch.marks[end]


def main() -> None:
    library, task, algorithm, *numbers = sys.argv[1:]
    start, end, *rest = map(int, numbers)
    processes = rest[0] if rest else 1
    jobs = [(library, task, algorithm, start, end, int(processes > 1))] * processes
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        marks = pool.starmap(measure, jobs)
    seconds = max(last for _, (last, _) in marks) - min(first for (first, _), _ in marks)
    found = {"steps_per_second": processes * (end - start) / seconds}
    if processes == 1:
        (_, since), (_, to) = marks[0]
        found["steps_per_processor_second"] = (end - start) / (to - since)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
