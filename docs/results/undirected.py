"""How often noise and held corners alone are paid on the suite's sparse tasks: nothing is learned.

    python docs/results/undirected.py dm_control/cartpole-swingup_sparse-v0 …

The policy is 0 everywhere, so that all actions are the strategy's. Prints the share of episodes in
which a step is paid more than one half, a row per task. Without tasks: those of seek-suite but for
its dense ones.
"""

import sys

import jax
import numpy as np
from jax import random

from discover_rl import strategies, studies
from discover_rl.envs.envpool_pool import Pool
from discover_rl.strategies.interface import Blueprint, View

ARMS = {
    "white 0.3": ("gaussian", {"sigma": 0.3}),
    "pink 0.3": ("pink", {"sigma": 0.3}),
    "pink 0.6": ("pink", {"sigma": 0.6}),
    "corner, 10 steps": ("corner", {"length": 10.0}),
    "corner, 50 steps": ("corner", {}),
    "corner, 200 steps": ("corner", {"length": 200.0}),
}
"""Strategies and their settings."""
DENSE = ("HalfCheetah-v5", "Hopper-v5")
PAID = 0.5
ENVIRONMENTS, STEPS = 16, 4_000


def share(task: str, strategy: str, settings: dict[str, float]) -> float:
    """The share of episodes that are paid, of those that end within the steps."""
    pool = Pool(task, list(range(ENVIRONMENTS)), 1)
    module, spec = strategies.load(strategy), pool.spec
    hyper = module.Hyper(**settings)
    made = module.make(spec, hyper, Blueprint(init=None, apply=None, outputs=spec.action_size))
    view = View(params={"net": {}, "joint": {}}, policy=None, features=None, progress=0.0)
    state = made.init(random.key(0), hyper, view)
    begin = jax.jit(jax.vmap(lambda key: made.acting.begin(state, view, key)))

    @jax.jit
    @jax.vmap
    def act(memory, key):
        memory, nudge = made.acting.behave(state, memory, view, None, made.acting.draw(key), 0.0)
        return memory, nudge.shift[0].clip(-1.0, 1.0)

    low, high = np.asarray(spec.low), np.asarray(spec.high)
    pool.reset()
    envs = np.arange(ENVIRONMENTS, dtype=np.int32)
    memory = begin(random.split(random.key(1), ENVIRONMENTS))
    paid, found, episodes = np.zeros(ENVIRONMENTS, bool), 0, 0
    for step in range(STEPS):
        keys = random.split(random.fold_in(random.key(2), step), (2, ENVIRONMENTS))
        memory, action = act(memory, keys[0])
        pool.send(envs, low + (np.asarray(action) + 1.0) / 2.0 * (high - low))
        answer = pool.receive()
        paid[answer.envs] |= answer.reward > PAID
        over = answer.envs[answer.ended]
        if len(over):
            pool.reset(over)
            found, episodes = found + paid[over].sum(), episodes + len(over)
            paid[over] = False
            fresh, new = np.isin(envs, over), begin(keys[1])
            memory = jax.tree.map(
                lambda a, b, fresh=fresh: np.where(fresh.reshape(-1, *[1] * (a.ndim - 1)), a, b),
                new,
                memory,
            )
    pool.close()
    return found / episodes


def main() -> None:
    suite = studies.load("seek-suite")
    tasks = dict.fromkeys(cell.task for cell in suite.cells if cell.task not in DENSE)
    print("| task |" + "".join(f" {name} |" for name in ARMS))
    print("|---|" + "---:|" * len(ARMS))
    for task in sys.argv[1:] or tasks:
        cells = "".join(f" {share(task, *arm):.1%} |" for arm in ARMS.values())
        print(f"| {task} |{cells}", flush=True)


if __name__ == "__main__":
    main()
