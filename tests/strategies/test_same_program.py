"""Nobody pays for what is not used: lowered programs are compared, letter for letter."""

import functools
import hashlib
import json
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl import algorithms, config, strategies
from discover_rl.core.hyperparameters import with_hyper_of
from discover_rl.core.types import Batch, Nudge, Rollout, Update
from discover_rl.strategies import none
from discover_rl.strategies.interface import (
    Acting,
    Density,
    Learning,
    NetworkSpec,
    Schedule,
    Strategy,
)
from tests.algorithms.test_on_policy import rollout
from tests.helpers import cells

DATA = Path(__file__).parent.parent / "data" / "0.1.0"

each_algorithm = pytest.mark.parametrize("algorithm", sorted(algorithms.ALGORITHMS))


def written_out() -> Strategy:
    """A strategy that changes nothing, every field of every group given."""
    return Strategy(
        init=lambda key, hyper, view: hyper,
        acting=Acting(
            begin=lambda state, view, key: (),
            draw=lambda key: (),
            behave=lambda state, memory, view, obs, noise, warmup: (memory, untouched(view.net)),
            greedy=lambda state, params: untouched(params["net"]),
            resample_on=("episode",),
        ),
        learning=Learning(
            joint=lambda key, hyper, net, critic: {},
            expect=lambda state, view, obs, key, role: untouched(view.net),
            step=lambda state, view, batch, key: (state, 0.0),
            update_targets=lambda state, follow: state,
            cadence="actor",
            every=1,
            replaces_smoothing=False,
        ),
        bonus=None,
        density=Density(nudge=None, recall=None, log_prob=None, initial_belief=(), max_piece=64),
        schedule=Schedule(
            updates=lambda step, due: due(step),
            truncate=lambda step: False,
            on_event=lambda state, view, name: (state, view.learned),
            on_transition=None,
        ),
        network=NetworkSpec(context_size=0, layer_norm=False),
        report=lambda state, view, batch: {},
        inherit=with_hyper_of,
    )


def untouched(net) -> Nudge:
    return Nudge(
        net=net,
        context=None,
        shift=0.0,
        mean_shift=None,
        noise=None,
        std=None,
        spread=0.0,
        critic=None,
    )


def text(function, *given) -> str:
    """The program that a function is lowered to, without names of places in the source."""
    lowered = jax.jit(function).lower(*given).as_text()
    return re.sub(r"loc\([^)]*\)|#loc.*", "", lowered)


def settings_of(algorithm: str):
    small = {**cells.SHORT, "horizon": 12} if cells.is_on_policy(algorithm) else cells.SMALL
    return algorithms.load(algorithm).Hyper(**small)


def programs(algorithm: str, strategy: Strategy, hyper=None) -> dict[str, str]:
    """What acting and learning are lowered to. The strategy's own state is a constant in them."""
    hyper, module = none.Hyper() if hyper is None else hyper, algorithms.load(algorithm)
    on_policy, hp = cells.is_on_policy(algorithm), settings_of(algorithm)
    made = module.make(cells.SPEC, hp, strategy)
    state = jax.eval_shape(lambda key: made.init(key, hp, hyper), random.key(0))
    own = strategy.init(random.key(0), hyper, None)  # those that act alone need no view for it
    bare, key = state._replace(strategy=()), random.key(0)

    def learn(state, data, key):
        given = ((), data, key) if on_policy else (data, key, Update())
        state, *rest = made.learn(state._replace(strategy=own), *given, 0.0)
        return state._replace(strategy=()), rest

    def act(state, obs, key):
        state = state._replace(strategy=own)
        memory, noise = made.begin(state, key), made.draw(key)
        if on_policy:
            return made.acting(state)(memory, obs[None], noise)
        return made.act(state, memory, obs, noise, 100)[1:]

    data = rollout() if on_policy else cells.batch()
    obs = jnp.ones(cells.SPEC.observation_size)
    return {"learn": text(learn, bare, data, key), "act": text(act, bare, obs, key)}


@functools.cache
def of_none(algorithm: str) -> dict[str, str]:
    return programs(algorithm, none.make(cells.SPEC, none.Hyper(), None))


@each_algorithm
def test_defaults_are_what_changes_nothing(algorithm):
    assert programs(algorithm, written_out()) == of_none(algorithm)


def made(algorithm: str, name: str) -> tuple[Strategy, Any]:
    module, hyper = strategies.load(name), strategies.load(name).Hyper()
    blueprint = algorithms.load(algorithm).blueprint(cells.SPEC, settings_of(algorithm))
    return module.make(cells.SPEC, hyper, blueprint), hyper


def only_acts(strategy: Strategy) -> bool:
    others = ("bonus", "density", "learning", "network", "schedule")
    return all(getattr(strategy, it) == getattr(Strategy(), it) for it in others)


ONLY_ACT = [pair for pair in config.pairs() if pair[1] != "none" and only_acts(made(*pair)[0])]


def test_those_that_only_act_are_known():
    names = {"gaussian", "ou", "pink", "zeta", "corner", "oac"}
    assert {name for _, name in ONLY_ACT} == names


@pytest.mark.parametrize("pair", ONLY_ACT, ids="-".join)
def test_a_strategy_that_only_acts_leaves_learning_as_it_is(pair):
    """On-policy, diagnostics are computed beside learning: they are left out."""
    strategy, hyper = made(*pair)
    found = programs(pair[0], strategy._replace(report=Strategy().report), hyper)
    assert found["learn"] == of_none(pair[0])["learn"]
    assert found["act"] != of_none(pair[0])["act"]


@each_algorithm
def test_a_difference_would_show(algorithm):
    """One number more in a loss or in a target is another program."""
    step = lambda state, view, batch, key: (state, view.td_error(batch).mean())  # noqa: E731
    bonus = lambda state, view, batch: 0.0 * batch.reward  # noqa: E731
    for strategy in (Strategy(learning=Learning(step=step)), Strategy(bonus=bonus)):
        found = programs(algorithm, strategy)
        assert found["learn"] != of_none(algorithm)["learn"]
        assert found["act"] == of_none(algorithm)["act"]


# What 0.1.0 lowered: made from its code, by the functions below with its own names for the parts.

BEFORE = json.loads((DATA / "lowered.json").read_text())


def of_0_1_0(algorithm: str) -> dict[str, str]:
    """The programs of `none` as they were lowered with 0.1.0, by name."""
    module, on_policy = algorithms.load(algorithm), cells.is_on_policy(algorithm)
    hp, own = module.Hyper(**(cells.SHORT if on_policy else cells.SMALL)), none.Hyper()
    made = module.make(cells.SPEC, hp, none.make(cells.SPEC, own, module.blueprint(cells.SPEC, hp)))
    key = jax.eval_shape(lambda: random.key(0))
    state = jax.eval_shape(made.init, random.key(0), hp, own)

    def lowered(function, *given) -> str:
        found = re.sub(r"loc\(.*?\)|#loc.*", "", jax.jit(function).lower(*given).as_text())
        found = re.sub(r'jax\.result_info = "[^"]*"', "", found)
        return re.sub(r"module @\S+", "module", found)

    def zeros(*shape: int, dtype: type = np.float32) -> np.ndarray:
        return np.zeros(shape, dtype)

    if on_policy:
        flags = zeros(6, 1, dtype=bool)
        data = Rollout(
            *(zeros(6, 1, 3), zeros(6, 1, 0), zeros(6, 1, 2), zeros(6, 1)),
            *(flags, flags, zeros(6, 1, 3), ()),
        )
        learn = lambda state, data, key: made.learn(state, (), data, key, 0.0)  # noqa: E731
        return {f"{algorithm}-learn": lowered(learn, state, data, key)}
    actions = zeros(32, 2)
    data = Batch(*(zeros(32, 3), actions, actions, zeros(32), zeros(32, dtype=bool), zeros(32, 3)))
    learn = lambda state, data, key: made.learn(state, data, key, Update(), 0.0)  # noqa: E731
    act = lambda state, obs, noise: made.act(state, (), obs, noise, 100)  # noqa: E731
    return {
        f"{algorithm}-learn": lowered(learn, state, data, key),
        f"{algorithm}-act": lowered(act, state, zeros(3), jax.eval_shape(made.draw, key)),
    }


@pytest.mark.skipif(jax.__version__ != BEFORE["jax"], reason="lowered by another JAX")
@each_algorithm
def test_none_is_the_program_that_it_was(algorithm):
    for name, program in of_0_1_0(algorithm).items():
        assert hashlib.sha256(program.encode()).hexdigest() == BEFORE["sha256"][name]
