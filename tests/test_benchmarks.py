"""Benchmarks run: each is tried once, at a size that measures nothing."""

import json
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
sys.path.append(str(BENCHMARKS))
import hlo_traffic  # noqa: E402  a script's module

TINY = ("--seconds", "0.01", "--set", "hidden=8,8", "--set", "batch_size=8")


def scaled(out: Path, *words: str) -> dict:
    """What `scale.py` finds for these arguments."""
    command = [sys.executable, str(BENCHMARKS / "scale.py"), *TINY, "--out", str(out), *words]
    subprocess.run(command, check=True, capture_output=True)
    content = json.loads(out.read_text())
    (found,) = content["measured"]
    return content | found


def moved(function, *shapes: tuple[int, ...], **how) -> int:
    """Bytes that the compiled function moves."""
    given = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    return hlo_traffic.traffic(jax.jit(function, **how).lower(*given).compile().as_text())


def test_traffic_is_what_kernels_read_and_write():
    assert moved(lambda x: -x, (1000,)) == 8000
    assert moved(lambda x, y: x @ y, (8, 16), (16, 4)) == 4 * (8 * 16 + 16 * 4 + 8 * 4)
    assert moved(lambda x: jax.lax.slice(x, (4,), (8,)) + 1, (1000,)) == 2 * 16


def test_what_is_changed_in_place_counts_as_what_is_written():
    def put(x, row):
        return x.at[3].set(2 * row)

    assert moved(put, (1000, 8), (8,), donate_argnums=0) < 200


@pytest.mark.slow
def test_bench_measures_another_checkout_in_turns_with_this_one(tmp_path):
    words = ("--peers", "none", "--only", "^A2C$", "--repetitions", "2", "--before", ".")
    command = [sys.executable, str(BENCHMARKS / "bench.py"), *words, "--out", "bench.json"]
    (tmp_path / "discover_rl").symlink_to(BENCHMARKS.parent / "discover_rl")
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path)
    measured = json.loads((tmp_path / "bench.json").read_text())["measured"]
    assert {name: len(found) for name, found in measured.items()} == {"A2C, before": 2, "A2C": 2}
    assert "times before" in done.stdout


@pytest.mark.slow
def test_scale_measures_a_point_with_its_limits(tmp_path):
    found = scaled(tmp_path / "scale.json", "Pendulum-v1:2:1e3")
    assert (found["task"], found["lanes"], found["replay"]) == ("Pendulum-v1", 2, 1000)
    assert found["settings"] == {"hidden": "8,8", "batch_size": "8"}
    assert found["lane_steps_per_second"] > 0
    assert found["milliseconds"].keys() == {"step", "environments", "learning", "acting"}
    assert all(number > 0 for number in found["roofline"].values())


@pytest.mark.slow
def test_scale_compares_a_setting_with_going_without_it(tmp_path):
    pytest.importorskip("envpool")
    words = ("--algorithm", "sac", "--strategy", "gaussian", "--backend", "envpool", "--no-limits")
    delayed = ("--against", "env.reward_delay=5")
    found = scaled(tmp_path / "scale.json", *words, *delayed, "Pendulum-v1:1:1e3")
    assert found["milliseconds"].keys() == {"step"}
    assert found["against"]["settings"] == {"env.reward_delay": "5"}
    assert len(found["against"]["ratios"]) == 9
    assert all(ratio > 0 for ratio in found["against"]["ratios"])


@pytest.mark.slow
def test_what_a_strategy_costs_is_measured_beside_gaussian_noise(tmp_path):
    out = tmp_path / "strategies.json"
    words = ("--turns", "2", "--only", "ppo pink$", "--out", str(out))
    command = [sys.executable, str(BENCHMARKS / "strategies.py"), *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert [line.split("  ")[0] for line in done.stdout.splitlines()[1:]] == [
        "ppo gaussian",
        "ppo pink",
    ]
    measured = json.loads(out.read_text())["measured"]
    assert measured.keys() == {"ppo gaussian", "ppo pink"}
    for turns in measured.values():
        assert len(turns) == 2
        assert all(0 < environment < whole for whole, environment in turns)
