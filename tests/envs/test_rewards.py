"""Delayed rewards: summed, paid every so many steps and at an episode's end, in training only."""

import itertools

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

import discover_rl
from discover_rl import config
from discover_rl.agents.off_policy.agent import StepByStep
from discover_rl.core.types import UserError
from discover_rl.envs.gymnasium_vector import GymnasiumVector
from discover_rl.envs.rewards import DelayedReward
from discover_rl.envs.tasks import make
from discover_rl.envs.vector import episode_seed
from discover_rl.storage.records import Record
from discover_rl.training import launch as training
from discover_rl.training.observers import Observer
from tests.helpers.trainings import assert_same_files, stop_at

SETTINGS = {"hidden": (8,), "batch_size": 8, "warmup": 40, "eval.every": 60, "eval.episodes": 2}


class Meter(gymnasium.Env):
    """Pays 1, 2, 4, 8 … in an episode, so that a sum says which steps are in it."""

    observation_space = Box(-np.inf, np.inf, (3,), np.float32)
    action_space = Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self, length: int = 10**9, end: str = "terminated", heeds: bool = False):
        self.length, self.end, self.heeds = length, end, heeds

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.t, self.start = 0, self.np_random.random()
        return self._observe(), {"options": options}

    def step(self, action):
        reward = 2.0 ** min(self.t, 60) + (float(action[0]) if self.heeds else 0.0)
        self.t += 1
        ends = self.t == self.length
        return (
            self._observe(),
            reward,
            ends and self.end == "terminated",
            ends and self.end == "truncated",
            {"t": self.t},
        )

    def _observe(self):
        return np.asarray([self.start, np.sin(self.t), np.cos(self.t)], np.float32)


gymnasium.register("Meter-v0", entry_point=Meter)
gymnasium.register("HeedingMeter-v0", entry_point=Meter, kwargs={"heeds": True})
gymnasium.register("ShortMeter-v0", entry_point=Meter, kwargs={"length": 7})
gymnasium.register("CutMeter-v0", entry_point=Meter, kwargs={"length": 7, "end": "truncated"})


def begun(task: str, seeds=(0,), reward_delay: int = 1) -> GymnasiumVector:
    vector = GymnasiumVector(task, seeds, reward_delay=reward_delay)
    for lane in range(len(seeds)):
        vector.begin(lane)
    return vector


def acting(vector: GymnasiumVector, steps: int, seed: int = 0) -> list:
    """Random actions in every lane; what the environments answered."""
    shape = len(vector.envs), vector.spec.action_size
    actions = np.random.default_rng(seed).uniform(-1, 1, (steps, *shape)).astype(np.float32)
    return [vector.step(action, np.ones(shape[0], bool)) for action in actions]


def owed(rewards, ended, period: int) -> list[float]:
    """What is paid when, written down plainly."""
    paid, since, purse = [], 0, 0.0
    for reward, over in zip(rewards, ended, strict=True):
        since, purse = since + 1, purse + float(reward)
        due = over or since % period == 0
        paid.append(purse if due else 0.0)
        since, purse = 0 if over else since, 0.0 if due else purse
    return paid


def assert_same(one, other) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


# One environment


def paid_in_an_episode(env: gymnasium.Env) -> list[float]:
    env.reset(seed=0)
    paid, over = [], False
    while not over:
        _, reward, terminated, truncated, info = env.step(np.zeros(1, np.float32))
        paid.append(reward)
        over = terminated or truncated
        assert info == {"t": len(paid)}
    return paid


@pytest.mark.parametrize(
    ("length", "period", "paid"),
    [
        (6, 3, [0, 0, 7, 0, 0, 56]),
        (7, 3, [0, 0, 7, 0, 0, 56, 64]),
        (8, 3, [0, 0, 7, 0, 0, 56, 0, 192]),
        (3, 5, [0, 0, 7]),
        (1, 5, [1]),
        (4, 1, [1, 2, 4, 8]),
    ],
)
@pytest.mark.parametrize("end", ["terminated", "truncated"])
def test_the_sum_is_paid_every_period_and_at_the_end(length, period, paid, end):
    env = DelayedReward(Meter(length, end), period)
    for _ in range(3):  # every episode anew
        assert paid_in_an_episode(env) == paid


def test_an_episode_pays_the_same_in_all_whatever_the_period():
    for length, period, end in itertools.product(
        range(1, 12), range(1, 14), ["terminated", "truncated"]
    ):
        paid = paid_in_an_episode(DelayedReward(Meter(length, end), period))
        assert sum(paid) == 2**length - 1, (length, period, end)
        assert np.count_nonzero(paid) == -(-length // period), (length, period, end)


def test_a_time_limit_around_the_task_is_an_end_too():
    gymnasium.register("LimitedMeter-v0", entry_point=Meter, max_episode_steps=4)
    assert paid_in_an_episode(make("LimitedMeter-v0", reward_delay=3)) == [0, 0, 7, 8]


def test_what_an_abandoned_episode_owes_is_forgotten_and_the_count_starts_anew():
    env = DelayedReward(Meter(), 4)
    action = np.zeros(1, np.float32)
    env.reset(seed=0)
    assert [env.step(action)[1] for _ in range(7)] == [0, 0, 0, 15, 0, 0, 0]
    env.reset(seed=0)
    assert [env.step(action)[1] for _ in range(5)] == [0, 0, 0, 15, 0]


def test_everything_but_the_reward_is_the_tasks_own():
    plain, slow = Meter(7), DelayedReward(Meter(7), 3)
    for ours, theirs in zip(
        slow.reset(seed=3, options={"a": 1}), plain.reset(seed=3, options={"a": 1}), strict=True
    ):
        np.testing.assert_equal(ours, theirs)
    for _ in range(7):
        ours, theirs = (env.step(np.ones(1, np.float32)) for env in (slow, plain))
        np.testing.assert_equal([ours[0], *ours[2:]], [theirs[0], *theirs[2:]])


def test_a_period_of_one_is_no_wrapper_at_all():
    assert "DelayedReward" not in str(make("Meter-v0", reward_delay=1))
    assert "DelayedReward" in str(make("Meter-v0", reward_delay=2))
    for task in ("Meter-v0", "BipedalWalker-v3"):
        plain, slow = begun(task), begun(task, reward_delay=2)
        assert "DelayedReward" not in str(plain.envs[0])
        assert str(slow.envs[0]).count("DelayedReward") == 1


# Lanes


@pytest.mark.parametrize("task", ["ShortMeter-v0", "CutMeter-v0"])
def test_lanes_pay_late_and_each_on_its_own(task):
    vector = begun(task, [4, 7], reward_delay=3)
    actions = np.zeros((2, 1), np.float32)
    first = [vector.step(actions, np.asarray([True, False])) for _ in range(2)]
    assert [it.reward.tolist() for it in first] == [[0, 0], [0, 0]]
    then = [vector.step(actions, np.ones(2, bool)) for _ in range(8)]
    assert [float(it.reward[0]) for it in then] == [7, 0, 0, 56, 64, 0, 0, 7]
    assert [float(it.reward[1]) for it in then] == [0, 0, 7, 0, 0, 56, 64, 0]
    assert [bool(it.ended[0]) for it in then].index(True) == 4
    assert [bool(it.ended[1]) for it in then].index(True) == 6


def test_an_episode_that_is_cut_off_pays_what_it_owes():
    vector = begun("Meter-v0", [4], reward_delay=3)
    still, one = np.zeros((1, 1), np.float32), np.ones(1, bool)
    paid = [float(vector.step(still, one, step in (5, 8)).reward[0]) for step in range(1, 10)]
    assert paid == [0, 0, 7, 0, 8 + 16, 0, 0, 7, 0]


@pytest.mark.parametrize(
    ("task", "period", "steps"), [("BipedalWalker-v3", 7, 500), ("Pendulum-v1", 7, 450)]
)
def test_episode_after_episode_has_its_delay_and_nothing_else_changes(task, period, steps):
    """BipedalWalker is made anew for every episode."""
    plain, slow = begun(task, [1]), begun(task, [1], reward_delay=period)
    at_first = slow.envs[0]
    true, late = acting(plain, steps), acting(slow, steps)
    ended = [bool(it.ended[0]) for it in true]
    assert sum(ended) >= 2
    assert (slow.envs[0] is at_first) == (task == "Pendulum-v1")
    for mine, theirs in zip(late, true, strict=True):
        assert_same(mine[1:], theirs[1:])
    expected = owed([it.reward[0] for it in true], ended, period)
    np.testing.assert_allclose([it.reward[0] for it in late], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("task", "steps"), [("Pendulum-v1", 233), ("BipedalWalker-v3", 333)])
def test_an_episode_is_restored_with_what_it_owes(task, steps):
    vector, again = begun(task, [1], reward_delay=5), GymnasiumVector(task, [1], reward_delay=5)
    acting(vector, steps)
    episode = vector.episodes(0)[0]
    assert episode.number > 0
    assert len(episode.actions) % 5
    assert again.restore(0, episode)
    assert again.episodes(0)[0].digest == episode.digest
    for mine, theirs in zip(acting(vector, 60, 5), acting(again, 60, 5), strict=True):
        assert_same(mine, theirs)


@pytest.mark.parametrize("other", [1, 4, 6])
def test_an_episode_of_another_delay_is_not_the_same(other):
    vector, again = (
        begun("Pendulum-v1", [1], reward_delay=5),
        GymnasiumVector("Pendulum-v1", [1], reward_delay=other),
    )
    acting(vector, 8)
    assert not again.restore(0, vector.episodes(0)[0])


# Runs


def runs_of(task="Pendulum-v1", steps=240, seeds=2, **settings):
    return config.resolve(
        config.Request(task, "td3", "discover", steps, seeds, {**SETTINGS, **settings})
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "must be at least 1 and at most 1,000,000,000, not 0."),
        ("-3", "must be at least 1 and at most 1,000,000,000, not -3."),
        (1.5, "must be a whole number, not 1.5."),
        ("x", "must be a whole number, not 'x'."),
        (True, "must be a whole number, not True."),
        ([2, 3], "must be a whole number, not [2, 3]."),
    ],
)
def test_a_delay_that_is_none_is_refused_in_one_sentence(value, said):
    with pytest.raises(UserError) as caught:
        runs_of(**{"env.reward_delay": value})
    assert str(caught.value) == f"env.reward_delay {said}"


@pytest.mark.parametrize("wrong", ["reward_delay", "env.reward_dely", "env.delay"])
def test_a_delay_by_another_name_gives_the_right_one(wrong):
    with pytest.raises(UserError) as caught:
        runs_of(**{wrong: 5})
    said = f"There is no setting {wrong}. Did you mean env.reward_delay?"
    assert str(caught.value) == said


@pytest.mark.slow
def test_runs_of_different_delay_are_different_cohorts_and_get_their_own_rewards(
    tmp_path, monkeypatch
):
    settings = {"eval.max_steps": 3}
    ours = runs_of("Meter-v0", 12, [0], **settings)
    theirs = runs_of("Meter-v0", 12, [1], **settings, **{"env.reward_delay": "5"})
    assert config.cohorts(ours + theirs) == [ours, theirs]
    rewards, act = [], StepByStep.act

    def noted(self, state, inbox, *rest):
        rewards.append(float(inbox.transition.reward[0]))
        return act(self, state, inbox, *rest)

    monkeypatch.setattr(StepByStep, "act", noted)
    training.train(ours + theirs, tmp_path)
    true = [2.0**t for t in range(12)]
    assert rewards[:12] == true
    assert rewards[12:] == owed(true, [False] * 12, 5)


@pytest.fixture(scope="module")
def late(tmp_path_factory):
    """A finished run with delayed rewards, whose evaluations are cut between two payments."""
    # Spaces and sizes of `runs_of` on Pendulum: nothing more to compile.
    return discover_rl.train(
        "HeedingMeter-v0",
        steps=240,
        seeds=[2, 3],
        out=tmp_path_factory.mktemp("late"),
        observer=Observer(),
        **{**SETTINGS, "eval.max_steps": 7, "env.reward_delay": 5},
    )[1]


def test_evaluations_report_true_returns(late):
    policy, env = late.policy(), make("HeedingMeter-v0")
    assert late.steps == [0, 60, 120, 180, 240]
    for start, reported in zip((103, episode_seed(103, 1)), late.returns[-1], strict=True):
        obs, _ = env.reset(seed=start)
        total = 0.0
        for _ in range(7):
            obs, reward, *_ = env.step(policy.predict(obs)[0])
            total += reward
        assert total > 2**7 - 1 - 7
        assert reported == pytest.approx(total, rel=1e-5)


def test_the_delay_is_on_record(late):
    header = Record(late.path / "record.jsonl").header
    assert header["run"]["settings"]["env.reward_delay"] == 5
    assert late.policy().about["settings"]["env.reward_delay"] == 5


def test_a_folder_with_another_delay_is_refused(late):
    settings = {"eval.max_steps": 7, "env.reward_delay": 4}
    with pytest.raises(UserError, match=r"env\.reward_delay is 5 there and 4 here"):
        training.train(runs_of("HeedingMeter-v0", seeds=[2, 3], **settings), late.path.parent)


@pytest.mark.slow
def test_a_stopped_run_goes_on_exactly_with_what_was_owed(tmp_path):
    runs = runs_of(**{"env.reward_delay": 7})
    training.train(runs, tmp_path / "whole")
    # In warm-up, while learning, in a second episode: each time between two payments.
    for step in (25, 123, 203):
        assert stop_at(step, runs, tmp_path / "stopped") == step
    records = training.train(runs, tmp_path / "stopped")
    assert not any("event" in line for record in records.values() for line in record.lines)
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")
