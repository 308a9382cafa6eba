"""Modules of one's own: found in the working directory, never imported because a file says so."""

import json
import os
import shutil
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from discover_rl.core.types import PolicyHead, UserError
from discover_rl.envs import objects, tasks
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


def test_a_wrapper_without_a_name_is_asked_for_again(here, capfd, monkeypatch):
    """No module called object is to be trusted."""
    monkeypatch.setattr(objects, "_WRAPPERS", {})  # as in a process of its own
    save_policy(here / "run", "Pendulum-v1", **{"env.wrappers": ["object:lambda"]})
    assert discover("evaluate", "run") == 2
    assert capfd.readouterr().err.startswith("The wrapper object:lambda was an object of the")


@pytest.mark.parametrize("given", ["evil_task:X-v0", "evil_task:1", ["a", ["evil_task:X-v0"]]])
def test_nor_are_those_that_an_argument_names(here, capfd, given):
    """Such as that of Shimmy's GymV21Environment-v0, which makes a task of the older Gym."""
    save_policy(here / "run", "GymV21Environment-v0", **{"env.kwargs.env_id": given})
    assert discover("evaluate", "run") == 2
    assert "would import the module evil_task and run its code" in capfd.readouterr().err
    (here / "study.toml").write_text(
        STUDY.replace("evil_task:Pendulum-v1", "GymV21Environment-v0")
        + f"[set]\n'env.kwargs.env_id' = {json.dumps(given)}\n"
    )
    assert discover("run", "study.toml") == 2
    assert "add --trust evil_task to the command" in capfd.readouterr().err
    # All arguments may also be one table, which may be one of several in a grid.
    table = f'"env.kwargs" = [{{env_id = {json.dumps(given)}}}]'
    (here / "study.toml").write_text(
        STUDY.replace("evil_task:Pendulum-v1", "GymV21Environment-v0") + table
    )
    assert discover("plan", "study.toml") == 2
    assert "add --trust evil_task to the command" in capfd.readouterr().err
    assert not (here / "touched").exists()


OURS = {"env.kwargs.task": "evil_task:Pendulum-v1"}


def test_no_function_of_this_package_is_called_because_a_file_names_it(here, capfd):
    """`discover_rl.train` imports the task that it is given, and writes."""
    save_policy(here / "run", "discover_rl:train", **OURS)
    for trusted in ([], ["--trust", "discover_rl"]):
        assert discover("evaluate", "run", *trusted) == 2
        assert "add --trust evil_task to the command" in capfd.readouterr().err
        assert discover("evaluate", "run", *trusted, "--trust", "evil_task") == 2
        assert "There is no task discover_rl:train" in capfd.readouterr().err
    study = STUDY.replace("evil_task:Pendulum-v1", "discover_rl:train")
    (here / "study.toml").write_text(f'{study}[set]\n"env.kwargs.task" = "evil_task:Pendulum-v1"\n')
    for command in ("run", "plan"):
        assert discover(command, "study.toml", "--trust", "evil_task") == 2
        assert "There is no task discover_rl:train" in capfd.readouterr().err
    save_policy(here / "run", "Pendulum-v1", **{"env.wrappers": ["discover_rl:train"]})
    assert discover("evaluate", "run") == 2
    assert "add --trust discover_rl to the command" in capfd.readouterr().err
    assert {path.name for path in here.iterdir()} == {"evil_task.py", "run", "study.toml"}


def test_for_a_task_of_this_package_the_working_directory_is_not_searched(here, monkeypatch):
    searched = []
    make = gymnasium.make
    monkeypatch.setattr(
        gymnasium, "make", lambda *a, **k: searched.append(str(here) in sys.path) or make(*a, **k)
    )
    tasks.make("discover_rl:SparseHopper-v0").close()
    tasks.make("evil_task:Pendulum-v1").close()
    assert searched == [False, True]


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


def of_script(path, code: str):
    """What comes of a script that does not lie in the working directory."""
    path.parent.mkdir()
    path.write_text(code)
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    return elsewhere(command=(sys.executable, str(path)), env=variables)


@pytest.mark.slow
def test_processes_of_ours_do_not_search_the_working_directory_either(here, tmp_path):
    """Workers, what multiprocessing starts beside them, and the process that evaluates."""
    for module in ("multiprocessing", "pickle", "struct", "numpy", "jax"):
        (here / f"{module}.py").write_text(EVIL)
    code = """
import sys
from pathlib import Path
from discover_rl.config import Request, resolve
from discover_rl.training.engines import local
from discover_rl.training.evaluation import EvaluationSetup
from discover_rl.training.evaluation_process import EvaluationProcess
from discover_rl.training.job import Job

if __name__ == "__main__":
    runs = resolve(Request("Pendulum-v1", "td3", "none", 100))
    Path("occupied").touch()
    job = Job(runs, Path("occupied"), Path("occupied"))  # fails when it begins
    print(local.run([job], lambda *_: None, bool, places={"cpu": 1}))
    evaluator = EvaluationProcess(0.5, EvaluationSetup("Pendulum-v1", [0], 1, None, "gymnasium"))
    evaluator.begin(None, None, None)  # it fails when it reads this, having imported all
    evaluator._process.wait()
"""
    done = of_script(tmp_path / "elsewhere" / "script.py", code)
    assert "occupied cannot be written to" in done.stdout
    assert "ModuleNotFoundError" not in done.stderr
    assert not (here / "touched").exists()


def test_a_worker_imports_a_strategy_of_ones_own_and_nothing_that_lies_beside_it(here, tmp_path):
    for module in ("jax_plugins/evil", "jax_cuda13_plugin"):  # JAX tries these
        (here / module).mkdir(parents=True)
        (here / module / "__init__.py").write_text(EVIL)
    shutil.copy(ROOT / "examples/own_strategy.py", here / "pushy.py")
    with (here / "pushy.py").open("a") as file:
        file.write("from pathlib import Path; Path('imported').touch()\n")
    code = """
from pathlib import Path
from discover_rl import strategies
from discover_rl.config import Request, resolve
from discover_rl.training.engines import local
from discover_rl.training.job import Job

if __name__ == "__main__":
    strategies.registry.find("pushy:push")
    Path("imported").unlink()
    Path("occupied").touch()
    runs = resolve(Request("Pendulum-v1", "td3", "push", 100))
    job = Job(runs, Path("occupied"), Path("occupied"))  # fails when it begins
    print(local.run([job], lambda *_: None, bool, places={"cpu": 1}))
"""
    done = of_script(tmp_path / "elsewhere" / "script.py", code)
    assert "occupied cannot be written to" in done.stdout
    assert (here / "imported").exists()
    assert not (here / "touched").exists()


def test_a_matplotlibrc_in_the_working_directory_draws_nothing(here, monkeypatch):
    import matplotlib as mpl

    from discover_rl.report import style

    monkeypatch.setitem(mpl.rcParams, "text.usetex", True)  # as one that was read at import
    with style.figure(1, 1) as figure:
        figure.text(0, 0, "text")
        assert not mpl.rcParams["text.usetex"]
        style.figure_files(figure)
    assert mpl.rcParams["text.usetex"]


def test_needed_modules_are_those_of_task_and_wrappers():
    settings = json.loads('{"env.wrappers": "a.b:C, d:E"}')
    assert modules.needed("Hopper-v5", settings) == ["a.b", "d"]
    settings = json.loads('{"env.kwargs": {"env_id": "a-b-:C-v0"}, "env.kwargs.x": "d:E"}')
    assert modules.needed("Hopper-v5", settings) == ["a-b-", "d"]


def test_tasks_of_this_package_need_no_trust_and_wrappers_do():
    modules.check_named("study.toml", "discover_rl:SparseHopper-v0", {}, [])
    with pytest.raises(UserError, match="add --trust discover_rl to the command"):
        modules.check_named("x.toml", "Hopper-v5", {"env.wrappers": ["discover_rl:train"]}, [])
