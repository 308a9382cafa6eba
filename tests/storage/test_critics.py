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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda arrays, meaning: arrays.pop("head.bias"), "bias"),
        (lambda arrays, meaning: arrays["head.bias"].fill(np.nan), "head.bias is not finite"),
        (lambda arrays, meaning: meaning.pop("low"), "low"),
        (lambda arrays, meaning: meaning.update(observation_shape=[4]), "cannot be read"),
        (lambda arrays, meaning: meaning.update(format=9), "of format 9, and this is 1"),
    ],
)
def test_a_damaged_critic_is_one_sentence(tmp_path, change, message):
    write(linear([[2, 1]]), tmp_path)
    arrays = {name: np.array(it) for name, it in load_file(tmp_path / "critic.safetensors").items()}
    meaning = json.loads((tmp_path / "critic.json").read_text())
    change(arrays, meaning)
    (tmp_path / "critic.safetensors").write_bytes(save(arrays))
    (tmp_path / "critic.json").write_text(json.dumps(meaning))
    with pytest.raises(UserError, match=message):
        load_critic(tmp_path)


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
