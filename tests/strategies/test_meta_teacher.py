"""The teacher of the meta-policy gradient: its one step by what a lesson was worth."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl.agents.interface import AgentSetup
from discover_rl.agents.off_policy.agent import OffPolicyAgent
from discover_rl.algorithms import ddpg
from discover_rl.algorithms.off_policy_parts import HEAD, features, policy
from discover_rl.core import networks
from discover_rl.core.pytrees import stack_floats
from discover_rl.core.types import Nudge, Spec, Transition
from discover_rl.strategies import meta
from discover_rl.strategies.interface import View
from tests.helpers import cells
from tests.strategies.test_meta import HP, build, view_of


def tried(reward: float, own=None, seed: int = 0, **settings):
    """The strategy's state after a lesson of this worth, and the lesson."""
    strategy, _, state = build(teacher_steps=5, **settings)
    own = own or state.strategy
    keys = random.split(random.key(seed))
    lesson = meta.Lesson(random.normal(keys[0], (5, 3)), random.normal(keys[1], (5, 2)))
    own = own._replace(
        lesson=lesson, before=jnp.asarray(2.0), gained=2.0 + jnp.asarray(reward, jnp.float32)
    )
    step = jax.jit(lambda own: strategy.schedule.on_event(own, view_of(state), "tried")[0])
    return step(own), lesson


def gradient(after, before=None):
    """What Adam was given, from its first moment, which starts at 0."""
    new = after.optimiser[1][0].mu
    if before is None:
        return jax.tree.map(lambda leaf: leaf / 0.1, new)
    return jax.tree.map(lambda x, y: (x - 0.9 * y) / 0.1, new, before.optimiser[1][0].mu)


def likelihood(teacher, lesson) -> float:
    """Mean log N(a; tanh f(s), σ²), in NumPy, to double precision."""
    x, net = (
        np.asarray(lesson.obs, float),
        jax.tree.map(lambda leaf: np.asarray(leaf, float), teacher),
    )
    for name in ("layer0", "layer1"):
        x = np.maximum(x @ net["net"][name]["weight"] + net["net"][name]["bias"], 0)
    mean = np.tanh(x @ net["net"]["head"]["weight"] + net["net"]["head"]["bias"])
    z = (np.asarray(lesson.raw, float) - mean) / np.exp(net["log_sigma"])
    return float((-0.5 * z**2 - net["log_sigma"] - 0.5 * math.log(2 * math.pi)).sum(-1).mean())


@pytest.mark.parametrize("reward", [3.0, -0.5])
def test_the_gradient_is_that_of_the_likelihood_times_the_reward(reward):
    after, lesson = tried(reward, max_norm=1e9)
    teacher = jax.tree.map(
        lambda leaf: np.asarray(leaf, float), build(teacher_steps=5)[2].strategy.teacher
    )
    leaves, shape = jax.tree.flatten(teacher)
    found = jax.tree.leaves(gradient(after))
    generator, step = np.random.default_rng(0), 1e-6
    for number, leaf in enumerate(leaves):
        for place in generator.choice(leaf.size, min(6, leaf.size), replace=False):
            values = []
            for sign in (1, -1):
                moved = [it.copy() for it in leaves]
                moved[number].flat[place] += sign * step
                values.append(likelihood(jax.tree.unflatten(shape, moved), lesson))
            slope = -reward * (values[0] - values[1]) / (2 * step)  # Adam descends
            assert found[number].ravel()[place] == pytest.approx(slope, rel=1e-3, abs=1e-4)


def test_a_lesson_worth_nothing_moves_nothing_even_with_momentum():
    start = build(teacher_steps=5)[2].strategy
    after, _ = tried(0.0)
    cells.assert_same(after.teacher, start.teacher)
    moved, _ = tried(1.0, after)
    still, _ = tried(0.0, moved)
    cells.assert_same((still.teacher, still.optimiser), (moved.teacher, moved.optimiser))
    assert float(still.rewards.samples[()]) == 3.0


def test_the_sign_of_the_reward_is_the_direction():
    start = build(teacher_steps=5)[2].strategy.teacher
    steps = [
        jax.tree.map(lambda new, old: new - old, tried(reward)[0].teacher, start)
        for reward in (2.0, -2.0)
    ]
    cells.assert_close(steps[0], jax.tree.map(lambda leaf: -leaf, steps[1]), 1e-6)
    assert np.abs(steps[0]["log_sigma"]).min() > 0
    _, lesson = tried(2.0)
    better = jax.tree.map(lambda old, by: np.asarray(old) + 0.1 * np.asarray(by), start, steps[0])
    assert likelihood(better, lesson) > likelihood(start, lesson)


def test_rewards_are_scaled_by_their_running_deviation_from_the_second_on():
    one, _ = tried(4.0, max_norm=1e9)
    two, _ = tried(-2.0, one, seed=1, max_norm=1e9)
    plain = one._replace(rewards=build(teacher_steps=5)[2].strategy.rewards)
    bare, _ = tried(-2.0, plain, seed=1, max_norm=1e9)  # as if it were the first
    scaled = jax.tree.map(lambda leaf: leaf / 3.0, gradient(bare, one))  # of 4 and −2
    cells.assert_close(gradient(two, one), scaled, 1e-4)
    same, _ = tried(4.0, one, seed=1, max_norm=1e9)  # no deviation: not scaled
    cells.assert_close(
        gradient(same, one), jax.tree.map(lambda leaf: -2 * leaf, gradient(bare, one)), 1e-3
    )


def test_gradients_are_cut_by_their_norm_and_sigma_has_a_floor():
    after, _ = tried(1e4, max_norm=0.5)
    norm = math.sqrt(sum(float((leaf**2).sum()) for leaf in jax.tree.leaves(gradient(after))))
    assert norm == pytest.approx(0.5, rel=1e-4)
    # Actions nearer to the mean than σ: a smaller σ makes them likelier.
    strategy, _, state = build(teacher_steps=5, lr=2.0)
    near = policy(Nudge(state.strategy.teacher["net"]), state.strategy.lesson.obs)
    own = state.strategy._replace(
        lesson=state.strategy.lesson._replace(raw=near), gained=jnp.asarray(1.0)
    )
    after, _ = strategy.schedule.on_event(own, view_of(state), "tried")
    np.testing.assert_allclose(np.exp(after.teacher["log_sigma"]), 0.05, rtol=1e-6)


def test_where_positive_actions_teach_the_teacher_comes_to_prefer_them():
    """A student that every lesson moves by its share of positive actions, less a half."""
    hyper = meta.Hyper(teacher_steps=8, student_steps=1, lr=1e-2)
    strategy = meta.make(cells.SPEC, hyper, ddpg.blueprint(cells.SPEC, HP))
    obs = jnp.ones((1, 3))

    def played(own, view, key, steps, reward):
        def step(own, noise):
            memory, _ = strategy.acting.behave(own, None, view, obs, noise, False)
            own = strategy.schedule.on_transition(
                own, memory, Transition(reward, False, False, obs[0], obs[0])
            )
            return own, memory.raw[0]

        noise = jax.vmap(strategy.acting.draw)(random.split(key, steps))
        return jax.lax.scan(step, own, noise)

    @jax.jit
    def run(key):
        start, key = random.split(key)
        net = {"net": ddpg.blueprint(cells.SPEC, HP).init(start, 2), "joint": {}}
        view = View(net, policy, features, learned=jnp.zeros(()))
        own = strategy.init(start, hyper, view)

        def iteration(own, key):
            keys, student = random.split(key, 3), jnp.zeros(())
            own, _ = played(own, view, keys[0], 1, student)
            own, student = strategy.schedule.on_event(
                own, view._replace(learned=student), "measured"
            )
            own, first = played(own, view, keys[1], 8, 0.0)
            own, student = strategy.schedule.on_event(own, view._replace(learned=student), "lesson")
            tried = student + (first > 0).mean() - 0.5
            own, _ = played(own, view, keys[2], 1, tried)
            own, student = strategy.schedule.on_event(own, view._replace(learned=tried), "tried")
            return own, ((first > 0).mean(), student)

        return jax.lax.scan(iteration, own, random.split(key, 150))[1]

    positive, student = jax.vmap(run)(random.split(random.key(0), 8))
    assert not np.any(student)  # every trial is taken back
    assert np.asarray(positive[:, -20:]).mean() > 0.9 > np.asarray(positive[:, :20]).mean() + 0.1


@pytest.mark.slow
def test_a_teacher_of_the_real_student_comes_to_prefer_what_helps_it():
    """Episodes of one step, paid |a|, and a student at 0.3. Data with a > 0 say that more is
    better, which is true for the student; data with a < 0 say that less is."""
    lanes, lesson, iterations = 16, 4, 300
    hyper = ddpg.Hyper(
        hidden=(16, 16),
        batch_size=16,
        warmup=0,
        normalise=False,
        actor_lr=1e-4,
        critic_lr=1e-2,
        gamma=0.0,
        tau=0.01,
        weight_decay=0.0,
    )
    # What persists is as little as can be, so that the student stays where it is for a while.
    theirs = meta.Hyper(
        teacher_steps=lesson, trial_updates=40, student_steps=1, replay_updates=1, lr=3e-3
    )
    steps = iterations * (lesson + 2)
    spec = Spec((1,), (1,), (-1.0,), (1.0,))
    agent = OffPolicyAgent(AgentSetup(spec, "ddpg", hyper, "meta", theirs, steps))
    state = agent.init(
        np.arange(lanes, dtype=np.uint32),
        stack_floats([hyper] * lanes),
        stack_floats([theirs] * lanes),
    )
    net = state.learner.actor["net"]
    head = {"weight": 0.1 * net["head"]["weight"], "bias": jnp.full((lanes, 1), 0.3)}
    actor = {**state.learner.actor, "net": {**net, "head": head}}
    copy = jax.tree.map(jnp.copy, actor)  # donated too, so it must not be the same
    state = state._replace(learner=state.learner._replace(actor=actor, target_actor=copy))
    obs, yes = np.ones((lanes, 1), np.float32), np.ones(lanes, bool)
    state = agent.enter(state, obs, yes, np.int32(0))

    def positive(state) -> float:
        """P(a > 0), mean over lanes."""
        teacher = jax.device_get(state.learner.strategy.teacher)
        mean = networks.mean_action(HEAD, teacher["net"], obs[:, None])
        z = (mean / np.exp(teacher["log_sigma"])).ravel()
        return float(np.mean([0.5 + 0.5 * math.erf(it / math.sqrt(2)) for it in z]))

    before, executed = positive(state), np.asarray(state.action.executed)
    for step in range(1, steps + 1):
        state, reply = cells.tick(
            agent, state, Transition(np.abs(executed[:, 0]), yes, yes, obs, obs), step
        )
        executed = np.asarray(reply.executed)
    assert before < 0.6
    assert positive(state) > before + 0.2
