"""Meta-policy gradient (Xu et al., 2018): a teacher acts, and is rewarded by what its data taught.

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
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import random

from discover_rl.core import networks
from discover_rl.core.equations import descend, gaussian_log_prob
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.normalization import Moments, no_moments, observe
from discover_rl.core.types import (
    Actor,
    Array,
    Batch,
    Key,
    Nudge,
    Optimiser,
    Spec,
    StrategyEvent,
    Transition,
    Update,
)
from discover_rl.strategies.interface import Acting, Blueprint, Schedule, Strategy, View

MEASURE, TEACH, TRIAL = range(3)


@hyper
class Hyper:
    """Hyper-parameters of the meta-policy gradient."""

    one_environment: ClassVar[bool] = True  # it follows one episode after the other

    teacher_steps: int = setting(
        200, "L0: steps of the teacher in an iteration.", low=1, high=1_000_000
    )
    trial_updates: int = setting(50, "K0: updates on these steps alone.", low=0, high=100_000)
    student_steps: int = setting(
        100, "L1: longest episode that measures the student.", low=1, high=1_000_000
    )
    replay_updates: int = setting(
        0,
        "K1: updates on all of the replay; 0: those that fell due in the iteration.",
        low=0,
        high=1_000_000,
    )
    episodes: int = setting(1, "Episodes that measure the student.", low=1, high=1_000)
    trial: str = setting(
        "clone", "Take back what the lesson alone taught, or keep it.", choices=("clone", "keep")
    )
    sigma: float = setting(0.3, "Where the teacher's σ starts, in half-ranges.", above=0, high=100)
    sigma_min: float = setting(0.05, "Below this no σ falls.", above=0, high=100)
    lr: float = setting(1e-4, "Learning rate of the teacher.", low=0, high=1)
    max_norm: float = setting(1.0, "Longest gradient of the teacher.", above=0, high=10**9)


class Memory(NamedTuple):
    """The data of the last step that `on_transition` needs and does not get otherwise."""

    obs: Array  # (observation,) as the networks see it
    raw: Array  # (action,) not clipped
    warm: Array  # () whether it belongs to the warm-up


class Lesson(NamedTuple):
    """D0: the observations and actions of the teacher."""

    obs: jax.Array  # (L0, observation)
    raw: jax.Array  # (L0, action)


class State(NamedTuple):
    """What a run learns, and where its schedule is."""

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


def make(spec: Spec, settings: Hyper, blueprint: Blueprint) -> Strategy:
    """The meta-policy gradient on tasks with these spaces; floats come with the state."""
    clone, warmup = settings.trial == "clone", blueprint.warmup
    lesson, measuring = settings.teacher_steps, settings.episodes * settings.student_steps
    # Of each phase, by the event that ends it.
    lengths = {"measured": measuring, "lesson": lesson, "tried": measuring}

    # The schedule, on the host.

    def at(step: int) -> tuple[str, int]:
        """The phase of a step, named by the event that ends it, and the step's number in it."""
        made, order = step - warmup, [*lengths]
        if not clone and made > measuring:
            made, order = made - measuring, order[1:]
        made = (made - 1) % sum(lengths[name] for name in order) + 1
        for name in order[:-1]:
            if made <= lengths[name]:
                return name, made
            made -= lengths[name]
        return order[-1], made

    def truncate(step: int) -> bool:
        if step <= warmup:
            return step == warmup
        name, made = at(step)
        return made % (lesson if name == "lesson" else settings.student_steps) == 0

    def updates(
        step: int, due: Callable[[int], tuple[Update, ...]]
    ) -> tuple[Update | StrategyEvent, ...]:
        if step <= warmup:
            return ()
        name, made = at(step)
        if made < lengths[name]:
            return ()
        if name == "measured":
            return (StrategyEvent(name),)
        # In every phase: as many updates as the algorithm itself would make in these steps.
        iteration = sum(lengths.values()) - (0 if clone else measuring)
        owed = tuple(itertools.chain(*(due(it) for it in range(step - iteration + 1, step + 1))))
        # Rounds may be further apart than that, and a trial without updates would try nothing.
        endless = itertools.cycle(owed or (Update(),))
        if name == "lesson":
            first = itertools.islice(endless, settings.trial_updates)
            return StrategyEvent(name), *(it._replace(recent=lesson) for it in first)
        if settings.replay_updates:
            return StrategyEvent(name), *itertools.islice(endless, settings.replay_updates)
        return StrategyEvent(name), *(owed if clone else owed[settings.trial_updates :])

    # Acting.

    def rule(hyper: Hyper) -> Optimiser:
        return optax.chain(optax.clip_by_global_norm(hyper.max_norm), optax.adam(hyper.lr))

    def zeros(*rows: int) -> list[jax.Array]:
        """Zeros in the shape of an observation and of an action, or of rows of them."""
        return [jnp.zeros((*rows, size)) for size in (spec.observation_size, spec.action_size)]

    def floored(log_sigma: Array, hyper: Hyper) -> Array:
        return jnp.maximum(log_sigma, jnp.log(hyper.sigma_min))

    def init(key: Key, hyper: Hyper, view: View) -> State:
        log_sigma = jnp.full((1, spec.action_size), jnp.log(hyper.sigma))
        net = blueprint.init(key, blueprint.outputs)
        teacher = {"net": net, "log_sigma": floored(log_sigma, hyper)}
        count, number = jnp.zeros((), jnp.int32), jnp.zeros(())
        return State(
            hyper=hyper,
            teacher=teacher,
            optimiser=rule(hyper).init(teacher),
            phase=count + MEASURE,
            played=count,
            counts=count == 0,
            gained=number,
            before=number,
            after=number,
            reward=number,
            rewards=no_moments(1),
            lesson=Lesson(*zeros(lesson)),
            saved=(view.learned, view.params) if clone else (),
        )

    def inherit(fresh: State, old: State) -> State:
        """Take over the teacher; the schedule starts anew."""
        learned = {"teacher": old.teacher, "optimiser": old.optimiser, "rewards": old.rewards}
        return fresh._replace(**learned)

    def begin(state: State, view: View, key: Key) -> Memory:
        del state, view, key  # `behave` fills it before it is read
        obs, raw = zeros()
        return Memory(obs, raw, jnp.asarray(True))

    def draw(key: Key) -> Array:
        return random.normal(key, (1, spec.action_size))

    def behave(
        state: State, memory: Memory, view: View, obs: Array, noise: Array, warmup: Any
    ) -> tuple[Memory, Nudge]:
        del memory
        xp, teaches = networks.namespace(obs), state.phase == TEACH
        net = _either(teaches, state.teacher["net"], view.net)
        spread = xp.exp(state.teacher["log_sigma"])
        nudge = Nudge(net, shift=xp.where(teaches, spread * noise, 0.0))
        raw = view.policy(nudge, obs)
        return Memory(obs[0], raw[0], xp.asarray(warmup)), nudge

    def greedy(state: State, params: Actor) -> Nudge:
        """Evaluate the student; during a trial, the one that was saved before it."""
        if not clone:
            return Nudge(params["net"])
        _, actor = state.saved
        return Nudge(_either(state.phase == TRIAL, actor["net"], params["net"]))

    def on_transition(state: State, memory: Memory, transition: Transition) -> State:
        ours = ~memory.warm
        played = state.played + ours
        # The next episode counts if it is one to measure by, not what follows an early end.
        fresh = played % settings.student_steps == 0
        # A row past the end, which is dropped, if there is nothing to write.
        row = jnp.where(ours & (state.phase == TEACH), state.played, lesson)
        return state._replace(
            played=played,
            counts=fresh | state.counts & ~(ours & transition.ended),
            gained=state.gained + jnp.where(ours & state.counts, transition.reward, 0.0),
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
        """Update the teacher by the improvement that its lesson brought; drop the lesson."""
        rewards = observe(state.rewards, reward[None])
        variance = rewards.variance[0]
        known = (rewards.samples > 1) & (variance > 0)
        weight = reward / jnp.where(known, jnp.sqrt(variance), 1.0)

        def loss(teacher: Any) -> Array:
            mean = view.policy(Nudge(teacher["net"]), state.lesson.obs)
            return -weight * gaussian_log_prob(state.lesson.raw, mean, teacher["log_sigma"]).mean()

        gradient = jax.grad(loss)(state.teacher)
        moved, optimiser = descend(rule(state.hyper), gradient, state.optimiser, state.teacher)
        moved = {**moved, "log_sigma": floored(moved["log_sigma"], state.hyper)}
        # A lesson without effect must not move the teacher: Adam alone would continue by momentum.
        teacher, optimiser = _either(
            reward != 0, (moved, optimiser), (state.teacher, state.optimiser)
        )
        forgotten = Lesson(*zeros(lesson))
        return state._replace(
            teacher=teacher, optimiser=optimiser, rewards=rewards, lesson=forgotten
        )

    def on_event(state: State, view: View, name: str) -> tuple[State, Any]:
        score = state.gained / settings.episodes
        if name == "measured":
            return entered(state, TEACH)._replace(before=score), view.learned
        if name == "lesson":
            saved = (view.learned, view.params) if clone else ()
            return entered(state, TRIAL)._replace(saved=saved), view.learned
        reward = score - state.before
        state = taught(state, view, reward)._replace(after=score, reward=reward)
        if clone:
            return entered(state, MEASURE), state.saved[0]
        return entered(state, TEACH)._replace(before=score), view.learned

    def report(state: State, view: View, batch: Batch) -> dict[str, Array]:
        """Diagnostics of the last trial that has ended."""
        del view, batch
        return {
            "meta_reward": state.reward,
            "return_before": state.after - state.reward,
            "return_after": state.after,
            "sigma": jnp.exp(state.teacher["log_sigma"]).mean(),
        }

    return Strategy(
        init=init,
        acting=Acting(begin=begin, draw=draw, behave=behave, greedy=greedy),
        schedule=Schedule(
            updates=updates, truncate=truncate, on_event=on_event, on_transition=on_transition
        ),
        report=report,
        inherit=inherit,
    )


def _either(first: Array, one: Any, other: Any) -> Any:
    """Return the pytree `one` if `first`, else `other`; for NumPy and JAX alike."""
    return jax.tree.map(lambda x, y: networks.namespace(y).where(first, x, y), one, other)
