"""What the terminal shows of training: plain lines for logs."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from discover_rl import config
from discover_rl.cli.train import show_results
from discover_rl.storage.results import Result
from discover_rl.training.events import EvaluationTime
from discover_rl.training.observers import terminal
from tests.cli.test_cli import SETTINGS


@pytest.fixture
def swept() -> list[config.Run]:
    sweep = {"strategy.sigma": [0.1, 0.2], "gamma": [0.9, 0.99], "actor_lr": [0.001, 0.002]}
    sweep |= {"critic_lr": [0.001, 0.002]}
    return config.resolve(config.Request("Pendulum-v1", "td3", "gaussian", 40, 1, SETTINGS | sweep))


def test_an_evaluation_is_one_line_however_long(swept, capfd):
    terminal.Lines(Path("out")).evaluated(swept[0], 20, [-1234.0, -1235.0], {})
    line = f"{swept[0].name}  step 20  return -1234.5\n"
    assert len(line) > 80
    assert capfd.readouterr().out == line


@pytest.mark.parametrize("folder", ["runs/[/x]", "runs/[bold]", "runs/:smile:"])
def test_a_folders_name_is_printed_as_it_is(swept, capfd, folder):
    terminal.Lines(Path(folder)).started(swept, 0)
    assert f"in {folder}" in " ".join(capfd.readouterr().out.split())
    show_results([], Path(folder + "/longer-than-its-table"))
    assert capfd.readouterr().out.startswith(folder + "/longer-than-its-table\n")


@pytest.mark.parametrize(
    ("evaluations", "columns"),
    [(6, "run steps last return"), (60, "run steps last return mean of last 10 evaluations")],
)
def test_scores_that_are_last_returns_are_shown_once(swept, capfd, tmp_path, evaluations, columns):
    about, steps = swept[0].to_json(), [20 * number for number in range(evaluations)]
    done = Result(tmp_path / "a/seed-0", about, steps, [[float(step)] for step in steps])
    failed = Result(tmp_path / "a/seed-1", about, [0], [[0.0]], {"step": 7}, "reward is not finite")
    show_results([done, failed], tmp_path)
    words = re.sub(r"[^\w.\-/]+", " ", capfd.readouterr().out)
    assert f" {columns} a/seed-0 {steps[-1]:,} ".replace(",", " ") in words
    assert "a/seed-1 7 failed" in words
    assert "a/seed-1 failed reward is not finite" in words


def test_the_share_of_time_that_evaluation_takes_is_printed_once_and_at_the_end(swept, capfd):
    lines = terminal.Lines(Path("out"))
    for _ in range(2):  # cohorts
        lines.started(swept, 0)
        capfd.readouterr()
        learning = swept[0].hyper.warmup
        for step, share in ((0, 0.9), (learning, 0.8), (learning + 4, 0.25), (40, 0.2)):
            lines.on_event(EvaluationTime(step, share))
        lines.finished(swept)
        printed = capfd.readouterr().out.splitlines()
        assert printed == [
            f"Up to step {learning + 4}, evaluation has taken 25% of the time (eval.every, "
            "eval.episodes).",
            "Evaluation took 20% of the time.",
        ]


def test_the_first_line_has_the_number_of_evaluation_episodes(capfd):
    (run,) = config.resolve(
        config.Request("Pendulum-v1", "td3", "none", 2500, 1, {"eval.every": 1000})
    )
    terminal.Lines(Path("out")).started([run], 0)
    assert "evaluated every 1,000 (40 episodes in each run)" in capfd.readouterr().out


def test_the_bar_is_as_wide_as_the_terminal_and_says_when_it_compiles(swept):
    screen, (run, *_) = terminal.Screen(Path("out")), swept

    def drawn(width: int) -> list[str]:
        console = Console(width=width, file=io.StringIO(), force_terminal=True, color_system=None)
        with console.capture() as captured:
            console.print(screen.render())
        return captured.get().splitlines()

    with terminal.console.capture():
        screen.started([run], 0)
    screen.compiling()
    assert "compiling … ·" in drawn(100)[0]
    screen.stepped(10)
    screen.evaluated(run, 10, [-5.0], {})
    screen.measured(run, 10, {"return": -7.25, "kl": 0.1}, 50.0)
    bar, row = drawn(150)
    assert "compiling" not in bar
    assert "steps/s" in bar
    assert bar.endswith("left")
    assert len(bar) == 150
    screen.finished([run])
    assert drawn(150)[0].count("━") - drawn(100)[0].count("━") == 50
    words = " ".join(row.split())
    assert words == f"{run.name} last return -5.0 at 10 in training -7.2"
