"""Whole runs that must learn. Slow."""

import numpy as np
import pytest

import discover_rl
from discover_rl.strategies import STRATEGIES
from discover_rl.training import Observer


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pendulum_is_solved_within_15000_steps(tmp_path, strategy):
    results = discover_rl.train(
        "Pendulum-v1",
        algorithm="td3",
        strategy=strategy,
        steps=15_000,
        seeds=3,
        out=tmp_path,
        observer=Observer(),
        hidden=(64, 64),
        batch_size=128,
        actor_lr=1e-3,
        critic_lr=1e-3,
        **{"eval.every": 1000},
    )
    for result in results:
        # The best of the last evaluations: the policy is there, even if one evaluation is not.
        assert max(np.mean(returns) for returns in result.returns[-3:]) > -200, result.path
