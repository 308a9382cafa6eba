"""Sparse locomotion: what it pays, who can use it, and that both backends have the same."""

import subprocess
import sys
import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from discover_rl.envs import sparse
from discover_rl.envs.gymnasium_vector import GymnasiumVector
from discover_rl.envs.tasks import make
from discover_rl.envs.versions import completed

TASKS = [f"discover_rl:{name}" for name in sparse.GOALS]
POSITIONS = {
    "discover_rl:SparseHalfCheetah-v0": (5.0, [(4.99, 0), (5.01, 1)]),
    "discover_rl:SparseHopper-v0": (1.0, [(0.99, 0), (1.01, 1)]),
    "discover_rl:SparseSwimmer-v0": (1.0, [(0.98, 0), (1.02, 1)]),
    "discover_rl:SparseAnt-v0": (4.0, [(3.9, 0), (4.1, 1)]),
}


def test_the_goal_itself_pays_unless_it_has_to_be_passed():
    at = {name: goal.reached(goal.position) for name, goal in sparse.GOALS.items()}
    assert at == {
        "SparseHalfCheetah-v0": False,
        "SparseHopper-v0": True,
        "SparseSwimmer-v0": True,
        "SparseAnt-v0": True,
    }


@pytest.mark.parametrize("task", TASKS)
def test_a_step_pays_one_past_the_goal_and_nothing_else_ever(task):
    env = gymnasium.make(task)
    original = gymnasium.make(sparse.GOALS[task.rpartition(":")[2]].original)
    assert env.spec.max_episode_steps == 1000
    still = np.zeros(env.action_space.shape, np.float32)
    env.reset(seed=0)
    qpos, qvel = env.unwrapped.data.qpos.copy(), env.unwrapped.data.qvel.copy()
    for x, paid in POSITIONS[task][1]:
        env.reset(seed=0)
        env.unwrapped.set_state(np.concatenate([[x], qpos[1:]]), qvel * 0)
        obs, reward, *_ = env.step(still)
        assert reward == paid
        assert obs[0] == env.unwrapped.data.qpos[0]  # the position is observed
    # Everything else is the original's.
    obs, _ = env.reset(seed=1)
    theirs, _ = original.reset(seed=1)
    env.action_space.seed(0)
    hidden = len(obs) - len(theirs)
    for _ in range(60):
        action = env.action_space.sample()
        obs, reward, *ends, _ = env.step(action)
        theirs, _, *their_ends, _ = original.step(action)
        np.testing.assert_array_equal(obs[hidden:], theirs)
        assert ends == their_ends
        assert reward == float(obs[0] >= POSITIONS[task][0])
        if any(ends):
            break


@pytest.mark.parametrize(
    "order", ["import gymnasium, discover_rl", "import discover_rl, gymnasium", "import gymnasium"]
)
def test_any_library_can_make_them(order):
    code = f"{order}; print(gymnasium.make('discover_rl:SparseHopper-v0').spec.id)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "SparseHopper-v0\n", done.stderr


@pytest.mark.parametrize("task", TASKS)
def test_gymnasium_makes_them_again_and_finds_nothing_wrong(task):
    env = gymnasium.make(task)
    again = gymnasium.make(env.spec)
    assert (again.goal.position, again.goal.beyond) == (env.goal.position, env.goal.beyond)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # observations without bounds are MuJoCo's own
        check_env(env, skip_render_check=True)


def test_a_position_that_is_not_observed_is_paid_for_all_the_same():
    env = gymnasium.make(
        "discover_rl:SparseHopper-v0", exclude_current_positions_from_observation=True
    )
    obs, _ = env.reset(seed=0)
    assert obs[0] > 1  # the height, which would be past the goal
    assert env.step(env.action_space.sample())[1] == 0


def test_an_id_without_its_module_means_the_whole(capsys):
    assert completed("SparseAnt-v0") == completed("SparseAnt") == "discover_rl:SparseAnt-v0"
    assert capsys.readouterr().err == (
        "Note: SparseAnt-v0 means discover_rl:SparseAnt-v0 here.\n"
        "Note: SparseAnt means discover_rl:SparseAnt-v0 here, the newest version.\n"
    )
    make("discover_rl:SparseAnt-v0").close()
    vector = GymnasiumVector("discover_rl:SparseSwimmer-v0", [0])
    assert vector.spec.time_limit == 1000
    assert vector.spec.observation_size == 10


@pytest.mark.parametrize("task", TASKS)
def test_envpool_pays_one_past_the_goal_and_nothing_else_ever(task, monkeypatch):
    """With the goal where bodies start, random actions lead to both sides of it."""
    pytest.importorskip("envpool")
    from discover_rl.envs.envpool_vector import EnvPoolVector

    name = task.removeprefix("discover_rl:")
    monkeypatch.setitem(sparse.GOALS, name, sparse.GOALS[name]._replace(position=0.0))
    pool, generator = EnvPoolVector(task, list(range(8))), np.random.default_rng(0)
    for env in range(8):
        pool.begin(env)
    paid = []
    for _ in range(40):
        actions = generator.uniform(-1, 1, (8, pool.spec.action_size)).astype(np.float32)
        answer = pool.step(actions, np.ones(8, bool))
        np.testing.assert_array_equal(answer.reward, answer.next_obs[:, 0] > 0)
        paid.append(answer.reward.mean())
    assert 0 < np.mean(paid) < 1
    pool.close()


@pytest.mark.parametrize("task", TASKS)
def test_both_backends_pay_the_same(task):
    """From where the pool stood, Gymnasium's environment goes where the pool went."""
    pytest.importorskip("envpool")
    from discover_rl.envs.envpool_vector import EnvPoolVector

    pool, env = EnvPoolVector(task, [4]), gymnasium.make(task)
    assert pool.spec == GymnasiumVector(task, [4]).spec
    pool.begin(0)
    env.reset(seed=0)
    model, generator = env.unwrapped.model, np.random.default_rng(0)
    for _ in range(30):
        before = pool.obs[0].astype(float)
        if np.abs(before).max() >= 9.9:  # velocities that the observation cuts off
            pool.begin(0)
            continue
        action = generator.uniform(-1, 1, (1, pool.spec.action_size)).astype(np.float32)
        answer = pool.step(action, np.ones(1, bool))
        env.unwrapped.set_state(before[: model.nq], before[model.nq : model.nq + model.nv])
        env.unwrapped.data.qacc_warmstart[:] = 0.0
        obs, reward, terminated, _, _ = env.step(pool.spec.to_box(action[0]))
        moved = model.nq + model.nv  # what follows are contact forces
        np.testing.assert_allclose(answer.next_obs[0][:moved], obs[:moved], rtol=4e-3, atol=4e-3)
        assert answer.reward[0] == reward
        assert answer.terminated[0] == terminated
    pool.close()
