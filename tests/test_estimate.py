"""What a plan says, against sums done by hand."""

import pytest

from discover_rl import agent, engines, machine, studies, tasks
from discover_rl.studies import estimate, plan
from tests.test_campaign import SMALL
from tests.test_cli import discover


@pytest.fixture(autouse=True)
def fresh_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "cores", lambda: 2)


@pytest.fixture
def jobs(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SMALL)
    return plan.proposed(studies.load(str(path)), tmp_path / "out")


@pytest.fixture
def pretended(monkeypatch):
    """Two milliseconds to learn, ten seconds to start, one millisecond for a step of the task."""
    asked = []

    def measured(job, measuring):
        asked.append(job.runs[0].strategy)
        kind = estimate._kind(job)
        return {kind: 2e-3, f"start of {kind}": 10.0}

    monkeypatch.setattr(estimate, "_measured", measured)
    monkeypatch.setattr(estimate, "_physics", lambda task, _: {f"step of {task}": 1e-3})
    return asked


def test_hours_are_learning_starting_and_evaluating(jobs, pretended):
    found = estimate.costs(jobs, estimate.Paces(), str)
    assert len(jobs) == len(found) == 2
    # Two lanes of 120 steps; three evaluations of an episode of 200 steps each.
    each = 10 + 2 * 120 * 2e-3 + 2 * 3 * 200 * 1e-3 * estimate.ACTING
    assert [it.seconds for it in found] == [pytest.approx(each)] * 2
    assert estimate.hours(jobs, found) == pytest.approx(each / 3600)  # both at once
    assert estimate.hours(jobs, found, processes=1) == pytest.approx(2 * each / 3600)
    # What was measured is known from then on; nothing else is.
    assert pretended == ["none", "gaussian"]
    assert estimate.costs(jobs, estimate.Paces(), None) == found
    assert pretended == ["none", "gaussian"]


def test_a_pace_is_measured_of_steps_that_learn(jobs, monkeypatch):
    """On a GPU they are told of by the flight."""
    now = 0.0

    def flights(copies, hear, stopping, places):
        nonlocal now
        run, step, now = copies[0].runs[0], 0, 7.0
        while step < run.steps:
            learns = step >= run.hyper.warmup
            upto = min(run.steps, step + agent.FLIGHT) if learns else run.hyper.warmup
            now += 0.002 * (upto - step)
            step = upto
            hear(0, "stepped", (step,))
        return [None]

    monkeypatch.setattr(estimate.local, "run", flights)
    monkeypatch.setattr(estimate.time, "monotonic", lambda: now)
    job = jobs[0]._replace(place="gpu")
    pace, start = estimate._measured(job, str).values()
    assert pace == pytest.approx(0.001)  # of each of two lanes
    assert start == pytest.approx(7.0)


def test_nothing_is_measured_unasked(jobs, pretended):
    found = estimate.costs(jobs, estimate.Paces(), None)
    assert [it.seconds for it in found] == [None, None]
    assert estimate.hours(jobs, found) is None
    assert pretended == []


def test_another_task_costs_its_own_physics(jobs, pretended, monkeypatch):
    paces = {"Pendulum-v1": 1e-3, "InvertedPendulum-v5": 4e-3}
    monkeypatch.setattr(estimate, "_physics", lambda it, _: {f"step of {it}": paces[it]})
    run = jobs[0].runs[0]
    text = SMALL.replace('"Pendulum-v1"', '["Pendulum-v1", "InvertedPendulum-v5"]')
    study = studies.declared(text, "two", "two.toml")
    both = plan.proposed(study, jobs[0].out)
    found = estimate.costs(both, estimate.Paces(), str)
    slow = [it.seconds for job, it in zip(both, found, strict=True) if job.runs[0].task != run.task]
    each = 10 + 2 * 120 * (2e-3 + 3e-3) + 2 * 3 * 1000 * 4e-3 * estimate.ACTING
    assert tasks.limit("InvertedPendulum-v5") == 1000
    assert slow == [pytest.approx(each)] * 2
    assert pretended == ["none", "gaussian"]


def test_memory_is_that_of_replay_and_networks(jobs):
    found = estimate.costs(jobs, estimate.Paces(), None)
    capacity = jobs[0].runs[0].hyper.replay_size
    replay = capacity * (4 * 3 * 33 / 32 + 4 * 1 * 2 + 4 + 1 + 4)  # rows, actions, reward, end, row
    for cost in found:
        assert cost.memory == pytest.approx(2 * replay, rel=0.01)
        assert cost.disk < cost.memory  # of a million transitions 120 are filled
    memory, disk = estimate.peak(jobs, found)
    assert memory == sum(it.memory for it in found)
    assert disk == sum(it.disk + it.kept for it in found)
    assert engines.places() == {"cpu": 2, "gpu": 1}


def test_the_command_measures_once_and_trains_nothing(jobs, pretended, tmp_path, capsys):
    words = ["plan", str(tmp_path / "small.toml"), "--out", str(tmp_path / "out")]
    assert discover(*words, "--no-measure") == 0
    assert "How long it takes is not known" in capsys.readouterr().out
    assert discover(*words) == 0
    said = capsys.readouterr().out
    assert "4 runs of 120 steps in 2 cohorts; 4 of them to be trained." in said
    assert "on this machine, 2 cohorts at once." in said
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_measurement_is_of_the_right_size(jobs, capsys):
    found = estimate.costs(jobs, estimate.Paces(), str)
    for cost in found:
        assert cost.seconds is not None
        assert 1.0 < cost.seconds < 300.0
    assert not jobs[0].out.exists()
