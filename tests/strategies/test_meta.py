"""Meta-policy gradient: who acts when, what a lesson is worth, and what is left of a trial."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import random

from discover_rl.agents.off_policy import transfer
from discover_rl.algorithms import ddpg
from discover_rl.algorithms.off_policy_parts import LEARNED, features, policy
from discover_rl.core.types import Nudge, StrategyEvent, Transition, Update
from discover_rl.strategies import STRATEGIES, meta
from discover_rl.strategies.interface import View
from discover_rl.training import launch
from tests.helpers import cells
from tests.helpers.trainings import assert_same_files, runs_of, stop_at

SEEDS = [5, 6]
WARMUP = cells.SMALL["warmup"]
HP = ddpg.Hyper(**cells.SMALL)


@functools.cache
def build(**settings):
    hyper = meta.Hyper(**{**cells.AWAKE["meta"], **settings})
    strategy = meta.make(cells.SPEC, hyper, ddpg.blueprint(cells.SPEC, HP))
    algorithm = ddpg.make(cells.SPEC, HP, strategy)
    return strategy, algorithm, jax.jit(algorithm.init)(random.key(0), HP, hyper)


def view_of(state) -> View:
    return View(state.actor, policy, features, learned={"actor": state.actor})


# The schedule


def schedule(steps: int, **settings) -> tuple[list, list[int]]:
    """Every step with something to do, and where episodes are cut."""
    strategy, algorithm, _ = build(**settings)
    plans = [(step, strategy.schedule.updates(step, algorithm.due)) for step in range(1, steps + 1)]
    return [it for it in plans if it[1]], [
        s for s in range(1, steps + 1) if strategy.schedule.truncate(s)
    ]


def test_phases_follow_from_the_step():
    """Warm-up 4, then measure 2, teach 3, try 2, again and again."""
    lesson, replay = Update(recent=3), Update()
    plans, truncate = schedule(18)
    assert plans == [
        (6, (StrategyEvent("measured"),)),
        (9, (StrategyEvent("lesson"), *[lesson] * 2)),
        (11, (StrategyEvent("tried"), *[replay] * 7)),
        (13, (StrategyEvent("measured"),)),
        (16, (StrategyEvent("lesson"), *[lesson] * 2)),
        (18, (StrategyEvent("tried"), *[replay] * 7)),
    ]
    assert truncate == [4, 6, 9, 11, 13, 16, 18]


def test_what_is_kept_is_measured_once_and_two_episodes_are_cut_apart():
    """Warm-up 4, measure 2 + 2, then teach 3, try 2 + 2, again and again."""
    lesson, replay = Update(recent=3), Update()
    plans, truncate = schedule(22, trial="keep", episodes=2)
    assert plans == [
        (8, (StrategyEvent("measured"),)),
        (11, (StrategyEvent("lesson"), *[lesson] * 2)),
        (15, (StrategyEvent("tried"), *[replay] * 5)),
        (18, (StrategyEvent("lesson"), *[lesson] * 2)),
        (22, (StrategyEvent("tried"), *[replay] * 5)),
    ]
    assert truncate == [4, 6, 8, 11, 13, 15, 18, 20, 22]


@pytest.mark.parametrize("trial", ["clone", "keep"])
def test_there_are_few_programs(trial):
    """Each takes long to compile."""
    plans, _ = schedule(400, trial=trial, replay_updates=9)
    assert len({plan for _, plan in plans}) == 3
    assert {len(plan) for _, plan in plans if plan[0].name == "tried"} == {10}


def test_updates_are_of_the_kind_that_fell_due():
    strategy, _, _ = build()
    slow, fast = Update(False, False), Update()
    due = lambda step: (slow, fast) if step % 2 else ()  # noqa: E731
    assert strategy.schedule.updates(9, due) == (
        StrategyEvent("lesson"),
        *(it._replace(recent=3) for it in (slow, fast)),
    )
    assert strategy.schedule.updates(11, due) == (
        StrategyEvent("tried"),
        *(slow, fast) * 4,
    )  # at 5, 7, 9 and 11
    # Where none did, a trial is still one.
    assert strategy.schedule.updates(9, lambda step: ()) == (
        StrategyEvent("lesson"),
        *[Update(recent=3)] * 2,
    )
    assert strategy.schedule.updates(11, lambda step: ()) == (StrategyEvent("tried"),)


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "meta"])
def test_others_do_not_pay_for_it(strategy):
    """No transition is received, no event happens, no episode is cut; updates are the same."""
    agent = cells.build("td3", strategy)
    assert agent.algorithm.on_transition is None
    for step in range(1, 20):
        assert agent.due(step) == agent.algorithm.due(step)
        assert not agent.strategy.schedule.truncate(step)


# The return that measures


def after_hearing(answers, phase=meta.MEASURE, **settings):
    """The state after (reward, ended) of one step after the other."""
    strategy, _, state = build(**settings)
    own = state.strategy._replace(phase=jnp.asarray(phase))
    on_transition = jax.jit(strategy.schedule.on_transition)
    for number, (reward, ended) in enumerate(answers, 1):
        memory = meta.Memory(jnp.full(3, float(number)), -jnp.full(2, float(number)), False)
        nothing = np.zeros(3, np.float32)
        own = on_transition(
            own, memory, Transition(np.float32(reward), False, ended, nothing, nothing)
        )
    return own


def test_only_the_first_episode_of_a_window_counts():
    alive, end = False, True
    whole = [(1, alive), (10, alive), (100, end)]  # cut off where the window ends
    early = [(1000, alive), (10000, end), (7, alive)]
    again = [(1000, end), (7, end), (7, alive)]
    after = {"student_steps": 3, "episodes": 2}
    assert float(after_hearing(whole + early, **after).gained) == 11111.0
    assert float(after_hearing(early + whole, **after).gained) == 11111.0
    assert float(after_hearing(again + whole, **after).gained) == 1111.0
    strategy, _, state = build(**after)
    after, _ = strategy.schedule.on_event(
        after_hearing(whole + early, **after), view_of(state), "measured"
    )
    assert float(after.before) == 11111.0 / 2
    assert (int(after.phase), int(after.played), float(after.gained)) == (meta.TEACH, 0, 0.0)


def test_nothing_is_heard_in_warm_up():
    strategy, algorithm, state = build()
    own, obs = state.strategy, jnp.ones(3)
    noise = algorithm.draw(random.key(0))
    for step, received in ((WARMUP - 1, False), (WARMUP, True)):
        _, memory, action = algorithm.act(state, algorithm.begin(state, None), obs, noise, step)
        after = strategy.schedule.on_transition(own, memory, Transition(1.0, False, True, obs, obs))
        assert (int(after.played), float(after.gained)) == ((1, 1.0) if received else (0, 0.0))
        uniform = np.array_equal(action.executed, noise.warmup[0])
        assert uniform == (not received)


def test_a_lesson_is_written_down_while_the_teacher_acts():
    taught = after_hearing([(1, False)] * 2, phase=meta.TEACH).lesson
    np.testing.assert_array_equal(taught.obs, [[1] * 3, [2] * 3, [0] * 3])
    np.testing.assert_array_equal(taught.raw, [[-1] * 2, [-2] * 2, [0] * 2])
    for phase in (meta.MEASURE, meta.TRIAL):
        assert not np.any(after_hearing([(1, False)] * 2, phase=phase).lesson.obs)


# The whole agent


def played(trial: str, steps: int, **settings):
    """Every state of a few lanes, on the host, from the start on; and the agent."""
    settings = {"strategy_trial": trial, **settings}
    agent = cells.build("ddpg", "meta", **settings)
    state = cells.begin(agent, SEEDS, *cells.hypers("ddpg", "meta", **settings))
    states = [jax.device_get(state)]
    for step in range(1, steps + 1):
        state, _ = cells.tick(agent, state, cells.transition_at(SEEDS, step), step)
        states.append(jax.device_get(state))
    return agent, states


@pytest.fixture(scope="module")
def clone():
    return played("clone", 18)


def students(state):
    return {name: getattr(state.learner, name) for name in LEARNED}


@pytest.mark.slow
def test_the_teacher_acts_in_its_phase_alone(clone):
    _, states = clone
    for step in range(WARMUP, 18):
        learner, action = states[step].learner, states[step].action
        teaches = 6 <= step < 9 or 13 <= step < 16
        assert learner.strategy.phase.tolist() == [meta.TEACH if teaches else ANY[step]] * 2
        net = learner.strategy.teacher["net"] if teaches else learner.actor["net"]
        memory = states[step].memory
        bare = policy(Nudge(net), jnp.asarray(memory.obs[:, None]))[:, 0]
        np.testing.assert_allclose(action.bare, bare, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(action.executed, np.clip(memory.raw, -1, 1))
        assert np.array_equal(action.bare, action.executed) == (not teaches)


# Clone: who acts next, after so many steps, where it is not the teacher.
ANY = dict.fromkeys((4, 5, 11, 12), meta.MEASURE) | {9: meta.TRIAL, 10: meta.TRIAL}
ANY |= {16: meta.TRIAL, 17: meta.TRIAL}


@pytest.mark.slow
def test_every_step_goes_to_the_replay_and_the_teachers_to_the_lesson(clone):
    _, states = clone
    for step in range(1, 19):
        assert states[step].replay.inserted.tolist() == [step] * 2
    lesson = states[9].learner.strategy.lesson  # the end of the teacher's phase
    for row, step in enumerate((6, 7, 8)):
        np.testing.assert_array_equal(lesson.obs[:, row], states[step].memory.obs)
        np.testing.assert_array_equal(lesson.raw[:, row], states[step].memory.raw)
        np.testing.assert_array_equal(states[18].replay.bare[:, step], states[step].action.bare)
    assert np.any(np.abs(lesson.raw[:, 2]) > 0)
    for leaf in jax.tree.leaves(states[11].learner.strategy.lesson):
        assert not leaf.any()  # one step of the teacher, and it is gone


@pytest.mark.slow
def test_a_trial_leaves_nothing_behind(clone):
    agent, states = clone
    before, trying = students(states[8]), states[10]
    cells.assert_same(students(states[6]), before)  # no updates while the teacher acts
    for name in ("actor", "critics", "target_actor", "target_critics"):
        for new, old in zip(
            *map(jax.tree.leaves, (students(trying)[name], before[name])), strict=True
        ):
            assert np.abs(new - old).max() > 0
    assert trying.learner.critic_optimiser[1][0].count.tolist() == [2, 2]
    over = jax.vmap(lambda learner: agent.algorithm.on_event(learner, "tried"))(trying.learner)
    cells.assert_same({name: getattr(over, name) for name in LEARNED}, before)
    # All that persists are the seven updates of the iteration, and the teacher's step.
    assert states[11].learner.critic_optimiser[1][0].count.tolist() == [7, 7]
    assert states[18].learner.critic_optimiser[1][0].count.tolist() == [14, 14]
    assert states[18].learner.actor_optimiser[0].count.tolist() == [14, 14]
    assert states[18].learner.strategy.optimiser[1][0].count.tolist() == [2, 2]


@pytest.mark.slow
def test_what_is_kept_persists():
    agent, states = played("keep", 11)  # measure to 6, teach to 9, try to 11
    trying = states[10]
    over = jax.vmap(lambda learner: agent.algorithm.on_event(learner, "tried"))(trying.learner)
    cells.assert_same({name: getattr(over, name) for name in LEARNED}, students(trying))
    assert trying.learner.critic_optimiser[1][0].count.tolist() == [2, 2]
    assert states[11].learner.critic_optimiser[1][0].count.tolist() == [5, 5]
    own = states[11].learner.strategy
    np.testing.assert_array_equal(own.before, own.after)
    np.testing.assert_array_equal(own.reward, own.after - states[10].learner.strategy.before)
    shown = dict(agent.nets(trying))
    del shown["input"]
    cells.assert_same(shown, trying.learner.actor["net"])


@pytest.mark.slow
def test_evaluation_is_of_the_student_whoever_acts(clone):
    agent, states = clone
    for step in range(1, 18):
        student = states[8 if step in (9, 10) else 15 if step in (16, 17) else step]
        shown = dict(agent.nets(states[step]))
        stats = shown.pop("input")
        cells.assert_same(shown, student.learner.actor["net"])
        np.testing.assert_array_equal(stats["mean"], states[step].learner.moments.mean)


def test_the_teachers_random_numbers_do_not_reach_the_student():
    _, algorithm, state = build()
    teaching = state._replace(strategy=state.strategy._replace(phase=jnp.asarray(meta.TEACH)))
    act = jax.jit(algorithm.act)
    for now, same in ((state, True), (teaching, False)):
        outcomes = []
        for seed in (1, 2):
            noise = algorithm.draw(random.key(seed))
            after, _, action = act(now, algorithm.begin(now, None), jnp.ones(3), noise, WARMUP)
            outcomes.append((algorithm.greedy(after).net, action.executed))
        cells.assert_same(outcomes[0][0], outcomes[1][0])
        assert np.array_equal(outcomes[0][1], outcomes[1][1]) == same


@pytest.mark.slow
def test_its_rewards_are_reported(clone):
    agent, states = clone
    report = jax.device_get(agent.report(states[12], np.int32(12)))
    own = states[12].learner.strategy
    np.testing.assert_allclose(report["meta_reward"], own.after - own.before, rtol=1e-5)
    # Steps 10 and 11 made the trial, 5 and 6 measured before it; lane 0 has an end at step 5.
    reward = np.asarray([cells.transition_at(SEEDS, step).reward for step in range(19)])
    np.testing.assert_allclose(
        report["return_before"], [reward[5, 0], reward[5:7, 1].sum()], rtol=1e-4
    )
    np.testing.assert_allclose(report["return_after"], reward[10:12].sum(0), rtol=1e-5)
    np.testing.assert_allclose(report["sigma"], 0.3, rtol=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("trial", ["clone", "keep"])
def test_a_run_that_is_stopped_in_any_phase_goes_on_exactly(tmp_path, monkeypatch, trial):
    """Warm-up 40; clone: measure 15, teach 20, try 15; keep: the same, measured once."""
    settings = {"strategy.teacher_steps": 20, "strategy.student_steps": 15}
    runs = runs_of(
        algorithm="ddpg",
        strategy="meta",
        steps=150,
        **{**settings, "strategy.trial_updates": 5, "strategy.trial": trial},
    )
    ends, plain = [], transfer.plain

    def spy(transition, step):
        ends.append((step, transition.ended.all(), transition.terminated.any()))
        return plain(transition, step)

    with monkeypatch.context() as patch:
        patch.setattr(transfer, "plain", spy)
        launch.train(runs, tmp_path / "whole")
    cut = [40, 55, 75, 90, 105, 125, 140] if trial == "clone" else [40, 55, 75, 90, 110, 125, 145]
    assert [step for step, ended, _ in ends if ended] == cut  # Pendulum has no end before step 200
    assert not any(terminated for _, _, terminated in ends)
    for stop in (52, 85, 115):
        assert stop_at(stop, runs, tmp_path / "stopped") == stop
    launch.train(runs, tmp_path / "stopped")
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")
