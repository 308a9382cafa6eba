"""Laws that every algorithm obeys with every strategy. A new member is tested by registering it."""

import functools

import jax
import numpy as np
import pytest

from discover_rl.algorithms import ALGORITHMS, ON_POLICY
from discover_rl.watch import Bad
from tests import cells
from tests.conftest import drop_programs

# Compiling is what costs: strategies of three kinds – directions, weights that wander, a perturbed
# copy – with an algorithm each in the quick tests, and every pair there is in the slow ones.
SAMPLE = [("td3", "discover"), ("sac", "coherent"), ("ppo", "psne")]
CELLS = [
    pytest.param(cell, marks=[] if cell in SAMPLE else [pytest.mark.slow], id="-".join(cell))
    for cell in ((name, other) for name in ALGORITHMS for other in cells.strategies_of(name))
]
SEEDS = [5, 1, 8]
LANES = len(SEEDS)
STEPS = 16


@pytest.fixture(params=CELLS, scope="module")
def cell(request):
    """One after the other through all laws, so that its programs can be dropped with it."""
    yield request.param
    agent_of.cache_clear()
    outcome.cache_clear()
    drop_programs()


def test_the_sample_is_of_cells_that_exist_in_both_families():
    assert {*SAMPLE} <= {tuple(param.values[0]) for param in CELLS}
    assert {name in ON_POLICY for name, _ in SAMPLE} == {True, False}


@functools.cache
def agent_of(cell, lanes):
    del lanes  # an agent for each number of lanes, so that it has one shape of everything
    return cells.build(*cell)


@functools.cache
def outcome(cell, seeds=tuple(SEEDS)):
    """The state after a few steps of learning, on the host, and the actions on the way."""
    agent = agent_of(cell, len(seeds))
    state, actions = cells.run(agent, cells.begin(agent, seeds, *cells.hypers(*cell)), seeds, STEPS)
    return jax.device_get(state), actions


def test_a_tick_keeps_structure_shapes_and_dtypes(cell):
    agent = agent_of(cell, LANES)
    begun = cells.begin(agent, SEEDS, *cells.hypers(*cell))
    before = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), begun)
    after = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), outcome(cell)[0])
    assert before == after
    for leaf in jax.tree.leaves(outcome(cell)[0]):
        assert leaf.shape[0] == len(SEEDS)
        # float64 is for what stays on the host: running statistics.
        assert leaf.dtype in (np.float32, np.float64, np.int32, np.uint32, np.bool_)


def test_all_is_finite_and_actions_stay_in_the_box(cell):
    state, actions = outcome(cell)
    for leaf in jax.tree.leaves(state):
        assert np.isfinite(leaf).all()
    assert np.abs(actions).max() <= 1.0
    # Random numbers are drawn anew at every step and in every lane.
    assert np.abs(np.diff(actions[:3], axis=0)).max(-1).min() > 0.0
    assert np.abs(np.diff(actions[:3], axis=1)).max(-1).min() > 0.0


def test_learning_moves_the_actor_and_the_critics(cell):
    agent = agent_of(cell, LANES)
    begun = jax.device_get(cells.begin(agent, SEEDS, *cells.hypers(*cell)))
    state, _ = outcome(cell)
    critic = "critic" if cell[0] in ON_POLICY else "critics"
    before, after = (
        [it.learner.actor["net"], getattr(it.learner, critic)] for it in (begun, state)
    )
    pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
    assert all(np.abs(new - old).max() > 0 for old, new in pairs)


def test_nothing_is_compiled_twice(cell):
    agent = agent_of(cell, LANES)
    for _ in range(2):
        cells.run(agent, cells.begin(agent, SEEDS, *cells.hypers(*cell)), SEEDS, STEPS)
    if cell[0] in ON_POLICY:
        programs = {agent._learn, agent._noise._draw}
    else:
        due = {agent.due(step) for step in range(2, STEPS)}
        learned = {agent._learns(sequel) for sequel in due if sequel or agent.listens}
        programs = learned | {agent._meets} | (set() if agent.listens else {agent._inserts})
    assert len(programs) > 1  # without and with learning, at least
    sizes = [program._cache_size() for program in programs]
    if agent.strategy.recall:
        # One for rollouts under one memory, one for those under up to four.
        assert max(sizes) <= 2
    else:
        assert sizes == [1] * len(programs)


def test_same_seed_same_result(cell):
    agent = agent_of(cell, LANES)
    state = cells.begin(agent, SEEDS, *cells.hypers(*cell))
    state, actions = cells.run(agent, state, SEEDS, STEPS)
    cells.assert_same(jax.device_get(state), outcome(cell)[0])
    np.testing.assert_array_equal(actions, outcome(cell)[1])


def test_lanes_together_are_lanes_alone(cell):
    """To the last digits; on-policy to the bit."""
    together, actions = outcome(cell)
    for lane, seed in enumerate(SEEDS):
        alone, own = outcome(cell, (seed,))
        here = jax.tree.map(lambda leaf, lane=lane: leaf[lane], together.learner)
        there = jax.tree.map(lambda leaf: leaf[0], alone.learner)
        if cell[0] in ON_POLICY:
            np.testing.assert_array_equal(actions[:, lane], own[:, 0])
            cells.assert_same(here, there)
        else:
            np.testing.assert_allclose(actions[:, lane], own[:, 0], rtol=1e-4, atol=1e-5)
            cells.assert_close(here, there, 1e-4)


def test_permuting_lanes_permutes_results(cell):
    order = [2, 0, 1]
    permuted, actions = outcome(cell, tuple(SEEDS[i] for i in order))
    here = jax.tree.map(lambda leaf: leaf[np.asarray(order)], outcome(cell)[0])
    cells.assert_same(here, permuted)
    np.testing.assert_array_equal(outcome(cell)[1][:, order], actions)


def test_floats_are_lane_values(cell):
    """Two lanes with different floats are the two lanes that have these floats alone.

    The agent of the halved lanes is made with halved floats, so that a float which `make` had
    built into the program would show.
    """
    agent = agent_of(cell, LANES)
    hyper, theirs = cells.hypers(*cell)
    both = jax.tree.map(lambda value: value * 0.5, (hyper, theirs))
    mixed = cells.begin(agent, [5, 5, 5], [hyper, both[0], hyper], [theirs, both[1], theirs])
    mixed, _ = cells.run(agent, mixed, [5, 5, 5], STEPS)
    other = cells.made(*cell, *both)
    halved = cells.begin(other, [5, 5, 5], *both)
    halved, _ = cells.run(other, halved, [5, 5, 5], STEPS)
    for lane, state in ((0, outcome(cell)[0]), (1, halved)):
        expected = jax.tree.map(lambda leaf, lane=lane: np.asarray(leaf)[lane], state.learner)
        got = jax.tree.map(lambda leaf, lane=lane: np.asarray(leaf)[lane], mixed.learner)
        cells.assert_same(got, expected)
    weight = jax.device_get(mixed.learner.actor["net"]["head"]["weight"])
    assert np.abs(weight[0] - weight[1]).max() > 0


def test_evaluating_changes_nothing(cell):
    agent = agent_of(cell, LANES)
    state, _ = cells.run(agent, cells.begin(agent, SEEDS, *cells.hypers(*cell)), SEEDS, STEPS)
    agent.nets(state)
    report = jax.device_get(agent.report(state, np.int32(STEPS)))
    assert all(values.shape == (len(SEEDS),) for values in report.values())
    assert all(np.isfinite(values).all() for values in report.values())
    cells.assert_same(jax.device_get(state), outcome(cell)[0])


def test_acting_is_the_same_on_the_host_and_on_the_device(cell):
    agent = agent_of(cell, LANES)
    algorithm, recall = agent.algorithm, agent.strategy.recall
    lane = jax.tree.map(lambda leaf: leaf[0], outcome(cell)[0].learner)
    obs = cells.observations([5], 0)
    for step in (0, STEPS):
        key = jax.random.key(step)
        memory, noise = algorithm.begin(lane, key), algorithm.draw(key)
        if cell[0] in ON_POLICY:
            act = lambda lane, *rest: algorithm.acting(lane)(*rest)  # noqa: E731
            inputs = recall(memory) if recall else memory, obs, noise
        else:
            act, inputs = algorithm.act, (memory, obs[0], noise, step)
        there = jax.jit(act)(lane, *inputs)
        here = act(lane, *jax.device_get(inputs))
        for leaf in jax.tree.leaves(here):
            assert isinstance(leaf, np.ndarray | np.generic | float)
        cells.assert_close(here, there, 1e-5)


def test_the_first_bad_quantity_is_named_and_stays_in_its_lane(cell):
    agent = agent_of(cell, LANES)
    state = cells.begin(agent, SEEDS, *cells.hypers(*cell))

    def spoilt(seen, step):
        if step == STEPS - 1:
            reward = seen.reward.copy()
            reward[1] = np.nan
            return seen._replace(reward=reward)
        return seen

    lanes, alive, step, found = cells.Answers(SEEDS, spoil=spoilt), np.ones(LANES, bool), 0, []
    while step < STEPS:
        state, step, bad = agent.advance(state, lanes, alive, step, STEPS)
        found += bad
        alive[[it.lane for it in bad]] = False
    assert found == [Bad(1, "reward", STEPS - 1)]
    others = jax.tree.map(lambda leaf: np.asarray(leaf)[[0, 2]], state.learner)
    expected = jax.tree.map(lambda leaf: leaf[[0, 2]], outcome(cell)[0].learner)
    cells.assert_same(others, expected)
