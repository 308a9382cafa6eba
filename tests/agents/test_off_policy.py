"""The off-policy agent: in which order it acts, learns and stores, and what goes to the device."""

import functools
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from discover_rl.agents.off_policy import agent as agents
from discover_rl.agents.off_policy import packing, transfer
from discover_rl.agents.off_policy.lane import Reply
from discover_rl.agents.off_policy.transfer import Inbox
from discover_rl.core import networks
from tests.helpers import cells

SEEDS = [5, 1]
BOTH = np.ones(2, bool)
# What packs, by the modules that call it.
PACKING = {transfer: ("encode", "encode_reply"), agents: ("pack", "_pack", "_unpack")}


# The order


def test_a_transition_is_learned_from_when_the_next_is_being_made():
    agent = cells.build("td3", "none", warmup=1, batch_size=4)
    state = cells.begin(agent, SEEDS, *cells.hypers("td3", "none", warmup=1, batch_size=4))
    state, _ = cells.tick(agent, state, cells.transition_at(SEEDS, 1), 1)
    learners = []
    for other in (0.0, 1.0):
        now = jax.tree.map(jnp.array, state)
        transition = cells.transition_at(SEEDS, 2)
        changed = transition._replace(reward=transition.reward + other)
        now, _ = cells.tick(agent, now, changed, 2)
        learners.append(jax.device_get(now.learner))
        now, _ = cells.tick(agent, now, cells.transition_at(SEEDS, 3), 3)
        learners.append(jax.device_get(now.learner))
    second, third, second_other, third_other = learners
    assert second.critic_optimiser[0].count.tolist() == [1, 1]
    cells.assert_same(second, second_other)
    different = third.critics["layer0"]["weight"] != third_other.critics["layer0"]["weight"]
    assert different.any(axis=(1, 2, 3)).all()


def test_every_action_is_chosen_by_the_newest_parameters():
    agent = cells.build("td3", "none", warmup=1)
    state = cells.begin(agent, SEEDS, *cells.hypers("td3", "none", warmup=1))
    for step in range(1, 6):
        transition = cells.transition_at(SEEDS, step)
        state, reply = cells.tick(agent, state, transition, step)
        expected = networks.mean_action(agent.head, agent.nets(state), transition.obs[:, None])
        np.testing.assert_allclose(reply.executed, expected[:, 0], rtol=1e-5, atol=1e-6)


def test_steps_in_one_call_are_the_steps_of_one_call_each():
    """In one call, a transition is stored by the program that learns; else by one of its own."""
    agent = cells.build("td3", "none", warmup=3)
    hypers = cells.hypers("td3", "none", warmup=3)
    apart, _ = cells.run(agent, cells.begin(agent, SEEDS, *hypers), SEEDS, 10)
    begun = cells.begin(agent, SEEDS, *hypers)
    together, step, _ = agent.advance(begun, cells.Answers(SEEDS), BOTH, 0, 10)
    assert step == 10
    cells.assert_same(jax.device_get(together), jax.device_get(apart))


# What goes to the device


class Recorder:
    """A program that notes what it is given and what it returns."""

    def __init__(self, program):
        self.program, self.given, self.returned = program, [], []

    def __call__(self, *given):
        self.given.append(given)
        self.returned.append(self.program(*given))
        return self.returned[-1]


def never(*_):
    raise AssertionError("on a CPU there is nothing to pack")


@functools.cache
def recorded(on_gpu: bool) -> tuple[Recorder, Recorder, list[Recorder]]:
    """The programs of an agent for acting, storing and learning, after ten steps in one call.

    On a CPU, nothing may be called that packs.
    """
    agent = cells.build("td3", "none", warmup=3)
    agent.on_gpu = on_gpu
    act, store, learn = Recorder(agent._act), Recorder(agent._store), {}
    program = agent._learn

    def learn_program(updates):
        return learn.setdefault(updates, Recorder(program(updates)))

    agent._act, agent._store, agent._learn = act, store, learn_program
    state = cells.begin(agent, SEEDS, *cells.hypers("td3", "none", warmup=3))
    with pytest.MonkeyPatch.context() as patch:
        for module, names in PACKING.items() if not on_gpu else ():
            for name in names:
                patch.setattr(module, name, never)
        state, step, _ = agent.advance(state, cells.Answers(SEEDS), BOTH, 0, 10)
    assert step == 10 == len(act.given)
    return act, store, [*learn.values()]


@pytest.mark.parametrize("on_gpu", [False, True])
def test_a_transition_is_handed_to_the_device_once(on_gpu):
    """Acting gets it from the host; storing and learning get the arrays that acting returned."""
    act, store, learn = recorded(on_gpu)
    returned = [outcome[-1] for outcome in act.returned]
    for step, (given, inbox) in enumerate(zip(act.given, returned, strict=True), 1):
        plain = transfer.plain(cells.transition_at(SEEDS, step), step)
        expected = transfer.encode(plain) if on_gpu else plain
        assert all(isinstance(leaf, np.ndarray | np.generic) for leaf in jax.tree.leaves(given[-1]))
        assert all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(inbox))
        cells.assert_same(given[-1], expected)
        cells.assert_same(inbox, expected)
    # The steps of the transitions that each program got, known by the arrays themselves.
    stored, learned = (
        [which(returned, given[-1]) for program in programs for given in program.given]
        for programs in ([store], learn)
    )
    # Steps 1 to 3 are warm-up: the transitions of the first two are stored while nothing is
    # learned. That of the last is stored before the call returns.
    assert stored == [1, 2, 10]
    assert sorted(learned) == list(range(3, 10))


def which(returned: list, inbox) -> int:
    """The step whose transition these arrays are."""
    (step,) = (
        step
        for step, other in enumerate(returned, 1)
        if all(a is b for a, b in zip(*map(jax.tree.leaves, (inbox, other)), strict=True))
    )
    return step


def test_on_a_cpu_nothing_is_packed_into_bits():
    act, store, learn = recorded(False)
    assert len(learn) == 2  # with and without the actor
    for program in (act, store, *learn):
        for given in program.given:
            assert isinstance(given[-1], Inbox)
            assert not any(isinstance(part, packing.Packed) for part in given)
    for _, _, _, reply, inbox in act.returned:
        assert isinstance(reply, Reply)
        assert isinstance(inbox, Inbox)


def test_as_on_a_gpu_one_array_goes_each_way():
    act, _, learn = recorded(True)
    size, actions = cells.SPEC.observation_size, cells.SPEC.action_size
    for given, (*_, reply, inbox) in zip(act.given, act.returned, strict=True):
        assert given[-1].shape == inbox.shape == (2, transfer.width(size))
        assert reply.shape == (2, actions + 1)
    for program in (act, *learn):
        assert all(isinstance(given[0], packing.Packed) for given in program.given)


def test_what_evaluations_report_is_compiled_before_the_first_step():
    """Its compilation would else count as time of the first evaluation."""
    agent, compiled = cells.build("td3", "none", warmup=2, train_every=64), []
    state = cells.begin(agent, [0], *cells.hypers("td3", "none", warmup=2, train_every=64))
    agent.prepare(state, SimpleNamespace(), 0)

    def listen(event, seconds, **about):
        compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        agent.report(state, np.int32(20))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert not [event for event in compiled if "backend_compile" in event]
