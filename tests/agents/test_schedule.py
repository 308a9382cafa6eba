"""Schedules: updates that repeat become a loop, which is the same as one after the other."""

import jax
import numpy as np
import pytest

from discover_rl.agents.off_policy import schedule
from discover_rl.agents.off_policy.schedule import repeats
from discover_rl.core.types import StrategyEvent, Update
from tests.helpers import cells

A, B, C, E = Update(False, False), Update(True, True), Update(recent=5), StrategyEvent("own")


@pytest.mark.parametrize(
    ("updates", "parts"),
    [
        ((), []),
        ((A,), [((A,), 1)]),
        ((A, B), [((A,), 1), ((B,), 1)]),
        ((B,) * 64, [((B,), 64)]),
        ((A, B) * 32, [((A, B), 32)]),
        ((A,) * 3 + (B,) * 50, [((A,), 3), ((B,), 50)]),
        ((A, B, B, A, C, C), [((A,), 1), ((B,), 2), ((A,), 1), ((C,), 2)]),
        ((E, *(B,) * 50, E), [((E,), 1), ((B,), 50), ((E,), 1)]),
    ],
)
def test_what_repeats_is_found(updates, parts):
    assert repeats(updates) == parts
    assert sum((pattern * times for pattern, times in parts), ()) == updates


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("sac", {"updates": 2}),
        ("td3", {"updates": 4, "delay": 2}),
    ],
)
def test_a_loop_of_updates_is_one_after_the_other(monkeypatch, algorithm, settings):
    seeds = [5, 1]
    settings = settings | {"train_every": 3}

    def outcome():
        agent = cells.build(algorithm, "none", **settings)
        begun = cells.begin(agent, seeds, *cells.hypers(algorithm, "none", **settings))
        return jax.device_get(cells.run(agent, begun, seeds, 8))

    looped, actions = outcome()
    monkeypatch.setattr(schedule, "repeats", lambda updates: [((one,), 1) for one in updates])
    unrolled, same_actions = outcome()
    # Learning starts after 4 steps, so there is one round, after step 7.
    assert looped.learner.critic_optimiser[0].count.tolist() == [settings["updates"]] * 2
    np.testing.assert_allclose(actions, same_actions, rtol=1e-4, atol=1e-5)
    cells.assert_close(looped.learner, unrolled.learner, 1e-4)
