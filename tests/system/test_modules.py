"""Modules of one's own: found in the working directory, never imported because a file says so."""

import json
import os
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from discover_rl.core.types import PolicyHead, UserError
from discover_rl.envs import tasks
from discover_rl.storage.policies import Policy
from discover_rl.system import modules
from tests.cli.test_cli import discover, elsewhere

ROOT = Path(__file__).parents[2]
EVIL = "from pathlib import Path\nPath('touched').touch()\n"
STUDY = """
steps = 100
[grid]
task = "evil_task:Pendulum-v1"
algorithm = "td3"
strategy = "none"
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with a module that leaves a trace when it is imported."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil_task.py").write_text(EVIL)
    yield tmp_path
    sys.modules.pop("evil_task", None)


def save_policy(folder, task, **settings):
    env = gymnasium.make("Pendulum-v1")
    spec = tasks.spec_of(env)
    net = {"head": {"weight": np.zeros((3, 1), np.float32), "bias": np.zeros(1, np.float32)}}
    about = {"task": task, "step": 5, "seed": 0, "settings": settings}
    for name, content in Policy(net, spec, PolicyHead("relu"), about).to_bytes().items():
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)


def test_a_policys_module_is_imported_only_when_it_is_named(here, capfd):
    save_policy(here / "run", "evil_task:Pendulum-v1")
    assert discover("evaluate", "run") == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert err.endswith("if you trust it, add --task evil_task:Pendulum-v1 to the command.\n")
    assert not (here / "touched").exists()
    words = "--task", "evil_task:Pendulum-v1", "--episodes", "1"
    assert discover("evaluate", "run", *words) == 0
    assert (here / "touched").exists()


def test_a_policys_wrappers_are_not_imported_either(here, capfd):
    save_policy(here / "run", "Pendulum-v1", **{"env.wrappers": ["evil_task:Wrap"]})
    assert discover("evaluate", "run") == 2
    assert "add --trust evil_task to the command" in capfd.readouterr().err
    assert not (here / "touched").exists()


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_studys_module_is_imported_only_when_it_is_named(here, capfd, command):
    (here / "study.toml").write_text(STUDY)
    assert discover(command, "study.toml") == 2
    out, err = capfd.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "add --trust evil_task to the command" in err
    assert not (here / "touched").exists()


@pytest.mark.parametrize("command", ["status", "report", "export"])
def test_other_commands_import_nothing(here, command):
    (here / "study.toml").write_text(STUDY)
    discover(command, "study.toml")
    assert not (here / "touched").exists()


def test_the_working_directory_is_searched_only_meanwhile(here):
    before = [*sys.path]
    tasks.make("evil_task:Pendulum-v1").close()
    assert (here / "touched").exists()
    assert sys.path == before
    with pytest.raises(UserError, match="needs a module that is not installed: no_such_task"):
        tasks.make("no_such_task:Pendulum-v1")
    assert sys.path == before


def test_what_lies_in_the_working_directory_is_not_imported(here):
    for package in ("jax_plugins/evil", "typer"):
        (here / package).mkdir(parents=True)
        (here / package / "__init__.py").write_text(EVIL)
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    listed = elsewhere("list", env=variables)
    assert (listed.returncode, listed.stderr) == (0, "")
    code = """
import sys
from discover_rl.cli.main import main
sys.argv = ["discover", "list"]
try:
    main()
except SystemExit:
    import jax
    jax.devices()
"""
    command = sys.executable, "-P", "-c", code
    assert elsewhere(command=command, env=variables).returncode == 0
    assert not (here / "touched").exists()


def test_needed_modules_are_those_of_task_and_wrappers():
    settings = json.loads('{"env.wrappers": "a.b:C,d:E"}')
    assert modules.needed("Hopper-v5", settings) == ["a.b", "d"]


def test_tasks_of_this_package_need_no_trust():
    modules.check_named("study.toml", "discover_rl:SparseHopper-v0", {}, [])
