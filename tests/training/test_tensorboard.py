"""Curves for TensorBoard, read back by TensorBoard's own reader."""

import math
import os
import sys
import time

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from discover_rl.storage.records import Record
from discover_rl.training.observers import Observer
from discover_rl.training.observers.tensorboard import TensorBoard
from tests.cli.test_cli import TINY, discover
from tests.training.test_observers import ONE, OTHER, train


class Crash(Observer):
    """Raises at an evaluation, like a process that is killed there."""

    def __init__(self, name: str, step: int):
        self.where = name, step

    def evaluated(self, run, step, returns, report):
        if (run.name, step) == self.where:
            raise RuntimeError("killed")


def read(folder) -> EventAccumulator:
    return EventAccumulator(str(folder)).Reload()


def curve(folder, tag="return/mean") -> list[tuple[int, float]]:
    return [(event.step, event.value) for event in read(folder).Scalars(tag)]


def test_tensorboard_reads_every_number_at_once(tmp_path):
    before = time.time()
    writer = TensorBoard(tmp_path)
    writer.started([ONE, OTHER], 0)
    writer.evaluated(ONE, 0, [1.0, 4.0], {})
    assert curve(tmp_path / ONE.name) == [(0, 2.5)]
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


def test_metrics_of_training_are_curves_of_their_own(tmp_path):
    writer = TensorBoard(tmp_path)
    writer.measured(ONE, 500, {"return": None, "critic_loss": 0.5}, 123.0)
    writer.measured(ONE, 1000, {"return": -3.0, "critic_loss": 0.25}, 125.0)
    writer.evaluated(ONE, 1000, [1.0], {})
    assert curve(tmp_path / ONE.name, "train/return") == [(1000, -3.0)]
    assert curve(tmp_path / ONE.name, "train/critic_loss") == [(500, 0.5), (1000, 0.25)]
    assert curve(tmp_path / ONE.name, "train/steps_per_second") == [(500, 123.0), (1000, 125.0)]
    assert curve(tmp_path / ONE.name) == [(1000, 1.0)]


def test_a_number_too_large_for_32_bits_is_infinite(tmp_path):
    TensorBoard(tmp_path).evaluated(ONE, 0, [1e300], {"q": -1e39})
    assert curve(tmp_path / ONE.name) == [(0, math.inf)]
    assert curve(tmp_path / ONE.name, "report/q") == [(0, -math.inf)]


def test_a_resumed_run_replaces_the_evaluations_it_makes_again(tmp_path):
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


def test_a_run_that_resumes_later_than_the_others_keeps_its_evaluations(tmp_path):
    for steps in [(0, 10, 20), (30,)]:
        writer = TensorBoard(tmp_path)
        writer.started([ONE, OTHER], 0)  # the smallest step
        for step in steps:
            writer.evaluated(ONE, step, [1.0], {})
    assert [step for step, _ in curve(tmp_path / ONE.name)] == [0, 10, 20, 30]


def test_a_note_is_a_text_and_drops_only_later_evaluations(tmp_path):
    for step in (0, 10, 20):
        writer = TensorBoard(tmp_path)
        writer.evaluated(ONE, step, [1.0], {})
    TensorBoard(tmp_path).noted(ONE, 10, "the environment could not be restored – exactly")
    found, tag = read(tmp_path / ONE.name), "note/text_summary"  # TensorBoard shows it as "note"
    (note,) = found.Tensors(tag)
    assert note.step == 10
    assert [text.decode() for text in note.tensor_proto.string_val] == [
        "the environment could not be restored – exactly"
    ]
    assert found.SummaryMetadata(tag).plugin_data.plugin_name == "text"
    assert [step for step, _ in curve(tmp_path / ONE.name)] == [0, 10]


def test_a_torn_file_does_not_hide_later_files(tmp_path):
    writer = TensorBoard(tmp_path)
    for step in (0, 10):
        writer.evaluated(ONE, step, [1.0], {})
    (file,) = (tmp_path / ONE.name).iterdir()
    file.write_bytes(file.read_bytes()[:-3])
    TensorBoard(tmp_path).evaluated(ONE, 10, [2.0], {})
    assert curve(tmp_path / ONE.name) == [(0, 1.0), (10, 2.0)]


def test_an_error_of_the_disk_is_raised(tmp_path):
    """The open file becomes /dev/full, by its descriptor."""
    writer = TensorBoard(tmp_path)
    writer.evaluated(ONE, 0, [1.0], {})
    (path,) = (tmp_path / ONE.name).iterdir()
    descriptors = [int(name) for name in os.listdir("/proc/self/fd")]
    (own,) = [fd for fd in descriptors if os.path.realpath(f"/proc/self/fd/{fd}") == str(path)]
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, own)
    os.close(full)
    with pytest.raises(OSError, match="No space left"):
        writer.evaluated(ONE, 10, [1.0], {})
    again = os.open(path, os.O_WRONLY)  # so that the file can be closed
    os.dup2(again, own)
    os.close(again)
    writer.finished([ONE])


def test_a_finished_run_leaves_no_file_open(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    writer = TensorBoard(tmp_path)
    writer.evaluated(ONE, 0, [1.0], {})
    writer.evaluated(OTHER, 0, [1.0], {})
    writer.finished([ONE, OTHER])
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_missing_package_is_named(tmp_path, monkeypatch, capfd):
    loaded = [name for name in sys.modules if name.startswith("tensorboardX.")]
    for name in ["tensorboardX", *loaded]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.chdir(tmp_path)
    assert discover("train", *TINY, "--tensorboard") == 2
    assert capfd.readouterr().err == (
        "TensorBoard needs a package: pip install 'discover_rl[tensorboard]'.\n"
    )
    assert list(tmp_path.iterdir()) == []


def assert_as_recorded(out):
    """The curves are the records' evaluations."""
    for run in (ONE, OTHER):
        lines = Record(out / run.name / "record.jsonl").evaluations
        means = [(line["step"], np.float32(np.mean(line["returns"]))) for line in lines]
        assert len(means) == 3
        assert curve(out / run.name) == means
        for name in lines[-1]["report"]:
            reports = [(line["step"], line["report"][name]) for line in lines if "report" in line]
            finite = [(step, np.float32(value)) for step, value in reports if value is not None]
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
