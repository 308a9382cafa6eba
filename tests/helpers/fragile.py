"""Tasks that break, or tell where they run, by `tests.helpers.fragile:ID`; workers import this."""

import json
import multiprocessing
import os
from pathlib import Path

import gymnasium
import numpy as np

from discover_rl.envs.vector import episode_seed


class Fragile(gymnasium.Env):
    """Raises in the first episode of run 1, at its 30th step."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.doomed, self.t = seed == episode_seed(1, 0), 0
        return self.np_random.uniform(-1, 1, 2).astype(np.float32), {}

    def step(self, action):
        self.t += 1
        if self.doomed and self.t == 30:
            raise RuntimeError("the left hip\ngave way")
        obs = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return obs, float(action[0]), False, self.t == 50, {}


class Homebound(Fragile):
    """Can be made, but by no worker."""

    def __init__(self):
        if multiprocessing.parent_process() is not None:
            raise ValueError("no licence away from home")


class Seated(Fragile):
    """Writes down, in the folder that SEATS names, on which cores its process runs."""

    def reset(self, *, seed=None, options=None):
        cores = sorted(os.sched_getaffinity(0))
        (Path(os.environ["SEATS"]) / str(os.getpid())).write_text(json.dumps(cores))
        return super().reset(seed=seed, options=options)


gymnasium.register("Fragile-v0", entry_point=Fragile)
gymnasium.register("Homebound-v0", entry_point=Homebound)
gymnasium.register("Seated-v0", entry_point=Seated)
