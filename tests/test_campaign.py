"""Studies carried out: what is missing and no more, whatever fails; told by status."""

import json
import subprocess
import sys
from pathlib import Path

import pandas
import pytest

from discover_rl import machine, store, studies, tasks
from discover_rl.observers import Droppable, Observer
from discover_rl.store import Taken
from discover_rl.studies import campaign, plan, progress
from discover_rl.types import Stopped, UserError
from tests.test_cli import discover, elsewhere
from tests.trainings import assert_same_files

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
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def one_core(monkeypatch):
    """Where there is one core a group is not divided for the sake of others."""
    monkeypatch.setattr(machine, "cores", lambda: 1)


def pretend(outcomes):
    """An engine that trains nothing: it writes down that a cohort is done, or fails as told."""
    calls = []

    def engine(jobs, hear, stopping, patience):
        calls.append(([job.desk.name for job in jobs], patience))
        found = []
        for number, job in enumerate(jobs):
            outcome = outcomes.get(job.desk.name)
            if isinstance(outcome, list):
                outcome = outcome.pop(0)
            if outcome is None:
                hear(number, "started", (job.runs, 0))
                for run in job.runs:
                    record = store.Record(job.out / run.name / "record.jsonl")
                    record.begin({"run": run.to_json()})
                    record.append({"step": run.steps, "returns": [1.0], "lengths": [1]})
            found.append(outcome)
            hear(number, "ended", (outcome,))
        return found

    return engine, calls


def carry_out(path: Path, out: Path, outcomes, shard=(1, 1), retry=False):
    study = studies.load(str(path))
    engine, calls = pretend(outcomes)
    jobs = campaign.prepare(study, out, shard, retry)
    whole = campaign.carry_out(jobs, engine, campaign.Board(), Observer(), bool)
    return whole, calls, {it.name: it for it in progress.standings(study, out)}


# The division into cohorts


def test_cohorts_are_decided_once_and_later_runs_form_their_own(small, tmp_path, one_core):
    out = tmp_path / "out"
    study = studies.load(str(small))
    assert [len(job.runs) for job in plan.proposed(study, out)] == [2, 2]
    assert not out.exists()
    before = [(job.desk, [run.name for run in job.runs]) for job in plan.agreed(study, out)]
    small.write_text(SMALL.replace("seeds = 2", "seeds = 4"))
    jobs = plan.agreed(studies.load(str(small)), out)
    after = [(job.desk, [run.name for run in job.runs]) for job in jobs]
    assert after[:2] == before
    assert [desk.name for desk, _ in after] == ["0000", "0001", "0002", "0003"]
    assert {run.seed for job in jobs[2:] for run in job.runs} == {2, 3}


def test_cohorts_are_no_larger_than_memory_and_there_is_one_for_each_core(small, monkeypatch):
    small.write_text(SMALL.replace("seeds = 2", "seeds = 10").replace('"none", ', ""))
    runs = studies.load(str(small)).runs
    monkeypatch.setattr(machine, "cores", lambda: 1)
    assert [len(it) for it in plan.divided(runs)] == [5, 5]
    monkeypatch.setattr(machine, "cores", lambda: 4)
    assert [len(it) for it in plan.divided(runs)] == [3, 3, 2, 2]
    monkeypatch.setattr(machine, "memory", lambda: int(4 * 1.5 * plan.lane_bytes(runs[0])))
    assert [len(it) for it in plan.divided(runs)] == [1] * 10
    assert sorted(it.seed for part in plan.divided(runs) for it in part) == [*range(10)]


def test_a_task_that_cannot_be_made_yet_is_divided_like_any_other(small, monkeypatch):
    """The division is kept: when what it needs is installed, it must not train lane by lane."""
    small.write_text(SMALL.replace("seeds = 2", "seeds = 10"))
    runs = studies.load(str(small)).runs
    expected = plan.divided(runs)

    def unmakeable(task):
        raise tasks.Unmakeable(f"{task} needs a module that is not installed.")

    monkeypatch.setattr(tasks, "make", unmakeable)
    assert plan.divided(runs) == expected
    assert len(expected[0]) == 5


# What is done, and what is not


def test_what_is_done_is_not_done_again(small, tmp_path, one_core):
    whole, calls, found = carry_out(small, tmp_path / "out", {})
    assert whole
    assert calls == [(["0000", "0001"], 0.0)]
    assert {it.state for it in found.values()} == {"done"}
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
    assert failed.reason == "the disk said: No space left on device (x/y)"
    assert found["Pendulum-v1/td3/gaussian/seed-1"].state == "done"
    whole, calls, found = carry_out(small, out, {})
    assert calls[0][0] == ["0000"]
    assert {it.state for it in found.values()} == {"done"}


def test_what_others_train_is_left_to_them_after_a_second_look(small, tmp_path, one_core):
    taken = Taken("somebody")
    whole, calls, found = carry_out(small, tmp_path / "a", {"0000": [taken, taken]})
    assert not whole
    assert calls == [(["0000", "0001"], 0.0), (["0000"], 0.0)]
    assert found["Pendulum-v1/td3/none/seed-0"].state == "waiting"
    # A worker of a killed process is gone after a while.
    whole, _, found = carry_out(small, tmp_path / "b", {"0000": [taken, None]})
    assert whole
    assert {it.state for it in found.values()} == {"done"}


def test_stopped_is_not_failed(small, tmp_path, one_core):
    whole, _, found = carry_out(small, tmp_path / "out", {"0001": Stopped(60)})
    assert not whole
    assert {it.state for it in found.values()} == {"done", "waiting"}


def test_shards_are_all_of_it_and_never_the_same(small, tmp_path, one_core):
    small.write_text(SMALL.replace('"gaussian"', '"gaussian", "ou", "discover", "psne"'))
    study, done = studies.load(str(small)), []
    for i in (1, 2, 3):
        whole, calls, found = carry_out(small, tmp_path / "out", {}, (i, 3))
        assert whole
        done += calls[0][0]
        assert [it.state for it in found.values()].count("done") == [4, 8, 10][i - 1]
    assert sorted(done) == [f"{i:04}" for i in range(5)]
    # Also where there are more parts than groups, and whatever the machines have.
    for n in (2, 3, 7):
        parts = [[run.name for run in plan.part_of(study, (i, n))] for i in range(1, n + 1)]
        assert sorted(name for part in parts for name in part) == sorted(study.names)


def test_an_edited_study_forms_other_cohorts_or_is_refused(small, tmp_path, one_core):
    """Two arms that shared a cohort, until one of them got a setting that is static."""
    arms = SMALL.replace('strategy = ["none", "gaussian"]', 'strategy = "gaussian"')
    arms += '[[arm]]\nname = "a"\n[[arm]]\nname = "b"\ngamma = 0.9\n'
    small.write_text(arms)
    out = tmp_path / "out"
    assert [len(job.runs) for job in plan.agreed(studies.load(str(small)), out)] == [4]
    small.write_text(arms + '"env.reward_delay" = 10\n')
    jobs = plan.agreed(studies.load(str(small)), out)
    assert [len(job.runs) for job in jobs] == [2, 2]
    small.write_text(arms)
    carry_out(small, tmp_path / "begun", {"0000": Stopped(0)})
    (tmp_path / "begun" / jobs[0].runs[0].name).mkdir(parents=True)
    small.write_text(arms + '"env.reward_delay" = 10\n')
    with pytest.raises(UserError, match="holds another study, in which"):
        carry_out(small, tmp_path / "begun", {})


def test_status_notices_that_the_study_has_changed(small, tmp_path, one_core):
    carry_out(small, tmp_path / "out", {})
    small.write_text(SMALL.replace("warmup = 40", "warmup = 41"))
    found = progress.standings(studies.load(str(small)), tmp_path / "out")
    assert {it.state for it in found} == {"failed"}
    assert found[0].reason == "its record is of another study: warmup is 40 there and 41 here"


def test_an_observer_that_raises_is_left_out(small, tmp_path):
    class Loud(Observer):
        def started(self, runs, step):
            raise OSError(28, "No space left on device")

    class Quiet(Observer):
        heard = 0

        def started(self, runs, step):
            self.heard += 1

    study, said, quiet = studies.load(str(small)), [], Quiet()
    engine, _ = pretend({})
    jobs = campaign.prepare(study, tmp_path / "out")
    both = Droppable([Loud(), quiet], said.append)
    assert campaign.carry_out(jobs, engine, campaign.Board(), both, bool)
    assert said == ["Loud is left out from here on: [Errno 28] No space left on device"]
    assert quiet.heard == len(jobs)


@pytest.mark.slow
def test_a_cohort_whose_record_is_gone_is_not_gone_on_with(small, tmp_path, capsys):
    small.write_text(SMALL.replace("steps = 120", "steps = 100_000"))
    words = ["run", str(small), "--out", str(tmp_path / "out"), "--checkpoint-seconds", "0"]
    assert discover(*words, "--minutes", "0.2") == 3
    lost = tmp_path / "out" / "Pendulum-v1" / "td3" / "none" / "seed-1" / "record.jsonl"
    lost.unlink()
    assert discover(*words, "--minutes", "0.2") == 1
    said = capsys.readouterr().out
    assert f"{lost} is gone, though its run was begun; put it back, or remove" in said
    assert not lost.exists()


def test_failed_runs_are_done_again_when_asked(small, tmp_path, one_core):
    out = tmp_path / "out"
    carry_out(small, out, {})
    name = "Pendulum-v1/td3/none/seed-1"
    record = store.Record(out / name / "record.jsonl")
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


# The commands, for real


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
    assert one.return_mean.tolist() == [it[0] for it in lines.returns[1:]]


def test_mistakes_start_nothing(small, tmp_path, capsys):
    out = tmp_path / "out"
    small.write_text(SMALL.replace("Pendulum-v1", "Pendulm-v1"))
    assert discover("run", str(small), "--out", str(out)) == 2
    said = capsys.readouterr().err
    assert said == "small.toml, task: There is no task Pendulm-v1. Did you mean Pendulum-v1?\n"
    for words in (["--shard", "3/2"], ["--engine", "raay"], ["--address", "auto"]):
        assert discover("run", str(small), "--out", str(out), *words) == 2
    assert not out.exists()


@pytest.mark.slow
def test_an_environment_that_crashes_ends_its_run_alone(tmp_path, capsys):
    """Run 1's does; its cohort's other run and the other cohort go on."""
    path, out = tmp_path / "small.toml", tmp_path / "out"
    path.write_text(SMALL.replace("Pendulum-v1", "tests.fragile:Fragile-v0"))
    assert discover("run", str(path), "--out", str(out)) == 1
    said = capsys.readouterr().out
    for strategy in ("none", "gaussian"):
        name = f"tests.fragile-Fragile-v0/td3/{strategy}/seed-1"
        reason = "the environment raised RuntimeError: the left hip gave way (step 30)"
        assert f"failed: {name}: {reason}" in said
    assert "4 runs: 2 done, 2 failed" in said
    assert discover("status", str(path), "--out", str(out)) == 1


@pytest.mark.slow
def test_a_bad_cell_and_a_full_disk_fail_what_they_touch(tmp_path, capsys):
    path, out = tmp_path / "small.toml", tmp_path / "out"
    both = '["Pendulum-v1", "tests.fragile:Homebound-v0"]'
    path.write_text(SMALL.replace('"Pendulum-v1"', both))
    study, full = studies.load(str(path)), "Pendulum-v1/td3/gaussian/seed-0"
    (out / full).mkdir(parents=True)
    (out / full / "policy.json.tmp").symlink_to("/dev/full")
    assert discover("run", str(path), "--out", str(out)) == 1
    said = capsys.readouterr().out
    assert f"failed: {full}: the disk said: No space left on device" in said
    assert "no licence away from home" in said
    states = {it.name: it.state for it in progress.standings(study, out)}
    assert states["Pendulum-v1/td3/none/seed-0"] == "done"
    assert list(states.values()).count("done") == 2
    # The disk is mended and the task taken out: the same command does the rest.
    path.write_text(SMALL)
    assert discover("run", str(path), "--out", str(out)) == 0


@pytest.mark.slow
def test_two_at_once_never_train_the_same_run(small, tmp_path):
    small.write_text(
        SMALL.replace("steps = 120", "steps = 1200").replace("seeds = 2", "seeds = 10")
    )
    words = [sys.executable, "-m", "discover_rl", "run", str(small), "--out"]
    alone = subprocess.run([*words, str(tmp_path / "alone")], capture_output=True, timeout=300)
    assert alone.returncode == 0
    pair = [subprocess.Popen([*words, str(tmp_path / "both")], stdout=-1) for _ in range(2)]
    outputs = [process.communicate(timeout=300)[0].decode() for process in pair]
    assert {process.returncode for process in pair} <= {0, 3}
    # Each cohort was started by one of them.
    started = [line for text in outputs for line in text.splitlines() if "started" in line]
    assert len(started) == len(json.loads((tmp_path / "both" / plan.FILE).read_text())) == 4
    assert elsewhere("status", str(small), "--out", str(tmp_path / "both")).returncode == 0
    assert_same_files(tmp_path / "alone", tmp_path / "both")
