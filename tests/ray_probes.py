"""Environments that go wrong, for workers elsewhere to import by name."""

import os
import signal

import gymnasium
from gymnasium.envs.classic_control.pendulum import PendulumEnv


class Broken(PendulumEnv):
    def __init__(self):
        raise RuntimeError("no such spring")


class Deadly(PendulumEnv):
    def reset(self, **options):
        os.kill(os.getpid(), signal.SIGKILL)
        return super().reset(**options)


gymnasium.register("Broken-v0", entry_point=Broken)
gymnasium.register("Deadly-v0", entry_point=Deadly)
