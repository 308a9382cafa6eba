"""Settings that do nothing with an algorithm: they are known, and no sweep is over them."""

import dataclasses

import jax
import numpy as np
import pytest

from discover_rl import config, strategies, tuning
from discover_rl.config.unused import unused
from discover_rl.core.types import UserError
from discover_rl.strategies import STRATEGIES, Blueprint
from tests.helpers import cells

USED_BY_ONE = {
    ("sac", "pink"): ["sigma"],
    ("ppo", "zeta"): ["sigma"],
    ("td3", "zeta"): [],
    ("sac", "gsde"): ["sigma"],
    ("a2c", "gsde"): ["sigma", "mean_limit"],
    ("td3", "gsde"): ["initial_log_std", "learn_features", "mean_limit"],
    ("sac", "oac"): ["sigma"],
    ("sac", "see"): ["smoothing", "smoothing_clip"],
    ("td3", "see"): ["entropy_weight", "target_entropy"],
    ("sac", "seek"): ["sigma"],
    ("ddpg", "seek"): [],
}
SWEPT = {"strategy.sigma": "0.1,0.3"}
SAID = r"strategy\.sigma does nothing with sac and pink: runs with other values"


def request(algorithm, strategy, **settings):
    return config.Request("Pendulum-v1", algorithm, strategy, 10_000, 1, settings)


@pytest.mark.parametrize(("pair", "names"), USED_BY_ONE.items(), ids="-".join)
def test_they_are_known(pair, names):
    (run,) = config.resolve(request(*pair))
    assert unused(run) == [f"strategy.{name}" for name in names]
    origins = config.origins(run)
    idle = [name for name, (_, origin) in origins.items() if "does nothing with" in origin]
    assert idle == unused(run)


def test_they_depend_on_fields_that_a_blueprint_has():
    for name in STRATEGIES:
        for field in dataclasses.fields(strategies.load(name).Hyper):
            bound = {field.metadata.get("only"), field.metadata.get("unless")} - {"", None}
            assert bound <= {*Blueprint._fields}


def test_a_sweep_over_one_is_refused():
    with pytest.raises(UserError, match=SAID):
        config.resolve(request("sac", "pink", **SWEPT))
    assert len(config.resolve(request("td3", "pink", **SWEPT))) == 2
    assert len(config.resolve(request("sac", "pink", **SWEPT, behaviour="mean"))) == 2


@pytest.mark.parametrize("given", ["0.1:0.3", "0.1,0.3"])
def test_so_is_a_tuning_of_one(given):
    with pytest.raises(UserError, match=SAID):
        tuning.make_plan(request("sac", "pink"), {"strategy.sigma": given})


def test_who_sets_one_is_told_once(capfd):
    for _ in range(2):
        config.resolve(request("ppo", "pink", **{"strategy.sigma": 0.2}))
    said = capfd.readouterr()
    assert said.err == "Note: strategy.sigma does nothing with ppo and pink.\n"
    assert not said.out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "strategy", "name"),
    [
        *[("sac", "pink", "sigma"), ("td3", "pink", "sigma"), ("sac", "zeta", "sigma")],
        *[("sac", "gsde", "sigma"), ("sac", "gsde", "mean_limit"), ("td3", "gsde", "mean_limit")],
        *[("td3", "gsde", "initial_log_std"), ("sac", "oac", "sigma"), ("td3", "oac", "sigma")],
        *[("td3", "see", "target_entropy"), ("sac", "see", "smoothing"), ("sac", "seek", "sigma")],
        *[("td3", "see", "smoothing"), ("ppo", "gsde", "sigma"), ("ppo", "gsde", "mean_limit")],
    ],
)
def test_two_lanes_that_differ_in_one_alone_are_the_same(algorithm, strategy, name):
    hyper, own = cells.hypers(algorithm, strategy)
    differ = [dataclasses.replace(own, **{name: value}) for value in (0.01, 0.02)]
    agent, seeds = cells.made(algorithm, strategy, hyper, own), [5, 5]
    state, actions = cells.run(agent, cells.begin(agent, seeds, hyper, differ), seeds, 12)
    learner = jax.device_get(state.learner)._replace(hyper=())
    learned = learner.strategy._replace(hyper=()) if hasattr(learner.strategy, "hyper") else ()
    leaves = jax.tree.leaves(learner._replace(strategy=learned))
    same = [np.array_equal(*leaf) for leaf in leaves]
    same.append(np.array_equal(actions[:, 0], actions[:, 1]))
    (run,) = config.resolve(request(algorithm, strategy))
    assert all(same) == (f"strategy.{name}" in unused(run))
