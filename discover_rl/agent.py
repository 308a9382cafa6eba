"""An agent: one algorithm wedded to one strategy, with a replay, lifted over a cohort's lanes.

Every environment step is two programs: `learn`, the updates that are due, and `meet`, which takes
in what the environments answered and chooses the next action. Learning for a step goes on while the
environments make it: every action is the newest parameters', and a transition can be learned from
as soon as the next is being made. Both are vmapped over lanes, jitted and donated. State and data
carry a leading axis of lanes; the step does not, so what depends on it is decided once for all
lanes. Random numbers come from (lane's seed, step, stream) alone: there is no generator to carry
along or to lose.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import random

from discover_rl import replay, sequels
from discover_rl.interfaces import Algorithm, Strategy
from discover_rl.keys import Stream, streams
from discover_rl.packing import as_before, pack, unpack
from discover_rl.parcels import Reply, opened, packed, sealed, unpacked, width
from discover_rl.programs import compile_all, precise
from discover_rl.sequels import Sequel
from discover_rl.types import Action, Array, Net, Seen, Spec
from discover_rl.watch import WATCHED, Bad, bad_loss, first_bad


class State(NamedTuple):
    seed: Array  # ()
    learner: Any  # the algorithm's state, the strategy's inside
    memory: Any  # the strategy's, of the running episode
    replay: replay.Replay
    action: Action  # chosen, and not yet answered by the environment


CHUNK = 16
"""Steps between two looks at the clock; of a GPU, which makes them faster, eight times as many."""
REPORT_BATCH = 1024
MANY = 100
"""Lanes from which on a GPU takes longer to learn than the host to start it."""

_pack = jax.jit(pack)
_unpack = jax.jit(unpack)
_fine = functools.cache(lambda lanes: jnp.full(lanes, -1, jnp.int32))


class Own(NamedTuple):
    """What `meet` replaces."""

    memory: Any
    replay: replay.Replay
    action: Action


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
        self.algorithm: Algorithm
        self.algorithm, self.strategy = wed(spec, algorithm, hyper, strategy, strategy_hyper)
        self.batch_size: int = hyper.batch_size
        self.warmup: int = hyper.warmup
        self.capacity = min(hyper.replay_size, steps)
        self.steps = steps
        self.precision = precision
        self.packs = jax.default_backend() != "cpu"
        self.init = jax.jit(jax.vmap(self._init))
        self.enter = jax.jit(jax.vmap(self._enter, in_axes=(0, 0, 0, None)), donate_argnums=0)
        self.report = jax.jit(jax.vmap(self._report, in_axes=(0, None)))
        self._learns = functools.cache(self._learning)
        self._meets = functools.cache(self._meeting)

    @property
    def listens(self) -> bool:
        """A strategy that listens may plan by what it hears, so nothing is learned before that."""
        return self.algorithm.hears is not None

    def place(self, state: State) -> State:
        """The state where programs want it: on the device."""
        return jax.device_put(state)

    def due(self, step: int) -> Sequel:
        """What to do once `step` environment steps have been made."""
        return self.strategy.plan(step, self.algorithm.due)

    def like(self, *begin: Any) -> State:
        """What has a state's shapes; the arguments are those of `init`."""
        return jax.eval_shape(self.init, *begin)

    def prepare(self, state: State, step: int) -> None:
        """Compile what the next steps, and the first that learn, are going to need."""
        lanes, size = len(state.seed), self.spec.observation_size
        state = jax.eval_shape(self._packed, state)
        own = Own(state.memory, state.replay, state.action)
        bad = jax.ShapeDtypeStruct((lanes,), jnp.int32)
        parcel = jax.ShapeDtypeStruct((lanes, width(size)), jnp.int32)
        starts = max(step + 1, 2), max(step, self.warmup) + 1
        due = {self.due(first + i) for first in starts for i in range(CHUNK)}
        met = due if self.listens else {()}
        lowered = [self._meets(it).lower(own, state.learner, state.seed, bad, parcel) for it in met]
        if not self.listens:
            given = state.learner, state.replay, state.seed, np.int32(0)
            lowered += [self._learns(it).lower(*given) for it in due if it]
        compile_all(lowered)

    def advance(
        self, state: State, lanes: Any, alive: np.ndarray, step: int, until: int
    ) -> tuple[State, int, list[Bad]]:
        """Act and learn on, no further than `until`; the lanes that went bad on the way."""
        alive, found = alive.copy(), []
        # Starting to learn takes the host some time. Where learning takes longer, it is best begun
        # as soon as the device is free; else, once the environments are busy.
        early = not self.packs or len(alive) > MANY
        until = min(until, step + (8 * CHUNK if self.packs else CHUNK))
        executed = jax.device_get(state.action.executed)
        state, lost = self._packed(state), None
        for upto in range(step + 1, until + 1):
            lanes.send(executed, alive, self.strategy.cuts(upto))
            if lost is None:
                state, lost = self.learn(state, upto)
            state, reply = self.meet(state, lanes.receive(), lost, upto)
            lost = None
            if early and upto < until:
                state, lost = self.learn(state, upto + 1)
            executed, bad = opened(reply)
            for lane in np.flatnonzero(alive & (bad >= 0)).tolist():
                found.append(Bad(lane, WATCHED[bad[lane]], upto))
                alive[lane] = False
        return self._unpacked(state), until, found

    def learn(self, state: State, step: int) -> tuple[State, Array]:
        """Begin the updates that are due after `step` environment steps, from all but the last.

        Beside the state, what of each lane is not finite, as watch.py counts.
        """
        sequel = () if self.listens or step == 1 else self.due(step)
        if not sequel:
            return state, _fine(len(state.seed))
        learns = self._learns(sequel)
        learner, lost = learns(state.learner, state.replay, state.seed, np.int32(step))
        return state._replace(learner=learner), lost

    def meet(self, state: State, seen: Seen, lost: Array, step: int) -> tuple[State, Array]:
        """Take in what was seen after `step` environment steps and choose the next action."""
        meets = self._meets(self.due(step) if self.listens else ())
        own = Own(state.memory, state.replay, state.action)
        learner, own, reply = meets(own, state.learner, state.seed, lost, packed(seen, step))
        return State(state.seed, learner or state.learner, *own), reply

    def _packed(self, state: State) -> State:
        return state._replace(learner=_pack(state.learner)) if self.packs else state

    def _unpacked(self, state: State) -> State:
        return state._replace(learner=_unpack(state.learner)) if self.packs else state

    def nets(self, state: State) -> Net:
        """The networks that evaluation uses, on the host, lanes in front."""
        greedy = jax.vmap(lambda learner: self.algorithm.greedy(learner).net)
        return jax.device_get(greedy(state.learner))

    def _learning(self, sequel: Sequel) -> Any:
        each = jax.vmap(functools.partial(self._learn, sequel), in_axes=(0, 0, 0, None))

        def learn(learner: Any, buffer: replay.Replay, seed: Array, step: Array) -> Any:
            learned, lost = each(unpack(learner), buffer, seed, step)
            return as_before(learner, learned), lost

        return jax.jit(precise(learn, self.precision), donate_argnums=0)

    def _meeting(self, sequel: Sequel) -> Any:
        each = jax.vmap(functools.partial(self._meet, sequel), in_axes=(0, 0, 0, 0, 0, None, None))
        changes = self.listens or self.algorithm.observes

        def meet(own: Own, learner: Any, seed: Array, lost: Array, parcel: Array) -> Any:
            seen, step = unpacked(parcel, self.spec.observation_size)
            now = seen, step, jnp.any(seen.ended)
            new, own, reply = each(own, unpack(learner), seed, lost, *now)
            return as_before(learner, new) if changes else None, own, sealed(reply)

        return jax.jit(precise(meet, self.precision), donate_argnums=(0, 1) if changes else 0)

    # From here on: one lane.

    def _init(self, seed: Array, hyper: Any, strategy_hyper: Any) -> State:
        learner = self.algorithm.init(streams(seed, 0)[Stream.INIT], hyper, strategy_hyper)
        nothing = jnp.zeros(self.spec.action_size)
        memory = self.algorithm.begin(learner, streams(seed, 0)[Stream.BEGIN])
        buffer = replay.init(self.capacity, self.spec.observation_size, self.spec.action_size)
        return State(seed, learner, memory, buffer, Action(nothing, nothing))

    def _enter(self, state: State, obs: Array, fresh: Array, step: Array) -> State:
        """Where `fresh`, an episode starts at `obs` and the next action is chosen there."""
        keys = streams(state.seed, step)
        memory = self._begin(state.learner, state.memory, fresh, keys)
        chosen = self._act(state.learner, memory, obs, keys, step)
        kept = state.learner, state.memory, state.action
        learner, memory, action = jax.tree.map(
            lambda new, old: jnp.where(fresh, new, old), chosen, kept
        )
        buffer = replay.enter(state.replay, obs, fresh)
        return State(state.seed, learner, memory, buffer, action)

    def _learn(
        self, sequel: Sequel, learner: Any, buffer: replay.Replay, seed: Array, step: Array
    ) -> tuple[Any, Array]:
        key, progress = streams(seed, step)[Stream.LEARN], step / self.steps
        learner, losses = sequels.play(
            self.algorithm, sequel, learner, buffer, key, progress, self.batch_size
        )
        return learner, bad_loss(losses)

    def _meet(
        self,
        sequel: Sequel,
        own: Own,
        learner: Any,
        seed: Array,
        lost: Array,
        seen: Seen,
        step: Array,
        some_ended: Array,
    ) -> tuple[Any, Own, Reply]:
        keys = streams(seed, step)
        buffer = replay.insert(own.replay, own.action, seen)
        if self.algorithm.hears is not None:
            learner = self.algorithm.hears(learner, own.memory, seen)
        if sequel:
            learner, lost = self._learn(sequel, learner, buffer, seed, step)
        memory = own.memory
        if jax.tree.leaves(memory):
            # Of all lanes together, so that it is a branch, not a choice of what both made: a
            # strategy may draw as many numbers as the actor has parameters.
            begin = functools.partial(self._begin, learner, memory, seen.ended, keys)
            memory = jax.lax.cond(some_ended, begin, lambda: own.memory)
        learner, memory, action = self._act(learner, memory, seen.obs, keys, step)
        bad = jnp.where(lost < 0, first_bad({"action": action.executed}), lost)
        bad = first_bad({"observation": seen.next_obs, "reward": seen.reward}, bad)
        return learner, Own(memory, buffer, action), Reply(action.executed, bad)

    def _begin(self, learner: Any, memory: Any, fresh: Array | bool, keys: Any) -> Any:
        """The strategy's memory, begun anew where an episode is."""
        begun = self.algorithm.begin(learner, keys[Stream.BEGIN])
        return jax.tree.map(lambda new, old: jnp.where(fresh, new, old), begun, memory)

    def _act(self, learner: Any, memory: Any, obs: Array, keys: Any, step: Array) -> Any:
        noise = self.algorithm.draw(keys[Stream.ACT])
        return self.algorithm.act(learner, memory, obs, noise, step)

    def _report(self, state: State, step: Array) -> dict[str, Array]:
        """Diagnostics on a fresh batch; changes nothing, costs nothing while training."""
        sample_key, key = random.split(streams(state.seed, step)[Stream.REPORT])
        batch = replay.sample(state.replay, sample_key, REPORT_BATCH)
        return self.algorithm.report(state.learner, batch, key)


def wed(
    spec: Spec, algorithm: str, hyper: Any, strategy: str, strategy_hyper: Any
) -> tuple[Any, Strategy]:
    """An algorithm that explores by a strategy, and that strategy; both by their names."""
    module = importlib.import_module(f"discover_rl.algorithms.{algorithm}")
    tactics = importlib.import_module(f"discover_rl.strategies.{strategy}")
    made = tactics.make(spec, strategy_hyper, module.blueprint(spec, hyper))
    return module.make(spec, hyper, made), made
