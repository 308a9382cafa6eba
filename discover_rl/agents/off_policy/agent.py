"""An off-policy agent: an algorithm with a strategy and a replay buffer, for all lanes of a cohort.

Every environment step is two programs: `act`, which chooses the next actions by what the
environments answered, and `learn`, which stores the last transition and does the updates that are
due (`step.py` has the order). Both are vmapped over lanes, jitted, and donate what they replace.
State and data have lanes in front; the step has not, so what depends on it is decided once for all
lanes. Random numbers come from (seed, step, stream) alone.

Where a program can step the environments itself, many steps are one program (`fused_loop.py`).
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from discover_rl.agents.build import build_algorithm
from discover_rl.agents.interface import AgentSetup
from discover_rl.agents.off_policy import transfer
from discover_rl.agents.off_policy.fused_loop import FusedLoop
from discover_rl.agents.off_policy.lane import AgentState, Lane
from discover_rl.agents.off_policy.packing import pack, packed_like, reads, unpack, without_unread
from discover_rl.agents.off_policy.schedule import Updates, longest_cycle
from discover_rl.agents.off_policy.step import Pending, environment_step
from discover_rl.agents.off_policy.transfer import Inbox
from discover_rl.algorithms.interface import OffPolicyAlgorithm
from discover_rl.core import replay_buffer
from discover_rl.core.finite import QUANTITIES, Divergence
from discover_rl.core.types import Action, Array, CriticHead, Net, PolicyHead
from discover_rl.envs.vector import VectorEnv
from discover_rl.system.compilation import compile_all, not_cached, with_precision
from discover_rl.system.hardware import accelerated

CHUNK = 16
"""The largest number of steps of each environment in one call of `advance` on a CPU. On a GPU it is
8 times as large, or that of a fused loop, which is used for at least as many steps as this."""
FUSED_STEPS = 512
"""The largest number of steps of a fused loop."""
LONGEST_CYCLE = 8
"""The longest cycle of updates that a fused loop repeats: its program contains all of it."""

_pack = jax.jit(pack)
_unpack = jax.jit(unpack)
all_finite = functools.cache(lambda lanes: jnp.full(lanes, -1, jnp.int32))
"""(lanes) → (lanes,) of −1: in no lane is anything not finite."""


class StepByStep:
    """The operations of a step (`step.Operations`), by compiled programs and host environments."""

    def __init__(
        self, agent: OffPolicyAgent, vector: VectorEnv, alive: np.ndarray, state: AgentState
    ):
        self.agent, self.vector, self.waits = agent, vector, agent.waits
        self.alive, self.found = alive.copy(), list[Divergence]()
        self._executed: Any = jax.device_get(state.action.executed)
        self._reply: Any = None  # of the last action, not read yet

    def send(self, state: AgentState, token: Any) -> Any:
        """Do nothing yet: `receive` sends, after learning was started. So the device has work while
        the host waits for the actions."""
        del state
        return token

    def learn(
        self, updates: Updates, state: AgentState, pending: Pending | None, step: int, token: Any
    ) -> tuple[AgentState, Array]:
        """Start the program that stores what is pending and learns."""
        del token
        agent, lanes = self.agent, len(state.seed)
        if not updates and not self.waits:
            return agent.store(state, pending), all_finite(lanes)
        if pending is None:
            pending = Pending(state.action, agent.no_transition(lanes, step - 1))
        learner, buffer, bad = agent._learn(updates)(*agent._learning_part(state), *pending)
        return state._replace(learner=learner, replay=buffer), bad

    def receive(self, state: AgentState, step: int, token: Any, learned: Any) -> tuple[Any, Any]:
        """Send the actions to the environments and wait for their answers."""
        del state, learned
        self.read_reply(step - 1)
        truncate = self.agent.strategy.schedule.truncate(step)
        self.vector.send(self._executed, self.alive, truncate)
        inbox = self.agent.sent(transfer.plain(self.vector.receive(), step))
        return token, jax.device_put(inbox) if self.waits else inbox

    def act(
        self, state: AgentState, inbox: Any, bad: Array, step: int
    ) -> tuple[AgentState, Pending, Any]:
        """Start the program that chooses the next actions."""
        del step
        agent, before = self.agent, state.action
        learner, memory, action, self._reply, inbox = agent._act(
            *agent._acting_part(state), bad, inbox
        )
        if agent.on_gpu:
            self._reply.copy_to_host_async()
        learner = state.learner if learner is None else learner
        state = state._replace(learner=learner, memory=memory, action=action)
        return state, Pending(before, inbox), self._reply

    def read_reply(self, step: int) -> None:
        """Wait for the actions chosen after `step` steps; note the lanes that have diverged."""
        if self._reply is None:
            return
        (self._executed, bad), self._reply = transfer.decode_reply(self._reply), None
        for lane in np.flatnonzero(self.alive & (bad >= 0)).tolist():
            self.found.append(Divergence(lane, QUANTITIES[bad[lane]], step))
            self.alive[lane] = False


class OffPolicyAgent:
    """Acts and learns for a cohort by compiled programs (`agents.interface.Agent`).

    All states have lanes in front. A lane has one environment here, and more in `several_agent`.
    """

    lane_type: type[Lane] = Lane
    operations_type: type[StepByStep] = StepByStep

    def __init__(self, setup: AgentSetup):
        self.spec, hyper, self.environments = setup.spec, setup.hyper, setup.environments
        algorithm, self.strategy = build_algorithm(setup)
        assert isinstance(algorithm, OffPolicyAlgorithm)
        self.lane = self.lane_type(
            setup.spec,
            algorithm,
            batch_size=hyper.batch_size,
            replay_size=hyper.replay_size,
            steps=setup.steps,
            transitions=setup.transitions,
            environments=setup.environments,
            precision=setup.precision,
        )
        self.warmup: int = hyper.warmup
        self.precision = setup.precision
        self.measured = setup.metrics_every > 0
        self.on_gpu = accelerated()
        self.init = jax.jit(jax.vmap(self.lane.init))
        enter = jax.vmap(self.lane.enter, in_axes=(0, 0, 0, None))
        self.enter = jax.jit(with_precision(enter, self.precision), donate_argnums=0)
        report = jax.vmap(self.lane.report, in_axes=(0, None))
        self.report = jax.jit(with_precision(report, self.precision))
        measure = jax.vmap(self.lane.measure, in_axes=(0, None))
        self._measure = jax.jit(with_precision(measure, self.precision))
        self._due = functools.lru_cache(2 * FUSED_STEPS)(self.due)
        self._learn = functools.cache(self._learn_program)
        self._fused_loop = functools.cache(
            lambda vector, cycle: FusedLoop(self.lane, vector, cycle, FUSED_STEPS, self.precision)
        )
        self._store = jax.jit(self._store_program, donate_argnums=0)
        changes = (0, 1) if self.algorithm.act_changes_state else 1
        act = with_precision(self._act_program, self.precision)
        self._act = jax.jit(act, donate_argnums=changes)
        self._read: tuple[bool, ...] | None = None  # which large arrays `act` reads

    @property
    def algorithm(self) -> OffPolicyAlgorithm:
        """The algorithm, with the strategy in it."""
        return self.lane.algorithm

    @property
    def head(self) -> PolicyHead:
        """How the networks of `nets` become actions."""
        return self.algorithm.head

    @property
    def waits(self) -> bool:
        """Whether the strategy has `on_transition`, so that everything waits for transitions."""
        return self.algorithm.on_transition is not None

    def place(self, state: AgentState) -> AgentState:
        """Put a state on the device."""
        return jax.device_put(state)

    def like(self, *begin: Any) -> AgentState:
        """Return the shapes of a state, without computing one; the arguments are `init`'s."""
        return jax.eval_shape(self.init, *begin)

    def due(self, step: int) -> Updates:
        """Return the updates and events that follow the `step`-th environment step."""
        if step <= self.environments and not self.waits:
            return ()  # while each makes its first step, there is nothing to learn from
        return self.strategy.schedule.updates(step, self.algorithm.due)

    def updates_of(self, step: int) -> Any:
        """What `environment_step` gets as updates, for the step that ends with the `step`-th."""
        return self.due(step)

    def nets(self, state: AgentState) -> Net:
        """The networks that evaluation uses, on the host, lanes in front."""
        greedy = jax.vmap(lambda learner: self.algorithm.greedy(learner).net)
        return jax.device_get(greedy(state.learner))

    def critics(self, state: AgentState) -> Net:
        """The critics' networks, on the host, lanes in front."""
        return jax.device_get(jax.vmap(self.algorithm.critic)(state.learner))

    @property
    def critic_head(self) -> CriticHead:
        """What the networks of `critics` take."""
        return self.algorithm.critic_head

    def metrics(self, state: AgentState, step: int) -> dict[str, Array]:
        """Return what `report` has, with losses, learning rates and the amplitude of noise."""
        now = np.int32(step)
        return self.report(state, now) | self._measure(state, now)

    def prepare(self, state: AgentState, vector: VectorEnv, step: int) -> None:
        """Compile what the next steps, the first that learn, report and metrics will need."""
        diagnostics = [self.report, self._measure] if self.measured else [self.report]
        reports = [program.lower(state, np.int32(step)) for program in diagnostics]
        starts = max(step + 1, 2), max(step, self.warmup) + 1
        if self.fuses(vector):
            ahead = [self.cycle_after(first - 1) for first in starts]
            cycles = {cycle for cycle, reach in ahead if reach >= CHUNK}
            with not_cached():
                compile_all([self._fused_loop(vector, cycle).lower(state) for cycle in cycles])
            compile_all(reports)
            return
        lanes, state = len(state.seed), jax.eval_shape(self._packed, state)
        bad = jax.ShapeDtypeStruct((lanes,), jnp.int32)
        pending = Pending(state.action, self.no_transition(lanes, 0))
        due = {self.due(first + i) for first in starts for i in range(CHUNK)}
        learning = [updates for updates in due if updates or self.waits]
        lowered = [*reports, self._act.lower(*self._acting_part(state), bad, pending.inbox)]
        lowered += [self._lower_learning(updates, state, pending) for updates in learning]
        if not self.waits:
            lowered.append(self._store.lower(state.replay, *pending))
        compile_all(lowered)

    def advance(
        self, state: AgentState, vector: VectorEnv, alive: np.ndarray, step: int, until: int
    ) -> tuple[AgentState, int, list[Divergence]]:
        """Act and learn on, no further than `until`; see `agents.interface.Agent`."""
        if self.fuses(vector):
            cycle, reach = self.cycle_after(step)
            rounds = min(reach, until - step) // len(cycle) if reach >= CHUNK else 0
            if rounds:
                return self._fused_loop(vector, cycle)(state, alive, step, rounds)
            # Step by step, no further than to where a cycle repeats again.
            ahead = (i for i in range(1, CHUNK) if self.cycle_after(step + i)[1] >= CHUNK)
            until = min(until, step + next(ahead, CHUNK))
        count = self.environments
        until = min(until, step + (8 * CHUNK if self.on_gpu else CHUNK) * count)
        operations = self.operations_type(self, vector, alive, state)
        state, pending = self._packed(state), None
        for now in range(step + count, until + 1, count):
            updates = self.updates_of(now)
            state, pending, _, _ = environment_step(operations, updates, state, pending, now, None)
        operations.read_reply(until)
        return self._unpacked(self.store(state, pending)), until, operations.found

    def fuses(self, vector: VectorEnv) -> bool:
        """Whether programs step these environments themselves. Not where the strategy has
        `on_transition`: then learning waits for the environments."""
        return self.on_gpu and not self.waits and vector.xla is not None

    def cycle_after(self, step: int) -> tuple[tuple[Updates, ...], int]:
        """Return the cycle of updates that the next steps repeat, and how many steps do."""
        steps = range(step + 1, step + FUSED_STEPS + 1)
        truncate = self.strategy.schedule.truncate
        whole = sum(1 for _ in itertools.takewhile(lambda now: not truncate(now), steps))
        return longest_cycle(self._due, steps[:whole], LONGEST_CYCLE)

    # Programs, and what they take of a state.

    def store(self, state: AgentState, pending: Pending | None) -> AgentState:
        """Store the pending transition, if there is one, without learning."""
        if pending is None:
            return state
        return state._replace(replay=self._store(state.replay, *pending))

    def no_transition(self, lanes: int, step: int) -> Any:
        """A placeholder where there is no transition yet, as it is sent to the device."""
        envs, size = lanes * self.environments, self.spec.observation_size
        return self.sent(transfer.no_transition(envs, size, step))

    def _learning_part(self, state: AgentState) -> tuple[Any, ...]:
        memory = state.memory if self.waits else ()
        return state.learner, state.replay, memory, state.seed

    def _lower_learning(self, updates: Updates, state: AgentState, pending: Pending) -> Any:
        return self._learn(updates).lower(*self._learning_part(state), *pending)

    def _acting_part(self, state: AgentState) -> tuple[Any, ...]:
        learner = state.learner
        if self.on_gpu and not self.algorithm.act_changes_state:
            if self._read is None:
                lanes = len(state.seed)
                inbox = self.no_transition(lanes, 0)
                rest = state.memory, state.seed, all_finite(lanes), inbox
                self._read = reads(self._act_program, learner, *rest)
            learner = without_unread(learner, self._read)
        return learner, state.memory, state.seed

    def sent(self, inbox: Inbox) -> Any:
        """Encode a transition for its way to the device; for a CPU it stays as it is."""
        return transfer.encode(inbox) if self.on_gpu else inbox

    def _received(self, inbox: Any) -> Inbox:
        """The transition again, on the device, lanes in front."""
        return transfer.decode(inbox, self.spec.observation_size)

    def _packed(self, state: AgentState) -> AgentState:
        return state._replace(learner=_pack(state.learner)) if self.on_gpu else state

    def _unpacked(self, state: AgentState) -> AgentState:
        return state._replace(learner=_unpack(state.learner)) if self.on_gpu else state

    def _learn_program(self, updates: Updates) -> Any:
        each = self.lane.learn_all(updates)

        def learn(
            learner: Any,
            buffer: replay_buffer.Replay,
            memory: Any,
            seed: Array,
            action: Action,
            inbox: Any,
        ) -> Any:
            transition, new, step = self._received(inbox)
            if not self.waits:
                step = step + 1  # the one that is being made
            learned, *rest = each(
                unpack(learner), buffer, memory, seed, action, transition, new, step
            )
            return packed_like(learner, learned), *rest

        return jax.jit(with_precision(learn, self.precision), donate_argnums=(0, 1))

    def _store_program(
        self, buffer: replay_buffer.Replay, action: Action, inbox: Any
    ) -> replay_buffer.Replay:
        return jax.vmap(self.lane.insert)(buffer, action, self._received(inbox).transition)

    def _act_program(self, learner: Any, memory: Any, seed: Array, bad: Array, inbox: Any) -> Any:
        transition, _, step = self._received(inbox)
        given = unpack(learner), memory, seed, bad, transition
        new, memory, action, reply = self.lane.act_all(*given, step, jnp.any(transition.ended))
        new = packed_like(learner, new) if self.algorithm.act_changes_state else None
        reply = transfer.encode_reply(reply) if self.on_gpu else reply
        # The transition comes back as it is: `learn` takes it from here, not from the host again.
        return new, memory, action, reply, inbox
