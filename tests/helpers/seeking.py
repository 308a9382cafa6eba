"""Learners with seek, for its tests."""

import functools
import operator

import jax
import numpy as np
from jax import random

from discover_rl.algorithms import ddpg, sac, td3
from discover_rl.strategies import seek
from tests.helpers import cells
from tests.helpers.reference import forward, layers

ALGORITHMS = {"ddpg": ddpg, "td3": td3, "sac": sac}
OWN = {"gamma": 0.8, "cap": 1.5, "penalty": 0.1, "lam": 0.7, "prior": 0.6}
KEY = random.key(3)


@functools.cache
def learner(algorithm: str, **settings):
    """An algorithm with seek, a state whose targets are no copies, and its compiled update."""
    module = ALGORITHMS[algorithm]
    hp, hyper = module.Hyper(**cells.SMALL, gamma=0.9, tau=0.1), seek.Hyper(**{**OWN, **settings})
    strategy = seek.make(cells.SPEC, hyper, module.blueprint(cells.SPEC, hp))
    learning = module.make(cells.SPEC, hp, strategy)
    init = jax.jit(learning.init)
    state, other = (init(random.key(i), hp, hyper) for i in range(2))
    state = state._replace(
        target_critics=other.critics,
        strategy=state.strategy._replace(target=other.strategy.online),
    )
    return learning, state, jax.jit(learning.learn, static_argnums=3)


def members(nets, x) -> np.ndarray:
    """What both networks of an ensemble say: (2, n)"""
    each = [jax.tree.map(operator.itemgetter(j), nets) for j in range(2)]
    return np.stack([forward(layers(net), x)[0][:, 0] for net in each])
