"""What files and paths can do to a command: nothing, but be named in a sentence."""

import errno
import json
import os
import re

import numpy as np
import pytest

from discover_rl import api, studies
from discover_rl.storage import files, load_policy
from discover_rl.system.text import printable
from tests.cli.test_cli import discover
from tests.helpers.records import write_record
from tests.system.test_modules import save_policy

COMMANDS = [
    *(f"{command} smoke --out f" for command in ("status", "export", "report", "run", "watch")),
    *("plan smoke --out f --no-measure", "report smoke --to f", "theory --out f"),
    *("train Pendulum-v1 --out f", "tune Pendulum-v1 --range gamma=0:1 --out f"),
    *("evaluate f", "visitation f f", "visitation d d --to f"),
]
NASTY = "\x1b[2J\x1b]0;title\x07[bold red]gone[/bold red] [/x] :smile:"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A working directory with a file f and a folder d."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").write_text("")
    (tmp_path / "d").mkdir()
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_a_file_in_place_of_a_folder_is_said(capfd, command):
    assert discover(*command.split()) == 2
    assert capfd.readouterr() == ("", "f is a file, and a folder is needed.\n")


@pytest.mark.parametrize("command", ["export smoke --to d", "evaluate . --video d"])
def test_a_folder_in_place_of_a_file_is_said(capfd, command):
    assert discover(*command.split()) == 2
    assert capfd.readouterr() == ("", "d is a folder, and a file is needed.\n")


def test_a_folder_without_permission_is_said(capfd, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    for words in ("evaluate d", "status smoke --out d", "visitation d d", "theory --out d"):
        assert discover(*words.split()) == 2
        assert capfd.readouterr() == ("", "d cannot be read: you have no permission.\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_below_a_file_is_said(capfd, command):
    assert discover(*re.sub(r"\bf$", "f/x", command).split()) == 2
    assert capfd.readouterr() == ("", "f is a file, and a folder is needed.\n")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_path_without_a_letter_is_no_path(capfd, here, command):
    assert discover(*("" if word == "f" else word for word in command.split())) == 2
    assert capfd.readouterr().err == "A path is needed, not ''; the working directory is '.'.\n"
    assert sorted(path.name for path in here.iterdir()) == ["d", "f"]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("tune Pendulum-v1 --range gamma=0:1 --storage d", "d is a folder, and a file is needed."),
        ("tune Pendulum-v1 --range gamma=0:1 --storage=", "A path is needed, not ''"),
        ("evaluate d --task=", "--task takes a Gymnasium id, or module:id, not ''."),
    ],
)
def test_an_empty_word_or_a_folder_is_said(capfd, command, said):
    assert discover(*command.split()) == 2
    assert capfd.readouterr().err.startswith(said)


@pytest.mark.parametrize(
    ("number", "code", "intact"),
    [(errno.ENOSPC, 1, True), (errno.EIO, 1, False), (errno.EACCES, 2, False)],
)
def test_that_nothing_is_lost_is_said_only_where_it_is_known(
    capfd, monkeypatch, number, code, intact
):
    def launch(*_, **__):
        raise OSError(number, os.strerror(number), "out/x")

    monkeypatch.setattr(api, "launch", launch)
    assert discover("train", "Pendulum-v1") == code
    err = capfd.readouterr().err
    assert ("the last checkpoint are intact" in err) == intact
    assert "out/x" in err
    assert err.count("\n") == 1


def test_too_little_memory_is_said(capfd, monkeypatch):
    def launch(*_, **__):
        raise MemoryError("Unable to allocate 149. GiB")

    monkeypatch.setattr(api, "launch", launch)
    assert discover("train", "Pendulum-v1") == 1
    assert capfd.readouterr().err == "Memory does not suffice (Unable to allocate 149. GiB).\n"


def test_a_task_that_fails_is_said_and_has_no_score(here, capfd):
    save_policy(here / "run", "Pendulum-v1", **{"env.kwargs.g": "heavy"})
    assert discover("evaluate", "run", "--episodes", "1") == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.startswith("Pendulum-v1 could not be played: the environment raised TypeError: ")


def test_a_policy_whose_actions_overflow_has_no_score(here, capfd):
    save_policy(here / "run", "Pendulum-v1")
    weights = np.float32([[3e38], [-3e38], [3e38]])
    large = {"mean": np.full(3, 3e38, np.float32), "deviation": np.full(3, 1e-38, np.float32)}
    last = {"weight": weights, "bias": np.zeros(1, np.float32)}
    policy = load_policy(here / "run")
    policy.net = {"input": large, "head": last}
    for name, content in policy.to_bytes().items():
        (here / "run" / name).write_bytes(content)
    assert discover("evaluate", "run", "--episodes", "1") == 2
    said = "Pendulum-v1 could not be played: the policy's actions are not finite.\n"
    assert capfd.readouterr() == ("", said)


def test_a_full_disk_of_a_report_says_nothing_of_checkpoints(here, capfd, monkeypatch):
    write_record(here / "results/smoke", studies.load("smoke").cells[0], 0, [1.0, 2.0])

    def write(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "x")

    monkeypatch.setattr(files, "write", write)
    assert discover("report", "smoke") == 1
    assert "intact" not in capfd.readouterr().err


# Terminal


def test_what_a_terminal_would_obey_is_written_out():
    assert printable("a\x1b[31m\x9b\r\n\tß±日\u202e") == "a\\x1b[31m\\x9b\\x0d\n\tß±日\\u202e"


def test_a_reason_from_a_file_neither_moves_the_cursor_nor_is_markup(here, capfd):
    workdir = here / "results/smoke/cohorts/0000"
    workdir.mkdir(parents=True)
    names = ["Pendulum-v1/td3/none/seed-0"]
    (here / "results/smoke/cohorts.json").write_text(json.dumps({"0000": names}))
    (workdir / "trouble.json").write_text(json.dumps({"reason": NASTY}))
    assert discover("status", "smoke") == 1
    out, err = capfd.readouterr()
    assert "\x1b" not in out + err
    assert "\\x1b[2J\\x1b]0;title\\x07[bold red]gone[/bold red] [/x] :smile:" in out


def test_a_policys_task_neither_moves_the_cursor_nor_is_markup(here, capfd):
    save_policy(here / "run", NASTY)
    assert discover("evaluate", "run", "--task", "Pendulum-v1", "--episodes", "1") == 0
    out, _ = capfd.readouterr()
    assert "\x1b" not in out
    assert "[/x]" in out
    assert discover("evaluate", "run") == 2
    assert "\x1b" not in capfd.readouterr().err


def test_a_study_that_is_listed_neither_moves_the_cursor_nor_is_markup(here, capfd):
    grid = '[grid]\ntask = "Pendulum-v1"\nalgorithm = "td3"\nstrategy = "none"\n'
    (here / "mine.toml").write_text(f"about = {json.dumps(NASTY)}\nsteps = 100\n{grid}")
    assert discover("list", "mine.toml") == 0
    out, _ = capfd.readouterr()
    assert "\x1b" not in out
    assert "[bold red]gone[/bold red]" in out
