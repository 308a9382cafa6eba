"""Environments so small that their values are known. One number to see, one to do."""

import gymnasium
import numpy as np


class Probe(gymnasium.Env):
    """Episodes of one or two steps; what a step pays and how it ends depends on the kind."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, kind: str = "constant"):
        self.kind = kind

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.obs = np.zeros(1, np.float32)
        if self.kind == "observation":
            self.obs[0] = self.np_random.choice([-1.0, 1.0])
        return self.obs, {}

    def step(self, action):
        before = float(self.obs[0])
        if self.kind == "constant":  # one step of reward 1: Q = 1
            return self.obs, 1.0, True, False, {}
        if self.kind == "observation":  # the reward is what is seen: Q(±1) = ±1
            return self.obs, before, True, False, {}
        if self.kind == "action":  # best at 0.5: π = 0.5, Q = 0 there
            return self.obs, -((float(action[0]) - 0.5) ** 2), True, False, {}
        if self.kind == "delay":  # nothing at first, 1 at the end: Q(0) = γ, Q(1) = 1
            self.obs = np.ones(1, np.float32)
            return self.obs, before, before == 1.0, False, {}
        assert self.kind == "truncation"  # 1 for ever, cut after every step: Q = 1 / (1 − γ)
        return self.obs, 1.0, False, True, {}


KINDS = ("constant", "observation", "action", "delay", "truncation")
for _kind in KINDS:
    gymnasium.register(f"Probe-{_kind}-v0", entry_point=Probe, kwargs={"kind": _kind})
