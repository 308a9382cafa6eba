"""The estimated cost of a study, against sums by hand."""

import dataclasses
import itertools
import os

import pytest

from discover_rl import studies
from discover_rl.agents.off_policy import agent
from discover_rl.core.types import Stopped, UserError
from discover_rl.envs import tasks
from discover_rl.envs.settings import Env, Making
from discover_rl.studies import estimate, plan, speed
from discover_rl.system import hardware
from discover_rl.training import engines, memory
from discover_rl.training.events import Stepped
from tests.cli.test_cli import discover
from tests.studies.conftest import SMALL


@pytest.fixture(autouse=True)
def fresh_cache(monkeypatch, tmp_path):
    """Nothing is measured yet, and there are two cores."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(hardware, "cores", lambda: 2)


@pytest.fixture
def jobs(small, tmp_path):
    """The two cohorts of the small study."""
    return plan.proposed(studies.load(str(small)), tmp_path / "out")


@pytest.fixture
def pretended(monkeypatch):
    """Measurements of two milliseconds for a step of learning, ten seconds for a start and one
    millisecond for a step of the task; the strategies that are measured."""
    strategies = []

    def measured(job, measuring, on_gpu=1):
        strategies.append(job.runs[0].strategy)
        kind = speed.kind(job)
        return {kind: 2e-3, f"start of {kind}": 10.0}

    monkeypatch.setattr(speed, "of_training", measured)
    monkeypatch.setattr(speed, "of_task", lambda task, _: {f"step of {task}": 1e-3})
    return strategies


def test_hours_are_those_of_starting_learning_and_evaluating(jobs, pretended):
    found = estimate.costs(jobs, estimate.Timings(), str)
    assert len(jobs) == len(found) == 2
    # Two lanes of 120 steps; three evaluations of an episode of 200 steps each.
    each = 10 + 2 * 120 * 2e-3 + 2 * 3 * 200 * 1e-3 * estimate.ACTING
    assert [cost.seconds for cost in found] == [pytest.approx(each)] * 2
    assert estimate.hours(jobs, found) == pytest.approx(each / 3600)  # both at once
    assert estimate.hours(jobs, found, processes=1) == pytest.approx(2 * each / 3600)
    # Measurements are kept.
    assert pretended == ["none", "gaussian"]
    assert estimate.costs(jobs, estimate.Timings(), None) == found
    assert pretended == ["none", "gaussian"]


def test_the_speed_is_measured_over_steps_that_learn(jobs, monkeypatch):
    """On a GPU, where a fused loop reports its last step alone."""
    now = 0.0

    def fused_loops(copies, on_event, stopping, places, halt):
        nonlocal now
        run, step, now = copies[0].runs[0], 0, 7.0
        while not stopping():
            learns = step >= run.hyper.warmup
            until = step + agent.FUSED_STEPS if learns else run.hyper.warmup
            now += 0.002 * (until - step)
            step = until
            on_event(0, Stepped(step))
        return [Stopped(step)]

    monkeypatch.setattr(speed.local, "run", fused_loops)
    monkeypatch.setattr(speed.time, "monotonic", lambda: now)
    job = jobs[0]._replace(place="gpu")
    seconds, start = speed.of_training(job, str).values()
    assert seconds == pytest.approx(0.001)  # for each of two lanes
    assert start == pytest.approx(7.0)


def test_cohorts_at_once_are_measured_while_all_of_them_train(jobs, monkeypatch):
    """The first to be compiled trains alone, faster, until the second trains, too. Metrics
    do not interrupt them, and both train until both are measured."""
    now, ends = 0.0, []

    def compiled_one_after_the_other(copies, on_event, stopping, places, halt):
        nonlocal now
        step, second = 0, 0
        while not stopping():
            together = now >= 20.0
            now += 1.0 if together else 0.5
            step += 500
            on_event(0, Stepped(step))
            if together:
                on_event(1, Stepped(second := second + 400))
        ends.extend([step, second])
        assert all(run.metrics.every == -1 for copy in copies for run in copy.runs)
        return [Stopped(step), Stopped(second)]

    monkeypatch.setattr(speed.local, "run", compiled_one_after_the_other)
    monkeypatch.setattr(speed.time, "monotonic", lambda: now)
    seconds, start = speed.of_training(jobs[0]._replace(place="gpu"), str, 2).values()
    assert seconds == pytest.approx((1 / 500 + 1 / 400) / 2 / 2)  # of each of two lanes
    assert ends[1] == 400 + 8 * 400  # the slower one decides
    assert start < 21.0


def test_a_measurement_ends_although_one_cohort_ended_before_the_other_began(jobs, monkeypatch):
    now = 0.0

    def one_after_the_other(copies, on_event, stopping, places, halt):
        nonlocal now
        for number in range(2):
            for step in range(500, 5000, 500):
                now += 1.0
                on_event(number, Stepped(step))
        return [None, None]

    monkeypatch.setattr(speed.local, "run", one_after_the_other)
    monkeypatch.setattr(speed.time, "monotonic", lambda: now)
    seconds, _ = speed.of_training(jobs[0]._replace(place="gpu"), str, 2).values()
    assert seconds == pytest.approx(1 / 500 / 2)


def test_what_cannot_be_measured_is_one_sentence(jobs, monkeypatch):
    making = Making(kwargs=(("parts", 4),))
    with pytest.raises(UserError, match=r"Answers-v0 cannot be measured: step returned 4 values"):
        speed.of_task("tests.envs.odd_tasks:Answers-v0", str, making)
    monkeypatch.setattr(speed.local, "run", lambda *_, **__: [None])  # all of its lanes have failed
    with pytest.raises(UserError, match=r"on Pendulum-v1 cannot be measured: it ended"):
        speed.of_training(jobs[0], str)


def test_environments_of_a_run_are_measured_together(jobs, monkeypatch):
    """In whole steps of all of them, under a name of their own."""
    asked = []

    def made(copies, on_event, stopping, places, halt):
        asked.append(copies[0].runs[0])
        for step in itertools.takewhile(lambda _: not stopping(), itertools.count(70, 70)):
            for number in range(len(copies)):
                on_event(number, Stepped(step))
        return [None]

    monkeypatch.setattr(speed.local, "run", made)
    together = [dataclasses.replace(it, env=Env(count=7)) for it in jobs[0].runs]
    name, _ = speed.of_training(jobs[0]._replace(runs=together), str)
    assert name.endswith(", 7 environments")
    assert (asked[0].steps % 7, asked[0].eval.every % 7) == (0, 0)


def test_nothing_is_measured_unless_requested(jobs, pretended):
    found = estimate.costs(jobs, estimate.Timings(), None)
    assert [cost.seconds for cost in found] == [None, None]
    assert estimate.hours(jobs, found) is None
    assert pretended == []


def test_each_task_has_the_cost_of_its_own_physics(jobs, pretended, monkeypatch):
    seconds = {"Pendulum-v1": 1e-3, "InvertedPendulum-v5": 4e-3}
    monkeypatch.setattr(speed, "of_task", lambda task, _: {f"step of {task}": seconds[task]})
    run = jobs[0].runs[0]
    text = SMALL.replace('"Pendulum-v1"', '["Pendulum-v1", "InvertedPendulum-v5"]')
    study = studies.declared(text, "two", "two.toml")
    both = plan.proposed(study, jobs[0].out)
    found = estimate.costs(both, estimate.Timings(), str)
    pairs = zip(both, found, strict=True)
    slow = [cost.seconds for job, cost in pairs if job.runs[0].task != run.task]
    each = 10 + 2 * 120 * (2e-3 + 3e-3) + 2 * 3 * 1000 * 4e-3 * estimate.ACTING
    assert tasks.time_limit("InvertedPendulum-v5") == 1000
    assert slow == [pytest.approx(each)] * 2
    assert pretended == ["none", "gaussian"]


def test_memory_is_what_training_checks_and_disk_has_the_replay(jobs):
    found = estimate.costs(jobs, estimate.Timings(), None)
    for job, cost in zip(jobs, found, strict=True):
        each = memory.need(job.runs[0], tasks.check("Pendulum-v1"))
        assert cost.memory == 2 * each.total
        assert 2 * each.data < cost.disk < cost.memory
    ram, disk = estimate.peak(jobs, found)
    assert ram == sum(cost.memory for cost in found)
    assert disk == sum(cost.disk + cost.kept for cost in found)
    assert engines.places() == {"cpu": 2, "gpu": 1}


def test_the_command_measures_once_and_trains_nothing(jobs, pretended, tmp_path, capsys):
    words = ["plan", str(tmp_path / "small.toml"), "--out", str(tmp_path / "out")]
    assert discover(*words, "--no-measure") == 0
    assert "How long it takes is not known" in capsys.readouterr().out
    assert discover(*words) == 0
    printed = capsys.readouterr().out
    assert "4 runs of 120 steps in 2 cohorts; 4 of them to be trained." in printed
    assert "on this machine, 2 cohorts at once." in printed
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_a_measurement_is_of_the_right_size(jobs, capsys):
    found = estimate.costs(jobs, estimate.Timings(), str)
    for cost in found:
        assert cost.seconds is not None
        assert 1.0 < cost.seconds < 300.0
    assert not jobs[0].out.exists()


# One after the other, or side by side


@pytest.fixture
def on_gpu(jobs, monkeypatch):
    """The two cohorts, as if they were on a GPU with memory for both."""
    monkeypatch.setattr(hardware, "gpu_memory", lambda: 10**12)
    return [job._replace(place="gpu") for job in jobs]


def measurements(monkeypatch, alone, at_once):
    """Pretend that a step of a lane takes so long, alone and with another cohort at once."""
    asked = []

    def measured(job, measuring, count=1):
        asked.append((job.runs[0].strategy, count))
        name = speed.kind(job, count)
        return {name: alone if count == 1 else at_once, f"start of {name}": 1.0}

    monkeypatch.setattr(speed, "of_training", measured)
    return asked


@pytest.mark.parametrize(
    ("at_once", "chosen"),
    [(1.5e-3, 2), (1.95e-3, 1), (3e-3, 1)],  # faster, not by enough, slower
)
def test_cohorts_train_side_by_side_where_that_was_measured_as_faster(
    on_gpu, monkeypatch, at_once, chosen
):
    asked = measurements(monkeypatch, 1e-3, at_once)
    assert estimate.at_once(on_gpu, estimate.Timings(), str) == chosen
    assert asked == [("none", 1), ("gaussian", 1), ("none", 2), ("gaussian", 2)]
    # `discover run` measures nothing, and does what plan found.
    assert estimate.at_once(on_gpu, estimate.Timings()) == chosen
    assert len(asked) == 4
    assert engines.places(on_gpu=chosen)["gpu"] == chosen
    assert engines.places(3, on_gpu=chosen)["gpu"] == 3  # what the user asks for comes first


def test_what_was_measured_without_mps_does_not_decide_with_it(on_gpu, monkeypatch):
    measurements(monkeypatch, 1e-3, 3e-3)
    assert estimate.at_once(on_gpu, estimate.Timings(), str) == 1
    monkeypatch.setattr(hardware, "has_mps", lambda: True)
    asked = measurements(monkeypatch, 1e-3, 1.5e-3)
    assert estimate.at_once(on_gpu, estimate.Timings()) == 1  # not known yet
    assert estimate.at_once(on_gpu, estimate.Timings(), str) == 2
    assert asked == [("none", 2), ("gaussian", 2)]
    monkeypatch.setattr(hardware, "has_mps", lambda: False)
    assert estimate.at_once(on_gpu, estimate.Timings()) == 1


def test_the_longest_cohort_decides_what_is_faster(on_gpu, monkeypatch):
    """Side by side, a long cohort beside a short one takes as long as it takes alone and more."""
    first, second = on_gpu
    longer = [dataclasses.replace(run, steps=480) for run in first.runs]
    measurements(monkeypatch, 1e-3, 1.3e-3)  # .65 of the time if both were equally long
    pair = [first._replace(runs=longer), second]
    assert estimate.at_once(pair, estimate.Timings(), str) == 1
    assert estimate._until_all_end([4.0, 1.0], 1) == 5.0
    assert estimate._until_all_end([4.0, 1.0], 2) == 4.0
    assert estimate._until_all_end([1.0, 2.0, 2.0, 4.0], 2) == 6.0


def test_they_train_one_after_the_other_where_nothing_is_known_or_memory_is_short(
    on_gpu, jobs, monkeypatch
):
    assert estimate.at_once(on_gpu, estimate.Timings()) == 1
    measurements(monkeypatch, 1e-3, 1e-3)
    assert estimate.at_once(on_gpu[:1], estimate.Timings(), str) == 1
    assert estimate.at_once(jobs, estimate.Timings(), str) == 1  # on a CPU
    monkeypatch.setattr(hardware, "gpu_memory", lambda: 1000)
    assert estimate.at_once(on_gpu, estimate.Timings(), str) == 1


def test_the_estimate_is_of_cohorts_side_by_side(on_gpu, monkeypatch):
    measurements(monkeypatch, 1e-3, 1.5e-3)
    monkeypatch.setattr(speed, "of_task", lambda task, _: {f"step of {task}": 1e-9})
    found = estimate.costs(on_gpu, estimate.Timings(), str, on_gpu=2)
    each = 1 + 2 * 120 * 1.5e-3
    assert [cost.seconds for cost in found] == [pytest.approx(each, rel=1e-3)] * 2
    assert estimate.hours(on_gpu, found, on_gpu=2) == pytest.approx(each / 3600, rel=1e-3)
    assert estimate.peak(on_gpu, found, on_gpu=2)[0] == sum(cost.memory for cost in found)


@pytest.mark.parametrize(
    "content", [b"null", b"[1]", b"5", b'{"a": "b"}', b"\xff", b"[" * 10**5, None]
)
def test_measurements_that_cannot_be_read_are_made_again(jobs, pretended, content):
    path = estimate.Timings()._path
    path.parent.mkdir(parents=True)
    if content is None:
        os.mkfifo(path)
    else:
        path.write_bytes(content)
    before = estimate.costs(jobs, estimate.Timings(), str)
    assert all(cost.seconds for cost in before)
    assert estimate.costs(jobs, estimate.Timings(), None) == before
