"""What is installed with none of the extras imports and trains; what is missing is named."""

import subprocess
import sys
from pathlib import Path

import pytest

from discover_rl.core.types import UserError
from discover_rl.envs import tasks
from discover_rl.system import extras

ROOT = Path(__file__).parents[2]
OPTIONAL = (
    *("Box2D", "dm_control", "envpool", "gymnasium_robotics", "imageio", "imageio_ffmpeg"),
    *("matplotlib", "mujoco", "openTSNE", "optuna", "pandas", "pygame", "ray", "scipy", "shimmy"),
    *("tensorboardX", "wandb"),
)
"""Modules that extras bring."""
CORE_ALONE = f"""
import sys
for name in {OPTIONAL}:
    sys.modules[name] = None  # importing it is a ModuleNotFoundError
"""
MISSING = (
    ("HalfCheetah-v5", "mujoco"),
    ("SparseHopper-v0", "mujoco"),
    ("BipedalWalker-v3", "box2d"),
)


def with_the_core_alone(code: str) -> list[str]:
    """Run code in a process that finds none of the extras; the lines that it prints."""
    command = [sys.executable, "-W", "error", "-c", CORE_ALONE + code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert not done.returncode, done.stderr
    return done.stdout.splitlines()


def test_the_core_imports_whole_and_names_the_extras_that_are_missing():
    said = with_the_core_alone(f"""
import importlib, pkgutil
import discover_rl
from discover_rl.envs import tasks
from discover_rl.report import style
for _, name, _ in pkgutil.walk_packages(discover_rl.__path__, "discover_rl."):
    name.endswith("__main__") or importlib.import_module(name)
for task, _ in {MISSING}:
    try:
        tasks.make(task)
    except discover_rl.UserError as error:
        print(error)
try:
    style.figure(1, 1).__enter__()
except discover_rl.UserError as error:
    print(error)
print(tasks.make("Pendulum-v1").action_space.shape)
""")
    expected = [
        f"{task} needs a package: pip install 'discover_rl[{extra}]'." for task, extra in MISSING
    ]
    expected.append("A figure needs a package: pip install 'discover_rl[plots]'.")
    assert said == [*expected, "(1,)"]


@pytest.mark.slow
def test_the_core_alone_trains_and_loads(tmp_path):
    *_, last = with_the_core_alone(f"""
import discover_rl
result = discover_rl.train(
    "Pendulum-v1", steps=300, out={str(tmp_path)!r}, hidden=(8, 8), warmup=100,
    **{{"eval.every": 300, "eval.episodes": 1}}
)[0]
print(result.policy().predict([1.0, 0.0, 0.0])[0].shape)
""")
    assert last == "(1,)"


def test_the_cause_of_a_cause_is_found():
    error = RuntimeError("no")
    error.__cause__ = ImportError("neither")
    assert extras.missing_module(error) == ""
    error.__cause__.__cause__ = ModuleNotFoundError("No module", name="mujoco.viewer")
    assert extras.missing_module(error) == "mujoco.viewer"


def test_a_film_without_pygame_names_the_extra():
    error = RuntimeError("no")
    error.__cause__ = ModuleNotFoundError("No module", name="pygame")
    said = tasks.cannot_render("Pendulum-v1", error)
    assert isinstance(said, UserError)
    assert str(said) == "A video needs a package: pip install 'discover_rl[video]'."
