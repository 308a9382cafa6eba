"""Sparse locomotion: what it pays, who can use it, and that both backends have the same."""

import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from discover_rl.envs import sparse
from discover_rl.envs.gymnasium_vector import GymnasiumVector
from discover_rl.envs.tasks import make

TASKS = [f"discover_rl:{name}" for name in sparse.GOALS]
POSITIONS = {
    "discover_rl:SparseHalfCheetah-v0": (5.0, [(4.99, 0), (5.01, 1)]),
    "discover_rl:SparseHopper-v0": (1.0, [(0.99, 0), (1.01, 1)]),
    "discover_rl:SparseSwimmer-v0": (1.0, [(0.98, 0), (1.02, 1)]),
    "discover_rl:SparseAnt-v0": (4.0, [(3.9, 0), (4.1, 1)]),
}


def test_the_goal_itself_pays_unless_it_has_to_be_passed():
    at = {name: goal.reward(np.asarray([goal.position])) for name, goal in sparse.GOALS.items()}
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


def test_an_id_without_its_module_is_answered_with_the_whole():
    make("discover_rl:SparseAnt-v0").close()
    vector = GymnasiumVector("discover_rl:SparseSwimmer-v0", [0])
    assert vector.spec.time_limit == 1000
    assert vector.spec.observation_size == 10


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
