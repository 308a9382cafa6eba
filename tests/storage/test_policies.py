"""A saved policy: two files, NumPy alone, the interface of Stable-Baselines3's models."""

import json
import subprocess
import sys

import numpy as np
import pytest

from discover_rl.core import networks
from discover_rl.core.types import PolicyHead, Spec, UserError
from discover_rl.storage.policies import Policy, find_policies, load_policy

ABOUT = {"task": "Any-v0", "algorithm": "td3", "strategy": "none", "seed": 3, "step": 40}


def linear(weight, bias, spec: Spec, squash: bool = True) -> Policy:
    """A policy without hidden layers, so that what it does can be worked out by hand."""
    head = {"weight": np.asarray(weight, np.float32), "bias": np.asarray(bias, np.float32)}
    return Policy({"head": head}, spec, PolicyHead(squash=squash), ABOUT)


def deep(spec: Spec, activation: str = "relu") -> Policy:
    generator = np.random.default_rng(0)

    def layer(i: int, o: int):
        arrays = {"weight": generator.normal(size=(i, o)), "bias": generator.normal(size=o)}
        return {name: 0.3 * array.astype(np.float32) for name, array in arrays.items()}

    net = {
        "layer0": layer(spec.observation_size, 16),
        "layer1": layer(16, 16),
        "head": layer(16, spec.action_size),
    }
    return Policy(net, spec, PolicyHead(activation=activation), ABOUT)


def write(policy: Policy, folder, best: bool = False):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in policy.to_bytes(best).items():
        (folder / name).write_bytes(content)
    return folder


def refusal(folder) -> str:
    """The one sentence that says why there is no policy to load."""
    with pytest.raises(UserError) as caught:
        load_policy(folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


WIDE = Spec((2, 3), (2, 1), (-1.0, 0.0), (3.0, 10.0))
"""Observations and actions of two dimensions, bounds that differ and are not symmetric."""


# What it does


def test_the_action_is_worked_out_by_hand_and_lies_in_the_box_of_its_dimension():
    # Outputs 1·2 + 0.5 = 2.5 and 1·2 − 2 = 0; tanh 2.5 = 0.986614 and 0.
    # −1 … 3 has centre 1 and half-range 2: 2.973228. 0 … 10 has centre 5: 5.
    policy = linear([[2, 2]], [0.5, -2], Spec((1,), (2,), (-1.0, 0.0), (3.0, 10.0)))
    action, state = policy.predict([1.0])
    np.testing.assert_allclose(action, [2.973228, 5.0], rtol=1e-6)
    assert state is None


def test_without_squashing_the_action_is_still_clipped_to_the_box():
    policy = linear([[1, 1]], [0, 0], Spec((1,), (2,), (-1.0, 0.0), (3.0, 10.0)), squash=False)
    np.testing.assert_array_equal(policy.predict([9.0])[0], [3.0, 10.0])
    np.testing.assert_array_equal(policy.predict([-9.0])[0], [-1.0, 0.0])
    np.testing.assert_allclose(policy.predict([0.5])[0], [2.0, 7.5])


@pytest.mark.parametrize("activation", networks.ACTIVATIONS)
def test_every_nonlinearity_survives_its_files(tmp_path, activation):
    policy = deep(WIDE, activation)
    assert load_policy(write(policy, tmp_path)).head == policy.head


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_hidden_layers_are_those_of_a_plain_perceptron(activation):
    policy = deep(Spec((3,), (2,), (-1.0, -1.0), (1.0, 1.0)), activation)
    x = np.asarray([0.3, -1.2, 0.7])
    for name in ("layer0", "layer1"):
        x = x @ policy.net[name]["weight"] + policy.net[name]["bias"]
        x = np.maximum(x, 0) if activation == "relu" else np.tanh(x)
    expected = np.tanh(x @ policy.net["head"]["weight"] + policy.net["head"]["bias"])
    np.testing.assert_allclose(policy.predict([0.3, -1.2, 0.7])[0], expected, atol=1e-5)


@pytest.mark.parametrize("n", [1, 7])
def test_one_observation_and_a_batch_agree(n):
    policy = deep(WIDE)
    observations = np.random.default_rng(1).normal(size=(n, 2, 3))
    actions, state = policy.predict(observations)
    assert actions.shape == (n, 2, 1)
    assert state is None
    for observation, action in zip(observations, actions, strict=True):
        alone, _ = policy.predict(observation)
        assert alone.shape == (2, 1)
        np.testing.assert_allclose(alone, action, rtol=1e-4, atol=1e-4)
    assert len(np.unique(actions[:, 0])) == n


def test_bounds_hold_for_every_dimension_of_a_shaped_action():
    policy = deep(WIDE)
    actions, _ = policy.predict(np.random.default_rng(1).normal(size=(500, 2, 3)) * 100)
    np.testing.assert_array_equal(actions.min(axis=0), [[-1.0], [0.0]])
    np.testing.assert_array_equal(actions.max(axis=0), [[3.0], [10.0]])


def test_calls_as_stable_baselines_makes_them():
    policy = deep(WIDE)
    observations = np.ones((4, 2, 3))
    plain, _ = policy.predict(observations)
    mask = np.ones(4, bool)
    for answer in (
        policy.predict(observations, state=None, episode_start=mask, deterministic=True),
        policy.predict(observations, None, mask, False),
    ):
        actions, state = answer
        np.testing.assert_array_equal(actions, plain)
        assert state is None
    assert isinstance(answer, tuple)


@pytest.mark.parametrize("shape", [(3,), (2,), (6,), (3, 2), (1, 3, 2), (1, 1, 2, 3), ()])
def test_an_observation_of_another_shape_is_refused_with_the_shape(shape):
    with pytest.raises(ValueError, match=r"shape \(2, 3\)"):
        deep(WIDE).predict(np.zeros(shape))


# Its files


def test_a_policy_survives_its_files_to_the_bit(tmp_path):
    policy = deep(WIDE, "tanh")
    loaded = load_policy(write(policy, tmp_path / "run"))
    assert (loaded.spec, loaded.head, loaded.about) == (WIDE, PolicyHead(activation="tanh"), ABOUT)
    observations = np.random.default_rng(1).normal(size=(9, 2, 3))
    np.testing.assert_array_equal(loaded.predict(observations)[0], policy.predict(observations)[0])


def test_bounds_survive_json_to_the_bit(tmp_path):
    bounds = float(np.float32(0.1)), 1 / 3
    spec = Spec((1,), (2,), (-bounds[0], -bounds[1]), bounds)
    assert load_policy(write(linear([[1, 1]], [0, 0], spec), tmp_path)).spec == spec


def test_files_are_json_and_safetensors_and_nothing_else(tmp_path):
    write(deep(WIDE), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"policy.json", "policy.safetensors"}
    assert json.loads((tmp_path / "policy.json").read_text())["about"] == ABOUT
    content = (tmp_path / "policy.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    numbers = 6 * 16 + 16 + 16 * 16 + 16 + 16 * 2 + 2
    assert len(content) == 8 + int.from_bytes(content[:8], "little") + 4 * numbers
    assert set(header) - {"__metadata__"} == {
        f"{layer}.{part}" for layer in ("layer0", "layer1", "head") for part in ("weight", "bias")
    }


ALONE = """
import pickle, sys
def refuse(*_, **__): raise RuntimeError("pickle")
pickle.load = pickle.loads = pickle.Unpickler = refuse
from discover_rl import load_policy
policy = load_policy(sys.argv[1])
print(policy.predict([[0.5] * 3] * 2)[0].tolist())
print(sorted({"jax", "gymnasium", "torch", "optax", "typer"} & set(sys.modules)))
"""


def test_it_loads_where_there_is_no_jax_and_no_gymnasium(tmp_path):
    for name in ("jax", "gymnasium", "optax"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('not installed')\n")
    write(deep(WIDE), tmp_path / "run")
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(tmp_path / "run")],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    actions, modules = done.stdout.splitlines()
    expected, _ = deep(WIDE).predict(np.full((2, 3), 0.5))
    np.testing.assert_allclose(json.loads(actions), expected, rtol=1e-6)
    assert modules == "[]"


# Where it is looked for


def test_the_only_policy_below_a_folder_is_found(tmp_path):
    write(deep(WIDE), tmp_path / "out" / "seed-0")
    assert load_policy(tmp_path).about == load_policy(str(tmp_path / "out")).about == ABOUT


def test_several_policies_below_a_folder_are_named(tmp_path):
    folders = [write(deep(WIDE), tmp_path / f"seed-{i}") for i in (1, 0)]
    assert find_policies(tmp_path) == sorted(folders)
    said = refusal(tmp_path)
    assert all(str(folder) in said for folder in folders)
    assert load_policy(folders[0]).about == ABOUT


def test_a_folders_own_policy_goes_before_those_below(tmp_path):
    write(deep(WIDE), tmp_path / "below")
    write(linear(np.ones((6, 2)), [0, 0], WIDE), tmp_path)
    assert set(load_policy(tmp_path).net) == {"head"}
