"""Environments stepped by Gymnasium: bounds, ends, and episodes that are restored exactly."""

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box

from discover_rl.envs import tasks
from discover_rl.envs.gymnasium_vector import GymnasiumVector
from discover_rl.envs.vector import episode_seed

LOW, HIGH = np.asarray([[-1.0, 0.0]], np.float32), np.asarray([[3.0, 10.0]], np.float32)
ONE = np.ones(1, bool)


class Clock(gymnasium.Env):
    """Observes [[start of the episode, steps in it], [last action]]; actions have odd bounds."""

    action_space = Box(LOW, HIGH)
    observation_space = Box(-np.inf, np.inf, (2, 2), np.float64)

    def __init__(self, length: int, end: str, leak: str = ""):
        self.length, self.end, self.leak = length, end, leak
        self.resets = self.closed = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.resets += 1
        self.start, self.t, self.running = self.np_random.random(), 0, True
        return self._observe([0, 0]), {}

    def step(self, action):
        assert self.running
        assert action.shape == (1, 2)
        self.t += 1
        length = 2 if self.leak == "length" and self.resets == 1 else self.length
        ends = self.t == length
        self.running = not ends
        reward = 10 * self.t + (self.resets if self.leak == "reward" else 0)
        ended = ends and self.end == "terminated", ends and self.end == "truncated"
        return self._observe(action[0]), reward, *ended, {}

    def _observe(self, action):
        leaked = self.resets if self.leak == "observation" else 0
        return np.asarray([[self.start + leaked, self.t], action])

    def close(self):
        self.closed += 1
        if self.leak == "closed":
            raise OSError("it was closed already")


for name, settings in {
    "Terminates": {"length": 3, "end": "terminated"},
    "Truncates": {"length": 3, "end": "truncated"},
    "LeaksObservation": {"length": 4, "end": "terminated", "leak": "observation"},
    "LeaksReward": {"length": 4, "end": "terminated", "leak": "reward"},
    "LeaksLength": {"length": 4, "end": "terminated", "leak": "length"},
    "FailsToClose": {"length": 4, "end": "terminated", "leak": "closed"},
}.items():
    gymnasium.register(f"{name}-v0", entry_point=Clock, kwargs=settings)


def begun(task: str, seeds=(0,)) -> GymnasiumVector:
    vector = GymnasiumVector(task, seeds)
    for lane in range(len(seeds)):
        vector.begin(lane)
    return vector


def acting(vector: GymnasiumVector, steps: int, seed: int = 0) -> list:
    """Random actions in every lane; what the environments answered."""
    generator = np.random.default_rng(seed)
    shape = len(vector.envs), vector.spec.action_size
    actions = generator.uniform(-1, 1, (steps, *shape)).astype(np.float32)
    return [vector.step(action, np.ones(shape[0], bool)) for action in actions]


def start_of(seed: int, episode: int) -> float:
    """What Clock draws at the start of a lane's episode."""
    own = int(np.random.SeedSequence([seed, episode]).generate_state(1)[0])
    return np.float32(np.random.Generator(np.random.PCG64(np.random.SeedSequence(own))).random())


def assert_same(one, other) -> None:
    for a, b in zip(one, other, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


# Bounds and ends


def test_the_spec_has_shapes_and_bounds_of_every_dimension():
    spec = GymnasiumVector("Terminates-v0", [0]).spec
    assert (spec.observation_shape, spec.action_shape) == ((2, 2), (1, 2))
    assert (spec.observation_size, spec.action_size) == (4, 2)
    assert (spec.low, spec.high) == ((-1.0, 0.0), (3.0, 10.0))


@pytest.mark.parametrize(
    ("action", "executed"),
    [([-1, 1], [-1, 10]), ([1, -1], [3, 0]), ([0, 0], [1, 5]), ([0.5, -0.2], [2, 4])],
)
def test_actions_are_in_half_ranges_of_their_own_dimension(action, executed):
    vector = begun("Terminates-v0")
    answer = vector.step(np.asarray([action], np.float32), ONE)
    np.testing.assert_allclose(answer.next_obs[0, 2:], executed, rtol=1e-6)


def test_an_action_is_never_out_of_bounds():
    vector = begun("Truncates-v0")
    for action in (np.float32([[9, -9]]), np.float32([[1 + 1e-6, -1 - 1e-6]])):
        box = vector.spec.to_box(action)
        np.testing.assert_array_equal(box, [[[3, 0]]])
        assert (box.dtype, box.shape) == (np.float32, (1, 1, 2))


@pytest.mark.parametrize(("task", "terminated"), [("Terminates-v0", True), ("Truncates-v0", False)])
def test_an_end_shows_the_true_last_observation_and_the_first_of_the_next_episode(task, terminated):
    vector = begun(task, [5])
    answers = acting(vector, 4)
    assert [bool(it.ended[0]) for it in answers] == [False, False, True, False]
    assert [bool(it.terminated[0]) for it in answers] == [False, False, terminated, False]
    assert [float(it.reward[0]) for it in answers] == [10, 20, 30, 10]
    first, second = start_of(5, 0), start_of(5, 1)
    assert first != second
    led_to = [(first, 1), (first, 2), (first, 3), (second, 1)]
    stands = [(first, 1), (first, 2), (second, 0), (second, 1)]
    assert [tuple(it.next_obs[0, :2]) for it in answers] == led_to
    assert [tuple(it.obs[0, :2]) for it in answers] == stands


def test_an_answer_is_not_overwritten_and_has_the_agents_types():
    vector = begun("Terminates-v0", [0, 1])
    (answer,) = acting(vector, 1)
    before = [leaf.copy() for leaf in answer]
    acting(vector, 3, seed=1)
    assert_same(answer, before)
    assert [leaf.dtype for leaf in answer] == [np.float64, bool, bool, np.float32, np.float32]


def test_lanes_are_alone_with_their_seed():
    together, alone = begun("Terminates-v0", [4, 7]), begun("Terminates-v0", [7])
    assert together.obs[0, 0] == start_of(4, 0)
    actions = np.random.default_rng(0).uniform(-1, 1, (8, 2, 2)).astype(np.float32)
    for action in actions:
        pair = together.step(action, np.ones(2, bool))
        assert_same([leaf[1:] for leaf in pair], alone.step(action[1:], ONE))


def test_a_dead_lane_is_not_stepped():
    vector = begun("Terminates-v0", [0, 1])
    before = vector.obs[0].copy()
    for _ in range(5):
        answer = vector.step(np.zeros((2, 2), np.float32), np.asarray([False, True]))
        assert not answer.ended[0]
        assert (answer.reward[0], *answer.next_obs[0]) == (0, 0, 0, 0, 0)
    assert_same(vector.obs[0], before)
    assert vector.envs[0].unwrapped.t == 0
    assert vector.episodes(1)[0].number == 1


def test_episodes_of_neighbouring_seeds_have_seeds_of_their_own():
    assert len({episode_seed(seed, episode) for seed in range(30) for episode in range(30)}) == 900


def test_closing_closes_every_environment():
    vector = begun("Terminates-v0", [0, 1])
    vector.close()
    assert [env.unwrapped.closed for env in vector.envs] == [1, 1]


def test_what_an_environment_raises_when_it_is_closed_hurts_no_run():
    vector = begun("FailsToClose-v0", [0, 1])
    vector.close()
    assert [env.unwrapped.closed for env in vector.envs] == [1, 1]
    assert not vector.crashes
    assert tasks.check("FailsToClose-v0") == vector.spec


@pytest.mark.parametrize("task", ["Terminates-v0", "Truncates-v0"])
def test_an_episode_can_be_truncated_and_a_new_one_follows(task):
    vector = begun(task, (3, 4))
    vector.limit_terminates = True  # which is about the task's own limit
    still, both = np.zeros((2, 2), np.float32), np.ones(2, bool)
    vector.step(still, both)
    truncated = vector.step(still, both, truncate=True)
    assert truncated.ended.tolist() == [True, True]
    assert truncated.terminated.tolist() == [False, False]
    np.testing.assert_array_equal(truncated.next_obs[:, 1], [2, 2])  # where it was cut off
    np.testing.assert_array_equal(truncated.obs[:, 0], [start_of(3, 1), start_of(4, 1)])
    for _ in range(2):
        assert not vector.step(still, both).ended.any()
    # Where the episode ends anyway, that changes nothing.
    end = vector.step(still, both, truncate=True)
    assert end.ended.tolist() == end.terminated.tolist() == [True, True]
    np.testing.assert_array_equal(end.obs[:, 0], [start_of(3, 2), start_of(4, 2)])


def test_an_episode_after_a_truncation_is_restored():
    vector = begun("Terminates-v0")
    acting(vector, 2)
    vector.step(np.zeros((1, 2), np.float32), ONE, truncate=True)
    vector.step(np.full((1, 2), 0.3, np.float32), ONE, truncate=True)
    answer = vector.step(np.full((1, 2), 0.7, np.float32), ONE)
    (episode,) = vector.episodes(0)
    assert (episode.number, len(episode.actions)) == (2, 1)
    again = GymnasiumVector("Terminates-v0", [0])
    assert again.restore(0, episode)
    np.testing.assert_array_equal(again.obs, answer.obs)


# To restore an episode


@pytest.mark.parametrize(("task", "length"), [("Pendulum-v1", 200), ("HalfCheetah-v5", 1000)])
def test_an_episode_is_restored_to_the_bit(task, length):
    vector, again = begun(task, [2, 3]), begun(task, [2, 3])
    acting(vector, length + 30)
    acting(again, 15, seed=9)  # wherever the environment may have been before
    for lane in range(2):
        episode = vector.episodes(lane)[0]
        assert (episode.number, len(episode.actions)) == (1, 30)
        assert again.restore(lane, episode)
        restored = again.episodes(lane)[0]
        assert restored._replace(actions=None) == episode._replace(actions=None)
        np.testing.assert_array_equal(restored.actions, episode.actions)
    np.testing.assert_array_equal(again.obs, vector.obs)
    for mine, theirs in zip(acting(vector, 20, 5), acting(again, 20, 5), strict=True):
        assert_same(mine, theirs)


def test_an_episode_that_has_just_begun_is_restored():
    vector, again = begun("Terminates-v0", [2]), GymnasiumVector("Terminates-v0", [2])
    acting(vector, 6)
    episode = vector.episodes(0)[0]
    assert (episode.number, episode.actions.shape) == (2, (0, 2))
    assert again.restore(0, episode)
    assert_same(again.obs, vector.obs)


@pytest.mark.parametrize("task", ["LeaksObservation-v0", "LeaksReward-v0", "LeaksLength-v0"])
def test_what_leaks_between_episodes_is_noticed_and_a_new_episode_starts(task):
    vector, again = begun(task, [2]), GymnasiumVector(task, [2])
    acting(vector, 5 if task == "LeaksLength-v0" else 7)
    episode = vector.episodes(0)[0]
    assert (episode.number, len(episode.actions)) == (1, 3)
    assert not again.restore(0, episode)
    assert (again.episodes(0)[0].number, len(again.episodes(0)[0].actions)) == (2, 0)
    leaked = 2 if task == "LeaksObservation-v0" else 0  # it has been reset twice by now
    assert tuple(again.obs[0]) == (np.float32(np.float64(start_of(2, 2)) + leaked), 0, 0, 0)


def test_another_past_is_noticed():
    vector, again = begun("Pendulum-v1"), GymnasiumVector("Pendulum-v1", [0])
    acting(vector, 9)
    episode = vector.episodes(0)[0]
    episode.actions[4] += np.float32(1e-3)
    assert not again.restore(0, episode)
    assert not again.restore(0, vector.episodes(0)[0]._replace(digest=episode.digest ^ 1))
    assert again.restore(0, vector.episodes(0)[0])


@pytest.mark.parametrize("steps", [40, 150, 333])
def test_what_is_said_to_be_restored_goes_on_alike(steps):
    """BipedalWalker's physics remember earlier episodes, though its observations may not yet."""
    vector, again = begun("BipedalWalker-v3", [1]), GymnasiumVector("BipedalWalker-v3", [1])
    acting(vector, steps)
    episode = vector.episodes(0)[0]
    if not again.restore(0, episode):
        assert again.episodes(0)[0].number == episode.number + 1
        return
    for mine, theirs in zip(acting(vector, 200, 5), acting(again, 200, 5), strict=True):
        assert_same(mine, theirs)


@pytest.mark.parametrize("limit_terminates", [False, True])
def test_a_time_limit_is_a_termination_only_if_the_setting_says_so(limit_terminates):
    vector = GymnasiumVector("Truncates-v0", [0], limit_terminates=limit_terminates)
    vector.begin(0)
    answers = [vector.step(np.zeros((1, 2), np.float32), ONE) for _ in range(6)]
    assert [bool(it.ended[0]) for it in answers] == [False, False, True] * 2
    assert [bool(it.terminated[0]) for it in answers] == [False, False, limit_terminates] * 2
    vector.close()


class Counter(gymnasium.Env):
    """Writes every observation into the same array, as some environments do."""

    observation_space = gymnasium.spaces.Box(0, 100, (2,), np.float32)
    action_space = gymnasium.spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self):
        self.array = np.zeros(2, np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.array[:] = 0
        return self.array, {}

    def step(self, action):
        del action
        self.array += 1
        return self.array, 0.0, False, bool(self.array[0] == 4), {}


def test_an_environment_may_reuse_its_array():
    gymnasium.register("Counter-v0", Counter)
    try:
        vector = begun("Counter-v0", [0])
        answers = [vector.step(np.zeros((1, 1), np.float32), ONE) for _ in range(6)]
        assert [it.next_obs[0, 0] for it in answers] == [1, 2, 3, 4, 1, 2]
        assert [it.obs[0, 0] for it in answers] == [1, 2, 3, 0, 1, 2]
    finally:
        gymnasium.registry.pop("Counter-v0")
