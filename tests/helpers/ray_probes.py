"""Tasks that fail, by `tests.helpers.ray_probes:ID`; Ray's workers import this module."""

import os
import signal

import gymnasium
from gymnasium.envs.classic_control.pendulum import PendulumEnv


class Broken(PendulumEnv):
    """Cannot be made."""

    def __init__(self):
        raise RuntimeError("no such spring")


class Deadly(PendulumEnv):
    """Kills the process that resets it."""

    def reset(self, **options):
        os.kill(os.getpid(), signal.SIGKILL)
        return super().reset(**options)


gymnasium.register("Broken-v0", entry_point=Broken)
gymnasium.register("Deadly-v0", entry_point=Deadly)
