"""A saved critic: two files, NumPy alone, the same values as in training."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save

from discover_rl.algorithms import ddpg
from discover_rl.algorithms.likelihood import value_of
from discover_rl.core import networks
from discover_rl.core.normalization import deviation
from discover_rl.core.types import CriticHead, Spec, UserError
from discover_rl.storage import load_run
from discover_rl.storage.critics import Critic, load_critic
from discover_rl.training import launch
from discover_rl.training.outputs import Outputs
from tests.helpers.trainings import runs_of

SPEC = Spec((1,), (1,), (0.0,), (10.0,))
"""Actions between 0 and 10: 5 is the middle."""


def linear(weights, head=CriticHead(), spec=SPEC) -> Critic:  # noqa: B008
    """Critics without hidden layers, one for each list of weights, all with a bias of 1."""
    weight = np.asarray(weights, np.float32)[..., None]
    bias = np.ones((*weight.shape[:-2], 1), np.float32)
    return Critic({"head": {"weight": weight, "bias": bias}}, spec, head, {"step": 3})


def write(critic, folder):
    for name, content in critic.to_bytes().items():
        (folder / name).write_bytes(content)
    return folder


def test_the_value_is_worked_out_by_hand_and_of_twins_the_smaller_one():
    # The action 10 is 1 in −1 … 1: 2·3 + 1·1 + 1 = 8 and −1·3 + 4·1 + 1 = 2.
    critic = linear([[2, 1], [-1, 4]])
    np.testing.assert_allclose(critic.each([3.0], [10.0]), [8, 2])
    assert critic([3.0], [10.0]) == 2
    batch = critic(np.array([[3.0], [0.0]]), np.array([[10.0], [5.0]]))
    np.testing.assert_allclose(batch, [2, 1])


def test_observations_are_standardised_and_actions_are_not():
    critic = linear([[2, 1]])
    stats = {"mean": np.float32([1.0]), "deviation": np.float32([2.0])}
    standardised = Critic({"input": stats, **critic.net}, SPEC, critic.head)
    assert standardised([5.0], [10.0]) == critic([2.0], [10.0])


def test_a_value_function_takes_observations_alone():
    critic = linear([3.0], CriticHead(action=""))
    assert critic([2.0]) == 7
    with pytest.raises(ValueError, match="takes observations alone"):
        critic([2.0], [1.0])
    with pytest.raises(ValueError, match="takes observations and actions"):
        linear([[2, 1]])([2.0])
    with pytest.raises(ValueError, match="1 observations came with 2 actions"):
        linear([[2, 1]])([2.0], [[1.0], [2.0]])


def test_it_is_the_same_after_a_trip_to_disk_and_needs_no_jax(tmp_path):
    write(linear([[2, 1], [-1, 4]]), tmp_path)
    code = f"""
import sys
from pathlib import Path
from discover_rl.storage.critics import load_critic
critic = load_critic(Path({str(tmp_path)!r}))
assert critic([3.0], [10.0]) == 2 and critic.about["step"] == 3
assert "jax" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def deep(action: str = "input", critics: int = 2) -> Critic:
    """Twin critics with two hidden layers, for observations of 2 and actions of 1 numbers."""
    generator, early = np.random.default_rng(0), action == "input"

    def layer(i, o):
        arrays = {"weight": generator.normal(size=(critics, i, o)), "bias": np.ones((critics, o))}
        return {name: array.astype(np.float32) for name, array in arrays.items()}

    net = {"layer0": layer(2 + early, 4), "layer1": layer(5 - early, 4), "head": layer(4, 1)}
    return Critic(net, Spec((2,), (1,), (-1.0,), (1.0,)), CriticHead(action=action), {"step": 3})


def damage(folder, change) -> None:
    """Change a critic's arrays and their meaning, or only one of them."""
    arrays = {name: np.array(it) for name, it in load_file(folder / "critic.safetensors").items()}
    meaning = json.loads((folder / "critic.json").read_text())
    change(arrays, meaning)
    (folder / "critic.safetensors").write_bytes(save(arrays))
    (folder / "critic.json").write_text(json.dumps(meaning))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays, meaning: arrays.pop("head.bias"), "head.bias is missing"),
        (lambda arrays, meaning: arrays["head.bias"].fill(np.nan), "bias has numbers that are not"),
        (lambda arrays, meaning: meaning.pop("low"), "low"),
        (lambda arrays, meaning: meaning.update(observation_shape=[4]), "layer0.weight does not"),
        (
            lambda arrays, meaning: meaning.update(format=9),
            "of format 9; this version reads format 1",
        ),
    ],
)
def test_a_damaged_critic_is_one_sentence(tmp_path, change, message):
    damage(write(deep(), tmp_path), change)
    with pytest.raises(UserError, match=message) as caught:
        load_critic(tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "values",
    [
        {"observation_shape": [10**9, 10**9]},
        {"observation_shape": [10**15]},
        {"observation_shape": [2, 3, 11, 131, 2731, 409891, 7623851]},  # 2⁶⁶ + 2, so 2 in 64 bits
        {"observation_shape": [-2]},
        {"action_shape": [10**15]},
        {"action_shape": [3]},
        {"low": [-1.0, None]},
        {"low": [5.0]},
        {"high": [3.0, 10.0, 1.0]},
        {"activation": "evil"},
        {"action": "third layer"},
        {"action": "second layer"},  # its arrays take the action at once
        {"action": ""},
        {"about": []},
        {"about": {"seed": -1}},
    ],
)
def test_a_description_that_fits_no_critic_is_refused(tmp_path, values):
    """Before anything is allocated by its numbers."""
    damage(write(deep(), tmp_path), lambda arrays, meaning: meaning.update(values))
    with pytest.raises(UserError, match=r"The critic in .* cannot be read"):
        load_critic(tmp_path)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("head.weight", np.ones((2, 4, 2))),  # another value, which would be ignored
        ("head.weight", np.ones((4, 1))),  # not as many critics as the layers before it
        ("head.weight", np.ones((0, 4, 1))),
        ("layer1.bias", np.ones((1, 4))),  # would be broadcast over both critics
        ("layer1.weight", np.ones((3, 4, 4))),
        ("layer7.bias", np.ones((2, 4))),
        ("head.extra", np.ones(2)),
        ("nodot", np.ones(2)),
        ("input.mean", np.zeros(2)),
        ("input.mean", np.zeros(3)),
    ],
)
def test_an_array_that_does_not_fit_is_refused(tmp_path, name, array):
    array = array.astype(np.float32)
    damage(write(deep(), tmp_path), lambda arrays, meaning: arrays.update({name: array}))
    with pytest.raises(UserError, match=r"The critic in .* cannot be read"):
        load_critic(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 10**5, b"\xff" * 40])
@pytest.mark.parametrize("name", ["critic.json", "critic.safetensors"])
def test_a_damaged_file_names_the_folder(tmp_path, name, content):
    write(deep(), tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=f"The critic in {tmp_path} cannot be read"):
        load_critic(tmp_path)


@pytest.mark.parametrize("action", ["input", "second layer"])
def test_actions_join_where_they_joined_in_training(tmp_path, action):
    critic, obs = deep(action), np.random.default_rng(1).normal(size=(3, 2))
    loaded = load_critic(write(critic, tmp_path))
    values = loaded.each(obs, np.zeros((3, 1)))
    assert values.shape == (2, 3)
    np.testing.assert_array_equal(values, critic.each(obs, np.zeros((3, 1))))


def test_where_there_is_none_the_sentence_says_when_there_is_one(tmp_path):
    with pytest.raises(UserError, match="saved when its run ends"):
        load_critic(tmp_path)


@pytest.mark.parametrize("algorithm", ["ddpg", "td3", "ppo"])
def test_a_trained_critic_gives_the_values_of_training(tmp_path, monkeypatch, algorithm):
    """Against what the algorithm itself computes from its last state."""
    ended, save_trained = [], Outputs.save_trained

    def spy(self, state, *rest):
        ended.append((self.agent, jax.tree.map(lambda leaf: np.asarray(leaf[0]), state)))
        save_trained(self, state, *rest)

    monkeypatch.setattr(Outputs, "save_trained", spy)
    launch.train(runs_of(algorithm=algorithm, steps=80, seeds=[0]), tmp_path)
    ((agent, state),) = ended
    critic, learner = load_run(tmp_path).critic, state.learner
    assert critic.about["step"] == 80
    obs = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    action = np.float32([[-2.0], [-0.5], [0.0], [2.0]])  # Pendulum's box is −2 … 2
    if algorithm == "ppo":
        seen = agent._standardised(state.obs_stats, obs)
        context = np.zeros((4, agent.strategy.network.context_size), np.float32)
        values, expected = critic(obs), value_of(learner.critic, seen, context)
    elif algorithm == "ddpg":
        seen = networks.standardise(obs, learner.moments.mean, deviation(learner.moments))
        values, expected = critic.each(obs, action), ddpg.q_value(learner.critics, seen, action / 2)
    else:
        values, expected = (
            critic.each(obs, action),
            networks.q_value(learner.critics, obs, action / 2),
        )
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
