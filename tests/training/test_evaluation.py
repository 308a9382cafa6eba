"""Evaluation: the paper's rules, and agreement with a plain loop over episodes."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

from discover_rl.core.types import PolicyHead, Spec, UserError
from discover_rl.envs.tasks import make, spec_of
from discover_rl.storage.policies import Policy
from discover_rl.training.evaluation import (
    EvaluationSetup,
    Evaluator,
    Interrupted,
    evaluate_policy,
)

LOG: list[tuple] = []
"""Every reset and every step of a Diary, in order."""


class Diary(gymnasium.Env):
    """Ends after 1 … 8 steps at random; the reward is 0.1 plus the first number of the action."""

    action_space = Box(np.float32([-1, 0]), np.float32([3, 10]))
    observation_space = Box(-np.inf, np.inf, (2, 1), np.float64)

    def __init__(self, endless: bool = False, truth: type = bool):
        self.endless, self.truth = endless, truth

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.start, self.left = self.np_random.random(), self.np_random.integers(1, 9)
        LOG.append(("start", seed, self.start))
        return np.asarray([[self.start], [0.0]]), {}

    def step(self, action):
        assert self.endless or self.left > 0
        self.left -= 1
        LOG.append(("step", action.tolist()))
        ended = not self.endless and self.left == 0
        early = bool(self.start < 0.5)  # one half terminates, the other is truncated
        observation = np.asarray([[self.start], [float(self.left)]])
        over = self.truth(ended and early), self.truth(ended and not early)
        return observation, 0.1 + float(action[0]), *over, {}


gymnasium.register("Diary-v0", entry_point=Diary)
gymnasium.register("EndlessDiary-v0", entry_point=Diary, kwargs={"endless": True})
gymnasium.register("NumberDiary-v0", entry_point=Diary, kwargs={"truth": int})
ONE = np.ones(1, bool)


@pytest.fixture(autouse=True)
def _empty_log():
    LOG.clear()


def evaluator_of(task: str, seeds: list[int], episodes: int, max_steps: int) -> Evaluator:
    return Evaluator(EvaluationSetup(task, seeds, episodes, max_steps))


def starts() -> list[tuple]:
    """The seed and the start of every episode so far."""
    return [entry[1:] for entry in LOG if entry[0] == "start"]


def network(task: str, lanes: int, seed: int = 0):
    """One network per lane, lanes in front, with a hidden layer; and the task's spec."""
    spec = spec_of(make(task))
    generator = np.random.default_rng(seed)
    sizes = {"layer0": (spec.observation_size, 8), "head": (8, spec.action_size)}
    net = {
        name: {
            "weight": generator.normal(size=(lanes, i, o)).astype(np.float32),
            "bias": generator.normal(size=(lanes, o)).astype(np.float32),
        }
        for name, (i, o) in sizes.items()
    }
    return net, spec


def policy_of(net, spec: Spec, lane: int, seed: int) -> Policy:
    own = {
        layer: {name: array[lane] for name, array in parts.items()} for layer, parts in net.items()
    }
    return Policy(own, spec, PolicyHead(), {"seed": seed})


def play_by_hand(policy: Policy, task: str, seed: int) -> tuple[float, int]:
    """One episode, one observation at a time."""
    env = make(task)
    obs, _ = env.reset(seed=seed)
    total, length, over = 0.0, 0, False
    while not over:
        action, _ = policy.predict(obs)
        obs, reward, terminated, truncated, _ = env.step(action)
        total, length, over = total + float(reward), length + 1, terminated or truncated
    return total, length


def spoiled(net, lane: int, number: float):
    """The networks, with this number in all arrays of one lane."""
    bad = {
        layer: {name: array.copy() for name, array in parts.items()} for layer, parts in net.items()
    }
    for parts in bad.values():
        for array in parts.values():
            array[lane] = number
    return bad


# The paper's rules


def test_every_evaluation_starts_from_the_same_states_whatever_the_policy():
    evaluator = evaluator_of("Diary-v0", [0, 5], episodes=4, max_steps=100)
    found = []
    for seed in range(3):
        LOG.clear()
        evaluator(network("Diary-v0", 2, seed)[0], PolicyHead(), np.ones(2, bool))
        found.append(starts())
    assert found[0] == found[1] == found[2]
    assert len(set(found[0])) == 8  # two lanes of four, all of them different


def test_the_first_episode_starts_as_an_environment_seeded_with_seed_plus_100():
    evaluator_of("Diary-v0", [7], 3, 100)(network("Diary-v0", 1)[0], PolicyHead(), ONE)
    first = starts()[0]
    LOG.clear()
    gymnasium.make("Diary-v0").reset(seed=107)
    assert first == starts()[0]
    assert first[0] == 107


@pytest.mark.parametrize("task", ["Diary-v0", "NumberDiary-v0", "Pendulum-v1"])
def test_returns_and_lengths_are_those_of_a_plain_loop_with_the_saved_policy(task):
    net, spec = network(task, 2)
    evaluator = evaluator_of(task, [3, 8], episodes=3, max_steps=1000)
    scores = evaluator(net, PolicyHead(), np.ones(2, bool))
    for lane, seed in enumerate((3, 8)):
        policy = policy_of(net, spec, lane, seed)
        for i, start in enumerate(evaluator.episodes.seeds[3 * lane : 3 * lane + 3]):
            total, length = play_by_hand(policy, task, start)
            assert scores.returns[lane, i] == pytest.approx(total, rel=1e-4)
            assert scores.lengths[lane, i] == length
    assert len(np.unique(scores.returns)) == 6


def test_a_saved_policy_scores_what_its_lane_scored_to_the_bit():
    net, spec = network("Pendulum-v1", 2)
    scores = evaluator_of("Pendulum-v1", [3, 8], 4, 1000)(net, PolicyHead(), np.ones(2, bool))
    for lane, seed in enumerate((3, 8)):
        again = evaluate_policy(policy_of(net, spec, lane, seed), "Pendulum-v1", 4)
        assert again.returns.tolist() == [scores.returns[lane].tolist()]


def test_actions_are_in_the_units_of_the_task():
    net, _ = network("Diary-v0", 1)
    evaluator_of("Diary-v0", [0], 9, 100)(net, PolicyHead(), ONE)
    actions = np.asarray([entry[1] for entry in LOG if entry[0] == "step"])
    assert ((actions >= [-1, 0]) & (actions <= [3, 10])).all()
    assert actions[:, 1].max() > 3.1  # the second dimension has a range of its own


@pytest.mark.parametrize("task", ["HalfCheetah-v5", "BipedalWalker-v3"])
def test_an_evaluation_leaves_no_trace_in_the_next(task):
    (net, _), (other, _) = network(task, 1), network(task, 1, seed=1)
    evaluator = evaluator_of(task, [0], 2, 200)
    first = evaluator(net, PolicyHead(), ONE)
    for _ in range(4):
        evaluator(other, PolicyHead(), ONE)
        assert evaluator(net, PolicyHead(), ONE).returns.tolist() == first.returns.tolist()


# Ends


def test_an_endless_episode_is_cut_at_max_steps():
    net, _ = network("EndlessDiary-v0", 1)
    scores = evaluator_of("EndlessDiary-v0", [0], 2, max_steps=12)(net, PolicyHead(), ONE)
    assert scores.lengths.tolist() == [[12, 12]]
    rewards = [0.1 + entry[1][0] for entry in LOG if entry[0] == "step"]
    assert scores.returns[0] == pytest.approx([sum(rewards[0::2]), sum(rewards[1::2])])


def test_an_episode_that_ended_is_not_stepped_again_and_the_others_go_on():
    net, _ = network("Diary-v0", 1)
    scores = evaluator_of("Diary-v0", [0], 9, 100)(net, PolicyHead(), ONE)
    lengths = scores.lengths[0].tolist()
    assert len(set(lengths)) > 2
    assert sum(entry[0] == "step" for entry in LOG) == sum(lengths)


def test_a_dead_lane_is_left_alone():
    net, _ = network("Diary-v0", 2)
    evaluator = evaluator_of("Diary-v0", [0, 5], 4, 100)
    both = evaluator(net, PolicyHead(), np.ones(2, bool))
    LOG.clear()
    scores = evaluator(net, PolicyHead(), np.asarray([False, True]))
    assert (scores.returns[0].tolist(), scores.lengths[0].tolist()) == ([0] * 4, [0] * 4)
    assert scores.returns[1].tolist() == both.returns[1].tolist()
    assert len(starts()) == 4


@pytest.mark.parametrize("number", [np.nan, np.inf, 1e30])
def test_the_numbers_of_a_dead_lane_do_not_matter(number):
    net, _ = network("Diary-v0", 2)
    evaluator = evaluator_of("Diary-v0", [0, 5], 4, 100)
    both = evaluator(net, PolicyHead(), np.ones(2, bool))
    scores = evaluator(spoiled(net, 0, number), PolicyHead(), np.asarray([False, True]))
    assert scores.returns[1].tolist() == both.returns[1].tolist()


def test_an_interruption_is_immediate_and_the_next_evaluation_is_complete():
    net, _ = network("Diary-v0", 1)
    evaluator = evaluator_of("Diary-v0", [0], 3, 100)
    complete = evaluator(net, PolicyHead(), ONE)
    LOG.clear()
    answers = iter([False, False, True])
    with pytest.raises(Interrupted):
        evaluator(net, PolicyHead(), ONE, lambda: next(answers))
    assert sum(entry[0] == "step" for entry in LOG) <= 6  # two steps of three episodes
    assert evaluator(net, PolicyHead(), ONE).returns.tolist() == complete.returns.tolist()


# Saved policies


def test_a_policy_for_other_spaces_is_refused():
    net, spec = network("Diary-v0", 1)
    with pytest.raises(UserError, match=r"^Pendulum-v1 has other spaces"):
        evaluate_policy(policy_of(net, spec, 0, 0), "Pendulum-v1", 1)
    with pytest.raises(UserError, match="Did you mean Diary-v0"):
        evaluate_policy(policy_of(net, spec, 0, 0), "Dairy-v0", 1)


def test_a_policy_without_a_seed_starts_from_seed_zero():
    net, spec = network("Diary-v0", 1)
    evaluate_policy(Policy(policy_of(net, spec, 0, 0).net, spec, PolicyHead()), "Diary-v0", 1)
    assert starts()[0][0] == 100


def test_a_backend_that_lacks_the_task_is_refused():
    task = "BipedalWalker-v3"
    net, spec = network(task, 1)
    policy = Policy(
        policy_of(net, spec, 0, 0).net, spec, PolicyHead(), {"task": task, "backend": "envpool"}
    )
    with pytest.raises(UserError, match=r"env\.backend=envpool does not have BipedalWalker-v3"):
        evaluate_policy(policy, task, 1)
