"""Every number has a limit: what is beyond it is refused in one sentence, at once."""

import contextlib
import dataclasses
import itertools
import math
import re
import time
import typing

import pytest

from discover_rl import algorithms, strategies
from discover_rl.algorithms import ALGORITHMS
from discover_rl.config import MOST_RUNS, SHARED, Request, check_seeds, check_steps, resolve
from discover_rl.core.hyperparameters import limits
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import UserError
from discover_rl.strategies import STRATEGIES
from discover_rl.studies import declared
from discover_rl.system import hardware
from tests.cli.test_cli import discover

CLASSES = {
    **{f"{name}: ": algorithms.load(name).Hyper for name in ALGORITHMS},
    **{f"{name}: strategy.": strategies.load(name).Hyper for name in STRATEGIES},
    **SHARED,
}
NUMBERS = (int, float, Amplitude, tuple[int, ...])
FIELDS = {
    prefix + field.name: (cls, field)
    for prefix, cls in CLASSES.items()
    for field in dataclasses.fields(cls)
    if typing.get_type_hints(cls)[field.name] in NUMBERS
}


@contextlib.contextmanager
def within(seconds: float):
    """The processor's time is counted: the clock's depends on what else runs on the machine."""
    began = time.process_time()
    yield
    assert time.process_time() - began < seconds


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_that_is_a_number_has_a_finite_range(name):
    """A new setting without one fails here: give it low= or above=, and high=."""
    _, field = FIELDS[name]
    low, high, above = (field.metadata[it] for it in ("low", "high", "above"))
    start = low if above is None else above
    assert start is not None
    assert high is not None
    assert math.isfinite(start)
    assert start < high <= 10**9
    assert limits(field.metadata)  # which `discover list` shows


SENTENCES = {
    "--set eval.episodes=1e308": "eval.episodes must be at least 1 and at most 100,000, not 1e308.",
    "--set replay_size=1e15": (
        "replay_size must be at least 1 and at most 1,000,000,000, not 1e15."
    ),
    "--set actor_lr=1e308": "actor_lr must be at least 0 and at most 1, not 1e308.",
    "--set strategy.lam=1e308": "strategy.lam must be at least 0 and at most 100, not 1e308.",
    "--set batch_size=٣٢": "batch_size must be a whole number, not '٣٢'.",
    "--seeds 2000000000": "seeds must be 10,000 at most.",
    "--steps 3000000000": "steps must be 1,000,000,000 at most.",
}


@pytest.mark.parametrize("words", SENTENCES)
def test_a_number_without_sense_is_one_sentence_within_a_second(
    tmp_path, monkeypatch, capfd, words
):
    monkeypatch.chdir(tmp_path)
    with within(1):
        assert discover("train", "Pendulum-v1", *words.split()) == 2
    assert capfd.readouterr() == ("", SENTENCES[words] + "\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "way_out"),
    [
        ("--set hidden=1000000,1000000", "choose smaller networks than hidden=1000000,1000000"),
        ("--set batch_size=1000000 --set hidden=4000,4000", r"--set batch_size=\d+ would fit"),
        ("--set eval.episodes=100000", r"--set eval.episodes=\d+ would fit"),
        ("--seeds 10000", "train fewer at once"),
        ("--seeds 100 --processes 100", "train fewer at once"),
    ],
)
def test_numbers_that_are_too_large_together_are_compared_with_the_memory(
    tmp_path, monkeypatch, capfd, words, way_out
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hardware, "available_memory", lambda: 20 * 10**9)
    words = ["train", "Pendulum-v1", "--steps", "1000000", *words.split()]
    assert discover(*words) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert re.search(way_out, err)


@pytest.mark.parametrize(
    "words",
    [
        *("run smoke --shard ٣/٤", "run smoke --shard 1/100000000000", "run smoke --shard 1/1/1"),
        *("run smoke --processes 1000000", "run smoke --minutes 1e308", "run smoke --minutes nan"),
        *("theory --seeds 1000000", "tune Pendulum-v1 --range gamma=0:1 --seeds 2000000000"),
        *("tune Pendulum-v1 --range gamma=0:1 --trials 1000000000", "report smoke --until 0"),
        *("tune Pendulum-v1 --range gamma=0:1 --lanes 1000000000", "evaluate . --episodes 1000000"),
        *("train Pendulum-v1 --processes 100000", "visitation . . --points 100000000"),
        *("train Pendulum-v1 --steps ٣", "train Pendulum-v1 --seeds ٣"),
    ],
)
def test_options_have_limits_too(tmp_path, monkeypatch, capfd, words):
    monkeypatch.chdir(tmp_path)
    with within(1):
        assert discover(*words.split()) == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)


def test_a_sweep_asks_for_no_more_runs_than_seeds_may():
    many = {"gamma": [i / 1000 for i in range(999)], "tau": [i / 1000 for i in range(999)]}
    with pytest.raises(UserError, match="998,001 runs are asked for"):
        resolve(Request("Pendulum-v1", settings=many))


def test_endless_seeds_and_steps_beyond_32_bits_are_refused():
    assert check_steps(10**9) == 10**9
    for steps in (10**9 + 1, 2**31, 1e308, 10**400):
        with pytest.raises(UserError, match="steps must be 1,000,000,000 at most"):
            check_steps(steps)
    assert len(check_seeds(MOST_RUNS)) == MOST_RUNS
    for seeds in (MOST_RUNS + 1, 10**30, itertools.count()):
        with pytest.raises(UserError, match="seeds must be 10,000 at most"):
            check_seeds(seeds)


GRID = """
steps = 1_000
seeds = {seeds}
[grid]
task = "Pendulum-v1"
algorithm = "td3"
strategy = "none"
gamma = {values}
tau = {values}
"""


@pytest.mark.parametrize(
    ("values", "seeds", "sentence"),
    [
        (3163, 1, "mine.toml has 10,004,569 combinations, and a study 10,000 at most"),
        (100, 11, "mine.toml has 110,000 runs, and a study 100,000 at most"),
        (2, 10**9, "mine.toml: seeds must be 10,000 at most."),
    ],
)
def test_a_grid_of_ten_million_cells_is_one_sentence_within_a_second(values, seeds, sentence):
    text = GRID.format(values=[i / values for i in range(values)], seeds=seeds)
    with within(1), pytest.raises(UserError, match=sentence):
        declared(text, "mine", "mine.toml")


def test_the_largest_study_is_declared_in_seconds():
    text = GRID.format(values=[i / 100 for i in range(100)], seeds=10)
    with within(3):
        assert len(declared(text, "mine", "mine.toml").cells) == 10_000


def test_a_study_whose_runs_do_not_fit_is_refused_before_it_starts(tmp_path, monkeypatch, capfd):
    text = GRID.format(values=0.5, seeds=1) + "hidden = [[1_000_000, 1_000_000]]\n"
    (tmp_path / "mine.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert discover("run", "mine.toml") == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("mine.toml, Pendulum-v1/td3/none: Pendulum-v1 needs about")
    assert not (tmp_path / "results").exists()
