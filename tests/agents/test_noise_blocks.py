"""The random numbers of rollouts, drawn in blocks."""

import numpy as np

from discover_rl.agents.on_policy import noise
from discover_rl.agents.on_policy.noise import NoiseBlocks
from tests.agents.test_on_policy import HORIZON, SEEDS, agent_of
from tests.helpers import cells


def test_the_noise_of_a_rollout_does_not_depend_on_the_block_it_is_drawn_in(monkeypatch):
    """Several rollouts are drawn by one call; each has the numbers of its own first step."""
    draw, seeds = agent_of("ou", 3).algorithm.draw, np.asarray(SEEDS, np.uint32)
    blocks = NoiseBlocks(draw, HORIZON, 3)
    monkeypatch.setattr(noise, "BLOCK", 1)
    alone = NoiseBlocks(draw, HORIZON, 3)
    calls, drawn = [], blocks._draw
    monkeypatch.setattr(blocks, "_draw", lambda *given: calls.append(1) or drawn(*given))
    for rollout in range(3):
        first = rollout * HORIZON * 3
        expected = alone.of(seeds, first)
        assert len(expected) == HORIZON
        cells.assert_same(blocks.of(seeds, first + HORIZON), expected)
    assert len(calls) == len(seeds)
