"""Amplitudes in records, sweeps, studies, tunings and whole runs."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from discover_rl import studies, tuning
from discover_rl.config import Request, cohorts, resolve
from discover_rl.core.schedules import Amplitude
from discover_rl.core.types import UserError
from discover_rl.report import published
from discover_rl.storage.records import Record
from discover_rl.training import job, launch
from discover_rl.tuning.ranges import Range
from tests.cli.test_cli import discover as command
from tests.core.test_schedules import parsed
from tests.helpers.trainings import assert_same_files, runs_of, stop_at


@settings(deadline=None)  # on a busy machine the first example may take long
@given(
    st.floats(0, 1, allow_subnormal=False),
    st.floats(0, 1, allow_subnormal=False),
    st.floats(0, 1, exclude_min=True, allow_subnormal=False),
)
def test_its_word_makes_it_again_to_the_last_digit(start, end, share):
    made = Amplitude(start, end, share)
    written = json.loads(json.dumps(made.to_json()))
    assert parsed(written) == parsed(str(made)) == made


def test_a_record_shows_it_and_knows_another(tmp_path):
    word = "linear:0.6:0.1:0.5"
    asked = {"strategy": "gaussian", "seeds": 1}
    (run,) = runs_of(**asked, **{"strategy.sigma": word})
    assert run.to_json()["settings"]["strategy.sigma"] == word
    record = Record(tmp_path / run.name / "record.jsonl")
    record.begin({"run": run.to_json()})
    again = Record(record.path).header["run"]
    assert job.difference(again, run.to_json()) == ""
    for other in ("linear:0.6:0.1:0.4", 0.6):
        (unlike,) = runs_of(**asked, **{"strategy.sigma": other})
        said = f"strategy.sigma is {word} there and {other} here"
        assert job.difference(again, unlike.to_json()) == said
        with pytest.raises(UserError, match=said):
            job.open_record(unlike, tmp_path)
    (same,) = runs_of(**asked, **{"strategy.sigma": again["settings"]["strategy.sigma"]})
    assert same == run
    (constant,) = runs_of(**asked, **{"strategy.sigma": "linear:0.3:0.3"})
    assert constant.to_json()["settings"]["strategy.sigma"] == 0.3


@pytest.mark.slow
def test_an_evaluation_has_the_number_of_its_moment(tmp_path):
    """Of a line, whatever the strategy logs; a constant is in the first line alone."""
    asked = {"strategy": "gaussian", "seeds": 1, "steps": 60, "eval.every": 20, "warmup": 60}
    runs = runs_of(**asked, **{"strategy.sigma": "linear:0.6:0.1:0.5,0.3"})
    line, constant = launch.train(runs, tmp_path).values()
    assert [it["step"] for it in line.evaluations] == [0, 20, 40, 60]
    found = [it["report"]["sigma"] for it in line.evaluations[1:]]
    assert found == pytest.approx([0.6 - 0.5 * 2 / 3, 0.1, 0.1])
    assert not any("sigma" in it.get("report", {}) for it in constant.evaluations)


@pytest.mark.parametrize(
    ("strategy", "name"),
    [("ou", "sigma"), ("discover", "lam"), ("rnd", "weight"), ("oac", "delta")],
)
def test_every_amplitude_that_changes_is_shown(strategy, name):
    asked = {f"strategy.{name}": "linear:0.4:0.2:0.5"}
    (run,) = resolve(Request("Pendulum-v1", "td3", strategy, 1000, 1, asked))
    assert run.amplitudes(250) == {name: pytest.approx(0.3)}
    assert run.amplitudes(750) == {name: pytest.approx(0.2)}
    (constant,) = resolve(Request("Pendulum-v1", "td3", strategy, 1000, 1))
    assert constant.amplitudes(250) == {}


@pytest.mark.parametrize("given", ["linear:0.6:0.1:0.5,0.3", ["linear:0.6:0.1:0.5", 0.3]])
def test_schedules_and_constants_are_swept_as_lanes_of_one_cohort(given):
    runs = resolve(Request("Pendulum-v1", "td3", "gaussian", 1000, 2, {"strategy.sigma": given}))
    assert [run.name for run in runs] == [
        f"strategy.sigma={it}/seed-{seed}"
        for it in ("linear-0.6-0.1-0.5", "0.3")  # no folder has a colon in its name
        for seed in (0, 1)
    ]
    assert len(cohorts(runs)) == 1
    assert {run.strategy_hyper.sigma for run in runs} == {Amplitude(0.6, 0.1, 0.5), 0.3}


@pytest.mark.parametrize("given", ["0.3,linear:0.3:0.3:0.5", "linear:0.6:0.1,linear:0.6:0.1:1"])
def test_a_sweep_has_nothing_twice(given):
    with pytest.raises(UserError, match=r"strategy\.sigma must be a number or a list without rep"):
        resolve(Request("Pendulum-v1", "td3", "gaussian", 1000, 1, {"strategy.sigma": given}))


def test_a_sweep_over_numbers_keeps_the_names_of_its_folders():
    sweep = {"strategy.lam": "1,0.3,0.12345678,1e-07"}
    names = [run.name for run in resolve(Request("Pendulum-v1", settings=sweep))]
    expected = [f"strategy.lam={float(it)}/seed-0" for it in sweep["strategy.lam"].split(",")]
    assert names == expected  # as before there were schedules


def test_a_study_may_have_them_in_its_grid():
    text = """
    steps = 240
    [grid]
    task = "Pendulum-v1"
    algorithm = "td3"
    strategy = "discover"
    "strategy.lam" = ["linear:0.3:0.0", 0.3]
    """
    study = studies.declared(text, "mine", "mine.toml")
    folder = "Pendulum-v1/td3/discover/strategy.lam="
    assert study.names == [f"{folder}linear-0.3-0.0/seed-0", f"{folder}0.3/seed-0"]
    assert [run.strategy_hyper.lam for run in study.runs] == [Amplitude(0.3, 0.0), 0.3]
    assert [published.key(cell) for cell in study.cells] == [None, None]


# Tuning.


def planned(given) -> Range:
    request = Request("Pendulum-v1", "td3", "gaussian", 1000, 1)
    return tuning.make_plan(request, {"strategy.sigma": given}).ranges["strategy.sigma"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("0.1:0.6", Range((0.1, 0.6))),
        ("0.01:1:log", Range((0.01, 1.0), log=True)),
        ((0, 1), Range((0.0, 1.0))),
        ("0.1,0.3", Range(choices=(0.1, 0.3))),
        ("linear:0.6:0.1:0.5,0.3", Range(choices=("linear:0.6:0.1:0.5", 0.3))),
        ("linear:0.6:0.1:0.5;0.3", Range(choices=("linear:0.6:0.1:0.5", 0.3))),
        (["linear:0.6:0.1:0.5", 0.3], Range(choices=("linear:0.6:0.1:0.5", 0.3))),
    ],
)
def test_a_range_is_of_constants_and_choices_may_be_schedules(given, expected):
    assert planned(given) == expected
    assert planned(str(planned(given))) == expected


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            ("linear:0.6:0.1", 1),
            "strategy.sigma is not a number; give it choices, strategy.sigma=a,b",
        ),
        ("linear:0.6:0.1:0.5", "A range is NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=a,b,c, not"),
        ("-1:1", "strategy.sigma must be at least 0 and at most 100, not -1"),
        (
            "linear:0.6:-1,0.3",
            "strategy.sigma must be at least 0 and at most 100, not linear:0.6:-1",
        ),
    ],
)
def test_what_is_no_range_of_an_amplitude_is_said(given, sentence):
    with pytest.raises(UserError) as caught:
        planned(given)
    assert str(caught.value).startswith(sentence)


# Users.


def test_the_list_of_settings_says_where_a_schedule_is_possible(capfd):
    assert command("list", "gaussian") == 0
    (line,) = [line for line in capfd.readouterr().out.splitlines() if "strategy.sigma" in line]
    assert " 0.1 " in line
    assert line.endswith("(0 to 100, or linear:FROM:TO:SHARE)")
    assert command("list", "ou") == 0
    lines = [line for line in capfd.readouterr().out.splitlines() if "linear:" in line]
    assert len(lines) == 1  # θ and dt are floats


@pytest.mark.slow
@pytest.mark.parametrize(("algorithm", "strategy"), [("td3", "gaussian"), ("ppo", "ou")])
def test_a_stopped_run_goes_on_where_its_schedule_was(tmp_path, algorithm, strategy):
    word = {"strategy.sigma": "linear:0.6:0.1:0.5,0.3"}
    runs = runs_of(algorithm=algorithm, strategy=strategy, seeds=1, **word)
    launch.train(runs, tmp_path / "whole")
    for step in (36, 102):
        assert stop_at(step, runs, tmp_path / "stopped") == step
    launch.train(runs, tmp_path / "stopped")
    assert_same_files(tmp_path / "whole", tmp_path / "stopped")
