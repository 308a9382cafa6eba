"""Strategies that learn or differentiate while acting: runs of theirs go on exactly. Slow."""

import pytest

from discover_rl.training import launch
from tests.helpers.trainings import assert_same_files, runs_of, stop_at


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "strategy", "settings"),
    [
        ("ddpg", "oac", {"strategy.delta": "linear:2:0.5:0.5"}),
        ("td3", "rnd", {"strategy.weight": "linear:1:0:0.5"}),
        ("a2c", "rnd", {}),
        ("td3", "see", {"strategy.mixing": "alternate"}),
        ("td3", "seek", {"strategy.noise": "pink", "strategy.lam": "linear:1:0.5"}),
        ("a2c", "corner", {"strategy.noise": "pink", "env.count": 2}),
    ],
)
def test_a_run_that_is_stopped_goes_on_exactly(tmp_path, algorithm, strategy, settings):
    """Records, policies and all other files are those of a run that was never stopped."""
    asked = {"algorithm": algorithm, "strategy": strategy, "steps": 130, **settings}
    launch.train(runs_of(**asked), tmp_path / "whole")
    stop_at(85, runs_of(**asked), tmp_path / "stopped")
    launch.train(runs_of(**asked), tmp_path / "stopped")
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")
