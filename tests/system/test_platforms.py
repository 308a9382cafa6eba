"""Systems other than this one: what must work without POSIX, and which Pythons are tested."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from packaging.requirements import Requirement

from discover_rl.core.types import PolicyHead, Spec
from discover_rl.storage.policies import Policy

ROOT = Path(__file__).parents[2]
POSIX_ONLY = ("fcntl", "grp", "posix_ipc", "pty", "pwd", "resource", "syslog", "termios", "tty")
LACKING = {
    "os": (
        *("sched_getaffinity", "sched_setaffinity", "setsid", "killpg", "fork", "O_DIRECTORY"),
        *("sysconf", "statvfs", "getuid", "geteuid", "mkfifo", "nice", "getloadavg"),
    ),
    "signal": ("pthread_sigmask", "SIGKILL", "SIGHUP", "SIGUSR1", "SIGALRM", "setitimer"),
}
"""Names that these modules do not have on Windows."""
WITHOUT_POSIX = f"""
import asyncio, os, signal, sys  # asyncio goes by the platform's name, not by what is there
for name in {POSIX_ONLY}:
    sys.modules[name] = None  # importing it is an ImportError
for module, names in {LACKING}.items():
    for name in names:
        vars(sys.modules[module]).pop(name, None)
"""


def without_posix(code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a process that lacks what Windows lacks."""
    command = [sys.executable, "-c", WITHOUT_POSIX + code]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_policies_load_where_posix_is_missing_and_training_says_what_is(tmp_path):
    net = {"head": {"weight": np.ones((3, 1), np.float32), "bias": np.zeros(1, np.float32)}}
    policy = Policy(net, Spec((3,), (1,), (-2.0,), (2.0,)), PolicyHead(), {"task": "Pendulum-v1"})
    for name, content in policy.to_bytes().items():
        (tmp_path / name).write_bytes(content)
    done = without_posix(f"""
import discover_rl
print(discover_rl.load_policy({str(tmp_path)!r}).predict([0.0, 0.0, 0.0])[0])
try:
    discover_rl.train("Pendulum-v1", out={str(tmp_path / "out")!r}, steps=10)
except discover_rl.UserError as error:
    print(error)
""")
    assert not done.returncode, done.stderr
    action, sentence = done.stdout.splitlines()
    assert action == "[0.]"
    assert sentence.startswith("Training locks its folder by flock, which this system lacks;")
    assert not (tmp_path / "out").exists()


def test_a_plan_that_would_have_to_train_says_so_too(tmp_path):
    (tmp_path / "small.toml").write_text(
        'steps = 3000\n[grid]\ntask = "Pendulum-v1"\nalgorithm = "td3"\nstrategy = "none"\n'
    )
    done = without_posix(f"""
from discover_rl.cli import main
sys.argv = ["discover", "plan", {str(tmp_path / "small.toml")!r}, "--out", {str(tmp_path)!r}]
main()
""")
    assert done.returncode == 2, done.stderr
    assert "Training locks its folder by flock" in done.stderr.splitlines()[-1]


def test_the_workflow_calls_the_verbs_of_the_makefile_on_every_python_that_is_named():
    workflow = (ROOT / ".github/workflows/check.yml").read_text()
    verbs = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = " ".join(re.findall(r"run: make (.*)", workflow)).split()
    assert {"lint", "types", "test"} <= set(called) <= verbs
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [it.rpartition(" ")[2] for it in project["classifiers"] if "Python :: 3." in it]
    (matrix,) = re.findall(r"python-version: \[(.*)\]", workflow)
    assert re.findall(r"[\d.]+", matrix) == named == ["3.11", "3.12", "3.13"]


def test_tests_need_nothing_that_has_no_wheel():
    """labmaze, which dm_control needs, has none for Python 3.13 and is built by Bazel."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    wanted = [Requirement(it) for it in groups["dev"] if isinstance(it, str)]
    (marker,) = [it.marker for it in wanted if it.name == "dm-control"]
    pythons = ("3.11", "3.12", "3.13")
    assert [marker.evaluate({"python_version": it}) for it in pythons] == [True, True, False]


@pytest.mark.parametrize("path", ["pyproject.toml", "constraints.txt"])
def test_envpool_is_wanted_wherever_it_has_wheels(path):
    """There are wheels for Linux, macOS and Windows, of every Python from 3.11 to 3.14."""
    (wanted,) = set(re.findall(r"^[^\n]*envpool[>=]=[^\n]*", (ROOT / path).read_text(), re.M)) - {
        'envpool = ["envpool>=1.2.5,<1.3"]'
    }
    assert ";" not in wanted
