"""Meta-policy gradient (Xu et al., 2018): a teacher acts, and is paid by what its data taught.

From the end of warm-up on, phases of fixed length, for every iteration:

    measure:  the student acts greedily; R̂ is its return
    teach:    the teacher acts, ã = clip(a), a = tanh f(s) + σ ε, for L0 steps: the lesson
    trial:    K0 updates on the lesson alone; what came of the student acts greedily; R̂′
    then:     m = R̂′ − R̂; one step of the teacher, up the gradient of
              m / std(m) · mean over the lesson of log N(a; tanh f(s), σ²), in f and σ;
              the student from before the lesson is back, and makes K1 updates on all of the replay

    "clone" is this. "keep": the student that tried goes on, and its R̂′ is the next R̂, so that
    measuring is for the first iteration alone.

Every step goes to the replay. An episode is cut off where a phase ends. R̂ is the return of an
episode from its start, over L1 steps at most, mean over `episodes` of them; if one ends earlier,
the rest of its L1 steps is played, and does not count. Targets, the actor's loss and evaluation are
the student's.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import random

from discover_rl import networks
from discover_rl.equations import Moments, gaussian_log_prob, no_moments, observe
from discover_rl.hyper import hyper, setting
from discover_rl.interfaces import Blueprint, Strategy, View
from discover_rl.types import Actor, Array, Batch, Nudge, Optimiser, Seen, Spec, Turn, Update

MEASURE, TEACH, TRIAL = range(3)


@hyper
class Hyper:
    teacher_steps: int = setting(200, "L0: steps of the teacher in an iteration.", low=1)
    trial_updates: int = setting(50, "K0: updates on these steps alone.", low=0)
    student_steps: int = setting(100, "L1: longest episode that measures the student.", low=1)
    replay_updates: int = setting(
        0, "K1: updates on all of the replay; 0: those that fell due in the iteration.", low=0
    )
    episodes: int = setting(1, "Episodes that measure the student.", low=1)
    trial: str = setting(
        "clone", "Take back what the lesson alone taught, or keep it.", choices=("clone", "keep")
    )
    sigma: float = setting(0.3, "Where the teacher's σ starts, in half-ranges.", above=0)
    sigma_min: float = setting(0.05, "Below this no σ falls.", above=0)
    lr: float = setting(1e-4, "Learning rate of the teacher.", low=0)
    max_norm: float = setting(1.0, "Longest gradient of the teacher.", above=0)


class Memory(NamedTuple):
    """The last step: what `hears` cannot see in the answer to it."""

    obs: Array  # (observation,) as the networks see it
    raw: Array  # (action,) not clipped
    warm: Array  # () whether it belongs to the warm-up


class Lesson(NamedTuple):
    """D0: what the teacher did."""

    obs: jax.Array  # (L0, observation)
    raw: jax.Array  # (L0, action)


class State(NamedTuple):
    hyper: Hyper
    teacher: Any  # ψ: {"net": f, "log_sigma": (1, action)}
    optimiser: Any
    phase: Array  # ()
    played: Array  # () steps made in it
    counts: Array  # () whether the running episode counts in R̂
    gained: Array  # () rewards of the phase that count
    before: Array  # () R̂
    after: Array  # () R̂′ of the last trial
    reward: Array  # () m of the last trial
    rewards: Moments  # of every m so far
    lesson: Lesson
    saved: Any  # the student and its actor before the lesson; () where the trial is kept


def make(spec: Spec, hp: Hyper, blueprint: Blueprint) -> Strategy:
    settings = hp  # of which only the statics are used: the floats come in with the state
    clone, warmup = settings.trial == "clone", blueprint.warmup
    lesson, measuring = settings.teacher_steps, settings.episodes * settings.student_steps
    lengths = {"measured": measuring, "lesson": lesson, "tried": measuring}  # by their last turn

    # The schedule, on the host.

    def at(step: int) -> tuple[str, int]:
        """The phase of this step, by the turn that ends it, and its place there, from 1 on."""
        made, order = step - warmup, [*lengths]
        if not clone and made > measuring:
            made, order = made - measuring, order[1:]
        made = (made - 1) % sum(lengths[name] for name in order) + 1
        for name in order[:-1]:
            if made <= lengths[name]:
                return name, made
            made -= lengths[name]
        return order[-1], made

    def cuts(step: int) -> bool:
        if step <= warmup:
            return step == warmup
        name, made = at(step)
        return made % (lesson if name == "lesson" else settings.student_steps) == 0

    def plan(step: int, due: Callable[[int], tuple[Update, ...]]) -> tuple[Update | Turn, ...]:
        if step <= warmup:
            return ()
        name, made = at(step)
        if made < lengths[name]:
            return ()
        if name == "measured":
            return (Turn(name),)
        # Whatever the phase, what the algorithm would have done in so many steps up to here.
        iteration = sum(lengths.values()) - (0 if clone else measuring)
        owed = tuple(itertools.chain(*(due(it) for it in range(step - iteration + 1, step + 1))))
        # Rounds may be further apart than that, and a trial without updates would try nothing.
        endless = itertools.cycle(owed or (Update(),))
        if name == "lesson":
            first = itertools.islice(endless, settings.trial_updates)
            return Turn(name), *(it._replace(recent=lesson) for it in first)
        if settings.replay_updates:
            return Turn(name), *itertools.islice(endless, settings.replay_updates)
        return Turn(name), *(owed if clone else owed[settings.trial_updates :])

    # Acting.

    def rule(hp: Hyper) -> Optimiser:
        return optax.chain(optax.clip_by_global_norm(hp.max_norm), optax.adam(hp.lr))

    def blank(*rows: int) -> list[jax.Array]:
        """An observation and an action, or rows of them."""
        return [jnp.zeros((*rows, size)) for size in (spec.observation_size, spec.action_size)]

    def floored(log_sigma: Array, hp: Hyper) -> Array:
        return jnp.maximum(log_sigma, jnp.log(hp.sigma_min))

    def init(key: Any, hp: Hyper, view: View) -> State:
        log_sigma = jnp.full((1, spec.action_size), jnp.log(hp.sigma))
        net = blueprint.init(key, blueprint.outputs)
        teacher = {"net": net, "log_sigma": floored(log_sigma, hp)}
        count, number = jnp.zeros((), jnp.int32), jnp.zeros(())
        return State(
            hyper=hp,
            teacher=teacher,
            optimiser=rule(hp).init(teacher),
            phase=count + MEASURE,
            played=count,
            counts=count == 0,
            gained=number,
            before=number,
            after=number,
            reward=number,
            rewards=no_moments(1),
            lesson=Lesson(*blank(lesson)),
            saved=(view.student, view.params) if clone else (),
        )

    def begin(state: State, view: View, key: Any) -> Memory:
        del state, view, key  # `behave` fills it before it is read
        obs, raw = blank()
        return Memory(obs, raw, jnp.asarray(True))

    def draw(key: Any) -> Array:
        return random.normal(key, (1, spec.action_size))

    def behave(
        state: State, memory: Memory, view: View, obs: Array, noise: Array, warmup: Any
    ) -> tuple[Memory, Nudge]:
        del memory
        xp, teaches = networks.namespace(obs), state.phase == TEACH
        net = _either(teaches, state.teacher["net"], view.params["net"])
        spread = xp.exp(state.teacher["log_sigma"])
        nudge = Nudge(net, shift=xp.where(teaches, spread * noise, 0.0))
        raw = view.policy(nudge, obs)
        return Memory(obs[0], raw[0], xp.asarray(warmup)), nudge

    def greedy(state: State, params: Actor) -> Nudge:
        """In the midst of a trial, the student that is to come back."""
        if not clone:
            return Nudge(params["net"])
        _, actor = state.saved
        return Nudge(_either(state.phase == TRIAL, actor["net"], params["net"]))

    def hears(state: State, memory: Memory, seen: Seen) -> State:
        ours = ~memory.warm
        played = state.played + ours
        # The next episode counts if it is one to measure by, not what follows an early end.
        fresh = played % settings.student_steps == 0
        # One row too far where there is nothing to write down.
        row = jnp.where(ours & (state.phase == TEACH), state.played, lesson)
        return state._replace(
            played=played,
            counts=fresh | state.counts & ~(ours & seen.ended),
            gained=state.gained + jnp.where(ours & state.counts, seen.reward, 0.0),
            lesson=Lesson(
                state.lesson.obs.at[row].set(memory.obs, mode="drop"),
                state.lesson.raw.at[row].set(memory.raw, mode="drop"),
            ),
        )

    # Learning.

    def entered(state: State, phase: int) -> State:
        return state._replace(
            phase=jnp.full_like(state.phase, phase),
            played=jnp.zeros_like(state.played),
            counts=jnp.ones_like(state.counts),
            gained=jnp.zeros_like(state.gained),
        )

    def taught(state: State, view: View, reward: Array) -> State:
        """One step of the teacher by what its lesson was worth; then the lesson is forgotten."""
        rewards = observe(state.rewards, reward[None])
        variance = rewards.variance[0]
        known = (rewards.seen > 1) & (variance > 0)
        weight = reward / jnp.where(known, jnp.sqrt(variance), 1.0)

        def loss(teacher: Any) -> Array:
            mean = view.policy(Nudge(teacher["net"]), state.lesson.obs)
            return -weight * gaussian_log_prob(state.lesson.raw, mean, teacher["log_sigma"]).mean()

        slope = jax.grad(loss)(state.teacher)
        updates, optimiser = rule(state.hyper).update(slope, state.optimiser, state.teacher)
        moved: Any = optax.apply_updates(state.teacher, updates)
        moved = {**moved, "log_sigma": floored(moved["log_sigma"], state.hyper)}
        # A lesson worth nothing says nothing: without this, Adam would go on as before.
        teacher, optimiser = _either(
            reward != 0, (moved, optimiser), (state.teacher, state.optimiser)
        )
        forgotten = Lesson(*blank(lesson))
        return state._replace(
            teacher=teacher, optimiser=optimiser, rewards=rewards, lesson=forgotten
        )

    def turn(state: State, view: View, name: str) -> tuple[State, Any]:
        score = state.gained / settings.episodes
        if name == "measured":
            return entered(state, TEACH)._replace(before=score), view.student
        if name == "lesson":
            saved = (view.student, view.params) if clone else ()
            return entered(state, TRIAL)._replace(saved=saved), view.student
        reward = score - state.before
        state = taught(state, view, reward)._replace(after=score, reward=reward)
        if clone:
            return entered(state, MEASURE), state.saved[0]
        return entered(state, TEACH)._replace(before=score), view.student

    def report(state: State, view: View, batch: Batch) -> dict[str, Array]:
        """Of the last trial that is over."""
        del view, batch
        return {
            "meta_reward": state.reward,
            "return_before": state.after - state.reward,
            "return_after": state.after,
            "sigma": jnp.exp(state.teacher["log_sigma"]).mean(),
        }

    return Strategy(
        init=init,
        begin=begin,
        draw=draw,
        behave=behave,
        greedy=greedy,
        report=report,
        hears=hears,
        plan=plan,
        turn=turn,
        cuts=cuts,
    )


def _either(first: Array, one: Any, other: Any) -> Any:
    """`one` where `first`, else `other`; for whole trees, of NumPy and JAX alike."""
    return jax.tree.map(lambda x, y: networks.namespace(y).where(first, x, y), one, other)
