"""An agent: one algorithm wedded to one strategy, with a replay, lifted over a cohort's lanes.

Every environment step is two programs: `meet`, which chooses the next action by what the
environments answered, and `learn`, which takes the transition into the replay and does the updates
that are due. Learning for a step goes on while the environments make it: every action is the newest
parameters', and a transition can be learned from as soon as the next is being made. Both are
vmapped over lanes, jitted and donated. State and data carry a leading axis of lanes; the step does
not, so what depends on it is decided once for all lanes. Random numbers come from (lane's seed,
step, stream) alone: there is no generator to carry along or to lose.

Where programs can step the environments themselves, many steps are one program: flight.py.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from discover_rl import replay
from discover_rl.flight import Flight
from discover_rl.interfaces import Algorithm
from discover_rl.lane import Lane, State, wed
from discover_rl.packing import as_before, looks, pack, pruned, unpack
from discover_rl.parcels import empty, opened, packed, sealed, unpacked, width
from discover_rl.programs import compile_all, precise, unkept
from discover_rl.sequels import Sequel
from discover_rl.types import Action, Array, Net, Seen, Spec
from discover_rl.watch import WATCHED, Bad

CHUNK = 16
"""Steps between two looks at the clock; of a GPU, which makes them faster, eight times as many, or
a flight. And so many at least must repeat what is due, to be one."""
FLIGHT = 512
"""Steps of a flight at most."""
CYCLE = 8
"""Steps of what repeats itself, at most: a program has them all."""
MANY = 100
"""Lanes from which on a GPU takes longer to learn than the host to start it."""

_pack = jax.jit(pack)
_unpack = jax.jit(unpack)
_fine = functools.cache(lambda lanes: jnp.full(lanes, -1, jnp.int32))


class Arrival(NamedTuple):
    """A transition that is not in the replay yet."""

    action: Action
    parcel: Any  # (lanes, …) what was seen, as `parcels` has it


class Agent:
    """The programs of a cohort. All states have lanes in front."""

    def __init__(
        self,
        spec: Spec,
        algorithm: str,
        hyper: Any,
        strategy: str,
        strategy_hyper: Any,
        steps: int,
        environments: int = 1,
        precision: str = "float32",
    ):
        """Only the statics of `hyper` and `strategy_hyper` count here: `init` gets the floats."""
        assert environments == 1  # replay keeps transitions in the order of one environment
        self.spec = spec
        wedded, self.strategy = wed(spec, algorithm, hyper, strategy, strategy_hyper)
        self.lane = Lane(spec, wedded, hyper.batch_size, hyper.replay_size, steps)
        self.warmup: int = hyper.warmup
        self.precision = precision
        self.packs = jax.default_backend() != "cpu"
        self.init = jax.jit(jax.vmap(self.lane.init))
        enter = jax.vmap(self.lane.enter, in_axes=(0, 0, 0, None))
        self.enter = jax.jit(precise(enter, precision), donate_argnums=0)
        report = jax.vmap(self.lane.report, in_axes=(0, None))
        self.report = jax.jit(precise(report, precision))
        self._due = functools.lru_cache(2 * FLIGHT)(self.due)
        self._learns = functools.cache(self._learning)
        self._flight = functools.cache(
            lambda lanes, cycle: Flight(self.lane, lanes, cycle, FLIGHT, precision)
        )
        self._inserts = jax.jit(self._inserting, donate_argnums=0)
        changes = (0, 1) if self.algorithm.observes else 1
        self._meets = jax.jit(precise(self._meeting, precision), donate_argnums=changes)
        self._looked: tuple[bool, ...] | None = None  # of what `meet` gets, what it looks at

    @property
    def algorithm(self) -> Algorithm:
        return self.lane.algorithm

    @property
    def listens(self) -> bool:
        """A strategy that listens may plan by what it hears, so nothing is learned before that."""
        return self.algorithm.hears is not None

    def place(self, state: State) -> State:
        """The state where programs want it: on the device."""
        return jax.device_put(state)

    def due(self, step: int) -> Sequel:
        """What to do once `step` environment steps have been made, or while the last is."""
        return self.strategy.plan(step, self.algorithm.due)

    def like(self, *begin: Any) -> State:
        """What has a state's shapes; the arguments are those of `init`."""
        return jax.eval_shape(self.init, *begin)

    def prepare(self, state: State, lanes: Any, step: int) -> None:
        """Compile what the next steps, and the first that learn, are going to need."""
        starts = max(step + 1, 2), max(step, self.warmup) + 1
        if self.flies(lanes):
            courses = [self.course(first - 1) for first in starts]
            cycles = {cycle for cycle, reach in courses if reach >= CHUNK}
            with unkept():
                compile_all([self._flight(lanes, cycle).lower(state) for cycle in cycles])
            return
        number, size = len(state.seed), self.spec.observation_size
        state = jax.eval_shape(self._packed, state)
        bad = jax.ShapeDtypeStruct((number,), jnp.int32)
        arrival = Arrival(state.action, jax.ShapeDtypeStruct((number, width(size)), jnp.int32))
        due = {self.due(first + i) for first in starts for i in range(CHUNK)}
        lowered = [self._meets.lower(*self._meeting_place(state), bad, arrival.parcel)]
        lowered += [
            self._learns(it).lower(*self._learning_place(state), *arrival)
            for it in due
            if it or self.listens
        ]
        if not self.listens:
            lowered.append(self._inserts.lower(state.replay, *arrival))
        compile_all(lowered)

    def advance(
        self, state: State, lanes: Any, alive: np.ndarray, step: int, until: int
    ) -> tuple[State, int, list[Bad]]:
        """Act and learn on, no further than `until`; the lanes that went bad on the way."""
        if self.flies(lanes):
            cycle, reach = self.course(step)
            rounds = min(reach, until - step) // len(cycle) if reach >= CHUNK else 0
            if rounds:
                return self._flight(lanes, cycle)(state, alive, step, rounds)
            # Step by step, no further than to where something repeats itself again.
            ahead = (i for i in range(1, CHUNK) if self.course(step + i)[1] >= CHUNK)
            until = min(until, step + next(ahead, CHUNK))
        alive, found = alive.copy(), []
        # Starting to learn takes the host some time. Where learning takes longer, it is best begun
        # as soon as the device is free; else, once the environments are busy.
        early = not self.packs or len(alive) > MANY
        until = min(until, step + (8 * CHUNK if self.packs else CHUNK))
        executed = jax.device_get(state.action.executed)
        state, arrival, spoilt = self._packed(state), None, None
        for upto in range(step + 1, until + 1):
            lanes.send(executed, alive, self.strategy.cuts(upto))
            if spoilt is None:
                state, spoilt = self.learn(state, arrival, upto)
            state, arrival, reply = self.meet(state, lanes.receive(), spoilt, upto)
            spoilt = None
            if early and upto < until:
                state, spoilt = self.learn(state, arrival, upto + 1)
            executed, bad = opened(reply)
            for lane in np.flatnonzero(alive & (bad >= 0)).tolist():
                found.append(Bad(lane, WATCHED[bad[lane]], upto))
                alive[lane] = False
        return self._unpacked(self.settle(state, arrival)), until, found

    def flies(self, lanes: Any) -> bool:
        """Whether programs step these environments themselves. Not where a strategy listens: what
        it hears comes before learning, not beside it."""
        return self.packs and not self.listens and lanes.calls is not None

    def course(self, step: int) -> tuple[tuple[Sequel, ...], int]:
        """What is due in the next steps, as the cycle that holds for longest, and for how many."""
        steps = range(step + 1, step + FLIGHT + 1)
        uncut = itertools.takewhile(lambda upto: not self.strategy.cuts(upto), steps)
        # While the first step is made, there is nothing to learn from.
        due = [self._due(upto) if upto > 1 else () for upto in uncut]
        found = [(0, -1)]
        for length in range(1, min(CYCLE, len(due)) + 1):
            odd = (i for i, it in enumerate(due) if it != due[i % length])
            found.append((next(odd, len(due)), -length))
        reach, length = max(found)
        return tuple(due[:-length]), reach

    def learn(self, state: State, arrival: Arrival | None, step: int) -> tuple[State, Array]:
        """Take in what has arrived and begin the updates that are due after `step` environment
        steps, the last of which is being made.

        Beside the state, what of each lane is not finite, as watch.py counts.
        """
        # While the first step is made, there is nothing to learn from.
        sequel = () if self.listens or step == 1 else self.due(step)
        if not sequel:
            return self.settle(state, arrival), _fine(len(state.seed))
        if arrival is None:
            nothing = empty(len(state.seed), self.spec.observation_size, step - 1)
            arrival = Arrival(state.action, nothing)
        return self._learned(state, arrival, sequel)

    def meet(
        self, state: State, seen: Seen, spoilt: Array, step: int
    ) -> tuple[State, Arrival | None, Array]:
        """Choose the next action by what was seen after `step` environment steps; where a strategy
        listens, learn first.

        Beside the state, the transition that is still to be taken in, and the reply.
        """
        arrival = Arrival(state.action, packed(seen, step))
        parcel = arrival.parcel
        if self.listens:
            (state, spoilt), arrival = self._learned(state, arrival, self.due(step)), None
        learner, memory, action, reply = self._meets(*self._meeting_place(state), spoilt, parcel)
        reply.copy_to_host_async()
        learner = state.learner if learner is None else learner
        state = state._replace(learner=learner, memory=memory, action=action)
        return state, arrival, reply

    def settle(self, state: State, arrival: Arrival | None) -> State:
        """Take in what has arrived, without learning."""
        if arrival is None:
            return state
        return state._replace(replay=self._inserts(state.replay, *arrival))

    def _learned(self, state: State, arrival: Arrival, sequel: Sequel) -> tuple[State, Array]:
        place = self._learning_place(state)
        learner, buffer, spoilt = self._learns(sequel)(*place, *arrival)
        return state._replace(learner=learner, replay=buffer), spoilt

    def _learning_place(self, state: State) -> tuple[Any, ...]:
        """What `learn` needs of a state."""
        memory = state.memory if self.listens else ()
        return state.learner, state.replay, memory, state.seed

    def _meeting_place(self, state: State) -> tuple[Any, ...]:
        """What `meet` needs of a state."""
        learner = state.learner
        if self.packs and not self.algorithm.observes:
            if self._looked is None:
                lanes, size = len(state.seed), self.spec.observation_size
                rest = state.memory, state.seed, _fine(lanes), empty(lanes, size, 0)
                self._looked = looks(self._meeting, learner, *rest)
            learner = pruned(learner, self._looked)
        return learner, state.memory, state.seed

    def _packed(self, state: State) -> State:
        return state._replace(learner=_pack(state.learner)) if self.packs else state

    def _unpacked(self, state: State) -> State:
        return state._replace(learner=_unpack(state.learner)) if self.packs else state

    def nets(self, state: State) -> Net:
        """The networks that evaluation uses, on the host, lanes in front."""
        greedy = jax.vmap(lambda learner: self.algorithm.greedy(learner).net)
        return jax.device_get(greedy(state.learner))

    def _learning(self, sequel: Sequel) -> Any:
        each = self.lane.learn_all(sequel)

        def learn(
            learner: Any, buffer: replay.Replay, memory: Any, seed: Array, *arrival: Any
        ) -> Any:
            action, parcel = arrival
            seen, new, step = unpacked(parcel, self.spec.observation_size)
            if not self.listens:
                step += 1  # which is being made
            learned, *rest = each(unpack(learner), buffer, memory, seed, action, seen, new, step)
            return as_before(learner, learned), *rest

        return jax.jit(precise(learn, self.precision), donate_argnums=(0, 1))

    def _inserting(self, buffer: replay.Replay, action: Action, parcel: Array) -> replay.Replay:
        seen = unpacked(parcel, self.spec.observation_size).seen
        return jax.vmap(replay.insert)(buffer, action, seen)

    def _meeting(self, learner: Any, memory: Any, seed: Array, spoilt: Array, parcel: Array) -> Any:
        seen, _, step = unpacked(parcel, self.spec.observation_size)
        now = seen, step, jnp.any(seen.ended)
        everyone = unpack(learner), memory, seed, spoilt
        new, memory, action, reply = self.lane.meet_all(*everyone, *now)
        new = as_before(learner, new) if self.algorithm.observes else None
        return new, memory, action, sealed(reply)
