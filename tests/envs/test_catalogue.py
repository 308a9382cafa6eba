"""EnvPool's tasks by their ids here, and that they are the tasks of Gymnasium's side."""

import sys

import numpy as np
import pytest

from discover_rl.core.types import UserError
from discover_rl.envs import catalogue, sparse, tasks
from discover_rl.envs.catalogue import id_here, pool_task
from discover_rl.envs.gymnasium_vector import GymnasiumVector

ROBOTIC = (
    *("PointMaze_UMaze-v3", "PointMaze_Large_Diverse_GRDense-v3", "FetchReach-v4"),
    *("FetchPickAndPlaceDense-v4", "AdroitHandDoorSparse-v1", "AdroitHandPen-v1"),
)
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
]


def skip_without_packages(task: str) -> None:
    """Skip a test where a task's packages are missing."""
    pytest.importorskip("envpool")
    if task.startswith("dm_control/"):
        pytest.importorskip("shimmy")
        pytest.importorskip("dm_control")
    if task.startswith("gymnasium_robotics:"):
        pytest.importorskip("gymnasium_robotics")


# Ids


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("dm_control/cartpole-swingup_sparse-v0", "CartpoleSwingupSparse-v1"),
        ("dm_control/ball_in_cup-catch-v0", "BallInCupCatch-v1"),
        ("dm_control/humanoid_CMU-run-v0", "HumanoidCMURun-v1"),
        ("dm_control/stacker-stack_2-v0", "StackerStack2-v1"),
        ("gymnasium_robotics:FetchReach-v4", "FetchReach-v4"),
        ("Hopper-v5", "Hopper-v5"),
        ("discover_rl:SparseHopper-v0", "Hopper-v5"),
    ],
)
def test_an_id_has_its_name_in_envpool(ours, theirs):
    assert pool_task(ours).id == theirs
    if theirs != "Hopper-v5":
        assert id_here(theirs) == ours


@pytest.mark.parametrize(
    "task",
    [
        *("Hopper-v4", "BipedalWalker-v3", "SparseHopper-v0", "FetchReach-v4", "HopperHop-v1"),
        *("gymnasium_robotics:FetchReach-v1", "gymnasium_robotics:AntMaze_UMaze-v5"),
        *("dm_control/hopper-jump-v0", "dm_control/hopper-hop-v1", "mine:Hopper-v5"),
    ],
)
def test_other_ids_have_none(task):
    assert pool_task(task) is None


def test_envpool_has_every_task_that_it_is_said_to_have():
    envpool = pytest.importorskip("envpool")
    known = set(envpool.list_all_envs())
    ids = [*catalogue._SUITE_NAMES, *catalogue.CLASSIC, *(f"{it}-v5" for it in catalogue.MUJOCO)]
    ids += [catalogue.ROBOTICS + name for name in ROBOTIC]
    assert {pool_task(task).id for task in ids} <= known
    # And none of dm_control's that it has is missing.
    dm = {name for name in known if id_here(name).startswith("dm_control/")}
    assert dm == set(catalogue._SUITE_NAMES.values())
    maze = {name for name in known if name.startswith(("PointMaze_", "AdroitHand"))}
    maze |= {name for name in known if name.startswith("Fetch") and name.endswith("-v4")}
    assert all(pool_task(catalogue.ROBOTICS + name) for name in maze)


@pytest.mark.parametrize("task", ["PointMaze_UMaze-v3", "HopperHop-v1", "SparseAnt-v7"])
def test_an_id_without_its_module_is_answered_with_the_whole(task):
    with pytest.raises(UserError) as caught:
        tasks.make(task)
    whole = {
        "PointMaze_UMaze-v3": "gymnasium_robotics:PointMaze_UMaze-v3",
        "HopperHop-v1": "dm_control/hopper-hop-v0",
        "SparseAnt-v7": "SparseAnt-v0",
    }
    assert str(caught.value) == f"There is no task {task}. Did you mean {whole[task]}?"


@pytest.mark.parametrize(
    ("task", "module", "extra"),
    [
        ("dm_control/hopper-hop-v0", "shimmy", "dm_control"),
        ("gymnasium_robotics:PointMaze_UMaze-v3", "gymnasium_robotics", "robotics"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(monkeypatch, task, module, extra):
    for name in [it for it in sys.modules if it.split(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError) as caught:
        tasks.make(task)
    assert str(caught.value) == f"{task} needs a package: pip install 'discover_rl[{extra}]'."


# Both backends


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
def test_a_policy_for_one_backend_is_a_policy_for_the_other(task):
    skip_without_packages(task)
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
        else:  # ball_in_cup: all as it is
            physics.data.qpos[:], physics.data.qvel[:] = obs[:4], obs[4:]


SHOWN = ["cartpole-swingup_sparse", "cartpole-swingup", "pendulum-swingup", "ball_in_cup-catch"]


@pytest.mark.parametrize("task", [f"dm_control/{name}-v0" for name in SHOWN])
def test_a_transition_is_the_one_dm_control_makes(task):
    """From where the pool stood, dm_control's environment goes where the pool went."""
    skip_without_packages(task)
    from discover_rl.envs.envpool_vector import EnvPoolVector

    pool, env = begun(EnvPoolVector, task, [3]), tasks.make(task)
    env.reset(seed=0)
    generator = np.random.default_rng(0)
    for _ in range(40):
        before = pool.obs[0].astype(float)
        action = generator.uniform(-1, 1, (1, pool.spec.action_size)).astype(np.float32)
        answer = pool.step(action, np.ones(1, bool))
        put_dm_control(env, task, before)
        obs, reward, *_ = env.step(pool.spec.to_box(action[0]))
        theirs = np.concatenate([np.ravel(obs[key]) for key in sorted(obs)])
        np.testing.assert_allclose(answer.next_obs[0], theirs, rtol=5e-3, atol=5e-3)
        np.testing.assert_allclose(answer.reward[0], reward, atol=5e-3)
    pool.close()
    env.close()


@pytest.mark.slow
@pytest.mark.parametrize("task", FAMILIES)
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
