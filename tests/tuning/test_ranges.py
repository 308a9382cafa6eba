"""Ranges and requests of a tuning: what is accepted, and the messages about mistakes."""

import pytest

from discover_rl import tuning
from discover_rl.config import Request
from discover_rl.core.types import UserError
from discover_rl.tuning.ranges import Range
from tests.tuning.test_tune import RANGES


def planned(ranges, algorithm="td3", **settings) -> tuning.Plan:
    request = Request("Pendulum-v1", algorithm, "discover", 10_000, 1, settings)
    return tuning.make_plan(request, ranges)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("strategy.lam", "0:1", Range((0.0, 1.0))),
        ("strategy.lam", (0, 1), Range((0.0, 1.0))),
        ("actor_lr", " 1e-5 : 1e-2 : log", Range((1e-5, 1e-2), log=True)),
        ("actor_lr", (1e-5, 1e-2, "log"), Range((1e-5, 1e-2), log=True)),
        ("batch_size", "64:256:log", Range((64, 256), log=True)),
        ("batch_size", "64,128,256", Range(choices=(64, 128, 256))),
        ("strategy.delayed", [True, False], Range(choices=(True, False))),
        ("strategy.delayed", "on,off", Range(choices=(True, False))),
        ("hidden", "64,64;256", Range(choices=("64,64", "256"))),
        ("hidden", [(64, 64), 256], Range(choices=("64,64", "256"))),
        ("gamma", "0.9,0.99", Range(choices=(0.9, 0.99))),
        ("env.action_repeat", "1,2", Range(choices=(1, 2))),  # records leave the 1 out
    ],
)
def test_a_range_has_the_type_of_its_setting(name, given, expected):
    found = planned({name: given}).ranges[name]
    assert found == expected
    assert [type(value) for value in found.values] == [type(value) for value in expected.values]
    assert planned({name: str(found)}).ranges[name] == expected  # as request.json has it


@pytest.mark.parametrize(
    ("ranges", "sentence"),
    [
        ({}, "There is nothing to tune; --range actor_lr=1e-5:1e-2:log is a range."),
        ({"gama": "0:1"}, "There is no setting gama. Did you mean gamma?"),
        ({"gamma": "0.9:1.5"}, "gamma must be at least 0 and at most 1, not 1.5."),
        ({"gamma": "0.9,1.5"}, "gamma must be at least 0 and at most 1, not 1.5."),
        ({"delay": "1:2.5"}, "delay must be a whole number, not '2.5'."),
        ({"gamma": "1:0.9"}, "gamma must go from a lower number to a higher, not 1.0 to 0.9."),
        ({"gamma": "0:1:log"}, "gamma must start above 0 to go by its logarithm, not at 0.0."),
        ({"gamma": "0.9,0.90"}, "gamma must have choices without repetition."),
        ({"hidden": "8:64"}, "hidden is not a number; give it choices, hidden=a,b."),
        (
            {"strategy.acts": "0:1"},
            "strategy.acts is not a number; give it choices, strategy.acts=a,b.",
        ),
        (
            {"eval.every": "1:9"},
            "eval.every is how trials are measured; use --set, the same for all.",
        ),
        *(
            (
                {"gamma": wrong},
                "A range is NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=a,b,c, not gamma="
                + str(wrong),
            )
            for wrong in ("0.9", "0:1:lin", "0:0.5:1", 0.9)
        ),
    ],
)
def test_a_wrong_range_is_one_sentence(ranges, sentence):
    with pytest.raises(UserError) as caught:
        planned(ranges)
    assert str(caught.value).removesuffix(".") == sentence.removesuffix(".")


def test_a_setting_has_one_value_or_a_range():
    with pytest.raises(UserError, match="tau is both set and tuned"):
        planned({"tau": "0:1"}, tau=0.5)
    with pytest.raises(UserError, match="tau has several values; --range tau=a,b tries"):
        planned({"gamma": "0:1"}, tau="0.1,0.2")


def test_lanes_are_trials_times_seeds():
    request = Request("Pendulum-v1", "td3", "discover", 10_000, 3, {})
    assert tuning.make_plan(request, RANGES).batch == 8
    assert tuning.make_plan(request, RANGES, lanes=10).batch == 3
    with pytest.raises(UserError, match="lanes must be at least 3, one for each seed, not 2"):
        tuning.make_plan(request, RANGES, lanes=2)


def test_ten_thousand_choices_are_refused_at_once():
    choices = ",".join(f"0.{number:05}" for number in range(10_000))
    with pytest.raises(UserError, match="gamma must have 1,000 choices at most"):
        planned({"gamma": choices})
