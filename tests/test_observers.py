"""Who hears of training: everyone hears everything, and what they write is read back by others."""

import math
import struct
import sys
import time
import types

import numpy as np
import pandas
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import discover_rl
from discover_rl import config, observers
from discover_rl.observers import Observer, Several, tensorboard
from discover_rl.observers.tensorboard import TensorBoard
from discover_rl.observers.weights_and_biases import WeightsAndBiases
from discover_rl.store import Record
from discover_rl.types import UserError
from tests.test_cli import SETTINGS, TINY, discover

ONE, OTHER = config.resolve("Pendulum-v1", "td3", "gaussian", 40, 2, SETTINGS)


def train(out, observer, **options):
    """The runs of `TINY`."""
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


class Crash(Observer):
    """A process that is killed in the midst of this evaluation."""

    def __init__(self, name: str, step: int):
        self.where = name, step

    def evaluated(self, run, step, returns, report):
        if (run.name, step) == self.where:
            raise RuntimeError("killed")


# Several


def test_everyone_hears_everything_in_order():
    heard = []
    names = [name for name in vars(Observer) if not name.startswith("_")]
    assert len(names) >= 6

    def listener(number: int) -> Observer:
        methods = {
            name: lambda self, *details, name=name: heard.append((number, name, details))
            for name in names
        }
        return type("Listener", (Observer,), methods)()

    both = Several([listener(0), listener(1)])
    for name in names:
        getattr(both, name)("a", name)
    assert heard == [(number, name, ("a", name)) for name in names for number in (0, 1)]


@pytest.mark.slow
def test_one_or_several_and_none_is_the_terminal(tmp_path, capfd):
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


# TensorBoard


def read(folder) -> EventAccumulator:
    return EventAccumulator(str(folder)).Reload()


def curve(folder, tag="return/mean") -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in read(folder).Scalars(tag)]


def test_what_was_written_is_read_by_tensorboard(tmp_path):
    before = time.time()
    writer = TensorBoard(tmp_path)
    writer.started([ONE, OTHER], 0)
    writer.evaluated(ONE, 0, [1.0, 4.0], {})
    assert curve(tmp_path / ONE.name) == [(0, 2.5)]  # at once
    writer.evaluated(OTHER, 0, [-1.0, -1.0], {})
    writer.evaluated(ONE, 2_000_000, [2.0, 3.0], {"q": -1.5, "späte Größe": 0.25, "bad": None})
    found = read(tmp_path / ONE.name)
    names = {"return/mean", "return/sd", "report/q", "report/späte Größe"}
    assert set(found.Tags()["scalars"]) == names
    assert curve(tmp_path / ONE.name, "return/sd") == [(0, 1.5), (2_000_000, 0.5)]
    assert curve(tmp_path / ONE.name, "report/q") == [(2_000_000, -1.5)]
    assert curve(tmp_path / OTHER.name) == [(0, -1.0)]
    for event in found.Scalars("return/mean"):
        assert before <= event.wall_time <= time.time()


def test_what_does_not_fit_is_infinite(tmp_path):
    TensorBoard(tmp_path).evaluated(ONE, 0, [1e300], {"q": -1e39})
    assert curve(tmp_path / ONE.name) == [(0, math.inf)]
    assert curve(tmp_path / ONE.name, "report/q") == [(0, -math.inf)]


def test_the_checksum_is_the_known_one():
    rotated = struct.unpack("<I", tensorboard._checksum(b"123456789"))[0] - 0xA282EAD8 & 0xFFFFFFFF
    assert (rotated << 15 | rotated >> 17) & 0xFFFFFFFF == 0xE3069283


def test_a_resumed_run_takes_the_place_of_what_it_does_again(tmp_path):
    folder = tmp_path / ONE.name
    for value, steps in enumerate([(0, 10, 20, 30), (10, 20)]):
        writer = TensorBoard(tmp_path)
        for step in steps:
            writer.evaluated(ONE, step, [float(value)], {})
    assert curve(folder) == [(0, 0.0), (10, 1.0), (20, 1.0)]
    # The same observer in another training begins another file.
    writer.started([ONE], 0)
    writer.evaluated(ONE, 20, [2.0], {})
    assert curve(folder) == [(0, 0.0), (10, 1.0), (20, 2.0)]
    assert len(list(folder.iterdir())) == 3


def test_a_run_that_goes_on_later_than_the_others_keeps_what_it_has(tmp_path):
    for steps in [(0, 10, 20), (30,)]:
        writer = TensorBoard(tmp_path)
        writer.started([ONE, OTHER], 0)  # the smallest step
        for step in steps:
            writer.evaluated(ONE, step, [1.0], {})
    assert [step for step, _ in curve(tmp_path / ONE.name)] == [0, 10, 20, 30]


def test_a_note_is_a_text_and_drops_only_what_comes_after_it(tmp_path):
    for step in (0, 10, 20):
        writer = TensorBoard(tmp_path)
        writer.evaluated(ONE, step, [1.0], {})
    TensorBoard(tmp_path).noted(ONE, 10, "the environment could not be restored – exactly")
    found = read(tmp_path / ONE.name)
    (note,) = found.Tensors("note")
    assert note.step == 10
    assert [text.decode() for text in note.tensor_proto.string_val] == [
        "the environment could not be restored – exactly"
    ]
    assert found.SummaryMetadata("note").plugin_data.plugin_name == "text"
    assert [step for step, _ in curve(tmp_path / ONE.name)] == [0, 10]


def test_a_torn_file_does_not_hide_what_follows(tmp_path):
    writer = TensorBoard(tmp_path)
    for step in (0, 10):
        writer.evaluated(ONE, step, [1.0], {})
    (file,) = (tmp_path / ONE.name).iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    TensorBoard(tmp_path).evaluated(ONE, 10, [2.0], {})
    assert curve(tmp_path / ONE.name) == [(0, 1.0), (10, 2.0)]


def test_what_the_disk_says_is_passed_on(tmp_path):
    writer = TensorBoard(tmp_path)
    writer.evaluated(ONE, 0, [1.0], {})
    (file,) = (tmp_path / ONE.name).iterdir()
    file.unlink()
    file.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left"):
        writer.evaluated(ONE, 10, [1.0], {})


def assert_as_recorded(out):
    for run in (ONE, OTHER):
        lines = Record(out / run.name / "record.jsonl").evaluations
        means = [(line["step"], np.float32(np.mean(line["returns"]))) for line in lines]
        assert len(means) == 3
        assert curve(out / run.name) == means
        for name in lines[-1]["report"]:
            told = [(line["step"], line["report"][name]) for line in lines if "report" in line]
            finite = [(step, np.float32(value)) for step, value in told if value is not None]
            assert not finite or curve(out / run.name, f"report/{name}") == finite


@pytest.mark.slow
def test_a_killed_training_shows_each_evaluation_once(tmp_path):
    with pytest.raises(RuntimeError, match="killed"):
        train(tmp_path, [TensorBoard(tmp_path), Crash(OTHER.name, 20)])
    train(tmp_path, [TensorBoard(tmp_path)])
    assert len(list((tmp_path / ONE.name).glob("events*"))) == 2
    assert_as_recorded(tmp_path)


@pytest.mark.slow
def test_the_command_writes_curves_of_several_processes_and_shows_progress(tmp_path, capfd):
    words = "train", *TINY, "--out", str(tmp_path), "--processes", "2", "--tensorboard"
    assert discover(*words) == 0
    assert capfd.readouterr().out.count("  return ") == 6
    assert_as_recorded(tmp_path)


# Weights & Biases


class Theirs:
    """A run of theirs, as far as it is used: steps go up, and what was logged is kept."""

    def __init__(self, **options):
        self.options, self.logged, self.summary, self.open = options, [], {}, True
        self.step = 0

    def log(self, numbers, step, commit):
        assert self.open
        assert commit
        assert step >= self.step
        self.logged.append((step, numbers))
        self.step = step + 1

    def finish(self):
        self.open = False


@pytest.fixture
def wandb(monkeypatch):
    module = types.ModuleType("wandb")
    module.Error = type("Error", (Exception,), {})
    module.logins, module.runs = [], []
    module.login = lambda: module.logins.append(len(module.runs))

    def init(**options):
        module.runs.append(Theirs(**options))
        return module.runs[-1]

    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_each_run_is_one_of_theirs(tmp_path, wandb):
    out = tmp_path / "pendulum"
    observer = WeightsAndBiases(out, "exploration")
    assert (wandb.logins, wandb.runs) == ([0], [])
    observer.started([ONE, OTHER], 0)
    for step in (0, 20):
        observer.evaluated(ONE, step, [1.0, 4.0], {"q": 0.5, "bad": None} if step else {})
        observer.evaluated(OTHER, step, [2.0], {})
    observer.noted(OTHER, 33, "critic is not finite")
    one, other = wandb.runs
    for run, theirs in ((ONE, one), (OTHER, other)):
        options = dict(theirs.options)
        assert options.pop("id") == (out / run.name / "wandb-id").read_text().strip()
        assert options == {
            "project": "exploration",
            "name": run.name,
            "group": "pendulum",
            "config": run.to_json(),
            "resume": "allow",
            "reinit": "create_new",
            "settings": {"console": "off"},
        }
    assert one.options["id"] != other.options["id"]
    moments = {"return/mean": 2.5, "return/sd": 1.5}
    assert one.logged == [(0, moments), (20, moments | {"report/q": 0.5})]
    assert other.summary == {"note": "step 33: critic is not finite"}
    observer.finished([ONE])
    assert (one.open, other.open) == (False, True)
    observer.finished([OTHER])
    assert not other.open


def test_one_that_goes_on_goes_on_there(tmp_path, wandb):
    for steps in [(0, 10, 20), (10, 20, 30)]:  # stopped, and gone on with in the same process
        observer = WeightsAndBiases(tmp_path, "exploration")
        for step in steps:
            observer.evaluated(ONE, step, [1.0], {})
    (first,) = wandb.runs
    assert [step for step, _ in first.logged] == [0, 10, 20, 30]
    observer.finished([ONE])
    observer.evaluated(ONE, 30, [1.0], {})  # as another process would: what was open is not
    assert wandb.runs[1].options["id"] == first.options["id"]
    (tmp_path / ONE.name / "wandb-id").unlink()  # as whoever removes the folder to start over
    observer.evaluated(ONE, 0, [1.0], {})
    assert wandb.runs[2].options["id"] != first.options["id"]


def test_the_command_logs(tmp_path, wandb):
    words = "train", *TINY, "--out", str(tmp_path), "--processes", "1", "--wandb", "exploration"
    assert discover(*words) == 0
    assert [theirs.options["name"] for theirs in wandb.runs] == [ONE.name, OTHER.name]
    for theirs in wandb.runs:
        assert not theirs.open
        lines = Record(tmp_path / theirs.options["name"] / "record.jsonl").evaluations
        means = [(line["step"], np.mean(line["returns"])) for line in lines]
        assert [(step, numbers["return/mean"]) for step, numbers in theirs.logged] == means


def test_without_the_package_it_is_named(tmp_path, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.chdir(tmp_path)
    assert discover("train", "Pendulum-v1", "--wandb", "exploration") == 2
    assert capfd.readouterr().err == (
        "Weights & Biases needs a package: pip install 'discover_rl[wandb]'.\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", ["login", "init"])
def test_who_is_not_let_in_is_told_how(tmp_path, wandb, where):
    def refuse(**_):
        raise wandb.Error("no key")

    setattr(wandb, where, refuse)
    with pytest.raises(UserError, match=r"in \(no key\); run `wandb login`, or set WANDB_MODE=off"):
        WeightsAndBiases(tmp_path, "exploration").evaluated(ONE, 0, [1.0], {})


# Options, and none


def test_options_become_observers(tmp_path, wandb):
    assert observers.chosen(tmp_path) == []
    curves, theirs = observers.chosen(tmp_path, tensorboard=True, wandb="exploration")
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
