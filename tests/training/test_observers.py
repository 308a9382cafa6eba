"""Observers: every observer gets every event, and others read what observers write."""

import typing

import numpy as np
import pandas
import pytest

import discover_rl
from discover_rl import config
from discover_rl.storage import checkpoints
from discover_rl.storage.policies import load_policy
from discover_rl.storage.records import Record
from discover_rl.training import observers
from discover_rl.training.events import (
    Compiling,
    Ended,
    Evaluated,
    EvaluationTime,
    Event,
    Finished,
    Measured,
    Noted,
    Started,
    Stepped,
)
from discover_rl.training.observers import FailSafeObservers, Observer, Observers
from discover_rl.training.observers.tensorboard import TensorBoard
from discover_rl.training.observers.weights_and_biases import WeightsAndBiases
from tests.cli.test_cli import SETTINGS
from tests.helpers.trainings import assert_same_files

ONE, OTHER = config.resolve(config.Request("Pendulum-v1", "td3", "gaussian", 40, 2, SETTINGS))
EVENTS: dict[str, Event] = {
    "started": Started([ONE, OTHER], 0),
    "compiling": Compiling(),
    "stepped": Stepped(20),
    "evaluated": Evaluated(ONE, 20, [1.0, 2.0], {"q": 0.5}),
    "measured": Measured(ONE, 20, {"kl": 0.5}, 100.0),
    "evaluation_time": EvaluationTime(20, 0.25),
    "noted": Noted(OTHER, 20, "reward is not finite"),
    "finished": Finished([ONE, OTHER]),
}
"""An event of each kind that has a method of its own, by the name of the method."""


def train(out, observer, **options):
    """Train the two runs `ONE` and `OTHER`."""
    return discover_rl.train(
        "Pendulum-v1",
        strategy="gaussian",
        steps=40,
        seeds=2,
        out=out,
        observer=observer,
        **options,
        **SETTINGS,
    )


class Recorder(Observer):
    """Overrides `on_event` alone and keeps every event."""

    def __init__(self):
        self.events: list[Event] = []

    def on_event(self, event):
        self.events.append(event)


def listener(calls: list, name: object) -> Observer:
    """An observer that overrides every method but `on_event`, and notes each call."""
    methods = {
        method: lambda self, *details, method=method: calls.append((name, method, details))
        for method in EVENTS
    }
    return type("Listener", (Observer,), methods)()


def fields(event: Event) -> tuple:
    return tuple(vars(event).values())


# Events


def test_every_kind_of_event_but_the_last_has_a_method():
    kinds = {type(event) for event in EVENTS.values()}
    assert kinds | {Ended} == set(typing.get_args(Event))
    methods = {name for name in vars(Observer) if not name.startswith("_")}
    assert methods == {*EVENTS, "on_event"}


def test_an_observer_gets_each_event_by_its_method():
    calls: list = []
    observer = listener(calls, "one")
    for event in [*EVENTS.values(), Ended(None)]:
        observer.on_event(event)
    assert calls == [("one", method, fields(event)) for method, event in EVENTS.items()]


def test_several_observers_get_every_event_in_order():
    calls: list = []
    both = Observers([listener(calls, 0), listener(calls, 1)])
    for event in EVENTS.values():
        both.on_event(event)
    assert calls == [
        (number, method, fields(event)) for method, event in EVENTS.items() for number in (0, 1)
    ]


def test_an_observer_that_raises_is_left_out_and_the_others_get_every_event():
    class Loud(Observer):
        def evaluated(self, run, step, returns, report):
            raise RuntimeError("no")

    messages: list[str] = []
    first, last = Recorder(), Recorder()
    everyone = FailSafeObservers([first, Loud(), last], messages.append)
    for event in EVENTS.values():
        everyone.on_event(event)
    assert messages == ["Loud is left out from here on: no"]
    assert first.events == last.events == list(EVENTS.values())


def test_overriding_on_event_alone_is_enough_to_get_everything(tmp_path):
    calls: list = []
    recorder = Recorder()
    train(tmp_path, [recorder, listener(calls, "methods")])
    assert calls == [
        ("methods", method, fields(event))
        for event in recorder.events
        for method, example in EVENTS.items()
        if type(event) is type(example)
    ]
    assert len(calls) == len(recorder.events)
    assert recorder.events[0] == Started([ONE, OTHER], 0)
    assert recorder.events[-1] == Finished([ONE, OTHER])
    evaluated = [event for event in recorder.events if isinstance(event, Evaluated)]
    assert [(event.run, event.step) for event in evaluated] == [
        (run, step) for step in (0, 20, 40) for run in (ONE, OTHER)
    ]
    for run in (ONE, OTHER):
        recorded = Record(tmp_path / run.name / "record.jsonl").evaluations
        returns = [event.returns for event in evaluated if event.run == run]
        assert returns == [line["returns"] for line in recorded]
    steps = [event.step for event in recorder.events if isinstance(event, Stepped)]
    assert steps == sorted(steps)
    assert steps[-1] == 40
    times = [event for event in recorder.events if isinstance(event, EvaluationTime)]
    assert [event.step for event in times] == [0, 20, 40]


@pytest.mark.slow
def test_one_observer_or_several_and_none_is_the_terminal(tmp_path, capfd):
    class Count(Observer):
        evaluations = 0

        def evaluated(self, run, step, returns, report):
            self.evaluations += 1

    counts = [Count() for _ in range(3)]
    train(tmp_path / "one", counts[0])
    assert capfd.readouterr().out == ""
    train(tmp_path / "several", [counts[1], None, counts[2]])
    assert capfd.readouterr().out.count("  return ") == 6
    assert [count.evaluations for count in counts] == [6, 6, 6]


# Options, and records without any observer


def test_options_become_observers(tmp_path, wandb):
    assert observers.requested(tmp_path) == []
    curves, theirs = observers.requested(tmp_path, tensorboard=True, wandb="exploration")
    assert isinstance(curves, TensorBoard)
    assert isinstance(theirs, WeightsAndBiases)
    assert (curves.out, theirs.out, theirs.project) == (tmp_path, tmp_path, "exploration")


def test_pandas_reads_a_record_in_one_line(tmp_path):
    (result, _) = train(tmp_path, Observer())
    path = result.path / "record.jsonl"
    table = pandas.read_json(path, lines=True).dropna(subset="returns")
    assert table["step"].tolist() == [0, 20, 40]
    means = [np.mean(line["returns"]) for line in Record(path).evaluations]
    assert [np.mean(returns) for returns in table["returns"]] == pytest.approx(means)


class Enough(Observer):
    """Ends training by an error, once the first run was evaluated at a step."""

    def evaluated(self, run, step, returns, report):
        if step == 20:
            raise RuntimeError("enough")


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_an_observer_that_ends_training_leaves_the_policy_of_the_present_step(tmp_path, processes):
    with pytest.raises(RuntimeError, match="enough"):
        train(tmp_path / "a", Enough(), processes=processes)
    steps = [load_policy(tmp_path / f"a/seed-{seed}").about["step"] for seed in (0, 1)]
    assert max(steps) >= 20  # of two processes, the other one may still be about to begin
    if processes == 1:
        assert checkpoints.step_of(tmp_path / "a") == steps[0] == steps[1]
        reached = [Record(tmp_path / f"a/seed-{seed}/record.jsonl") for seed in (0, 1)]
        assert all(record.evaluated(20) for record in reached)
        # And it goes on from there, exactly.
        train(tmp_path / "a", Observer())
        train(tmp_path / "b", Observer())
        assert_same_files(tmp_path / "a", tmp_path / "b")
