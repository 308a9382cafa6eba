"""The package builds, and its files and metadata are whole."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

from discover_rl import __version__
from discover_rl.system.extras import EXTRAS

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.mark.slow
def test_the_package_builds_with_everything_that_it_needs(tmp_path):
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True)
    assert not done.returncode, done.stdout + done.stderr
    with tarfile.open(tmp_path / f"discover_rl-{__version__}.tar.gz") as source:
        names = {name.partition("/")[2] for name in source.getnames()}
    beside = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "examples/demo.py"}
    beside |= {"tests/test_packaging.py"}
    beside |= {"mkdocs.yml", "docs/studies.md", "results/queue.md"}  # of these the site is built
    assert beside <= names
    with zipfile.ZipFile(tmp_path / f"discover_rl-{__version__}-py3-none-any.whl") as wheel:
        inside = set(wheel.namelist())
        metadata = wheel.read(f"discover_rl-{__version__}.dist-info/METADATA").decode()
    package = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "discover_rl").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert package == {name for name in inside if not name.startswith("discover_rl-")}
    assert f"Project-URL: Paper, {PROJECT['urls']['Paper']}" in metadata


def test_extras_that_messages_name_exist():
    written = " ".join(path.read_text() for path in (ROOT / "discover_rl").rglob("*.py"))
    named = set(re.findall(r"extras\.hint\([^)]*, \"(\w+)\"\)", written)) | set(EXTRAS.values())
    assert {"mujoco", "box2d", "tune", "wandb"} <= named
    assert named <= set(PROJECT["optional-dependencies"])


def test_the_citation_names_this_version_and_the_paper():
    citation = (ROOT / "CITATION.cff").read_text()
    assert f"version: {__version__}\n" in citation
    assert PROJECT["urls"]["Paper"] in citation
