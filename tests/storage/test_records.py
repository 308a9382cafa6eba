"""Records, locks and whole files."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys

import pytest

from discover_rl.core.types import UserError
from discover_rl.storage import files
from discover_rl.storage.records import Record

RUN = {"task": "Pendulum-v1", "algorithm": "td3", "strategy": "none", "steps": 20, "seed": 0}
HEADER = {"run": {**RUN, "settings": {"eval.every": 10}}}


def evaluation(step: int) -> dict:
    return {"step": step, "returns": [-1.5, -float(step)], "lengths": [7, 200]}


@pytest.fixture
def record(tmp_path) -> Record:
    """A run that has been evaluated at steps 0 and 10 of 20."""
    record = Record(tmp_path / "deep" / "seed-0" / "record.jsonl")
    record.begin(HEADER)
    for line in (evaluation(0), evaluation(10)):
        record.append(line)
    return record


@contextlib.contextmanager
def disk_of(size: int):
    """No file may grow past so many bytes: what a full disk looks like."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def on_disk(record: Record) -> list:
    return [json.loads(line) for line in record.path.read_text().splitlines()]


# Records


def test_what_is_appended_is_on_disk_at_once_and_read_back(record):
    lines = [HEADER, evaluation(0), evaluation(10)]
    assert on_disk(record) == record.lines == Record(record.path).lines == lines
    assert record.path.read_bytes().endswith(b"\n")


def test_a_record_that_is_not_there_is_empty_and_leaves_no_trace(tmp_path):
    record = Record(tmp_path / "x" / "record.jsonl")
    assert (record.header, record.evaluations, record.failure, record.done) == (
        None,
        [],
        None,
        False,
    )
    assert not (tmp_path / "x").exists()


def test_numbers_survive_to_the_bit(record):
    returns = [0.1 + 0.2, 1 / 3, -1e-300, 1e22]
    record.append({"step": 20, "returns": returns, "lengths": [1] * 4})
    assert Record(record.path).evaluations[-1]["returns"] == returns


def test_what_json_cannot_express_is_not_written(record):
    before = record.path.read_bytes()
    with pytest.raises(ValueError, match="JSON"):
        record.append({"step": 20, "returns": [float("nan")]})
    assert record.path.read_bytes() == before
    assert len(record.lines) == 3


def test_a_run_is_done_when_its_last_step_has_been_evaluated(record):
    assert not record.done
    record.append({"step": 20, "event": "episode_lost"})
    assert not Record(record.path).done
    record.append(evaluation(20))
    assert record.done
    assert Record(record.path).done


def test_evaluations_are_the_lines_with_returns(record):
    record.append({"step": 12, "event": "episode_lost"})
    assert record.evaluations == [evaluation(0), evaluation(10)]
    assert [step for step in (0, 5, 10, 12) if record.evaluated(step)] == [0, 10]


def test_a_failure_is_the_divergence_and_no_other_event(record):
    record.append({"step": 11, "event": "episode_lost"})
    assert record.failure is None
    gone = {"step": 12, "event": "diverged", "quantity": "critic_loss"}
    record.append(gone)
    assert record.failure == Record(record.path).failure == gone
    assert not record.done


@pytest.mark.parametrize(("step", "kept"), [(-1, []), (0, [0]), (9, [0]), (10, [0, 10])])
def test_a_cut_keeps_the_header_and_what_happened_up_to_the_step(record, step, kept):
    record.append({"step": 11, "event": "diverged"})
    record.cut(step)
    assert record.lines == [HEADER, *map(evaluation, kept)]
    assert on_disk(record) == record.lines
    assert record.failure is None


@pytest.mark.parametrize("torn", ['{"step": 20, "ret', '{"step": 20, "returns": [1.0]}', "\xff"])
def test_a_torn_last_line_is_dropped_and_a_cut_heals_the_file(record, torn):
    with record.path.open("ab") as file:
        file.write(torn.encode("latin-1"))
    again = Record(record.path)
    assert again.lines == record.lines
    again.cut(10)
    again.append(evaluation(20))
    assert on_disk(again) == [HEADER, evaluation(0), evaluation(10), evaluation(20)]


@pytest.mark.parametrize("torn", ['{"step": 20, "ret', '{"step": 20, "returns": [1.0]}', "\xff"])
def test_what_is_appended_to_a_torn_last_line_takes_its_place(record, torn):
    """As where a tuning is killed while it writes that a run was pruned."""
    with record.path.open("ab") as file:
        file.write(torn.encode("latin-1"))
    Record(record.path).append(evaluation(20))
    assert on_disk(record) == [HEADER, evaluation(0), evaluation(10), evaluation(20)]


def test_what_did_not_fit_on_the_disk_is_no_part_of_the_next_line(record):
    size = record.path.stat().st_size
    with disk_of(size + 10), pytest.raises(OSError, match="too large"):
        record.append(evaluation(20))
    assert record.path.stat().st_size == size + 10
    record.append(evaluation(20))
    assert on_disk(record) == [HEADER, evaluation(0), evaluation(10), evaluation(20)]


def test_a_torn_header_counts_as_no_record(tmp_path):
    path = tmp_path / "record.jsonl"
    path.write_text(json.dumps(HEADER)[:-3])
    assert Record(path).header is None


@pytest.mark.parametrize("damage", [b"{]\n", b"\xff\xfe\n", b"\n", b"17\n"])
def test_a_damaged_line_is_an_error_that_names_the_file(record, damage):
    lines = record.path.read_bytes().splitlines(keepends=True)
    record.path.write_bytes(lines[0] + damage + lines[2])
    with pytest.raises(UserError) as caught:
        Record(record.path)
    assert str(record.path) in str(caught.value)
    assert "damaged" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_full_disk_tears_one_line_at_most(record):
    before = record.path.read_bytes()
    with disk_of(len(before) + 10), pytest.raises(OSError, match="too large"):
        record.append(evaluation(20))
    assert record.path.read_bytes().startswith(before)
    assert Record(record.path).lines == record.lines == [HEADER, evaluation(0), evaluation(10)]


# Locks

HOLD = """
import pathlib, sys
from discover_rl.storage import files
with files.locked(pathlib.Path(sys.argv[1])):
    print("locked", flush=True)
    sys.stdin.read()
"""


def holder(folder) -> subprocess.Popen:
    """Another process that has the lock of a folder."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    process = subprocess.Popen(command, stdin=-1, stdout=-1, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "locked\n"
    return process


def test_a_second_process_is_refused_until_the_first_dies(tmp_path):
    folder = tmp_path / "not" / "yet"
    with holder(folder) as process:
        with pytest.raises(UserError) as caught, files.locked(folder):
            pass
        assert str(folder) in str(caught.value)
        process.send_signal(signal.SIGKILL)
        process.wait()
        with files.locked(folder):
            pass


def test_a_lock_holds_within_a_process_too_and_ends_with_its_block(tmp_path):
    def work():
        with files.locked(tmp_path):
            with pytest.raises(UserError), files.locked(tmp_path):
                pass
            raise KeyError

    for _ in range(2):
        with pytest.raises(KeyError):
            work()


# Whole files


def test_a_file_is_read_back_with_its_checksum(tmp_path):
    content = bytes(range(256)) * 3
    checksum = files.write(tmp_path / "new" / "file", content)
    assert files.read(tmp_path / "new" / "file", checksum) == content
    assert os.listdir(tmp_path / "new") == ["file"]
    assert checksum["bytes"] == 768


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    checksum = files.write(tmp_path / "file", b"old")
    with disk_of(100), pytest.raises(OSError, match="too large"):
        files.write(tmp_path / "file", b"new" * 100)
    assert files.read(tmp_path / "file", checksum) == b"old"


def test_a_cut_that_fails_leaves_the_old_record(record):
    before = record.path.read_bytes()
    with disk_of(20), pytest.raises(OSError, match="too large"):
        record.cut(0)
    assert record.path.read_bytes() == before


@pytest.mark.parametrize("damage", [b"", b"conten", b"content!", b"cOntent"])
def test_damage_is_noticed(tmp_path, damage):
    path = tmp_path / "file"
    checksum = files.write(path, b"content")
    path.write_bytes(damage)
    with pytest.raises(UserError) as caught:
        files.read(path, checksum)
    assert f"{path} is damaged" in str(caught.value)


def test_a_file_that_is_gone_is_a_users_error(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        files.read(tmp_path / "gone", {"bytes": 0, "crc32": 0})


def test_remove_takes_folders_files_and_nothing(tmp_path):
    (tmp_path / "folder" / "inner").mkdir(parents=True)
    (tmp_path / "file").touch()
    for name in ("folder", "file", "absent"):
        files.remove(tmp_path / name)
    assert not os.listdir(tmp_path)
