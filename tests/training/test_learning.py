"""Complete runs that must learn. Slow."""

import numpy as np
import pytest

import discover_rl
from discover_rl.training.observers import Observer

SMALL = {"hidden": (64, 64), "batch_size": 128, "actor_lr": 1e-3, "critic_lr": 1e-3}
SETTINGS = {
    "td3": SMALL,
    "sac": SMALL | {"temperature_lr": 1e-3},
    # The paper's slow targets are for a million steps.
    "ddpg": SMALL | {"tau": 0.005, "weight_decay": 0.0},
}


def trained(out, algorithm, strategy, steps, seeds=1, **settings):
    """Train on Pendulum-v1, evaluating every 1,000 steps; return the results."""
    return discover_rl.train(
        "Pendulum-v1",
        algorithm=algorithm,
        strategy=strategy,
        steps=steps,
        seeds=seeds,
        out=out,
        observer=Observer(),
        **{"eval.every": 1000} | SETTINGS[algorithm] | settings,
    )


def best_of_the_last(evaluations, result):
    """The best mean return of the last ones: a single one may be bad by chance."""
    return max(np.mean(returns) for returns in result.returns[-evaluations:])


# Each takes a minute, so not every pair is here.
CELLS = [
    *[("td3", "gaussian"), ("td3", "noisynet"), ("td3", "discover")],
    *[("ddpg", "psne"), ("ddpg", "discover"), ("sac", "coherent"), ("sac", "discover")],
]


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "strategy"), CELLS)
def test_pendulum_is_solved_within_15000_steps(tmp_path, algorithm, strategy):
    for result in trained(tmp_path, algorithm, strategy, 15_000, seeds=3):
        assert best_of_the_last(3, result) > -250, result.path


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "count"), [("td3", 4), ("sac", 8), ("ddpg", 4)])
def test_pendulum_is_solved_as_soon_by_several_environments(tmp_path, algorithm, count):
    """The same bound after the same steps as with one environment."""
    several = {"env.count": count}
    for result in trained(tmp_path, algorithm, "discover", 15_000, seeds=3, **several):
        assert best_of_the_last(3, result) > -250, result.path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "strategy", "settings"),
    [
        # The default divergence is for the 17 actions of Humanoid; Pendulum has one.
        ("sac", "oac", {"strategy.delta": 1.0}),
        ("sac", "rnd", {"strategy.weight": 0.1}),
        ("td3", "see", {}),
        ("sac", "see", {}),
    ],
)
def test_pendulum_is_solved_by_optimism_a_bonus_or_a_second_policy(
    tmp_path, algorithm, strategy, settings
):
    settings = {"eval.episodes": 5} | settings
    for result in trained(tmp_path, algorithm, strategy, 9000, seeds=2, **settings):
        assert best_of_the_last(3, result) > -250, result.path


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "strategy"),
    [("td3", "pink"), ("td3", "zeta"), ("td3", "corner"), ("sac", "gsde"), ("td3", "seek")],
)
def test_pendulum_is_learned_with_any_noise(tmp_path, algorithm, strategy):
    settings = {"eval.episodes": 5, "batch_size": 64}
    (result,) = trained(tmp_path, algorithm, strategy, 10_000, **settings)
    assert np.mean(result.returns[0]) < -800
    assert best_of_the_last(4, result) > -300, result.path


SHORT = {"hidden": (64, 64), "lr_decay": 0.0, "gae_lambda": 0.95}
ROLLOUTS = {
    "ppo": SHORT | {"horizon": 512, "minibatches": 8, "actor_lr": 1e-3},
    "a2c": SHORT | {"horizon": 64},
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "strategy"),
    [
        *[("ppo", "none"), ("ppo", "psne"), ("ppo", "discover")],
        *[("ppo", "pink"), ("ppo", "gsde")],
        *[("a2c", "noisynet"), ("a2c", "coherent"), ("a2c", "discover")],
    ],
)
def test_a_pole_is_balanced_on_policy(tmp_path, algorithm, strategy):
    """An untrained policy lets the pole fall within 30 steps; the largest return is 1000."""
    steps = 12_288 if algorithm == "ppo" else 24_576
    results = discover_rl.train(
        "InvertedPendulum-v5",
        algorithm=algorithm,
        strategy=strategy,
        steps=steps,
        seeds=2,
        out=tmp_path,
        observer=Observer(),
        **{"eval.every": steps // 6, "eval.episodes": 5},
        **ROLLOUTS[algorithm],
        # Where its noise starts by preset, the pole asks for more steps.
        **({"strategy.initial_log_std": 0.0} if strategy == "gsde" else {}),
    )
    for result in results:
        assert np.mean(result.returns[0]) < 30
        assert best_of_the_last(3, result) > 200, result.path
