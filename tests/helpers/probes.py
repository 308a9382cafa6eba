"""Environments so small that their values are known: one number to observe, one to choose."""

from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discover_rl import strategies
from discover_rl.agents.build import build_agent
from discover_rl.agents.interface import AgentSetup
from discover_rl.algorithms import ddpg, likelihood
from discover_rl.core import networks
from discover_rl.core.normalization import deviation
from discover_rl.core.types import Net, Transition
from discover_rl.envs.gymnasium_vector import GymnasiumVector
from discover_rl.strategies.interface import Strategy
from tests.helpers import cells

SEED = 7
GAMMA = 0.5


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
        if self.kind == "observation":  # the reward is what is observed: Q(±1) = ±1
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

# Values that no action changes: (kind, observation, value).
VALUES = [
    ("constant", 0.0, 1.0),
    ("observation", 1.0, 1.0),
    ("observation", -1.0, -1.0),
    ("delay", 1.0, 1.0),
    ("delay", 0.0, GAMMA),
    ("truncation", 0.0, 1 / (1 - GAMMA)),
]


class Probes:
    """A vector of environments in which every kind of probe is a lane."""

    xla = None

    def __init__(self):
        self.vectors = [GymnasiumVector(f"Probe-{kind}-v0", [SEED]) for kind in KINDS]
        self.spec = self.vectors[0].spec
        for vector in self.vectors:
            vector.begin(0)

    @property
    def obs(self) -> np.ndarray:
        return np.concatenate([vector.obs for vector in self.vectors])

    def send(self, actions: np.ndarray, alive: np.ndarray, truncate: bool = False) -> None:
        for lane, vector in enumerate(self.vectors):
            mine = slice(lane, lane + 1)
            vector.send(actions[mine], alive[mine], truncate)

    def receive(self) -> Transition:
        parts = [vector.receive() for vector in self.vectors]
        return Transition(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def step(self, actions: np.ndarray, alive: np.ndarray, truncate: bool = False) -> Transition:
        self.send(actions, alive, truncate)
        return self.receive()


class Trained(NamedTuple):
    """What came of training on all probes at once. All arrays have the probes in front."""

    agent: Any
    state: Any
    nets: Net  # that evaluation uses


def of_kind(tree: Any, kind: str) -> Any:
    """What belongs to one kind of probe."""
    return jax.tree.map(lambda leaf: leaf[KINDS.index(kind)], tree)


def agent_with(strategy: Strategy, setup: AgentSetup) -> Any:
    """The agent of a setup, exploring by `strategy` instead of the one that the setup names."""

    class Module:
        make = staticmethod(lambda spec, hyper, blueprint: strategy)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(strategies, "load", lambda name: Module)
        return build_agent(setup)


OFF_POLICY = {
    "tau": 0.05,
    "actor_lr": 3e-3,
    "critic_lr": 3e-3,
    "hidden": (32,),
    "batch_size": 64,
    "warmup": 300,
    "replay_size": 2000,
}
ON_POLICY = {
    "hidden": (32,),
    "actor_lr": 3e-3,
    "lr_decay": 1.0,
    "initial_log_std": -1.0,
    "normalise": False,
}
# Steps and settings. A penalty on weights or a bonus for entropy would change the values.
SETTINGS: dict[str, tuple[int, dict[str, Any]]] = {
    "td3": (1500, OFF_POLICY),
    "ddpg": (1500, OFF_POLICY | {"weight_decay": 0.0}),
    "sac": (1500, OFF_POLICY | {"temperature": 1e-3, "learn_temperature": False}),
    "ppo": (1600, ON_POLICY | {"horizon": 64, "minibatches": 4, "epochs": 10}),
    "a2c": (8000, ON_POLICY | {"horizon": 16, "minibatches": 1, "epochs": 1}),
}


def train(
    algorithm: str, name: str = "none", strategy: Strategy | None = None, **changes: Any
) -> Trained:
    """Train on all probes.

    Args:
        algorithm: its name.
        name: of the strategy, whose hyper-parameters are used.
        strategy: to be used instead of the one of that name.
        changes: of the settings, as `cells.hypers` takes them.
    """
    steps, settings = SETTINGS[algorithm]
    vector = Probes()
    hypers = cells.hypers(algorithm, name, gamma=GAMMA, **{**settings, **changes})
    setup = AgentSetup(vector.spec, algorithm, hypers[0], name, hypers[1], steps)
    agent = build_agent(setup) if strategy is None else agent_with(strategy, setup)
    state = cells.begin(agent, [SEED] * len(KINDS), *hypers, vector.obs)
    alive, step = np.ones(len(KINDS), bool), 0
    while step < steps:
        state, step, diverged = agent.advance(state, vector, alive, step, steps)
        assert not diverged
    return Trained(agent, jax.device_get(state), agent.nets(state))


def q_of(algorithm: str, learner: Any, obs: float, action: float) -> np.ndarray:
    """Q of every critic, by the state of an off-policy algorithm."""
    inputs, chosen = jnp.full((1, 1), obs), jnp.full((1, 1), action)
    if algorithm != "ddpg":
        return np.asarray(networks.q_value(learner.critics, inputs, chosen))
    inputs = networks.standardise(inputs, learner.moments.mean, deviation(learner.moments))
    return np.asarray(ddpg.q_value(learner.critics, inputs, chosen))


def v_of(learner: Any, obs: float) -> float:
    """V, by the state of an on-policy algorithm."""
    return float(likelihood.value_of(learner.critic, np.full((1, 1), obs, np.float32), None)[0])
