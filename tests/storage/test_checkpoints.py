"""Checkpoints: exact, incremental, whole or not there."""

import functools
from pathlib import Path

import jax
import numpy as np
import pytest

from discover_rl.core.types import UserError
from discover_rl.storage import checkpoints, files
from tests.helpers import cells
from tests.helpers.lanes import (
    ALL,
    RUNS,
    assert_same,
    assert_same_episodes,
    assert_same_state,
    build,
    copied,
    episodes_at,
    lanes,
    listing,
    save,
    scrambled,
    segments,
    size_of_data,
    transition_at,
)


@pytest.fixture(scope="module")
def begun():
    """An agent and its state before the first step, on the host."""
    agent, given = build()
    fresh = agent.enter(agent.init(*given), np.zeros((3, 3), np.float32), ALL, np.int32(0))
    return agent, copied(scrambled(fresh))


@pytest.fixture(scope="module")
def at(begun):
    """The state after so many steps from the beginning, or from another state."""
    agent, first = begun

    @functools.cache
    def from_the_beginning(stop: int):
        return drive(stop, first, 0)

    def drive(stop: int, state=None, start: int = 0):
        if state is None:
            return from_the_beginning(stop)
        state = jax.device_put(state)
        for step in range(start + 1, stop + 1):
            state, _ = cells.tick(agent, state, transition_at(step), step)
        return copied(state)

    return drive


@pytest.fixture
def load(begun):
    def newest(out: Path):
        path = checkpoints.find(out)
        assert path is not None
        state, episodes = checkpoints.load(path, begun[1])
        return copied(state), episodes

    return newest


# Exact


@pytest.mark.parametrize("step", [0, 5, 40, 100])
def test_what_is_loaded_is_what_was_saved_and_goes_on_alike(tmp_path, at, load, step):
    state = at(step)
    if step == 100:  # where episodes are short, rows have run out before transitions did
        assert [int(it) > 60 for it in state.replay.oldest] == [True, True, False]
    assert save(tmp_path, step, state)
    loaded, episodes = load(tmp_path)
    assert_same_state(loaded, state)
    assert_same_episodes(episodes, episodes_at(step))
    # Sixty steps later the ring has been written all over, so even its slots must be equal.
    assert_same(at(step + 60, loaded, step), at(step + 60, state, step))


@pytest.mark.parametrize("steps", [(20, 60, 100), (5, 20, 40, 55, 61), (61, 62, 100)])
def test_a_chain_of_checkpoints_ends_where_the_uninterrupted_run_does(tmp_path, at, load, steps):
    state, before = at(0), 0
    for step in steps:
        save(tmp_path, step, at(step, state, before))
        state, before = load(tmp_path)[0], step
        assert_same_state(state, at(step))


# Incremental


def test_a_second_checkpoint_writes_the_new_rows_only(tmp_path, at):
    save(tmp_path, 20, at(20))
    first = {path: path.stat().st_ino for path in (tmp_path / "replay").rglob("*.safetensors")}
    save(tmp_path, 35, at(35))
    for path, node in first.items():
        assert path.stat().st_ino == node  # not written again
    # A transition: 2 + 2 actions and a reward of 4 bytes, a flag of 1, a row number of 4. A row: 3
    # numbers of 4. Every end takes one row more: at 21, 24, …, 33; at 21 and 28 … and 35; none.
    for run, ends in zip(RUNS, (5, 3, 0), strict=True):
        (new,) = {*(tmp_path / "replay" / run.name).glob("*")} - first.keys()
        assert size_of_data(new) == 15 * 25 + (15 + ends) * 12


def test_segments_go_when_the_ring_no_longer_needs_them(tmp_path, at):
    # The endless lane has 40 transitions and stands on row `step`: 20-21 is 20 transitions, 21 rows
    for step, kept in [
        (20, {"20-21"}),
        (40, {"20-21", "40-41"}),
        (60, {"20-21", "40-41", "60-61"}),  # transition 20 starts from a row of the first
        (61, {"40-41", "60-61", "61-62"}),
        (105, {"105-106"}),
    ]:
        save(tmp_path, step, at(step))
        assert segments(tmp_path) == kept
        assert [path.name for path in tmp_path.glob("checkpoint-*")] == [f"checkpoint-{step}"]
    (last,) = (tmp_path / "replay" / RUNS[2].name).glob("*")
    assert size_of_data(last) == 40 * 25 + 44 * 12  # of 44 new transitions, 40 are left


# Whole or not there


def test_a_draft_is_no_checkpoint_and_in_nobodys_way(tmp_path, at, load):
    assert checkpoints.find(tmp_path) is None
    draft = tmp_path / "checkpoint-30.tmp"
    draft.mkdir()
    (draft / "cohort.json").write_text("{}")
    (tmp_path / "checkpoint-90").mkdir()  # without its manifest
    assert checkpoints.find(tmp_path) is None
    save(tmp_path, 30, at(30))
    assert checkpoints.find(tmp_path) == tmp_path / "checkpoint-30"
    assert_same_state(load(tmp_path)[0], at(30))


@pytest.mark.parametrize("writes", range(8))
def test_dying_at_any_moment_leaves_one_of_two_whole_checkpoints(
    tmp_path, at, load, monkeypatch, writes
):
    """A save writes 3 segments, 3 lanes and a manifest; then it renames."""
    save(tmp_path, 20, at(20))
    left = iter(range(writes))

    def write(path, content, original=files.write):
        if next(left, None) is None:
            path.with_name(path.name + ".tmp").write_bytes(content[: len(content) // 2])
            raise KeyboardInterrupt
        return original(path, content)

    def rename(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(files, "write", write)
        patch.setattr(Path, "rename", rename)
        with pytest.raises(KeyboardInterrupt):
            save(tmp_path, 61, at(61))
    assert next(left, None) is None
    assert_same_state(load(tmp_path)[0], at(20))
    save(tmp_path, 61, at(61))
    assert_same_state(load(tmp_path)[0], at(61))
    assert not list(tmp_path.rglob("*.tmp"))


def test_dying_before_old_files_are_gone_leaves_the_new_checkpoint(tmp_path, at, load, monkeypatch):
    save(tmp_path, 90, at(90))  # not the newest: 100 comes before it in the alphabet
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "_tidy", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            save(tmp_path, 100, at(100))
    assert_same_state(load(tmp_path)[0], at(100))
    save(tmp_path, 105, at(105))
    assert [path.name for path in tmp_path.glob("checkpoint-*")] == ["checkpoint-105"]
    assert segments(tmp_path) == {"90-91", "100-101", "105-106"}


def test_a_checkpoint_can_be_written_again_at_its_own_step(tmp_path, at, load):
    """As when a resumed run is stopped before its first step."""
    for _ in range(2):
        assert save(tmp_path, 20, at(20))
        assert_same_state(load(tmp_path)[0], at(20))


def test_clear_leaves_only_what_is_no_checkpoint(tmp_path, at):
    save(tmp_path, 20, at(20))
    files.write(tmp_path / "seed-0" / "record.jsonl", b"kept")
    (tmp_path / "checkpoint-30.tmp").mkdir()
    checkpoints.clear(tmp_path)
    assert listing(tmp_path) == {"seed-0/record.jsonl": b"kept"}
    assert checkpoints.find(tmp_path) is None


# Damage


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)


def refusal(load, out: Path) -> str:
    with pytest.raises(UserError) as caught:
        load(out)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("harm", [truncate, flip, Path.unlink])
@pytest.mark.parametrize("where", ["checkpoint-20/*.safetensors", "replay/**/*.safetensors"])
def test_a_damaged_file_is_named(tmp_path, at, load, harm, where):
    save(tmp_path, 20, at(20))
    victim = sorted(tmp_path.glob(where))[1]
    harm(victim)
    assert str(victim) in refusal(load, tmp_path)


def test_a_damaged_manifest_or_another_format_is_refused(tmp_path, at, load):
    save(tmp_path, 20, at(20))
    manifest = tmp_path / "checkpoint-20" / "cohort.json"
    whole = manifest.read_bytes()
    manifest.write_bytes(whole.replace(b'"format": 3', b'"format": 99', 1))
    assert "has format 99, and this version reads format 3" in refusal(load, tmp_path)
    manifest.write_bytes(whole)
    truncate(manifest)
    assert f"{manifest.parent} is damaged" in refusal(load, tmp_path)


@pytest.mark.parametrize(
    ("settings", "named"), [({"hidden": 9}, "head"), ({"hidden": "8,8"}, "layer1")]
)
def test_shapes_that_do_not_fit_are_refused(tmp_path, at, settings, named):
    save(tmp_path, 20, at(20))
    agent, given = build(**settings)
    with pytest.raises(UserError, match=rf"does not fit this agent: \S*{named}\S* is "):
        checkpoints.load(tmp_path / "checkpoint-20", jax.eval_shape(agent.init, *given))


# Lanes that have diverged


def spoiled(state, lane: int, number=np.nan):
    state = copied(state)
    state.learner.actor["net"]["head"]["weight"][lane, 0, 0] = number
    return state


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_nothing_is_written_while_a_living_lane_is_not_finite(tmp_path, at, number):
    assert not save(tmp_path, 5, spoiled(at(5), 1, number))
    assert listing(tmp_path) == {}
    save(tmp_path, 20, at(20))
    before = listing(tmp_path)
    assert not save(tmp_path, 35, spoiled(at(35), 1, number))
    assert listing(tmp_path) == before


def test_a_dead_lane_keeps_its_last_good_files(tmp_path, at, load):
    save(tmp_path, 20, at(20))
    good = listing(tmp_path)
    mine = {name for name in good if "0.2" in name}  # the lane λ = 0.2: its file and a segment
    assert len(mine) == 2
    alive = np.asarray([True, False, True])
    for step in (35, 105):
        assert save(tmp_path, step, spoiled(at(step), 1), alive)
        now = listing(tmp_path)
        for name in mine:
            assert now[name.replace("checkpoint-20", f"checkpoint-{step}")] == good[name]
        loaded, episodes = load(tmp_path)
        assert_same_state(lanes(loaded, 0, 2), lanes(at(step), 0, 2))
        # The dead lane keeps its place, so that the others go on in a program of the same width.
        assert episodes[1] == []
        assert not any(np.any(leaf) for leaf in jax.tree.leaves(lanes(loaded, 1)))


def test_a_lane_that_died_before_the_first_checkpoint_keeps_its_place(tmp_path, at, load):
    save(tmp_path, 20, spoiled(at(20), 1), np.asarray([True, False, True]))
    entries = checkpoints.manifest(tmp_path / "checkpoint-20")["lanes"]
    assert [entry["name"] for entry in entries] == [run.name for run in RUNS]
    assert [entry["alive"] for entry in entries] == [True, False, True]
    assert [entry["file"] is None for entry in entries] == [False, True, False]
    assert_same_state(lanes(load(tmp_path)[0], 0, 2), lanes(at(20), 0, 2))


def test_what_a_dead_run_had_last_is_kept_in_the_end(tmp_path, at):
    save(tmp_path, 20, at(20))
    file, (segment,) = tmp_path / "checkpoint-20", (tmp_path / "replay" / RUNS[1].name).iterdir()
    good = (file / (RUNS[1].name.replace("/", "+") + ".safetensors")).read_bytes()
    rows = segment.read_bytes()
    save(tmp_path, 35, spoiled(at(35), 1), np.asarray([True, False, True]))
    (tmp_path / RUNS[1].name).mkdir(parents=True)
    checkpoints.clear(tmp_path, [RUNS[1].name])
    kept = tmp_path / RUNS[1].name / "last-good"
    assert (kept / "lane.safetensors").read_bytes() == good
    assert (kept / "replay" / segment.name).read_bytes() == rows
    assert checkpoints.read_manifest(kept, checkpoints.LaneShape).get("step") == 20
    assert checkpoints.find(tmp_path) is None
    assert not (tmp_path / "replay").exists()
