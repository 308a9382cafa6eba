"""Carrying a study out: the missing runs are trained and no others, whatever fails."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pandas
import pytest

from discover_rl import studies
from discover_rl.core.types import Stopped, UserError
from discover_rl.storage import records, schemas
from discover_rl.storage.files import FolderInUse
from discover_rl.studies import campaign, plan, status
from discover_rl.training.events import Ended, Started
from discover_rl.training.observers import FailSafeObservers, Observer
from tests.cli.test_cli import discover, elsewhere
from tests.helpers.records import write_whole
from tests.helpers.trainings import assert_same_files
from tests.studies.conftest import SMALL

TRUST = "--trust", "tests.helpers.fragile"
"""What lets a study's file have tasks of that module."""


def pretend(outcomes):
    """An engine that trains nothing: it records that cohorts are done, or returns given outcomes.

    Args:
        outcomes: by the names of work folders, an outcome, or a list with one for each attempt.

    Returns:
        The engine, and a list of its calls: the names of work folders, and the patience.
    """
    calls = []

    def engine(jobs, on_event, stopping, patience):
        calls.append(([job.workdir.name for job in jobs], patience))
        found = []
        for number, job in enumerate(jobs):
            outcome = outcomes.get(job.workdir.name)
            if isinstance(outcome, list):
                outcome = outcome.pop(0)
            if outcome is None:
                on_event(number, Started(job.runs, 0))
                for run in job.runs:
                    write_whole(job.out / run.name, run)
            found.append(outcome)
            on_event(number, Ended(outcome))
        return found

    return engine, calls


def carry_out(path: Path, out: Path, outcomes, shard=(1, 1), retry=False):
    """Carry a study out with such an engine; return whether all of it ended, the engine's calls,
    and the statuses of the runs by their names."""
    study = studies.load(str(path))
    engine, calls = pretend(outcomes)
    prepared = campaign.prepare(study, out, shard, retry)
    whole = campaign.carry_out(prepared, engine, campaign.Board(), Observer(), bool)
    return whole, calls, {run.name: run for run in status.statuses(study, out)}


def test_records_are_read_once_before_training_and_once_after(small, tmp_path, monkeypatch):
    read, content = Counter[Path](), schemas.content
    monkeypatch.setattr(schemas, "content", lambda path: read.update([path]) or content(path))
    carry_out(small, tmp_path / "out", {})
    read.clear()
    carry_out(small, tmp_path / "out", {})
    counts = [count for path, count in read.items() if path.name == "record.jsonl"]
    assert counts == [2] * 4


# Which runs are trained


def test_finished_runs_are_not_trained_again(small, tmp_path, one_core):
    whole, calls, found = carry_out(small, tmp_path / "out", {})
    assert whole
    assert calls == [(["0000", "0001"], 0.0)]
    assert {run.state for run in found.values()} == {"done"}
    whole, calls, _ = carry_out(small, tmp_path / "out", {})
    assert whole
    assert calls == [([], 0.0)]


def test_a_cohort_that_fails_is_noted_and_tried_again(small, tmp_path, one_core):
    out = tmp_path / "out"
    full = OSError(28, "No space left on device", "x/y")
    whole, _, found = carry_out(small, out, {"0000": full})
    assert whole
    failed = found["Pendulum-v1/td3/none/seed-1"]
    assert failed.state == "failed"
    assert failed.reason == "reading or writing failed: No space left on device (x/y)"
    assert found["Pendulum-v1/td3/gaussian/seed-1"].state == "done"
    whole, calls, found = carry_out(small, out, {})
    assert calls[0][0] == ["0000"]
    assert {run.state for run in found.values()} == {"done"}


def test_cohorts_that_others_train_are_left_to_them_after_a_second_attempt(
    small, tmp_path, one_core
):
    taken = FolderInUse("somebody")
    whole, calls, found = carry_out(small, tmp_path / "a", {"0000": [taken, taken]})
    assert not whole
    assert calls == [(["0000", "0001"], 0.0), (["0000"], 0.0)]
    assert found["Pendulum-v1/td3/none/seed-0"].state == "waiting"
    # A worker of a killed process ends after a while.
    whole, _, found = carry_out(small, tmp_path / "b", {"0000": [taken, None]})
    assert whole
    assert {run.state for run in found.values()} == {"done"}


def test_stopped_is_not_failed(small, tmp_path, one_core):
    whole, _, found = carry_out(small, tmp_path / "out", {"0001": Stopped(60)})
    assert not whole
    assert {run.state for run in found.values()} == {"done", "waiting"}


def test_shards_are_disjoint_and_cover_the_study(small, tmp_path, one_core):
    small.write_text(SMALL.replace('"gaussian"', '"gaussian", "ou", "discover", "psne"'))
    study, done = studies.load(str(small)), []
    for i in (1, 2, 3):
        whole, calls, found = carry_out(small, tmp_path / "out", {}, (i, 3))
        assert whole
        done += calls[0][0]
        assert [run.state for run in found.values()].count("done") == [4, 8, 10][i - 1]
    assert sorted(done) == [f"{i:04}" for i in range(5)]
    # Also if there are more parts than groups.
    for n in (2, 3, 7):
        parts = [[run.name for run in plan.part_of(study, (i, n))] for i in range(1, n + 1)]
        assert sorted(name for part in parts for name in part) == sorted(study.names)


def test_status_reports_that_the_study_has_changed(small, tmp_path, one_core):
    carry_out(small, tmp_path / "out", {})
    small.write_text(SMALL.replace("warmup = 40", "warmup = 41"))
    found = status.statuses(studies.load(str(small)), tmp_path / "out")
    assert {run.state for run in found} == {"failed"}
    assert found[0].reason == "its record is of another study: warmup is 40 there and 41 here"


def test_an_observer_that_raises_is_left_out(small, tmp_path):
    class Loud(Observer):
        def started(self, runs, step):
            raise OSError(28, "No space left on device")

    class Quiet(Observer):
        starts = 0

        def started(self, runs, step):
            self.starts += 1

    study, messages, quiet = studies.load(str(small)), [], Quiet()
    engine, _ = pretend({})
    prepared = campaign.prepare(study, tmp_path / "out")
    both = FailSafeObservers([Loud(), quiet], messages.append)
    assert campaign.carry_out(prepared, engine, campaign.Board(), both, bool)
    assert messages == ["Loud is left out from here on: [Errno 28] No space left on device"]
    assert quiet.starts == len(prepared.cohorts)


@pytest.mark.slow
def test_a_cohort_whose_record_is_gone_is_not_resumed(small, tmp_path, capsys):
    small.write_text(SMALL.replace("steps = 120", "steps = 100_000"))
    words = ["run", str(small), "--out", str(tmp_path / "out"), "--checkpoint-seconds", "0"]
    assert discover(*words, "--minutes", "0.2") == 3
    lost = tmp_path / "out" / "Pendulum-v1" / "td3" / "none" / "seed-1" / "record.jsonl"
    lost.unlink()
    assert discover(*words, "--minutes", "0.2") == 1
    printed = capsys.readouterr().out
    assert f"{lost} is gone, though its run was begun; put it back, or remove" in printed
    assert not lost.exists()


def test_other_runs_go_on_where_a_record_is_damaged(small, tmp_path, one_core):
    out = tmp_path / "out"
    carry_out(small, out, {"0000": OSError(5, "no")})
    damaged = out / "Pendulum-v1/td3/none/seed-0" / "record.jsonl"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("nonsense\n")
    whole, calls, found = carry_out(small, out, {})
    assert whole
    assert calls == [(["0000"], 0.0)]
    states = {name: run.state for name, run in found.items()}
    assert states.pop("Pendulum-v1/td3/none/seed-0") == "failed"
    assert set(states.values()) == {"done"}
    assert damaged.read_text() == "nonsense\n"


def test_failed_runs_are_trained_again_with_retry(small, tmp_path, one_core):
    out = tmp_path / "out"
    carry_out(small, out, {})
    name = "Pendulum-v1/td3/none/seed-1"
    record = records.Record(out / name / "record.jsonl")
    record.cut(0)
    record.append({"step": 7, "event": "diverged", "quantity": "reward"})
    _, calls, found = carry_out(small, out, {})
    assert calls == [([], 0.0)]
    assert found[name].reason == "reward is not finite (step 7)"
    _, calls, found = carry_out(small, out, {}, retry=True)
    assert calls == [(["0002"], 0.0)]
    assert found[name].state == "done"
    assert json.loads((out / plan.FILE).read_text())["0000"] == ["Pendulum-v1/td3/none/seed-0"]


def test_a_folder_of_another_study_is_refused(small, tmp_path):
    carry_out(small, tmp_path / "out", {})
    small.write_text(SMALL.replace("warmup = 40", "warmup = 41"))
    with pytest.raises(UserError, match=r"holds another study: in .*, warmup is 40 there and 41"):
        carry_out(small, tmp_path / "out", {})


# The commands, with real training


def test_run_status_export(small, tmp_path, capsys):
    out = tmp_path / "out"
    words = [str(small), "--out", str(out)]
    assert discover("status", *words) == 3
    assert "4 runs: 4 waiting; 0.0% of all steps." in capsys.readouterr().out
    assert discover("run", *words, "--minutes", "0") == 3
    assert discover("run", *words, "--tensorboard") == 0
    assert discover("status", *words) == 0
    assert "4 runs: 4 done; 100.0% of all steps." in capsys.readouterr().out
    assert len(list(out.rglob("events.out.tfevents*"))) == 4
    assert discover("export", *words) == 0
    table = pandas.read_csv(out / "small.csv")
    assert len(table) == 4 * 3
    assert set(table.strategy) == {"none", "gaussian"}
    one = table[(table.arm == "gaussian") & (table.seed == 1)]
    assert one.step.tolist() == [0, 60, 120]
    path = out / "Pendulum-v1" / "td3" / "gaussian" / "seed-1" / "record.jsonl"
    lines = pandas.read_json(path, lines=True)
    assert one.return_mean.tolist() == [returns[0] for returns in lines.returns[1:]]


def test_mistakes_write_nothing(small, tmp_path, capsys):
    out = tmp_path / "out"
    small.write_text(SMALL.replace("Pendulum-v1", "Pendulm-v1"))
    assert discover("run", str(small), "--out", str(out)) == 2
    printed = capsys.readouterr().err
    assert printed == "small.toml, task: There is no task Pendulm-v1. Did you mean Pendulum-v1?\n"
    small.write_text(SMALL.replace("Pendulum-v1", "Pendulum"))
    assert discover("run", str(small), "--out", str(out)) == 2
    printed = capsys.readouterr().err
    assert printed == "small.toml, task: a study has whole ids, here Pendulum-v1.\n"
    for words in (["--shard", "3/2"], ["--engine", "raay"], ["--address", "auto"]):
        assert discover("run", str(small), "--out", str(out), *words) == 2
    assert not out.exists()


@pytest.mark.slow
def test_an_environment_that_crashes_ends_its_run_alone(tmp_path, capsys):
    """The environment of run 1 does; the other run of its cohort and the other cohort go on."""
    path, out = tmp_path / "small.toml", tmp_path / "out"
    path.write_text(SMALL.replace("Pendulum-v1", "tests.helpers.fragile:Fragile-v0"))
    assert discover("run", str(path), "--out", str(out), *TRUST) == 1
    printed = capsys.readouterr().out
    for strategy in ("none", "gaussian"):
        name = f"tests.helpers.fragile-Fragile-v0/td3/{strategy}/seed-1"
        reason = "the environment raised RuntimeError: the left hip gave way (step 30)"
        assert f"failed: {name}: {reason}" in printed
    assert "4 runs: 2 done, 2 failed" in printed
    assert discover("status", str(path), "--out", str(out)) == 1


@pytest.mark.slow
def test_a_bad_cell_and_a_file_that_cannot_be_written_fail_only_their_own_runs(tmp_path, capsys):
    path, out = tmp_path / "small.toml", tmp_path / "out"
    both = '["Pendulum-v1", "tests.helpers.fragile:Homebound-v0"]'
    path.write_text(SMALL.replace('"Pendulum-v1"', both))
    study, full = studies.load(str(path)), "Pendulum-v1/td3/gaussian/seed-0"
    blocked = out / full / "policy.json.tmp"
    blocked.mkdir(parents=True)
    assert discover("run", str(path), "--out", str(out), *TRUST) == 1
    printed = capsys.readouterr().out
    assert f"failed: {full}: reading or writing failed: Is a directory" in printed
    assert "no licence away from home" in printed
    states = {run.name: run.state for run in status.statuses(study, out)}
    assert states["Pendulum-v1/td3/none/seed-0"] == "done"
    assert list(states.values()).count("done") == 2
    # When both are out of the way, the same command trains the rest.
    blocked.rmdir()
    path.write_text(SMALL)
    assert discover("run", str(path), "--out", str(out)) == 0


@pytest.mark.slow
def test_two_processes_never_train_the_same_run(small, tmp_path):
    small.write_text(
        SMALL.replace("steps = 120", "steps = 1200").replace("seeds = 2", "seeds = 10")
    )
    words = [sys.executable, "-m", "discover_rl", "run", str(small), "--out"]
    alone = subprocess.run([*words, str(tmp_path / "alone")], capture_output=True, timeout=300)
    assert alone.returncode == 0
    pair = [subprocess.Popen([*words, str(tmp_path / "both")], stdout=-1) for _ in range(2)]
    outputs = [process.communicate(timeout=300)[0].decode() for process in pair]
    assert {process.returncode for process in pair} <= {0, 3}
    # Each cohort was started by one process.
    started = [line for text in outputs for line in text.splitlines() if "started" in line]
    assert len(started) == len(json.loads((tmp_path / "both" / plan.FILE).read_text())) == 4
    assert elsewhere("status", str(small), "--out", str(tmp_path / "both")).returncode == 0
    assert_same_files(tmp_path / "alone", tmp_path / "both")
