"""The board: a live table of a study's cohorts, and plain lines for logs."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from discover_rl import studies
from discover_rl.cli import board
from discover_rl.core.types import Stopped
from discover_rl.storage.files import FolderInUse
from discover_rl.studies.status import RunStatus
from discover_rl.training.events import Ended, Evaluated, Noted, Started, Stepped
from discover_rl.training.job import Job
from discover_rl.training.observers import terminal
from tests.studies.conftest import SMALL


@pytest.fixture
def jobs():
    """Four cohorts of two runs."""
    text = SMALL.replace('"Pendulum-v1"', '["Pendulum-v1", "InvertedDoublePendulum-v5"]')
    study = studies.declared(text, "small", "small.toml")
    return [Job(cell.runs, Path("out"), Path(cell.name)) for cell in study.cells]


@pytest.fixture
def clock(monkeypatch):
    """A clock that a test moves."""
    now = [100.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    return now


def drawn(screen: board.Screen) -> list[str]:
    """The lines of the table on a terminal with 80 columns."""
    console = Console(file=io.StringIO(), width=80)
    console.print(screen.render())
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def test_the_table_has_the_cohorts_in_training_within_80_columns(jobs, clock, capsys):
    screen = board.Screen()
    screen.planned(jobs, 8, 0)
    assert drawn(screen) == ["0 of 4 cohorts ended, 4 waiting or starting"]
    for job in jobs[:2]:
        screen.on_event(job, Started(job.runs, 0))
    clock[0] += 10
    screen.on_event(jobs[0], Stepped(60))
    screen.on_event(jobs[0], Evaluated(jobs[0].runs[0], 60, [1.0, 2.0], {}))
    head, first, second, last = drawn(screen)
    assert head.split() == ["cohort", "runs", "step", "steps/s", "left", "last", "return"]
    # Two lanes of 60 steps in ten seconds; 60 more take ten more.
    assert first.split() == ["Pendulum-v1/td3/none", "2", "60", "50%", "12", "10", "s", "1.5"]
    assert second.split()[0] == "Pendulum-v1/td3/gaussian"
    # 120 steps of the first and 240 of each of the others are left, at 12 per second.
    assert last == "0 of 4 cohorts ended, 2 waiting or starting · about 1 min left at 12 steps/s"
    screen.on_event(jobs[0], Ended(None))
    screen.on_event(jobs[1], Ended(OSError(28, "No space left on device")))
    assert drawn(screen)[-1].startswith("2 of 4 cohorts ended")
    printed = capsys.readouterr().out
    assert "Pendulum-v1/td3/none: done, last return 1.5 at 60" in printed
    assert "Pendulum-v1/td3/gaussian: failed: [Errno 28] No space left on device" in printed


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
    lines.on_event(jobs[0], Started(jobs[0].runs, 24))
    for step in (25, 36, 37, 120):
        lines.on_event(jobs[0], Stepped(step))
    lines.on_event(jobs[0], Noted(jobs[0].runs[1], 37, "reward is not finite"))
    lines.on_event(jobs[0], Ended(Stopped(120)))
    lines.on_event(jobs[1], Ended(FolderInUse("somebody")))
    assert capsys.readouterr().out.splitlines() == [
        "8 runs: 0 have ended, 8 train now, in 4 cohorts.",
        "Pendulum-v1/td3/none: resumed at step 24",
        "Pendulum-v1/td3/none: step 36 of 120",
        "Pendulum-v1/td3/none/seed-1: step 37, reward is not finite",
        "Pendulum-v1/td3/none: stopped at step 120",
        "Pendulum-v1/td3/gaussian: another process is training it",
    ]


def test_a_share_of_steps_counts_every_task_by_its_own_length():
    text = SMALL.replace("[grid]", '[task_steps]\n"Pendulum-v1" = 40\n\n[grid]', 1)
    text = text.replace('"Pendulum-v1"\n', '["Pendulum-v1", "Hopper-v5"]\n')
    study = studies.declared(text, "small", "small.toml")
    lengths = {name: cell.steps for cell in study.cells for name in cell.names}
    assert len(set(lengths.values())) == 2
    done = [RunStatus(name, "done", steps) for name, steps in lengths.items()]
    assert board._share(study, done) == 1.0
    assert board._lengths(study) == f"up to {max(lengths.values()):,}"


def test_a_status_has_whole_names_of_cells_in_80_columns(monkeypatch):
    text = SMALL.replace("[grid]", '[grid]\n"strategy.lam" = [0.03, 0.1]\n', 1)
    text = text.replace('["none", "gaussian"]', '"discover"')
    study = studies.declared(text, "small", "small.toml")
    console = Console(file=io.StringIO(), width=80)
    monkeypatch.setattr(board, "console", console)
    board.show_status(study, [RunStatus(run.name, "waiting") for run in study.runs])
    printed = "".join(line[:34].strip() for line in console.file.getvalue().splitlines())  # type: ignore[attr-defined]
    assert all(cell.name in printed for cell in study.cells)
