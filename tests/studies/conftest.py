"""A small study, and a machine with one core."""

from pathlib import Path

import pytest

from discover_rl.system import hardware

SMALL = """
steps = 120
seeds = 2

[set]
hidden = [8]
batch_size = 8
warmup = 40
"eval.every" = 60
"eval.episodes" = 1

[grid]
task = "Pendulum-v1"
algorithm = "td3"
strategy = ["none", "gaussian"]
"""


@pytest.fixture
def small(tmp_path) -> Path:
    """A file that declares the small study; tests may rewrite it."""
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def one_core(monkeypatch):
    """With one core, a group of runs is not divided to occupy several cores."""
    monkeypatch.setattr(hardware, "cores", lambda: 1)
