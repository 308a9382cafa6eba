"""Rollouts on the host: what is stored, in which column, scaled by what, and when it is learned."""

import functools

import jax
import numpy as np
import pytest
from jax import random

from discover_rl.agents.interface import AgentSetup
from discover_rl.agents.on_policy import agent as agents
from discover_rl.agents.on_policy.agent import OnPolicyAgent
from discover_rl.algorithms import a2c
from discover_rl.core import networks
from discover_rl.core.finite import Divergence
from discover_rl.core.prng import Stream, streams
from discover_rl.strategies.interface import Strategy
from tests.helpers import cells

HORIZON = 30
SEEDS = [5, 1]
BOTH = np.ones(2, bool)
SETTINGS = {"horizon": HORIZON, "minibatches": 1, "epochs": 1}


@functools.cache
def agent_of(strategy: str, count: int) -> OnPolicyAgent:
    hyper, strategy_hyper = cells.hypers("a2c", strategy, **SETTINGS)
    setup = AgentSetup(
        cells.SPEC, "a2c", hyper, strategy, strategy_hyper, cells.STEPS, environments=count
    )
    return OnPolicyAgent(setup)


def far(transition, step):
    """The transition with last observations far from all others, so that they are clipped and
    cannot be taken for first ones."""
    del step
    ended, next_obs = transition.ended[:, None], transition.next_obs
    return transition._replace(next_obs=np.where(ended, 50 * next_obs, next_obs))


def begun(strategy: str, count: int, spoil=far, seeds=SEEDS):
    """An agent, its state before the first step, and its environments."""
    agent, vector = agent_of(strategy, count), cells.Answers(seeds, count=count, spoil=spoil)
    first = cells.observations(vector.seeds, 0)
    fresh = np.ones(len(vector.seeds), bool)
    hypers = cells.hypers("a2c", strategy, **SETTINGS)
    given = (cells.stack_floats([it] * len(seeds)) for it in hypers)
    state = agent.init(np.asarray(seeds, np.uint32), *given)
    return agent, agent.enter(state, first, fresh, 0), vector


def advanced(agent, state, vector, until: int, step: int = 0, alive=BOTH):
    """The state, and the lanes that diverged on the way."""
    alive, found = alive.copy(), []
    while step < until:
        state, step, bad = agent.advance(state, vector, alive, step, until)
        found += bad
        alive[[it.lane for it in bad]] = False
    return state, found


@functools.cache
def nearly_full(strategy: str, count: int):
    """A rollout that lacks one step of being full: nothing has been learned yet."""
    agent, state, vector = begun(strategy, count)
    state, _ = advanced(agent, state, vector, (HORIZON - 1) * count)
    return state, vector


def all_but_rollout(state, lane: int):
    """A copy of a lane's state; that of a dead lane stays as it is, and nobody reads its rollout,
    which is written into for all lanes together."""
    return jax.tree.map(lambda leaf: np.array(leaf[lane]), state._replace(rollout=()))


def answers(lane: int, count: int) -> list:
    """What the environments of a lane answer, step by step, those of a step beside each other."""
    seeds = [SEEDS[lane] + 103 * env for env in range(count)]
    return [far(cells.transition_at(seeds, step), step) for step in range(1, HORIZON)]


class Normaliser:
    """Remembers everything, and scales by the mean and variance of it all."""

    def __init__(self):
        self.samples = []

    def update(self, values):
        self.samples += list(np.asarray(values, np.float64))

    def scale(self, value, centre=True):
        mean = np.mean(self.samples, axis=0) if centre else 0.0
        scaled = (value - mean) / np.sqrt(np.var(self.samples, axis=0) + 1e-8)
        return np.clip(scaled, -10, 10)


@pytest.mark.parametrize(("strategy", "count"), [("none", 1), ("ou", 3)])
def test_observations_and_rewards_are_scaled_as_by_a_loop(strategy, count):
    state, _ = nearly_full(strategy, count)
    gamma = a2c.Hyper().gamma
    for lane, seed in enumerate(SEEDS):
        observations, returns, total = Normaliser(), Normaliser(), np.zeros(count)
        obs = cells.observations([seed + 103 * env for env in range(count)], 0)
        observations.update(obs)
        obs, ends, clipped = observations.scale(obs), 0, 0
        for step, answer in enumerate(answers(lane, count)):
            observations.update(answer.obs)
            total = gamma * total + answer.reward
            returns.update(total)
            expected = {
                "obs": obs,
                "next_obs": observations.scale(answer.next_obs),
                "reward": returns.scale(answer.reward, centre=False),
                "terminated": answer.terminated,
                "ended": answer.ended,
            }
            for name, values in expected.items():
                got = getattr(state.rollout, name)[lane, step]
                np.testing.assert_allclose(got, values, rtol=2e-5, atol=2e-6, err_msg=name)
            total = np.where(answer.ended, 0.0, total)
            obs = observations.scale(answer.obs)
            ends += answer.ended.sum()
            clipped += (np.abs(expected["next_obs"]) == 10).any()
        assert ends > count
        assert clipped
        np.testing.assert_allclose(state.obs[lane], obs, rtol=2e-5, atol=2e-6)
        np.testing.assert_allclose(state.returns[lane], total, rtol=1e-5)


@pytest.mark.parametrize(("strategy", "count"), [("none", 1), ("ou", 3)])
def test_what_follows_an_end_is_the_last_observation_and_not_the_first_of_the_next(strategy, count):
    rollout = nearly_full(strategy, count)[0].rollout
    ended, terminated = rollout.ended[:, : HORIZON - 2], rollout.terminated[:, : HORIZON - 2]
    truncated = ended & ~terminated
    assert truncated.any()
    assert terminated.any()
    assert not (terminated & ~ended).any()
    next_obs, later = rollout.next_obs[:, : HORIZON - 2], rollout.obs[:, 1 : HORIZON - 1]
    apart = np.abs(next_obs - later).max(-1)
    np.testing.assert_array_equal(apart > 0, ended)
    # New episodes start where the last would have gone on, mirrored; last ones are 50 times as far.
    signs = np.sign(next_obs[ended]) == np.sign(later[ended])
    assert signs.mean() < 0.5
    assert np.abs(next_obs[truncated]).mean() > 3 * np.abs(later[truncated]).mean()


@pytest.mark.parametrize(("strategy", "count"), [("none", 1), ("ou", 3)])
def test_the_statistics_travel_with_the_network_and_stand_still_in_it(strategy, count):
    agent, state, vector = begun(strategy, count)
    state, _ = advanced(agent, state, vector, 10 * count)
    before = jax.tree.map(np.array, state)
    nets = agent.nets(state)
    kept = jax.tree.map(np.array, nets)
    raw = cells.observations([3, 4, 6], 7)
    for lane in range(2):
        mean, squares = state.obs_stats.mean[lane], state.obs_stats.squares[lane]
        deviation = np.sqrt(squares / (11 * count) + 1e-8)
        scaled = np.clip((raw - mean) / deviation, -10, 10).astype(np.float32)
        actor = jax.tree.map(lambda leaf, lane=lane: leaf[lane], state.learner.actor["net"])
        net = jax.tree.map(lambda leaf, lane=lane: leaf[lane], nets)
        got = networks.mean_action(agent.head, net, raw)
        np.testing.assert_allclose(got, networks.apply(actor, scaled, "tanh"), rtol=1e-4, atol=1e-5)
    cells.assert_same(state, before)
    # Going on leaves what was taken out as it is.
    advanced(agent, state, vector, 20 * count, 10 * count)
    cells.assert_same(nets, kept)


def test_environments_of_a_lane_have_noise_and_memories_of_their_own():
    state, vector = nearly_full("ou", 3)
    agent, steps = agent_of("ou", 3), HORIZON - 1
    hyper = cells.hypers("a2c", "ou")[1]
    for lane, seed in enumerate(SEEDS):
        mine = jax.tree.map(lambda leaf, lane=lane: leaf[lane], state)
        keys = random.split(streams(np.uint32(seed), 0)[Stream.ACT], (HORIZON, 3))
        own, pushes = jax.device_get(jax.vmap(jax.vmap(agent.algorithm.draw))(keys))
        assert len(np.unique(own)) == own.size
        actor = mine.learner.actor["net"]
        mean = networks.apply(actor, mine.rollout.obs, "tanh")
        expected = (mean + np.exp(actor["log_std"]["value"]) * own[:, :, 0])[:steps]
        np.testing.assert_allclose(mine.rollout.action[:steps], expected, rtol=1e-5, atol=1e-6)
        drift = np.zeros((3, 2))
        for step in range(steps):
            drift = (1 - hyper.theta) * drift + hyper.sigma.at(0.0) * pushes[step, :, 0]
            executed = np.clip(mine.rollout.action[step] + drift, -1, 1)
            got = [vector.actions[3 * lane + env][step] for env in range(3)]
            np.testing.assert_allclose(got, executed, rtol=1e-5, atol=1e-6)
            drift[mine.rollout.ended[step]] = 0.0
        assert mine.rollout.ended.any(axis=1).sum() > mine.rollout.ended.all(axis=1).sum()
        np.testing.assert_allclose(mine.memory[:, 0], drift, rtol=1e-4, atol=1e-6)
        assert len(np.unique(mine.memory)) > 1


def test_every_memory_is_begun_with_a_key_of_its_own(monkeypatch):
    """Also where every episode lasts one step."""
    over = np.ones(2 * 3, bool)
    agent, state, vector = begun("ou", 3, lambda answer, step: answer._replace(ended=over))
    # (seed, step) of each; those of the first episodes are the environments' numbers.
    keys = [(seed, env) for seed in SEEDS for env in range(3)]
    begin = agent._begin

    def noted(learner, seed, step):
        keys.append((int(seed), int(step)))
        return begin(learner, seed, step)

    monkeypatch.setattr(agent, "_begin", noted)
    advanced(agent, state, vector, 8 * 3)
    assert len(keys) == len(set(keys)) == 9 * 2 * 3


def test_where_the_steps_are_cut_into_chunks_does_not_matter(monkeypatch):
    agent, state, vector = begun("ou", 3)
    whole, _ = advanced(agent, state, vector, 2 * HORIZON * 3 + 12)
    agent, state, odd = begun("ou", 3)
    before = 0
    for until in (3, 12, 15, 87, 90, 93, 150, 2 * HORIZON * 3 + 12):
        state, _ = advanced(agent, state, odd, until, before)
        before = until
    cells.assert_same(state, whole)
    cells.assert_same(odd.actions, vector.actions)
    monkeypatch.setattr(agents, "CHUNK", 7)
    agent, state, short = begun("ou", 3)
    state, step, _ = agent.advance(state, short, BOTH, 0, 10**6)
    assert step == 21
    state, _ = advanced(agent, state, short, 2 * HORIZON * 3 + 12, step)
    cells.assert_same(state, whole)


def test_the_same_agent_serves_runs_of_other_seeds():
    """Random numbers that one run has drawn in advance are not another's."""
    agent, state, vector = begun("none", 1)
    advanced(agent, state, vector, 5)
    other = agent.place(state)._replace(seed=np.asarray([7, 8], np.uint32))
    there, _ = advanced(agent, agent.place(other), cells.Answers(SEEDS), 5)
    fresh = agent_of.__wrapped__("none", 1)
    alone, _ = advanced(fresh, agent.place(other), cells.Answers(SEEDS), 5)
    cells.assert_same(there, alone)


def test_a_full_rollout_is_learned_from_once_and_by_the_living_alone(monkeypatch):
    agent, state, vector = begun("ou", 3)
    calls, learn = [], agent._learn
    monkeypatch.setattr(agent, "_learn", lambda *given: calls.append(given[4]) or learn(*given))
    first = jax.tree.map(np.array, state.learner)
    state, _ = advanced(agent, state, vector, (HORIZON - 1) * 3)
    cells.assert_same(state.learner, first)
    assert not calls
    state, _ = advanced(agent, state, vector, HORIZON * 3, (HORIZON - 1) * 3)
    assert calls == [HORIZON * 3] * 2
    moved = jax.tree.map(lambda new, old: np.abs(new - old).max(axis=None), state.learner, first)
    assert all(change > 0 for change in jax.tree.leaves((moved.actor, moved.critic)))
    # From here on without the second lane.
    kept = all_but_rollout(state, 1)
    acted = [len(taken) for taken in vector.actions]
    first_alone = np.asarray([True, False])
    state, _ = advanced(agent, state, vector, 2 * HORIZON * 3, HORIZON * 3, first_alone)
    assert calls == [HORIZON * 3] * 2 + [2 * HORIZON * 3]
    cells.assert_same(all_but_rollout(state, 1), kept)
    assert [len(taken) for taken in vector.actions] == [2 * HORIZON] * 3 + acted[3:]


@pytest.mark.parametrize("number", [np.nan, np.inf])
@pytest.mark.parametrize(("strategy", "count", "step"), [("none", 1, 8), ("ou", 3, 23)])
def test_a_bad_observation_is_named_with_its_step_and_stops_its_lane_alone(
    strategy, count, step, number
):
    """In the second lane: there it is the eighth answer of the last environment but one."""
    env = 0 if count == 1 else 1

    def spoilt(answer, when):
        answer = far(answer, when)
        if when == 8:
            for obs in (answer.next_obs, answer.obs):
                obs[count + env, 1] = number
        return answer

    agent, state, vector = begun(strategy, count, spoilt)
    state, found = advanced(agent, state, vector, (HORIZON - 1) * count)
    assert found == [Divergence(1, "observation", step)]
    well = nearly_full(strategy, count)[0]
    for mine, theirs in zip(jax.tree.leaves(state), jax.tree.leaves(well), strict=True):
        np.testing.assert_array_equal(mine[0], theirs[0])


def test_an_action_that_is_not_finite_is_named_and_sent_to_no_environment_of_its_lane():
    agent, state, vector = begun("ou", 3)
    state.memory[1, 1] = np.nan
    before = all_but_rollout(state, 1)
    state, found = advanced(agent, state, vector, (HORIZON - 1) * 3)
    assert found == [Divergence(1, "action", 1)]
    assert [len(taken) for taken in vector.actions] == [HORIZON - 1] * 3 + [0] * 3
    cells.assert_same(all_but_rollout(state, 1), before)
    for mine, theirs in zip(
        jax.tree.leaves(state), jax.tree.leaves(nearly_full("ou", 3)[0]), strict=True
    ):
        np.testing.assert_array_equal(mine[0], theirs[0])


@pytest.mark.parametrize(
    "strategy",
    [
        "discover",
        *(pytest.param(it, marks=pytest.mark.slow) for it in ("gaussian", "coherent", "psne")),
    ],
)
def test_lanes_act_together_as_they_do_alone(strategy):
    """To the bit, and whatever their number; memories begin anew on the way."""
    agent, state, vector = begun(strategy, 2)
    state, _ = advanced(agent, state, vector, (HORIZON - 1) * 2)
    for lane, seed in enumerate(SEEDS):
        _, alone, own = begun(strategy, 2, seeds=[seed])
        alone, _ = advanced(agent, alone, own, (HORIZON - 1) * 2, alive=np.ones(1, bool))
        cells.assert_same(own.actions, vector.actions[2 * lane : 2 * lane + 2])
        assert alone.rollout.ended.any()
        mine, theirs = (
            jax.tree.map(lambda x, i=i: x[i], it) for it, i in ((state, lane), (alone, 0))
        )
        cells.assert_same(mine, theirs)


def test_none_is_the_algorithm_with_an_empty_strategy():
    agent, state, vector = begun("none", 1)
    before = jax.tree.map(np.array, state.learner)
    state, _ = advanced(agent, state, vector, HORIZON)
    settings, _ = cells.hypers("a2c", "none", **SETTINGS)
    bare = a2c.make(cells.SPEC, settings, Strategy())
    learn = jax.jit(lambda learner, *given: bare.learn(learner, (), *given)[0])
    for lane, seed in enumerate(SEEDS):
        mine = jax.tree.map(lambda leaf, lane=lane: leaf[lane], (before, state.rollout))
        keys = random.split(streams(np.uint32(seed), 0)[Stream.ACT], (HORIZON, 1))
        noise = jax.device_get(jax.vmap(jax.vmap(bare.draw))(keys))
        for step in range(HORIZON):
            now = jax.tree.map(lambda leaf, step=step: leaf[step, 0], noise)
            memory, nudge, action = bare.acting(mine[0])((), mine[1].obs[step], now)
            np.testing.assert_array_equal(action, mine[1].action[step])
            assert (memory, nudge.context) == ((), None)
        key = streams(np.uint32(seed), HORIZON)[Stream.LEARN]
        learned = jax.device_get(learn(*mine, key, 0.0))
        got = jax.tree.map(lambda leaf, lane=lane: leaf[lane], state.learner)
        cells.assert_close(got, learned, 1e-5)
