"""The division of a study into cohorts: decided once, and kept."""

import json
import shutil

import pytest

from discover_rl import studies
from discover_rl.core.types import Stopped, UserError
from discover_rl.envs import tasks
from discover_rl.studies import plan
from discover_rl.system import hardware
from discover_rl.training import memory
from tests.studies.conftest import SMALL
from tests.studies.test_campaign import carry_out


def test_cohorts_are_decided_once_and_added_runs_form_new_ones(small, tmp_path, one_core):
    out = tmp_path / "out"
    study = studies.load(str(small))
    assert [len(job.runs) for job in plan.proposed(study, out)] == [2, 2]
    assert not out.exists()
    before = [(job.workdir, [run.name for run in job.runs]) for job in plan.agreed(study, out)]
    small.write_text(SMALL.replace("seeds = 2", "seeds = 4"))
    jobs = plan.agreed(studies.load(str(small)), out)
    after = [(job.workdir, [run.name for run in job.runs]) for job in jobs]
    assert after[:2] == before
    assert [workdir.name for workdir, _ in after] == ["0000", "0001", "0002", "0003"]
    assert {run.seed for job in jobs[2:] for run in job.runs} == {2, 3}


def test_cohorts_fit_into_memory_and_occupy_all_cores(small, monkeypatch):
    small.write_text(SMALL.replace("seeds = 2", "seeds = 10").replace('"none", ', ""))
    runs = studies.load(str(small)).runs
    monkeypatch.setattr(hardware, "cores", lambda: 1)
    assert [len(lanes) for lanes in plan.divided(runs)] == [5, 5]
    monkeypatch.setattr(hardware, "cores", lambda: 4)
    assert [len(lanes) for lanes in plan.divided(runs)] == [3, 3, 2, 2]
    each = memory.need(runs[0], tasks.check("Pendulum-v1")).total
    monkeypatch.setattr(hardware, "memory", lambda: int(4 * 1.5 * each))
    assert [len(lanes) for lanes in plan.divided(runs)] == [1] * 10
    assert sorted(run.seed for lanes in plan.divided(runs) for run in lanes) == [*range(10)]


def test_a_task_that_cannot_be_made_yet_is_divided_like_any_other(small, monkeypatch):
    """The division is kept, so the task must train in full cohorts once it can be made."""
    small.write_text(SMALL.replace("seeds = 2", "seeds = 10"))
    runs = studies.load(str(small)).runs
    expected = plan.divided(runs)

    def unmakeable(task, **_):
        raise tasks.Unmakeable(f"{task} needs a module that is not installed.")

    monkeypatch.setattr(tasks, "make", unmakeable)
    assert plan.divided(runs) == expected
    assert len(expected[0]) == 5


def test_an_edited_study_forms_other_cohorts_or_is_refused(small, tmp_path, one_core):
    """Two arms share a cohort, until one of them gets a static setting."""
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


def test_a_cohort_that_has_ended_stays_though_its_runs_are_no_longer_one_program(
    small, tmp_path, one_core
):
    """As when a setting in which lanes may differ becomes a part of the program."""
    out = tmp_path / "out"
    carry_out(small, out, {})
    none, gaussian = (f"Pendulum-v1/td3/{strategy}/seed-" for strategy in ("none", "gaussian"))
    division = {"0000": [none + "0", gaussian + "0"], "0001": [none + "1", gaussian + "1"]}
    (out / plan.FILE).write_text(json.dumps(division | {"0001": [none + "1"]}))
    shutil.rmtree(out / (none + "1"))
    whole, calls, _ = carry_out(small, out, {})
    assert whole
    assert calls == [(["0001"], 0.0)]
    assert json.loads((out / plan.FILE).read_text())["0000"] == division["0000"]
    (out / plan.FILE).write_text(json.dumps(division))
    shutil.rmtree(out / (none + "1"))
    with pytest.raises(UserError, match="holds another study, in which"):
        carry_out(small, out, {})
