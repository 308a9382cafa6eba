"""What is read has its shape, or is refused in a sentence; no file is too large or too deep."""

import json
import pickle
from pathlib import Path

import pytest

from discover_rl.core.types import UserError
from discover_rl.storage import schemas
from discover_rl.storage.records import read_record
from discover_rl.studies import plan, status

REPOSITORY = Path(__file__).parent.parent.parent


def test_all_records_that_were_ever_published_are_whole():
    paths = [*(REPOSITORY / "results").rglob("record.jsonl")]
    paths += (REPOSITORY / "tests" / "data").rglob("record.jsonl")
    assert len(paths) > 300
    assert not [read_record(path).damage for path in paths if read_record(path).damage]


def test_all_divisions_that_were_ever_published_are_read():
    paths = [*(REPOSITORY / "results").rglob("cohorts.json")]
    assert paths
    assert all(plan.workdirs(path.parent) for path in paths)


def test_an_error_reaches_another_process_as_it_is():
    error = schemas.malformed("a file", "why")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again)) == (schemas.Malformed, str(error))


# Sizes and depths


@pytest.mark.parametrize("inside", ["[%s]", '{"a": %s}'])
def test_values_too_deep_are_refused(inside):
    text = "1"
    for _ in range(6):
        text = inside % text
    with pytest.raises(schemas.Malformed, match=r"^f is damaged \(expected"):
        schemas.decode(text.encode(), schemas.Value, "f")
    opening = inside.partition("%s")[0]
    with pytest.raises(schemas.Malformed, match="too deep"):
        schemas.decode(opening.encode() * 100_000, dict[str, object] | list[object], "f")


def test_a_file_that_is_too_large_is_refused_before_it_is_read_whole(tmp_path, monkeypatch):
    monkeypatch.setitem(schemas.MOST_BYTES, ".jsonl", 100)
    path = tmp_path / "record.jsonl"
    path.write_bytes(b"x" * 101)
    assert "more than 100 bytes" in read_record(path).damage
    path.write_bytes(b"x" * 100)
    assert not read_record(path).damage  # one torn line


@pytest.mark.parametrize(
    "text",
    [
        "a" + ".a" * 100_000 + " = 1",
        '"a" . ' * 40_000 + "a = 1",
        "[" + "a." * 100_000 + "a]",
        "a = " + "[" * 100_000,
        "a = " + "{a = " * 50_000,
        "\n".join("[" + "a." * depth + "b]" for depth in range(20)),
        "a = " + "[" * 17 + "]" * 17,
        "a = 1" + " " * schemas.MOST_BYTES[".toml"],
    ],
)
def test_a_toml_text_that_is_too_long_or_deep_is_refused_at_once(text):
    with pytest.raises(ValueError, match=r"inside of one another|longer than"):
        schemas.read_toml(text)


def test_a_toml_text_may_be_as_deep_as_studies_are():
    text = '"strategy.lam" = [0.1, 0.2]\na.b.c = 1\n[x.y]\nz = [[1], [2]]\ns = "1. 2. 3."'
    assert schemas.read_toml(text)["x"]["y"]["z"] == [[1], [2]]


# Divisions and troubles


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        "{",
        '{"0000": "a"}',
        '{"0000": [1]}',
        '{"../x": ["a"]}',
        '{"0000\\n": ["a"]}',
        '{"0000": ["a\\n"]}',
        '{"-1": ["a"]}',
        '{"0000": ["../../home"]}',
        '{"0000": ["/etc"]}',
        '{"0000": ["a/../../b"]}',
        '{"0000": ["a/.."]}',
        '{"0000": [""]}',
        '{"0000": ["a"], "0001": ["a"]}',
        "[" * 10_000,
    ],
)
def test_a_division_of_another_shape_is_refused(tmp_path, content):
    (tmp_path / plan.FILE).write_text(content)
    with pytest.raises(UserError, match=r"cohorts\.json is damaged") as caught:
        plan.workdirs(tmp_path)
    assert "\n" not in str(caught.value)


def test_the_names_of_runs_are_all_that_a_division_may_have(tmp_path):
    names = ["Hopper-v5/td3/none/seed-0", "a.b/..c/d..", "own-Own-v0/x=1,2/.../seed-1"]
    (tmp_path / plan.FILE).write_text(json.dumps({"0000": names}))
    assert list(plan.workdirs(tmp_path)) == names


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"reason": 1}', '{"reason": null}'])
def test_a_reason_that_cannot_be_read_is_reported_as_such(tmp_path, content):
    (tmp_path / status.TROUBLE).write_text(content)
    state, _, reason = status._cohort_status(tmp_path)
    assert state == "failed"
    assert f"{tmp_path / status.TROUBLE} is damaged" in reason
