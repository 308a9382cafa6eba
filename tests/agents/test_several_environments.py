"""Several environments per lane, off-policy: against a plain loop over single environments."""

import inspect

import jax
import numpy as np
import pytest

from discover_rl import strategies
from discover_rl.algorithms.off_policy_parts import State as Learner
from discover_rl.core import replay_buffer
from discover_rl.core.prng import Stream, streams
from discover_rl.core.types import Batch, StrategyEvent, UserError
from discover_rl.strategies import STRATEGIES
from tests.helpers import cells
from tests.helpers.cells import strategies_of

SEEDS = [5, 1]
STEPS = 20
OFF_POLICY = ("ddpg", "td3", "sac")


class Plain:
    """One lane with n environments, as a plain loop: a list of transitions per environment, and
    the functions of its algorithm for one environment."""

    def __init__(self, agent, seed: int, state, obs: np.ndarray):
        self.algorithm, self.lane, self.due = agent.algorithm, agent.lane, agent.due
        self.act = jax.jit(self.algorithm.act)
        self.learn_once = jax.jit(self.algorithm.learn, static_argnums=3)
        self.seed, self.obs, self.count = np.uint32(seed), obs, len(obs)
        self.learner: Learner = state
        self.stored: list[list[Batch]] = [[] for _ in obs]
        self.made: list[tuple[int, object]] = []  # every update, with its step
        self.memory = [self.begun(env, 0) for env in range(self.count)]
        self.choose(0)

    def keys(self, step: int):
        return streams(self.seed, step)

    def begun(self, env: int, step: int):
        return self.algorithm.begin(self.learner, self.keys(step + env)[Stream.BEGIN])

    def choose(self, step: int) -> None:
        self.action = []
        for env in range(self.count):
            now = step + env
            noise = self.algorithm.draw(self.keys(now)[Stream.ACT])
            self.learner, self.memory[env], action = self.act(
                self.learner, self.memory[env], self.obs[env], noise, now, now / cells.STEPS
            )
            self.action.append(action)

    def learn(self, step: int) -> None:
        """The updates that follow the `step`-th environment step."""
        updates = self.due(step)
        keys = jax.random.split(self.keys(step)[Stream.LEARN], (max(1, len(updates)), 2))
        held = [it for own in self.stored for it in own[-self.lane.capacity :]]
        for update, (sample_key, learn_key) in zip(updates, keys, strict=False):
            assert not isinstance(update, StrategyEvent)
            which = jax.random.randint(sample_key, (self.lane.batch_size,), 0, len(held))
            batch = jax.tree.map(lambda *it: np.stack(it), *(held[i] for i in which))
            self.learner, _ = self.learn_once(
                self.learner, batch, learn_key, update, step / cells.STEPS
            )
            self.made.append((step, update))

    def answer(self, transition, step: int) -> None:
        """What the environments answered, once `step` steps are made."""
        on_reward = self.algorithm.on_reward
        for env in range(self.count):
            own = jax.tree.map(lambda leaf, env=env: leaf[env], transition)
            action = jax.device_get(self.action[env])
            batch = Batch(self.obs[env], *action, own.reward, own.terminated, own.next_obs)
            self.stored[env].append(batch)
            if on_reward:
                memory = self.memory[env]
                self.learner, self.memory[env] = on_reward(self.learner, memory, own.reward)
        for env in np.flatnonzero(transition.ended).tolist():
            self.memory[env] = self.begun(env, step)
        self.obs = transition.obs
        self.choose(step)


def begin(agent, algorithm: str, strategy: str, count: int, **settings):
    first = cells.observations(cells.Answers(SEEDS, count=count).seeds, 0)
    hypers = cells.hypers(algorithm, strategy, **settings)
    return cells.begin(agent, SEEDS, *hypers, obs=first), first


BOTH = np.ones(2, bool)
CELLS = [
    ("td3", "ou", 2, {"updates": 2, "lr_decay": 1.0}),
    ("ddpg", "zeta", 3, {"normalise_rewards": True}),
]
MORE = [
    ("sac", "discover", 2, {"train_every": 3, "updates": 2}),
    ("td3", "psne", 3, {"replay_size": 9}),
]


@pytest.mark.parametrize(
    ("algorithm", "strategy", "count", "settings"),
    [*CELLS, *(pytest.param(*it, marks=pytest.mark.slow) for it in MORE)],
)
def test_a_lane_is_a_plain_loop_over_its_environments(algorithm, strategy, count, settings):
    agent = cells.build(algorithm, strategy, count, **settings)
    state, first = begin(agent, algorithm, strategy, count, **settings)
    fresh = agent.init(np.asarray(SEEDS, np.uint32), *_stacked(algorithm, strategy, settings))
    lanes = [
        Plain(agent, seed, jax.tree.map(lambda leaf, i=i: leaf[i], fresh.learner), obs)
        for i, (seed, obs) in enumerate(zip(SEEDS, first.reshape(2, count, -1), strict=True))
    ]
    vector, answers = cells.Answers(SEEDS, count=count), cells.Answers(SEEDS, count=count)
    last = STEPS // count * count
    state, step, found = agent.advance(state, vector, BOTH, 0, last)
    assert (step, found) == (last, [])
    for now in range(count, last + 1, count):
        for lane in lanes:
            for it in range(now - count + 1, now + 1):
                lane.learn(it)
        executed = np.stack([it.executed for lane in lanes for it in lane.action])
        transition = answers.step(executed, np.ones(len(executed), bool))
        for i, lane in enumerate(lanes):
            own = slice(i * count, (i + 1) * count)
            lane.answer(jax.tree.map(lambda leaf, own=own: leaf[own], transition), now)
    state = jax.device_get(state)
    for i, lane in enumerate(lanes):
        mine = jax.tree.map(lambda leaf, i=i: leaf[i], state)
        # The same updates, of the same kinds, as a run with one environment makes.
        alone = cells.build(algorithm, strategy, **settings)
        due = [(it, update) for it in range(count + 1, last + 1) for update in alone.due(it)]
        assert lane.made == due
        cells.assert_close(mine.learner, lane.learner, 2e-4)
        cells.assert_close(mine.memory, jax.tree.map(lambda *it: np.stack(it), *lane.memory), 2e-4)
        for env in range(count):
            held = lane.stored[env][-agent.lane.capacity :]
            replay = jax.tree.map(lambda leaf, env=env: leaf[env], mine.replay)
            assert replay.inserted == last // count
            _assert_holds(replay, held)


def _stacked(algorithm: str, strategy: str, settings: dict):
    hypers = cells.hypers(algorithm, strategy, **settings)
    return [cells.stack_floats([it] * len(SEEDS)) for it in hypers]


def _assert_holds(replay, held: list[Batch]) -> None:
    """What environments answered is there to the bit; actions are as near as programs round."""
    which = np.arange(int(replay.inserted) - len(held), int(replay.inserted))
    assert replay.oldest <= which[0] or len(held) == len(replay.row)
    which = which[which >= replay.oldest]
    found = jax.device_get(replay_buffer.take(replay, which))
    expected = jax.tree.map(lambda *it: np.stack(it), *held[-len(which) :])
    for name in ("obs", "next_obs", "reward", "terminated"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    np.testing.assert_allclose(found.bare, expected.bare, atol=2e-4)
    np.testing.assert_allclose(found.executed, expected.executed, atol=2e-4)


@pytest.mark.parametrize(
    ("algorithm", "strategy"),
    [
        pytest.param(algorithm, strategy, marks=pytest.mark.slow)
        for algorithm in OFF_POLICY
        for strategy in strategies_of(algorithm)
        if strategy != "meta"
    ],
)
def test_every_strategy_acts_in_each_environment_on_its_own(algorithm, strategy):
    """Environments of a lane have noise and memories of their own; steps may be cut anywhere."""
    agent = cells.build(algorithm, strategy, 3)
    state, _ = begin(agent, algorithm, strategy, 3)
    vector = cells.Answers(SEEDS, count=3)
    state, step, found = agent.advance(state, vector, BOTH, 0, 30)
    assert (step, found) == (30, [])
    again, _ = begin(agent, algorithm, strategy, 3)
    vector = cells.Answers(SEEDS, count=3)
    for step in range(0, 30, 3):
        again, _, _ = agent.advance(again, vector, BOTH, step, step + 3)
    cells.assert_same(jax.device_get(state), jax.device_get(again))
    actions = np.asarray(vector.actions)  # (environments, steps, action)
    assert np.isfinite(actions).all()
    for number in range(1, 6):
        assert not np.allclose(actions[0], actions[number])


def test_a_strategy_that_waits_for_transitions_is_refused():
    with pytest.raises(UserError, match=r"^env\.count must be 1 with meta, which follows"):
        cells.build("ddpg", "meta", 2)


def test_its_hyper_parameters_say_so():
    """So settings are refused before an agent is built."""
    for name in STRATEGIES:
        member = strategies.load(name)
        waits = "on_transition=" in inspect.getsource(member)
        assert getattr(member.Hyper, "one_environment", False) == waits, name


def test_warm_up_is_uniform_for_as_many_steps_as_with_one_environment():
    """With `none` all environments act alike at one observation, but for the warm-up."""
    agent = cells.build("td3", "none", 3, warmup=4)
    same = np.ones((6, 3), np.float32)
    state = cells.begin(agent, SEEDS, *cells.hypers("td3", "none", warmup=4), obs=same)
    first = np.asarray(state.action.executed)
    assert len(np.unique(first[:, :, 0])) == 6  # steps 1, 2 and 3 of each lane

    def answer(transition, step):
        return transition._replace(obs=same, next_obs=same, ended=transition.ended & False)

    vector = cells.Answers(SEEDS, count=3, spoil=answer)
    state, _, _ = agent.advance(state, vector, BOTH, 0, 3)
    second = np.asarray(state.action.executed)  # steps 4, 5 and 6
    for lane in range(2):
        np.testing.assert_allclose(second[lane, 1], second[lane, 2], atol=1e-6)
        assert np.abs(second[lane, 0] - second[lane, 1]).max() > 1e-3


def test_as_on_a_gpu_it_is_the_same():
    """What is packed into one array there is what is not packed here."""
    found = []
    for on_gpu in (False, True):
        agent = cells.build("ddpg", "ou", 2)
        agent.on_gpu = on_gpu
        state, _ = begin(agent, "ddpg", "ou", 2)
        vector = cells.Answers(SEEDS, count=2)
        state, step, _ = agent.advance(state, vector, BOTH, 0, 16)
        assert step == 16
        assert not agent.fuses(vector)
        found.append(jax.device_get(state))
    cells.assert_close(*found)


@pytest.mark.parametrize("quantity", ["reward", "observation"])
def test_one_bad_environment_ends_its_lane_alone(quantity):
    agent = cells.build("td3", "none", 2)

    def spoil(transition, step):
        if step != 3:
            return transition
        name = {"reward": "reward", "observation": "next_obs"}[quantity]
        spoilt = getattr(transition, name).copy()
        spoilt[3] = np.nan  # the second environment of the second lane
        return transition._replace(**{name: spoilt})

    state, _ = begin(agent, "td3", "none", 2)
    vector = cells.Answers(SEEDS, count=2, spoil=spoil)
    state, step, found = agent.advance(state, vector, BOTH, 0, 12)
    assert step == 12
    assert [(it.lane, it.quantity, it.step) for it in found] == [(1, quantity, 6)]
    assert [len(actions) for actions in vector.actions] == [6, 6, 3, 3]
    whole, _ = begin(agent, "td3", "none", 2)
    whole, _, _ = agent.advance(whole, cells.Answers(SEEDS, count=2), BOTH, 0, 12)
    for a, b in zip(jax.tree.leaves(state.learner), jax.tree.leaves(whole.learner), strict=True):
        np.testing.assert_array_equal(a[0], b[0])
