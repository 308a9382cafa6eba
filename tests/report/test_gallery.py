"""The gallery: its pictures are there and small, and its files do what it says of them."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from discover_rl import studies
from discover_rl.core.types import PolicyHead, Spec
from discover_rl.report import data, groups, published
from discover_rl.storage.policies import Policy

GALLERY = Path(__file__).parents[2] / "docs/gallery"


def test_every_picture_is_there_small_and_shown():
    page = (GALLERY / "README.md").read_text()
    shown = {GALLERY / name for name in re.findall(r"!\[[^]]+\]\(([^)]+)\)", page)}
    assert all(path.is_file() for path in shown)
    own = set(GALLERY.glob("*.png"))
    assert own <= shown
    assert all(path.stat().st_size < 150_000 for path in own)
    assert {"td3-settings-iqm.png", "ppo-published.png"} <= {path.name for path in shown}


@pytest.mark.parametrize(
    ("name", "groups_of"),
    [("gallery", ["td3"]), ("settings", ["td3", "td3-settings"]), ("published", ["ppo"])],
)
def test_studies_have_the_figures_that_are_shown(tmp_path, name, groups_of):
    study = studies.load(str(GALLERY / f"{name}.toml"))
    assert [group.name for group in groups.groups(data.load(study, tmp_path))] == groups_of


def test_made_up_curves_are_understood_and_laid_over_every_line(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["made_up.py", str(tmp_path / "made-up")])
    runpy.run_path(str(GALLERY / "made_up.py"), run_name="__main__")
    found = published.curves(tmp_path / "made-up")
    assert found.notes == ["20 published runs of 4 cells in made-up"]
    study = studies.load(str(GALLERY / "published.toml"))
    assert {published.key(cell) for cell in study.cells} == found.curves.keys()


def test_copies_of_figures_are_small(tmp_path, monkeypatch):
    Image.new("RGB", (1000, 500)).save(tmp_path / "figure.png")
    words = ["small.py", str(tmp_path / "figure.png"), str(tmp_path / "copies")]
    monkeypatch.setattr("sys.argv", words)
    runpy.run_path(str(GALLERY / "small.py"), run_name="__main__")
    with Image.open(tmp_path / "copies" / "figure.png") as copy:
        assert copy.size == (400, 200)


def test_a_film_strip_is_drawn_of_any_policy(tmp_path, monkeypatch, capsys):
    net = {"head": {"weight": np.ones((2, 1), np.float32), "bias": np.zeros(1, np.float32)}}
    about = {"task": "MountainCarContinuous-v0"}
    policy = Policy(net, Spec((2,), (1,), (-1.0,), (1.0,)), PolicyHead(), about)
    for name, content in policy.to_bytes().items():
        (tmp_path / name).write_bytes(content)
    path = tmp_path / "strip.png"
    monkeypatch.setattr("sys.argv", ["strip.py", str(tmp_path), str(path)])
    runpy.run_path(str(GALLERY / "strip.py"), run_name="__main__")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.startswith("999 steps, return ")
