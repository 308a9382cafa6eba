"""Laws that every algorithm obeys with every strategy. A new member is tested by registering it."""

import functools

import jax
import numpy as np
import pytest

from discover_rl.algorithms import ALGORITHMS
from discover_rl.core.finite import Divergence
from discover_rl.strategies import STRATEGIES
from tests.conftest import drop_programs
from tests.helpers import cells
from tests.helpers.cells import is_on_policy

# Compiling is what costs. So the quick tests take strategies of three kinds – directions, weights
# that wander, a perturbed copy – with an algorithm each through all laws, and every other strategy
# with one algorithm through the laws that need no second set of programs. The slow tests take every
# pair there is through all laws.
SAMPLE = [("td3", "discover"), ("sac", "coherent"), ("ppo", "psne")]
OTHERS = [("ddpg", "meta"), ("a2c", "noisynet"), ("td3", "gaussian"), ("sac", "ou")]
OTHERS += [("ppo", "none"), ("td3", "pink"), ("a2c", "zeta"), ("ddpg", "corner")]
OTHERS += [("ppo", "gsde"), ("sac", "oac"), ("td3", "rnd"), ("sac", "see"), ("ddpg", "seek")]
ALL = [(algorithm, other) for algorithm in ALGORITHMS for other in cells.strategies_of(algorithm)]
# A strategy that was registered and is not named above: with the first algorithm that has it.
_named = {strategy for _, strategy in SAMPLE + OTHERS}
OTHERS += [next(it for it in ALL if it[1] == name) for name in STRATEGIES if name not in _named]


def law_of(quick):
    """A law that holds in every cell, tested quickly in some."""
    marked = [
        pytest.param(cell, marks=[] if cell in quick else [pytest.mark.slow], id="-".join(cell))
        for cell in ALL
    ]
    return pytest.mark.parametrize("cell", marked, indirect=True)


law, cheap_law = law_of(SAMPLE), law_of(SAMPLE + OTHERS)
SEEDS = [5, 1, 8]
LANES = len(SEEDS)
STEPS = 16


@pytest.fixture(scope="module")
def cell(request):
    """An algorithm and a strategy. Each goes through all laws before the next, so that its programs
    can be dropped with it."""
    yield request.param
    agent_of.cache_clear()
    outcome.cache_clear()
    drop_programs()


def test_the_sample_is_of_cells_that_exist_in_both_families():
    assert {*SAMPLE, *OTHERS} <= {*ALL}
    assert {is_on_policy(name) for name, _ in SAMPLE} == {True, False}


def test_the_quick_laws_see_every_algorithm_and_every_strategy():
    algorithms, strategies = zip(*SAMPLE, *OTHERS, strict=True)
    assert {*algorithms} == {*ALGORITHMS}
    assert {*strategies} == {*STRATEGIES}


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


@cheap_law
def test_a_step_keeps_structure_shapes_and_dtypes(cell):
    agent = agent_of(cell, LANES)
    begun = cells.begin(agent, SEEDS, *cells.hypers(*cell))
    before = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), begun)
    after = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), outcome(cell)[0])
    assert before == after
    for leaf in jax.tree.leaves(outcome(cell)[0]):
        assert leaf.shape[0] == len(SEEDS)
        # float64 is for what stays on the host: running statistics.
        assert leaf.dtype in (np.float32, np.float64, np.int32, np.uint32, np.bool_)


@cheap_law
def test_all_is_finite_and_actions_stay_in_the_box(cell):
    state, actions = outcome(cell)
    for leaf in jax.tree.leaves(state):
        assert np.isfinite(leaf).all()
    assert np.abs(actions).max() <= 1.0
    # Random numbers are drawn anew at every step and in every lane. On-policy, the first
    # observation is 0 once it is standardised, so noise that depends on it may be 0, too.
    assert np.abs(np.diff(actions[1:3], axis=0)).max(-1).min() > 0.0
    assert np.abs(np.diff(actions[1:3], axis=1)).max(-1).min() > 0.0


@cheap_law
def test_learning_moves_the_actor_and_the_critics(cell):
    agent = agent_of(cell, LANES)
    begun = jax.device_get(cells.begin(agent, SEEDS, *cells.hypers(*cell)))
    state, _ = outcome(cell)
    critic = "critic" if is_on_policy(cell[0]) else "critics"
    before, after = (
        [it.learner.actor["net"], getattr(it.learner, critic)] for it in (begun, state)
    )
    if agent.strategy.density.nudge:  # which may give a std, so that the policy's own stays
        before, after = (
            [{name: it for name, it in net.items() if name != "log_std"}, value]
            for net, value in (before, after)
        )
    pairs = zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True)
    assert all(np.abs(new - old).max() > 0 for old, new in pairs)


@cheap_law
def test_nothing_is_compiled_twice(cell):
    agent = agent_of(cell, LANES)
    for _ in range(2):
        cells.run(agent, cells.begin(agent, SEEDS, *cells.hypers(*cell)), SEEDS, STEPS)
    if is_on_policy(cell[0]):
        programs = {agent._learn, agent._noise._draw}
    else:
        due = {agent.due(step) for step in range(2, STEPS)}
        learned = {agent._learn(updates) for updates in due if updates or agent.waits}
        programs = learned | {agent._act} | (set() if agent.waits else {agent._store})
    assert len(programs) > 1  # without and with learning, at least
    sizes = [program._cache_size() for program in programs]
    if agent.strategy.density.recall:
        # One for rollouts under one memory, one for those under up to four.
        assert max(sizes) <= 2
    else:
        assert sizes == [1] * len(programs)


@cheap_law
def test_same_seed_same_result(cell):
    agent = agent_of(cell, LANES)
    state = cells.begin(agent, SEEDS, *cells.hypers(*cell))
    state, actions = cells.run(agent, state, SEEDS, STEPS)
    cells.assert_same(jax.device_get(state), outcome(cell)[0])
    np.testing.assert_array_equal(actions, outcome(cell)[1])


@law
def test_lanes_together_are_lanes_alone(cell):
    """To the last digits; on-policy to the bit."""
    together, actions = outcome(cell)
    for lane, seed in enumerate(SEEDS):
        alone, own = outcome(cell, (seed,))
        here = jax.tree.map(lambda leaf, lane=lane: leaf[lane], together.learner)
        there = jax.tree.map(lambda leaf: leaf[0], alone.learner)
        if is_on_policy(cell[0]):
            np.testing.assert_array_equal(actions[:, lane], own[:, 0])
            cells.assert_same(here, there)
        else:
            np.testing.assert_allclose(actions[:, lane], own[:, 0], rtol=1e-4, atol=1e-5)
            cells.assert_close(here, there, 1e-4)


@law
def test_permuting_lanes_permutes_results(cell):
    order = [2, 0, 1]
    permuted, actions = outcome(cell, tuple(SEEDS[i] for i in order))
    here = jax.tree.map(lambda leaf: leaf[np.asarray(order)], outcome(cell)[0])
    cells.assert_same(here, permuted)
    np.testing.assert_array_equal(outcome(cell)[1][:, order], actions)


@law
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


@cheap_law
def test_evaluating_changes_nothing(cell):
    agent = agent_of(cell, LANES)
    state, _ = cells.run(agent, cells.begin(agent, SEEDS, *cells.hypers(*cell)), SEEDS, STEPS)
    agent.nets(state)
    report = jax.device_get(agent.report(state, np.int32(STEPS)))
    assert all(values.shape == (len(SEEDS),) for values in report.values())
    assert all(np.isfinite(values).all() for values in report.values())
    cells.assert_same(jax.device_get(state), outcome(cell)[0])


@cheap_law
def test_acting_is_the_same_on_the_host_and_on_the_device(cell):
    agent = agent_of(cell, LANES)
    algorithm, recall = agent.algorithm, agent.strategy.density.recall
    lane = jax.tree.map(lambda leaf: leaf[0], outcome(cell)[0].learner)
    obs = cells.observations([5], 0)
    for step in (0, STEPS):
        key = jax.random.key(step)
        memory, noise = algorithm.begin(lane, key), algorithm.draw(key)
        if is_on_policy(cell[0]):
            act = lambda lane, *rest: algorithm.acting(lane)(*rest)  # noqa: E731
            inputs = recall(memory) if recall else memory, obs, noise
        else:
            act, inputs = algorithm.act, (memory, obs[0], noise, step)
        there = jax.jit(act)(lane, *inputs)
        here = act(lane, *jax.device_get(inputs))
        # Off-policy acting is always compiled, so a strategy may use JAX alone.
        for leaf in jax.tree.leaves(here) if is_on_policy(cell[0]) else ():
            assert isinstance(leaf, np.ndarray | np.generic | float)
        cells.assert_close(here, there, 1e-5)


@cheap_law
def test_the_first_bad_quantity_is_named_and_stays_in_its_lane(cell):
    agent = agent_of(cell, LANES)
    state = cells.begin(agent, SEEDS, *cells.hypers(*cell))

    def spoilt(answer, step):
        if step == STEPS - 1:
            reward = answer.reward.copy()
            reward[1] = np.nan
            return answer._replace(reward=reward)
        return answer

    vector, alive, step, found = cells.Answers(SEEDS, spoil=spoilt), np.ones(LANES, bool), 0, []
    while step < STEPS:
        state, step, bad = agent.advance(state, vector, alive, step, STEPS)
        found += bad
        alive[[it.lane for it in bad]] = False
    assert found == [Divergence(1, "reward", STEPS - 1)]
    others = jax.tree.map(lambda leaf: np.asarray(leaf)[[0, 2]], state.learner)
    expected = jax.tree.map(lambda leaf: leaf[[0, 2]], outcome(cell)[0].learner)
    cells.assert_same(others, expected)
