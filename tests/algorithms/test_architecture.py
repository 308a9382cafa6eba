"""Settings of networks: nonlinearity, layer normalisation, standardised observations."""

import jax
import numpy as np
import pytest

import discover_rl
from discover_rl.config import Request, resolve
from discover_rl.core import networks
from discover_rl.core.pytrees import lane_of
from discover_rl.core.types import UserError
from discover_rl.storage.policies import Policy, load_policy
from discover_rl.storage.records import Record
from discover_rl.training import launch
from discover_rl.training.evaluation import evaluate_policy
from tests.helpers import cells
from tests.helpers.trainings import assert_same_files, runs_of, stop_at

OTHER = {"activation": "gelu", "layer_norm": "both", "normalise": True}
LATER = {"activation", "layer_norm", "lr_decay_share", "normalise_rewards"}
SEVERAL = [
    ("td3", "none"),
    ("ppo", "none"),
    pytest.param("ddpg", "psne", marks=pytest.mark.slow),
    pytest.param("sac", "noisynet", marks=pytest.mark.slow),
    pytest.param("td3", "seek", marks=pytest.mark.slow),
    pytest.param("a2c", "coherent", marks=pytest.mark.slow),
]


def normed(net) -> bool:
    found = {"gain" in net[name] for name in net if name.startswith("layer")}
    assert len(found) == 1
    return found.pop()


@pytest.mark.parametrize(("algorithm", "strategy"), SEVERAL)
def test_actor_critics_and_saved_policy_have_them(algorithm, strategy, tmp_path):
    hypers = cells.hypers(algorithm, strategy, **OTHER)
    agent = cells.made(algorithm, strategy, *hypers)
    state, actions = cells.run(agent, cells.begin(agent, [5], *hypers), [5], 12)
    assert np.isfinite(actions).all()
    learner = state.learner
    for net in (learner.actor["net"], getattr(learner, "critics", None) or learner.critic):
        assert "gelu" in net
        assert normed(net)
    net = lane_of(agent.nets(state), 0)
    assert {"input", "gelu"} <= set(net)
    for name, content in Policy(net, cells.SPEC, agent.head).to_bytes().items():
        (tmp_path / name).write_bytes(content)
    policy = load_policy(tmp_path)
    assert policy.head.activation == "gelu"
    assert "gelu" not in policy.net
    obs = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
    expected = networks.mean_action(agent.head, net, obs)
    np.testing.assert_array_equal(policy.predict(obs)[0], cells.SPEC.to_box(expected))


@pytest.mark.parametrize(
    ("value", "actor", "critic"),
    [("none", False, False), ("actor", True, False), ("critic", False, True), ("both", True, True)],
)
@pytest.mark.parametrize("algorithm", ["ddpg", "td3", "ppo"])
def test_layers_are_normalised_where_one_says(algorithm, value, actor, critic):
    hyper, own = cells.hypers(algorithm, "none", layer_norm=value)
    agent = cells.made(algorithm, "none", hyper, own)
    state = jax.eval_shape(lambda: agent.algorithm.init(jax.random.key(0), hyper, own))
    critics = getattr(state, "critics", None) or state.critic
    assert (normed(state.actor["net"]), normed(critics)) == (actor, critic)


def test_presets_and_records_are_as_they_were():
    for algorithm in ("td3", "sac", "ppo", "a2c", "ddpg"):
        (run,) = resolve(Request("Hopper-v5", algorithm, "none"))
        said = run.to_json()["settings"]
        assert not LATER & set(said)
        assert ("normalise" in said) == (algorithm not in ("td3", "sac"))
        usual = "tanh" if run.on_policy else "relu"
        assert (run.settings["activation"], run.settings["layer_norm"]) == (usual, "none")
    (run,) = resolve(Request("Hopper-v5", "td3", "none", settings={"activation": "silu"}))
    assert run.to_json()["settings"]["activation"] == "silu"
    with pytest.raises(UserError, match="activation must be one of relu, tanh, gelu, silu, elu"):
        resolve(Request("Hopper-v5", settings={"activation": "sigmoid"}))


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "strategy"), [("sac", "discover"), ("ppo", "discover")])
def test_a_run_goes_on_exactly_and_its_policy_plays_as_it_did(algorithm, strategy, tmp_path):
    runs = runs_of(algorithm=algorithm, strategy=strategy, **OTHER)
    launch.train(runs, tmp_path / "whole")
    stop_at(110, runs, tmp_path / "parts")
    launch.train(runs, tmp_path / "parts")
    assert_same_files(tmp_path / "whole", tmp_path / "parts")
    policy = discover_rl.load_policy(tmp_path / "whole/seed-1")
    record = Record(tmp_path / "whole/seed-1/record.jsonl")
    returns = evaluate_policy(policy, "Pendulum-v1", 2).returns[0].tolist()
    assert returns == record.evaluations[-1]["returns"]
