"""Curves in Weights & Biases: one of its runs for each of ours."""

import os
import sys

import numpy as np
import pytest

from discover_rl.core.types import UserError
from discover_rl.storage.records import Record
from discover_rl.system.paths import SpecialFile
from discover_rl.training.observers.weights_and_biases import WeightsAndBiases
from tests.cli.test_cli import TINY, discover
from tests.training.test_observers import ONE, OTHER


def test_each_run_is_one_of_theirs(tmp_path, wandb):
    out = tmp_path / "pendulum"
    observer = WeightsAndBiases(out, "exploration")
    assert (wandb.logins, wandb.runs) == ([0], [])
    observer.started([ONE, OTHER], 0)
    for step in (0, 20):
        observer.evaluated(ONE, step, [1.0, 4.0], {"q": 0.5, "bad": None} if step else {})
        observer.evaluated(OTHER, step, [2.0], {})
    observer.noted(OTHER, 33, "critic is not finite")
    one, other = wandb.runs
    for run, theirs in ((ONE, one), (OTHER, other)):
        options = dict(theirs.options)
        assert options.pop("id") == (out / run.name / "wandb-id").read_text().strip()
        assert options == {
            "project": "exploration",
            "name": run.name,
            "group": "pendulum",
            "config": run.to_json(),
            "resume": "allow",
            "reinit": "create_new",
            "settings": {"console": "off"},
        }
    assert one.options["id"] != other.options["id"]
    moments = {"return/mean": 2.5, "return/sd": 1.5}
    assert one.logged == [(0, moments), (20, moments | {"report/q": 0.5})]
    assert other.summary == {"note": "step 33: critic is not finite"}
    observer.finished([ONE])
    assert (one.open, other.open) == (False, True)
    observer.finished([OTHER])
    assert not other.open


def test_metrics_of_training_are_in_the_row_of_an_evaluation_of_their_step(tmp_path, wandb):
    observer = WeightsAndBiases(tmp_path, "exploration")
    for step in (500, 1000):
        observer.measured(ONE, step, {"kl": 0.1, "return": None}, 90.0)
    observer.evaluated(ONE, 1000, [2.0], {})
    observer.measured(ONE, 1000, {"kl": 0.1}, 80.0)  # again, after a checkpoint
    measured = {"train/kl": 0.1, "train/steps_per_second": 90.0}
    moments = {"return/mean": 2.0, "return/sd": 0.0}
    assert wandb.runs[0].logged == [(500, measured), (1000, measured | moments)]


def test_a_resumed_run_goes_on_in_the_same_run_of_theirs(tmp_path, wandb):
    for steps in [(0, 10, 20), (10, 20, 30)]:  # stopped, and resumed in the same process
        observer = WeightsAndBiases(tmp_path, "exploration")
        for step in steps:
            observer.evaluated(ONE, step, [1.0], {})
    (first,) = wandb.runs
    assert [step for step, _ in first.logged] == [0, 10, 20, 30]
    observer.finished([ONE])
    observer.evaluated(ONE, 30, [1.0], {})  # as in another process, which has no run open
    assert wandb.runs[1].options["id"] == first.options["id"]
    (tmp_path / ONE.name / "wandb-id").unlink()  # as a user who removes the folder to start over
    observer.evaluated(ONE, 0, [1.0], {})
    assert wandb.runs[2].options["id"] != first.options["id"]


def test_the_command_logs(tmp_path, wandb):
    words = "train", *TINY, "--out", str(tmp_path), "--processes", "1", "--wandb", "exploration"
    assert discover(*words) == 0
    assert [theirs.options["name"] for theirs in wandb.runs] == [ONE.name, OTHER.name]
    for theirs in wandb.runs:
        assert not theirs.open
        lines = Record(tmp_path / theirs.options["name"] / "record.jsonl").evaluations
        means = [(line["step"], np.mean(line["returns"])) for line in lines]
        assert [(step, numbers["return/mean"]) for step, numbers in theirs.logged] == means


def test_a_missing_package_is_named(tmp_path, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "wandb", None)
    monkeypatch.chdir(tmp_path)
    assert discover("train", *TINY, "--wandb", "exploration") == 2
    assert capfd.readouterr().err == (
        "Weights & Biases needs a package: pip install 'discover_rl[wandb]'.\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", ["login", "init"])
def test_a_refused_login_says_how_to_log_in(tmp_path, wandb, where):
    def refuse(**_):
        raise wandb.Error("no key")

    setattr(wandb, where, refuse)
    with pytest.raises(UserError, match=r"in \(no key\); run `wandb login`, or set WANDB_MODE=off"):
        WeightsAndBiases(tmp_path, "exploration").evaluated(ONE, 0, [1.0], {})


@pytest.mark.parametrize("content", [b"", b"../x", b"a b", b"\xff\xfe", b"x" * 5000, None])
def test_what_is_no_id_of_theirs_is_refused(tmp_path, wandb, content):
    path = tmp_path / ONE.name / "wandb-id"
    path.parent.mkdir()
    if content is None:
        os.mkfifo(path)
    else:
        path.write_bytes(content)
    with pytest.raises((UserError, SpecialFile)):
        WeightsAndBiases(tmp_path, "exploration").evaluated(ONE, 0, [1.0], {})
    assert wandb.runs == []
