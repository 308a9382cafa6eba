"""What a person sees of a study."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from discover_rl import board, display, studies
from discover_rl.jobs import Job
from discover_rl.store import Taken
from discover_rl.types import Stopped
from tests.test_campaign import SMALL


@pytest.fixture
def jobs():
    text = SMALL.replace('"Pendulum-v1"', '["Pendulum-v1", "InvertedDoublePendulum-v5"]')
    study = studies.declared(text, "small", "small.toml")
    return [Job(cell.runs, Path("out"), Path(cell.name)) for cell in study.cells]


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves."""
    now = [100.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    return now


def drawn(screen: board.Screen) -> list[str]:
    console = Console(file=io.StringIO(), width=80)
    console.print(screen.render())
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_the_table_tells_of_cohorts_at_work_within_80_columns(jobs, clock, capsys):
    screen = board.Screen()
    screen.planned(jobs, 8, 0)
    assert drawn(screen) == ["0 of 4 cohorts ended, 4 waiting or starting"]
    for job in jobs[:2]:
        screen.heard(job, "started", (job.runs, 0))
    clock[0] += 10
    screen.heard(jobs[0], "stepped", (60,))
    screen.heard(jobs[0], "evaluated", (jobs[0].runs[0], 60, [1.0, 2.0], {}))
    head, first, second, last = drawn(screen)
    assert head.split() == ["cohort", "runs", "step", "steps/s", "left", "last", "return"]
    # Two lanes of 60 steps in ten seconds; 60 more take ten more.
    assert first.split() == ["Pendulum-v1/td3/none", "2", "60", "50%", "12", "10", "s", "1.5"]
    assert second.split()[0] == "Pendulum-v1/td3/gaussian"
    # 120 of the first, 240 of each of the three others, at 12 a second.
    assert last == "0 of 4 cohorts ended, 2 waiting or starting · about 1 min left at 12 steps/s"
    screen.ended(jobs[0], None)
    screen.ended(jobs[1], OSError(28, "No space left on device"))
    assert drawn(screen)[-1].startswith("2 of 4 cohorts ended")
    said = capsys.readouterr().out
    assert "Pendulum-v1/td3/none: done, last return 1.5 at 60" in said
    assert "Pendulum-v1/td3/gaussian: failed: [Errno 28] No space left on device" in said


def test_long_titles_are_cut_from_the_left(jobs):
    screen = board.Screen()
    screen.planned(jobs, 8, 0)
    assert screen._short(jobs[3]).startswith("…")
    assert len(screen._short(jobs[3])) == board.WIDEST
    assert screen._short(jobs[3]).endswith("/td3/gaussian")
    screen.planned(jobs[:1], 2, 0)
    assert screen._short(jobs[0]) == "none"


def test_logs_have_a_line_for_every_tenth(jobs, capsys):
    lines = board.Lines()
    lines.planned(jobs, 8, 0)
    lines.heard(jobs[0], "started", (jobs[0].runs, 24))
    for step in (25, 36, 37, 120):
        lines.heard(jobs[0], "stepped", (step,))
    lines.heard(jobs[0], "noted", (jobs[0].runs[1], 37, "reward is not finite"))
    lines.ended(jobs[0], Stopped(120))
    lines.ended(jobs[1], Taken("somebody"))
    assert capsys.readouterr().out.splitlines() == [
        "8 runs, 0 of them over; now 8 in 4 cohorts.",
        "Pendulum-v1/td3/none: going on at step 24",
        "Pendulum-v1/td3/none: step 36 of 120",
        "Pendulum-v1/td3/none/seed-1: step 37, reward is not finite",
        "Pendulum-v1/td3/none: stopped at step 120",
        "Pendulum-v1/td3/gaussian: somebody else is training it",
    ]
