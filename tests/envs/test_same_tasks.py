"""EnvPool's tasks are those of Gymnasium's side: spaces, transitions, episodes, restoring."""

import numpy as np
import pytest

from discover_rl.envs import catalogue, dm_control_tasks, sparse, tasks
from discover_rl.envs.gymnasium_vector import GymnasiumVector
from tests.envs.test_catalogue import ROBOTIC

FAMILIES = [
    "MountainCarContinuous-v0",
    "Pendulum-v1",
    "dm_control/cartpole-swingup_sparse-v0",
    "dm_control/finger-turn_hard-v0",
    "dm_control/hopper-hop-v0",
    "dm_control/pendulum-swingup-v0",
    "dm_control/ball_in_cup-catch-v0",
    "gymnasium_robotics:PointMaze_UMaze-v3",
    "gymnasium_robotics:FetchReach-v4",
    "gymnasium_robotics:AdroitHandDoorSparse-v1",
    "gymnasium_robotics:HandReach-v3",
]


def skip_without_packages(task: str) -> None:
    """Skip a test where a task's packages are missing."""
    pytest.importorskip("envpool")
    if task.startswith("dm_control/"):
        pytest.importorskip("shimmy")
        pytest.importorskip("dm_control")
    if task.startswith("gymnasium_robotics:"):
        pytest.importorskip("gymnasium_robotics")


def begun(kind, task: str, seeds, **settings):
    vector = kind(task, seeds, **settings)
    for env in range(len(vector.obs)):
        vector.begin(env)
    return vector


# One task of each that observes less than EnvPool's domain has; every other one in the slow tests.
LESS = ["dm_control/finger-spin-v0", "dm_control/quadruped-walk-v0"]
FEW = [*FAMILIES, *LESS]
OTHERS = [
    *(task for task in catalogue._SUITE_NAMES if task not in FEW),
    *(catalogue.ROBOTICS + name for name in ROBOTIC if catalogue.ROBOTICS + name not in FEW),
    *(f"{name}-v5" for name in catalogue.MUJOCO),
    *(catalogue.OWN + name for name in sparse.GOALS),
]


@pytest.mark.parametrize(
    "task", [*FEW, *(pytest.param(task, marks=pytest.mark.slow) for task in OTHERS)]
)
def test_a_policy_for_one_backend_is_a_policy_for_the_other(task, monkeypatch):
    skip_without_packages(task)
    # Spaces alone are compared: no episode begins, and nothing is drawn.
    monkeypatch.setattr(dm_control_tasks, "opengl_works", lambda: True)
    from discover_rl.envs.envpool_vector import EnvPoolVector

    pool, vector = EnvPoolVector(task, [0]), GymnasiumVector(task, [0])
    assert pool.spec.observation_size == vector.spec.observation_size
    assert (pool.spec.low, pool.spec.high) == (vector.spec.low, vector.spec.high)
    assert pool.spec.time_limit == vector.spec.time_limit
    pool.close()
    vector.close()


def put_dm_control(env, task: str, obs: np.ndarray) -> None:
    """Put dm_control's physics where it observes this, for the domains that show all of it."""
    physics = env.unwrapped._env.physics
    kind = task.split("/")[1].split("-")[0]
    with physics.reset_context():
        if kind == "cartpole":  # position: x, cos θ, sin θ
            physics.data.qpos[:] = obs[0], np.arctan2(obs[2], obs[1])
            physics.data.qvel[:] = obs[3:]
        elif kind == "pendulum":  # orientation: cos θ, sin θ
            physics.data.qpos[:] = np.arctan2(obs[1], obs[0])
            physics.data.qvel[:] = obs[2:]
        elif kind == "acrobot":  # orientations: sin and cos of both arms, the lower one's absolute
            upper, lower = np.arctan2(obs[:2], obs[2:4])
            physics.data.qpos[:] = upper, lower - upper
            physics.data.qvel[:] = obs[4:]
        elif kind in ("hopper", "cheetah"):  # all but x, on which nothing depends
            size = physics.model.nq - 1
            physics.data.qpos[1:], physics.data.qvel[:] = obs[:size], obs[-physics.model.nv :]
        else:  # ball_in_cup, point_mass: all as it is
            size = physics.model.nq
            physics.data.qpos[:], physics.data.qvel[:] = obs[:size], obs[size:]


SHOWN = ["cartpole-swingup_sparse", "cartpole-swingup", "cartpole-balance_sparse"]
SHOWN += ["pendulum-swingup", "ball_in_cup-catch", "acrobot-swingup_sparse", "acrobot-swingup"]
SHOWN += ["hopper-hop", "hopper-stand", "cheetah-run", "point_mass-easy"]
SELDOM = {"cartpole-swingup_sparse", "acrobot-swingup_sparse", "ball_in_cup-catch"}
"""Tasks that do not pay in so few steps. The first one's reward is that of balancing, which begins
upright; the last one's has a test of its own."""
LANES = 8


@pytest.mark.parametrize("name", SHOWN)
def test_a_transition_is_the_one_dm_control_makes(name):
    """From where the pool stood, dm_control's environment goes where the pool went."""
    task = f"dm_control/{name}-v0"
    skip_without_packages(task)
    from discover_rl.envs.envpool_vector import EnvPoolVector

    pool, env, paid = begun(EnvPoolVector, task, list(range(LANES))), tasks.make(task), []
    env.reset(seed=0)
    generator = np.random.default_rng(0)
    for _ in range(12):
        before = pool.obs.astype(float)
        actions = generator.uniform(-1, 1, (LANES, pool.spec.action_size)).astype(np.float32)
        answer = pool.step(actions, np.ones(LANES, bool))
        for lane in range(LANES):
            put_dm_control(env, task, before[lane])
            obs, reward, *_ = env.step(pool.spec.to_box(actions[lane]))
            theirs = np.concatenate([np.ravel(obs[key]) for key in sorted(obs)])
            np.testing.assert_allclose(answer.next_obs[lane], theirs, rtol=5e-3, atol=5e-3)
            np.testing.assert_allclose(answer.reward[lane], reward, atol=5e-3)
            paid.append(reward)
    assert any(paid) or name in SELDOM
    pool.close()
    env.close()


def test_a_ball_is_caught_where_dm_control_pays():
    """Where it touches the rim EnvPool would pay, and dm_control does not."""
    pytest.importorskip("shimmy")
    pytest.importorskip("dm_control")
    env, generator = tasks.make("dm_control/ball_in_cup-catch-v0"), np.random.default_rng(0)
    env.reset(seed=0)
    physics = env.unwrapped._env.physics
    beside = generator.uniform(-0.05, 0.05, (400, 2))  # of the cup's middle
    cup = generator.uniform(-0.2, 0.2, (400, 2))
    at = np.hstack([cup, cup + np.asarray([0, 0.35]) + beside, np.zeros((400, 4))])
    paid = catalogue.ball_is_caught(at)
    for obs, caught in zip(at, paid, strict=True):
        put_dm_control(env, "dm_control/ball_in_cup-catch-v0", obs)
        assert physics.in_target() == caught
    assert 0 < np.sum(paid) < np.sum(np.abs(beside).max(axis=1) < 0.042)
    env.close()


def put_gymnasium(env, obs: np.ndarray) -> None:
    """Put a car, a pendulum or a point in a maze where it observes this."""
    match len(obs):
        case 2:
            env.unwrapped.state = obs
        case 3:  # cos θ, sin θ, θ̇
            env.unwrapped.state = np.asarray([np.arctan2(obs[1], obs[0]), obs[2]])
        case _:  # where it is, the goal, where it is once more, its velocity
            env.unwrapped.goal = obs[2:4]
            env.unwrapped.point_env.set_state(obs[4:6], obs[6:8])


@pytest.mark.parametrize(
    ("task", "policy", "most"),
    [  # Each is paid on the way: the car at the top, the point at the goal.
        ("MountainCarContinuous-v0", lambda obs: np.sign(obs[1:]), 99.9),
        ("Pendulum-v1", lambda obs: np.sign(obs[2:]), -0.5),
        ("gymnasium_robotics:PointMaze_UMaze-v3", lambda obs: obs[2:4] - obs[:2], 1.0),
    ],
)
def test_a_transition_is_the_one_gymnasium_makes(task, policy, most):
    """From where the pool stood, Gymnasium's environment goes where the pool went."""
    skip_without_packages(task)
    from discover_rl.envs.envpool_vector import EnvPoolVector

    pool, env, paid = begun(EnvPoolVector, task, list(range(4))), tasks.make(task), []
    env.reset(seed=0)
    for _ in range(150):
        before = pool.obs.copy()
        actions = np.stack([policy(obs) for obs in before]).clip(-1, 1).astype(np.float32)
        answer = pool.step(actions, np.ones(4, bool))
        for lane in range(4):
            put_gymnasium(env, before[lane].astype(float))
            obs, reward, terminated, _, _ = env.step(pool.spec.to_box(actions[lane]))
            if task == "Pendulum-v1" and abs(obs[2]) == 8.0:
                continue  # EnvPool turns it by the speed before that is cut off
            theirs = np.concatenate([obs[key] for key in sorted(obs)]) if "Maze" in task else obs
            np.testing.assert_allclose(answer.next_obs[lane], theirs, rtol=2e-3, atol=2e-3)
            np.testing.assert_allclose(answer.reward[lane], reward, rtol=2e-3, atol=2e-3)
            assert answer.terminated[lane] == terminated
            paid.append(reward)
    assert min(paid) < most <= max(paid)
    pool.close()
    env.close()


# Others, whose rewards are dense, or whose observations do not show the whole state.
HIDDEN = [
    *("dm_control/reacher-easy-v0", "dm_control/manipulator-bring_ball-v0"),
    *("gymnasium_robotics:AdroitHandDoor-v1", "gymnasium_robotics:AdroitHandRelocate-v1"),
    "gymnasium_robotics:FetchPushDense-v4",
]


@pytest.mark.slow
@pytest.mark.parametrize("task", [*FAMILIES, *HIDDEN])
def test_episodes_are_alike_in_distribution(task):
    """Where they start, where random actions lead in 20 steps, and what they pay."""
    skip_without_packages(task)
    from discover_rl.envs.envpool_vector import EnvPoolVector

    seeds, samples = list(range(64)), {}
    for kind in (GymnasiumVector, EnvPoolVector):
        vector = begun(kind, task, seeds)
        starts, total = vector.obs.copy(), np.zeros(64)
        generator = np.random.default_rng(0)
        for _ in range(20):
            actions = generator.uniform(-1, 1, (64, vector.spec.action_size)).astype(np.float32)
            answer = vector.step(actions, np.ones(64, bool))
            total += answer.reward
        samples[kind] = starts, answer.next_obs, total[:, None]
        vector.close()
    for a, b in zip(*samples.values(), strict=True):
        error = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b)) + 1e-3
        assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) < 4.5 * error).all()


@pytest.mark.parametrize("task", FAMILIES)
def test_an_episode_can_be_restored(task):
    pytest.importorskip("envpool")
    from discover_rl.envs.envpool_vector import EnvPoolVector

    pool, again = begun(EnvPoolVector, task, [5, 1]), EnvPoolVector(task, [5, 1])
    pool.begin(1)
    generator = np.random.default_rng(0)
    for _ in range(12):
        actions = generator.uniform(-1, 1, (2, pool.spec.action_size)).astype(np.float32)
        pool.step(actions, np.ones(2, bool))
    for lane in range(2):
        episode = pool.episodes(lane)[0]
        assert episode.number == lane
        assert again.restore(lane, episode)
    np.testing.assert_array_equal(pool.obs, again.obs)
