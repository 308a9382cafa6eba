"""Published results: which cells they belong to, and reading the authors' curves."""

import os

import numpy as np
import pytest

from discover_rl import report
from discover_rl.core.types import UserError
from discover_rl.report import published, tables
from tests.helpers.records import analysed, declare, write_records

TWO = {"task": "Hopper-v5", "algorithm": "td3", "strategy": ["gaussian", "discover"]}


def test_published_numbers_are_those_of_the_same_method():
    def key(task="Hopper-v5", strategy="discover", algorithm="td3", **varied):
        grid = {"task": task, "algorithm": algorithm, "strategy": strategy, **varied}
        return published.key(declare(grid, steps=1_000_000).cells[0])

    assert published.numbers()[key()].mean == pytest.approx(3350.27, abs=0.01)
    assert key(**{"strategy.lam": [0.1, 0.3]}).setting == "0.1"
    assert key(**{"strategy.delayed": [False, True]}).setting == "without_dpu"
    assert key(strategy="gaussian").strategy == "baseline"
    assert key(strategy="none", algorithm="ppo").strategy == "baseline"
    # Greedy policies, rivals, other settings, and what is no measurement of its own:
    for nothing in (
        key(strategy="none"),
        key(strategy="noisynet"),
        key(gamma=[0.9, 0.99]),
        key(task="Humanoid-v5", algorithm="sac"),
        key(task="Ant-v5", algorithm="ddpg"),
        key(task="Pendulum-v1"),
    ):
        assert nothing is None
    assert len(published.numbers()) == 190


@pytest.mark.parametrize(("steps", "shown"), [(1_000_000, True), (1_000, False)])
def test_published_numbers_are_beside_runs_as_long(tmp_path, steps, shown):
    study = declare(TWO, steps=steps)
    write_records(tmp_path, study)
    _, (found,) = analysed(study, tmp_path)
    page = tables.files(found)[".md"].decode()
    assert ("3350 ± 298 (Hopper-v2)" in page) == shown
    assert ("authors' released curves, 10 seeds, of Hopper-v2" in page) == shown


def test_the_authors_files_are_found_and_the_others_are_named(tmp_path):
    row = np.array(["HOST: x", "GPU: y", *map(str, np.arange(1001) / 2)])
    ablation = "Ablation Studies/Exploration Direction Regularization/Off-Policy (TD3)"
    names = [
        "TD3/TD3_Hopper-v2_0.npy",
        "TD3/DISCOVER_TD3_Hopper-v2_0.npy",
        "TD3/DISCOVER_TD3_Hopper-v2_1.npy",
        f"{ablation}/0.1/Hopper-v2/0.1_DISCOVER_Hopper-v2_3.npy",
        "TD3/NoisyNet/TD3_Hopper-v2_0.npy",
        "SAC/DISCOVER_SAC_Humanoid-v2_0.npy",
        "notes.npy",
    ]
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / name, row)
    found = published.curves(tmp_path)
    sizes = {(key.study, key.strategy): len(rows) for key, rows in found.curves.items()}
    assert sizes == {
        ("evaluation", "baseline"): 1,
        ("evaluation", "discover"): 2,
        ("lambda", "discover"): 1,
    }
    np.testing.assert_array_equal(next(iter(found.curves.values()))[0], np.arange(1001) / 2)
    notes = "\n".join(found.notes)
    assert "4 published runs of 3 cells" in notes
    for why in ("rivals'", "names that are not understood", "nothing to trust"):
        assert f"Left out of published runs: 1, {why}" in notes
    study = declare(TWO, steps=1_000_000)
    write_records(tmp_path / "out", study)
    plain = report.write(study, tmp_path / "out", tmp_path / "plain")
    drawn = report.write(study, tmp_path / "out", tmp_path / "drawn", tmp_path)
    assert "4 published runs of 3 cells" in drawn.summary
    assert "published runs" not in plain.summary
    name = "curves/td3/Hopper-v5-iqm.svg"
    assert b"older tasks" in (tmp_path / "drawn" / name).read_bytes()
    assert b"older tasks" not in (tmp_path / "plain" / name).read_bytes()
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="holds no curves"):
        published.curves(tmp_path / "empty")


def test_a_table_of_curves_is_read_and_nothing_is_unpickled(tmp_path):
    class Trap:
        def __reduce__(self):
            return (open, (str(tmp_path / "sprung"), "w"))

    columns = {
        "study": ["evaluation", "evaluation", "lambda"],
        "algorithm": ["td3", "td3", "td3"],
        "task": ["Hopper-v2", "Hopper-v2", "Hopper-v2"],
        "strategy": ["baseline", "discover", "discover"],
        "setting": ["", "", "0.1"],
    }
    returns = np.arange(6.0).reshape(3, 2)
    arrays = {name: np.array(values, str) for name, values in columns.items()}
    np.savez(tmp_path / "curves.npz", returns=returns, **arrays)
    for path in (tmp_path / "curves.npz", tmp_path):
        found = published.curves(path)
        assert len(found.curves) == 3
        np.testing.assert_array_equal(list(found.curves.values())[2], [[4.0, 5.0]])
    for setting in (columns["setting"], [Trap(), "", ""]):  # an array of objects is a pickle
        arrays["setting"] = np.array(setting, object)
        np.savez(tmp_path / "curves.npz", returns=returns, **arrays)
        with pytest.raises(UserError, match=r"no table of curves .* plain arrays"):
            published.curves(tmp_path / "curves.npz")
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize("content", [b"PK\x03\x04garbage", b"", b"\x93NUMPY", "array", None])
def test_a_table_that_is_no_archive_is_said(tmp_path, content):
    """A pipe, whose reading would wait, is none either."""
    if content is None:
        os.mkfifo(tmp_path / "x.npz")
        os.mkfifo(tmp_path / "TD3_Hopper-v2_3.npy")
    elif content == "array":
        with (tmp_path / "x.npz").open("wb") as file:
            np.save(file, np.zeros(3))
    else:
        (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(UserError, match=r"no table of curves|holds no curves"):
        published.curves(tmp_path)


def test_what_is_too_long_for_a_curve_is_not_unpacked(tmp_path, monkeypatch):
    name = tmp_path / "TD3_Hopper-v2_3.npy"
    for array in (np.zeros(published.MOST_POINTS + 1), np.zeros(2000)):
        np.save(name, array)
        monkeypatch.setattr(published, "MOST_BYTES", 10_000)
        assert published.curves(tmp_path).curves == {}
    with name.open("wb") as file:  # an archive by another name
        np.savez(file, returns=np.zeros(3))
    assert published.curves(tmp_path).curves == {}
    np.savez_compressed(tmp_path / "x.npz", returns=np.zeros((1000, 1000)))
    assert (tmp_path / "x.npz").stat().st_size < 10_000
    with pytest.raises(UserError, match=r"its 8,000,\d+ bytes are more than 10,000"):
        published.curves(tmp_path)
