"""What environments answer that cannot be learned from: each is one true sentence."""

import numpy as np
import pytest

from discover_rl.envs import answers
from discover_rl.envs.gymnasium_vector import GymnasiumEpisodes
from discover_rl.envs.settings import Making
from discover_rl.storage.records import Record
from discover_rl.training import launch as training
from tests.envs import odd_tasks
from tests.envs.test_making import ANSWERS, begun, step
from tests.helpers.trainings import runs_of


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"reward": [1.0]}, "the reward has the shape (1,), and must be one number"),
        ({"reward": "much"}, "the reward is 'much', and must be one number"),
        ({"reward": 1e39}, "the reward 1e+39 is too large for single precision"),
        ({"reward": 10**400}, "the reward is too large for single precision"),
        ({"obs": (1.0, 2.0)}, "the observation has the shape (2,), and its space has (3,)"),
        (
            {"obs": [[1.0, 2.0, 3.0]]},
            "the observation has the shape (1, 3), and its space has (3,)",
        ),
        ({"obs": (1.0, -1e39, 2.0)}, "the observation 1e+39 is too large for single precision"),
        ({"obs": (1j, 0.0, 2.0)}, "the observation is no array of numbers, but complex128"),
        ({"ends": ((False, True), False)}, "terminated has the shape (2,), and must be one bool"),
        ({"ends": (False, (False, True))}, "truncated has the shape (2,), and must be one bool"),
        (
            {"parts": 4},
            "step returned 4 values, and must return (observation, reward, terminated, truncated, "
            "info)",
        ),
    ],
)
def test_an_answer_of_no_use_is_one_true_sentence(kwargs, said):
    vector = begun(ANSWERS, making=Making(kwargs=tuple(kwargs.items())))
    answers = [step(vector) for _ in range(3)]
    assert [np.isnan(it.reward[0]) for it in answers] == [False, False, True]
    assert vector.crash(0) == said


def test_what_an_environment_answers_is_not_blamed_on_repeated_or_delayed_steps():
    making = Making(action_repeat=2, kwargs=(("parts", 4),))
    vector = begun(ANSWERS, making=making, reward_delay=2)
    for _ in range(2):
        step(vector)
    assert vector.crash(0).startswith("step returned 4 values, and must return (observation,")


def test_an_episode_that_begins_as_those_of_gym_did_is_one_true_sentence():
    vector = begun(ANSWERS, making=Making(kwargs=(("begins", 1),)))
    assert vector.crash(0) == (
        "reset returned one value (ndarray), and must return (observation, info)"
    )


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [("obs", (0.0, np.nan, 0.0), "observation"), ("reward", np.inf, "reward")],
)
def test_what_is_not_finite_is_not_blamed_on_the_policy(name, value, what):
    """The environment checks its actions; a policy that sees NaN acts by NaN."""
    making = Making(kwargs=((name, value),))
    episodes = GymnasiumEpisodes(ANSWERS, [0, 1], making=making)
    episodes.begin(np.arange(2))
    for _ in range(3):
        *_, ended = episodes.step(np.arange(2), np.zeros((2, 1), np.float32))
    assert ended.all()
    assert episodes.crashes == dict.fromkeys(range(2), f"the {what} is not finite")


def test_an_action_that_is_not_finite_is_not_blamed_on_the_environment():
    episodes = GymnasiumEpisodes(ANSWERS, [0])
    episodes.begin(np.arange(1))
    _, rewards, ended = episodes.step(np.arange(1), np.full((1, 1), np.nan, np.float32))
    assert ended.all()
    assert np.isnan(rewards).all()
    assert not episodes.crashes


PART = "the observation['a'][1] has the shape (3,), and its space has (2,)"


@pytest.mark.parametrize(
    ("obs", "said"),
    [
        ({"z": [[1, 2]], "a": (0.0, [1, 2])}, ""),
        ({"z": [[1], [2]], "a": (0.0, [1, 2])}, "the observation['z'] has the shape (2, 1), and"),
        ({"z": [[1]], "a": (0.0, [1, 2, 3])}, PART),
        ({"z": [[1, 2]], "a": (0.0,)}, "the observation['a'] is a tuple of 2 by its space, not 1"),
        ({"z": [[1, 2]], "a": (0.0, None)}, "the observation['a'][1] is None, and its space"),
        ({"a": (0.0, [1, 2])}, "the observation has the parts ['a', 'z'] by its space, not ['a']"),
        (None, "the observation has the parts ['a', 'z'] by its space, not NoneType"),
    ],
)
def test_parts_of_another_shape_are_named_though_their_numbers_may_add_up(obs, said):
    shape = answers.shape_of(odd_tasks.Parts.observation_space)
    if not said:
        np.testing.assert_array_equal(answers.flat(obs, shape), [0, 1, 2, 1, 2])
        return
    with pytest.raises(answers.WrongAnswer) as caught:
        answers.flat(obs, shape)
    assert str(caught.value).startswith(said)


@pytest.mark.slow
def test_an_answer_of_no_use_ends_its_run_with_that_sentence(tmp_path):
    settings = {"env.kwargs.reward": [1.0], "eval.max_steps": 2}
    training.train(runs_of(ANSWERS, 60, 1, "none", "a2c", **settings), tmp_path)
    lines = Record(tmp_path / "seed-0" / "record.jsonl").lines
    (line,) = [it for it in lines if it.get("event")]
    assert line["event"] == "crashed"
    assert line["reason"] == "the reward has the shape (1,), and must be one number"
