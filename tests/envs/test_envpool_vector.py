"""Environments stepped by EnvPool: the same transitions and bookkeeping as Gymnasium's."""

import gymnasium
import numpy as np
import pytest

from discover_rl.core.types import PolicyHead
from discover_rl.envs import tasks
from discover_rl.envs.gymnasium_vector import GymnasiumVector
from discover_rl.training import launch as training
from discover_rl.training.evaluation import EvaluationSetup, Evaluator
from tests.helpers.trainings import assert_same_files, runs_of, stop_at

pytest.importorskip("envpool")
from discover_rl.envs.envpool_vector import EnvPoolVector

SEEDS = [5, 1, 9]
ALL = np.ones(3, bool)


def begun(kind, task: str, seeds=SEEDS, **settings):
    vector = kind(task, seeds, **settings)
    for env in range(len(vector.obs)):
        vector.begin(env)
    return vector


def acting(vector, steps: int, seed: int = 0, alive=None) -> list:
    """Random actions in every lane: where, which, and what the environments answered."""
    generator, number = np.random.default_rng(seed), len(vector.obs)
    found = []
    for _ in range(steps):
        actions = generator.uniform(-1, 1, (number, vector.spec.action_size)).astype(np.float32)
        before = vector.obs.copy()
        answer = vector.step(actions, np.ones(number, bool) if alive is None else alive)
        found.append((before, actions, answer))
    return found


def state_of(env, obs) -> None:
    """Put an environment where it observes this; the position along the track does not matter."""
    model = env.unwrapped.model
    hidden = model.nq + model.nv - len(obs)
    qpos = np.concatenate([np.zeros(hidden), obs[: model.nq - hidden]])
    env.unwrapped.set_state(qpos, obs[model.nq - hidden :])


@pytest.mark.parametrize("task", ["HalfCheetah-v5", "Hopper-v5", "Swimmer-v5", "Walker2d-v5"])
def test_a_transition_is_the_one_gymnasium_makes(task):
    """From where the pool stood, Gymnasium's environment goes where the pool went."""
    pool, env = begun(EnvPoolVector, task), gymnasium.make(task)
    env.reset(seed=0)
    checked = 0
    for before, actions, answer in acting(pool, 25):
        for lane in range(3):
            if np.abs(before[lane]).max() >= 9.9:  # velocities that the observation cuts off
                continue
            state_of(env, before[lane].astype(float))
            env.unwrapped.data.qacc_warmstart[:] = 0.0
            obs, reward, terminated, _, _ = env.step(pool.spec.to_box(actions[lane]))
            np.testing.assert_allclose(answer.next_obs[lane], obs, rtol=2e-3, atol=2e-3)
            np.testing.assert_allclose(answer.reward[lane], reward, rtol=2e-3, atol=2e-3)
            assert answer.terminated[lane] == terminated
            checked += 1
    assert checked > 15


@pytest.mark.parametrize("task", ["Hopper-v5", "InvertedPendulum-v5"])
def test_episodes_are_alike_in_distribution(task):
    """Starts, lengths and returns of some hundred episodes under random actions."""
    seeds = list(range(8))
    samples = {}
    for kind in (GymnasiumVector, EnvPoolVector):
        vector = begun(kind, task, seeds)
        starts, lengths, returns = [vector.obs.copy()], [], []
        length, total = np.zeros(8, int), np.zeros(8)
        for _, _, answer in acting(vector, 400):
            length, total = length + 1, total + answer.reward
            starts.append(answer.obs[answer.ended])
            lengths += length[answer.ended].tolist()
            returns += total[answer.ended].tolist()
            length[answer.ended], total[answer.ended] = 0, 0.0
        assert len(lengths) > 80
        samples[kind] = np.concatenate(starts), np.asarray(lengths), np.asarray(returns)
        vector.close()
    for a, b in zip(*samples.values(), strict=True):
        error = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b)) + 1e-9
        assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) < 4.5 * error).all()
        assert (np.abs(np.log((a.std(axis=0) + 1e-6) / (b.std(axis=0) + 1e-6))) < 0.5).all()


@pytest.mark.parametrize("kind", [GymnasiumVector, EnvPoolVector])
def test_a_new_episode_follows_at_once_and_the_last_observation_is_kept(kind):
    vector = begun(kind, "Hopper-v5")
    ends = 0
    for before, _, answer in acting(vector, 120):
        np.testing.assert_array_equal(
            answer.ended, answer.terminated
        )  # none is a thousand steps long
        for lane in range(3):
            moved = np.abs(answer.next_obs[lane] - before[lane]).max()
            assert moved > 0
            if answer.ended[lane]:
                ends += 1
                # It has fallen; a start is upright: height 1.25 and leaning by 0.005 at most.
                height, angle = answer.next_obs[lane][:2]
                assert height < 0.8 or abs(angle) > 0.15
                assert abs(answer.obs[lane][0] - 1.25) < 0.01
                assert np.abs(answer.obs[lane][1:]).max() < 0.01
            else:
                np.testing.assert_array_equal(answer.obs[lane], answer.next_obs[lane])
    assert ends > 5
    vector.close()


@pytest.mark.parametrize("terminates", [False, True])
def test_a_time_limit_is_no_termination_unless_it_is_said_to_be(terminates):
    found = {}
    for kind in (GymnasiumVector, EnvPoolVector):
        vector = begun(kind, "Reacher-v5", [3], limit_terminates=terminates)
        answers = [it for _, _, it in acting(vector, 101)]
        found[kind] = [(it.terminated[0], it.ended[0]) for it in answers]
        assert [i for i, it in enumerate(answers, 1) if it.ended[0]] == [50, 100]
        assert all(it.terminated[0] == (terminates and it.ended[0]) for it in answers)
        vector.close()
    assert found[GymnasiumVector] == found[EnvPoolVector]


def test_lanes_do_not_depend_on_each_other():
    together, alone = (
        begun(EnvPoolVector, "Hopper-v5"),
        begun(EnvPoolVector, "Hopper-v5", SEEDS[1:2]),
    )
    for _, actions, answer in acting(together, 60):
        own = alone.step(actions[1:2], np.ones(1, bool))
        for whole, part in zip(answer, own, strict=True):
            np.testing.assert_array_equal(whole[1], part[0])


def test_those_that_are_not_alive_stand_still():
    pool, whole = begun(EnvPoolVector, "Hopper-v5"), begun(EnvPoolVector, "Hopper-v5")
    first = acting(pool, 5, alive=np.asarray([True, False, True]))
    assert all(not answer.next_obs[1].any() and not answer.ended[1] for _, _, answer in first)
    assert len(pool.episodes(1)[0].actions) == 0
    acting(whole, 5)
    np.testing.assert_array_equal(pool.obs[[0, 2]], whole.obs[[0, 2]])


def test_delayed_rewards_are_paid_as_by_gymnasium():
    still = np.zeros((1, 1), np.float32)
    for truncate in ((), (7, 8, 11)):
        paid = {}
        for kind in (GymnasiumVector, EnvPoolVector):
            vector = begun(kind, "InvertedPendulum-v5", [4], reward_delay=5)
            answers = [
                vector.step(still, np.ones(1, bool), step in truncate) for step in range(1, 13)
            ]
            paid[kind] = [float(it.reward[0]) for it in answers]
            assert [step for step, it in enumerate(answers, 1) if it.ended[0]] == list(truncate)
            assert not any(it.terminated[0] for it in answers)
            vector.close()
        assert paid[GymnasiumVector] == paid[EnvPoolVector]
        assert sum(paid[EnvPoolVector]) == (12 if truncate else 10) - (1 if truncate else 0)


@pytest.mark.parametrize("delay", [1, 4])
def test_an_episode_can_be_restored(delay):
    pool = begun(EnvPoolVector, "Hopper-v5", reward_delay=delay)
    acting(pool, 70)
    again = EnvPoolVector("Hopper-v5", SEEDS, reward_delay=delay)
    for lane in range(3):
        episode = pool.episodes(lane)[0]
        assert episode.number > 0
        assert again.restore(lane, episode)
        assert again.episodes(lane)[0].digest == episode.digest
        np.testing.assert_array_equal(again.episodes(lane)[0].actions, episode.actions)
    for (_, _, a), (_, _, b) in zip(acting(pool, 40, 1), acting(again, 40, 1), strict=True):
        for one, other in zip(a, b, strict=True):
            np.testing.assert_array_equal(one, other)
    for lane in range(3):
        assert pool.take_ended(lane) == again.take_ended(lane)


def test_an_episode_that_comes_out_differently_is_lost():
    pool = begun(EnvPoolVector, "Hopper-v5", [5])
    acting(pool, 8)
    episode, again = pool.episodes(0)[0], EnvPoolVector("Hopper-v5", [5])
    assert not again.restore(0, episode._replace(digest=episode.digest ^ 1))
    assert again.episodes(0)[0].number == episode.number + 1
    assert len(again.episodes(0)[0].actions) == 0


def test_what_was_done_before_the_running_episodes_is_forgotten():
    pool = begun(EnvPoolVector, "Reacher-v5", [0])
    acting(pool, 1300)
    assert len(pool._log) < 1300
    episode = pool.episodes(0)[0]
    assert len(episode.actions) == 0  # the 26th has just ended
    acting(pool, 3)
    assert EnvPoolVector("Reacher-v5", [0]).restore(0, pool.episodes(0)[0])


def test_every_evaluation_starts_from_the_same_states():
    size, action = 11, 3
    generator = np.random.default_rng(0)
    net = {
        "head": {
            "weight": generator.normal(size=(2, size, action)).astype(np.float32),
            "bias": np.zeros((2, action), np.float32),
        }
    }
    head, both = PolicyHead(squash=True), np.ones(2, bool)
    evaluator = Evaluator(EvaluationSetup("Hopper-v5", [3, 8], 3, 1000, "envpool"))
    first, again = evaluator(net, head, both), evaluator(net, head, both)
    np.testing.assert_array_equal(first.returns, again.returns)
    assert len(np.unique(first.returns)) == 6
    one = evaluator(net, head, np.asarray([False, True]))
    np.testing.assert_array_equal(one.returns[1], first.returns[1])
    assert not one.returns[0].any()
    assert (first.lengths > 5).all()
    evaluator.close()


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["td3", "ppo"])
def test_a_run_that_is_stopped_goes_on_exactly(tmp_path, algorithm):
    settings = {"env.backend": "envpool", "metrics.every": 50}
    asked = {"task": "Hopper-v5", "algorithm": algorithm, "steps": 130, **settings}
    training.train(runs_of(**asked), tmp_path / "whole")
    for step in (70, 101):
        stop_at(step, runs_of(**asked), tmp_path / "stopped")
    training.train(runs_of(**asked), tmp_path / "stopped")
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")


@pytest.mark.parametrize("task", tasks.MUJOCO)
def test_a_policy_trained_by_one_is_a_policy_for_the_other(task):
    pool, vector = EnvPoolVector(f"{task}-v5", [0]), GymnasiumVector(f"{task}-v5", [0])
    assert pool.spec == vector.spec
    pool.close()
    vector.close()


def test_several_environments_of_a_lane_can_be_restored():
    vector = begun(EnvPoolVector, "Hopper-v5", [5, 1], count=2)
    acting(vector, 50)
    again = EnvPoolVector("Hopper-v5", [5, 1], count=2)
    numbers = set()
    for lane in range(2):
        for env, episode in enumerate(vector.episodes(lane), 2 * lane):
            assert again.restore(env, episode)
            numbers.add(episode.digest)
    assert len(numbers) == 4
    np.testing.assert_array_equal(vector.obs, again.obs)
