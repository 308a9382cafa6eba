"""Damaged checkpoints: whichever byte of whichever file has changed, it is refused."""

import functools
import json
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
import safetensors.numpy

from discover_rl.core import replay_buffer
from discover_rl.core.pytrees import stack
from discover_rl.core.types import Action, Transition, UserError
from discover_rl.envs.vector import Episode
from discover_rl.storage import checkpoints, files, replay_segments
from discover_rl.training import job
from tests.helpers.lanes import RUNS, assert_same, listing

LANES = 2
CAPACITY = 4
enter, insert = (jax.jit(jax.vmap(it)) for it in (replay_buffer.enter, replay_buffer.insert))


class State(NamedTuple):
    """As little as a checkpoint can be of."""

    weight: Any
    replay: replay_buffer.Replay


@functools.cache
def state_at(step: int) -> State:
    """Two lanes that have made so many steps; the first one's episodes are three steps long."""
    fresh, start = np.ones(LANES, bool), np.ones((LANES, 2), np.float32)
    buffer = stack([jax.device_get(replay_buffer.init(CAPACITY, 2, 1))] * LANES)
    buffer = enter(buffer, start, fresh)
    for now in range(1, step + 1):
        action, obs = np.full((LANES, 1), now / 10, np.float32), start * now
        ended, reward = np.asarray([now % 3 == 0, False]), np.full(LANES, now, np.float32)
        answer = Transition(reward, ended, ended, obs, obs + 1)
        buffer = insert(buffer, Action(action, -action), answer)
    return State(np.asarray([0.25, -3.5], np.float32) + step, buffer)


def save(out: Path, step: int) -> None:
    episodes = [[Episode(0, np.full((step, 1), 0.5, np.float32), 99)] for _ in range(LANES)]
    assert checkpoints.save(out, step, RUNS[:LANES], np.ones(LANES, bool), state_at(step), episodes)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A folder with a checkpoint whose replay buffers lie in two segments each."""
    out = tmp_path_factory.mktemp("whole")
    for step in (3, 5):
        save(out, step)
    return out


@pytest.fixture(scope="module")
def contents(whole) -> dict[str, bytes]:
    """The files of that checkpoint."""
    found = listing(whole)
    assert len(found) == 1 + LANES + 2 * LANES
    return found


@pytest.fixture
def copy(tmp_path, contents) -> Path:
    """A copy of that checkpoint, to be damaged."""
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    return tmp_path


def load(out: Path):
    path = checkpoints.find(out)
    assert path is not None
    return checkpoints.load(path, state_at(0))


def refusal(out: Path) -> str:
    with pytest.raises(UserError) as caught:
        load(out)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def manifest_of(out: Path) -> Path:
    return out / "checkpoint-5" / "cohort.json"


def rewritten(out: Path, change) -> None:
    """Change what a manifest says, and give it the checksum of that."""
    path = manifest_of(out)
    _, body = path.read_bytes().split(b"\n", 1)
    content = json.loads(body)
    change(content)
    path.write_bytes(checkpoints.with_checksum(json.dumps(content, indent=1).encode()))


def test_what_is_whole_is_loaded(copy):
    state, episodes = load(copy)
    expected = jax.tree.map(np.asarray, state_at(5))
    assert_same(state.weight, expected.weight)
    for name in ("head", "inserted", "oldest", "row"):
        assert_same(getattr(state.replay, name), getattr(expected.replay, name))
    assert [len(it.actions) for (it,) in episodes] == [5, 5]
    rewritten(copy, lambda content: None)  # as it was
    load(copy)


def test_any_byte_of_any_file_that_has_changed_is_refused(copy, contents):
    checked = 0
    for name, content in contents.items():
        damaged, path = bytearray(content), copy / name
        for place in range(len(content)):
            damaged[place] ^= 1 << place % 8
            path.write_bytes(damaged)
            with pytest.raises(UserError):
                load(copy)
            damaged[place] = content[place]
            checked += 1
        path.write_bytes(content)
    assert checked == sum(map(len, contents.values())) > 5000
    load(copy)  # and nothing else was wrong


def test_any_file_that_is_shorter_or_longer_is_refused(copy, contents):
    for name, content in contents.items():
        path = copy / name
        for length in range(0, len(content), 7):
            path.write_bytes(content[:length])
            with pytest.raises(UserError):
                load(copy)
        for more in (b"\n", b"\0", b"{}"):
            path.write_bytes(content + more)
            with pytest.raises(UserError):
                load(copy)
        path.write_bytes(content)


def test_a_file_that_is_gone_is_refused_by_name(copy, contents):
    for name in contents:
        path = copy / name
        if path == manifest_of(copy):
            continue  # without it, there is no checkpoint
        content = path.read_bytes()
        path.unlink()
        assert str(path) in refusal(copy)
        path.write_bytes(content)


def test_one_file_in_place_of_another_is_refused(copy, contents):
    for kind in ("checkpoint-5/*.safetensors", "replay/**/*.safetensors"):
        one, other, *_ = sorted(copy.glob(kind))
        content = one.read_bytes()
        one.write_bytes(other.read_bytes())
        assert str(one) in refusal(copy)
        one.write_bytes(content)


@pytest.mark.parametrize("most", [1, 90, 200])
@pytest.mark.parametrize("steps", [(5,), (0, 5), (1, 3, 4), (2, 9)])
def test_a_large_buffer_is_written_in_parts_and_read_as_one(tmp_path, monkeypatch, most, steps):
    """The buffer holds four transitions: of nine steps, the first five are gone."""
    for step in steps:
        save(tmp_path / "one", step)
    monkeypatch.setattr(replay_segments, "PART_BYTES", most)
    for step in steps:
        save(tmp_path / "parts", step)
    like, last = state_at(0), f"checkpoint-{steps[-1]}"
    whole, parts = (checkpoints.load(tmp_path / it / last, like)[0] for it in ("one", "parts"))
    kept = np.arange(max(0, steps[-1] - CAPACITY), steps[-1]) % CAPACITY
    for name in replay_segments.TRANSITION_FIELDS:
        assert_same(getattr(parts.replay, name)[:, kept], getattr(whole.replay, name)[:, kept])
    assert_same(parts.replay.rows, whole.replay.rows)
    count = {
        it: len(list((tmp_path / it / "replay").rglob("*.safetensors"))) for it in ("one", "parts")
    }
    assert count["parts"] > count["one"] or most == 200


# Manifests that are whole, and say what cannot be


def test_a_manifest_of_another_step_than_its_folder_is_refused(copy):
    rewritten(copy, lambda content: content.update(step=6))
    assert "checkpoint-5 is damaged" in refusal(copy)
    rewritten(copy, lambda content: content.update(step=5))
    load(copy)
    (copy / "checkpoint-5").rename(copy / "checkpoint-7")
    assert "checkpoint-7 is damaged" in refusal(copy)


@pytest.mark.parametrize("which", [0, 1])
def test_a_manifest_without_a_segment_is_refused(copy, which):
    def change(content):
        del content["lanes"][1]["replay"][which]

    rewritten(copy, change)
    said = refusal(copy)
    assert f"a part of the replay of {RUNS[1].name} is missing" in said


@pytest.mark.parametrize(
    ("which", "end", "by"), [(0, "to", 1), (1, "from", 1), (1, "from", -1), (1, "to", -1)]
)
@pytest.mark.parametrize("kind", [0, 1])  # transitions, observations
def test_segments_that_do_not_follow_one_another_are_refused(copy, which, end, by, kind):
    def change(content):
        content["lanes"][0]["replay"][which][end][kind] += by

    rewritten(copy, change)
    assert f"a part of the replay of {RUNS[0].name} is missing" in refusal(copy)


FORGED = {
    "another step everywhere but in its lanes": lambda it: it.update(step=7),
    "no lanes": lambda it: it["lanes"].clear(),
    "a lane twice": lambda it: it["lanes"].append(it["lanes"][0]),
    "no episodes": lambda it: it["lanes"][0].update(episodes=[]),
    "no checksum": lambda it: it["lanes"][0].pop("checksum"),
    "no file": lambda it: it["lanes"][0].update(file=None),
    "networks of another run": lambda it: it["lanes"][0].update(
        {name: it["lanes"][1][name] for name in ("file", "checksum")}
    ),
    "a replay of another run": lambda it: it["lanes"][0].update(replay=it["lanes"][1]["replay"]),
}


@pytest.mark.parametrize("change", FORGED.values(), ids=FORGED)
def test_a_manifest_that_was_never_written_is_refused_though_its_checksum_fits(copy, change):
    rewritten(copy, change)
    step = json.loads(manifest_of(copy).read_bytes().split(b"\n", 1)[1])["step"]
    (copy / "checkpoint-5").rename(copy / f"checkpoint-{step}")
    assert "is damaged" in refusal(copy)


@pytest.mark.parametrize("kind", ["lane", "segment"])
@pytest.mark.parametrize("content", [b"", b"x", b"\xff" * 9, 0, np.nan], ids=str)
def test_a_file_that_was_never_written_is_refused_though_its_checksum_fits(copy, kind, content):
    """Not safetensors; none of the arrays; numbers that are not finite."""
    if kind == "segment" and content is np.nan:
        return  # which training notices

    def change(manifest):
        lane = manifest["lanes"][0]
        segment = lane["replay"][0]
        path = copy / ("checkpoint-5/" + lane["file"] if kind == "lane" else segment["file"])
        new = content
        if not isinstance(new, bytes):
            arrays = safetensors.numpy.load(path.read_bytes())
            kept = {name: it for name, it in arrays.items() if content}
            for name, it in kept.items():
                kept[name] = np.full_like(it, content) if it.dtype == np.float32 else it
            new = safetensors.numpy.save(kept)
        (lane if kind == "lane" else segment)["checksum"] = files.write(path, new)

    rewritten(copy, change)
    assert "is damaged" in refusal(copy) or "does not fit" in refusal(copy)


def test_the_rows_that_a_replays_first_transitions_start_from_are_needed(tmp_path):
    """The first segment of a run has an observation and no transition."""
    for step in (0, 5):
        save(tmp_path, step)
    rewritten(tmp_path, lambda content: None)
    load(tmp_path)
    rewritten(tmp_path, lambda content: content["lanes"][0]["replay"].pop(0))
    assert "a part of the replay" in refusal(tmp_path)


def test_a_damaged_manifest_is_refused_before_anything_is_trained(copy):
    path = manifest_of(copy)
    path.write_bytes(path.read_bytes().replace(b'"alive": true', b'"alive": false', 1))
    for ask in (
        lambda: job.resumable(path.parent, {run.name: run for run in RUNS}),
        lambda: checkpoints.clear(copy, [RUNS[0].name]),
        lambda: checkpoints.manifest(path.parent),
        lambda: save(copy, 7),
    ):
        with pytest.raises(UserError, match=r"checkpoint-5 is damaged \(its cohort\.json\)"):
            ask()
    assert path.exists()
