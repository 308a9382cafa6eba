"""Broken records: `status`, `run`, `report` and `export` agree on which are whole."""

import csv
import gc
import json

import pytest

from discover_rl import studies
from discover_rl.cli.exit_codes import FAILED
from discover_rl.studies import status
from tests.cli.test_cli import discover
from tests.helpers.records import declare, file_contents, write_records, write_whole

# The study's records are 6 lines: the run, and evaluations at steps 0, 10, 20, 30, 40.


def changed(line, **values):
    """A record one of whose lines has other values; those that are None are gone."""

    def change(lines):
        content = json.loads(lines[line - 1]) | values
        content = {key: value for key, value in content.items() if value is not None}
        lines[line - 1] = json.dumps(content)

    return line, change


def replaced(line, text):
    """A record one of whose lines is this text."""

    def change(lines):
        lines[line - 1] = text

    return line, change


def header(**values):
    """A record whose run has other values."""

    def change(lines):
        content = json.loads(lines[0])
        content["run"] |= values
        lines[0] = json.dumps(content)

    return 1, change


def inserted(line, text):
    """A record with a line more."""
    return line, lambda lines: lines.insert(line - 1, text)


EVALUATION = '{"step": %s, "returns": [1.0, 1.0], "lengths": [1, 1]}'
# Which line is named, and what is done to a whole record.
BROKEN = {
    "no JSON": replaced(3, "nonsense"),
    "an empty line": replaced(3, ""),
    "no object": replaced(3, "17"),
    "bytes that are no text": replaced(3, "\udcff\udcfe"),
    "too deep": replaced(3, '{"step": 10, "x": ' + "[" * 50_000),
    "NaN returned": replaced(3, '{"step": 10, "returns": [NaN, 1.0], "lengths": [1, 1]}'),
    "infinity returned": replaced(3, '{"step": 10, "returns": [1e999, 1.0], "lengths": [1, 1]}'),
    "more returned than single precision has": changed(3, returns=[1e300, 1.0]),
    "a word returned": changed(3, returns=["1.0", "1.0"]),
    "nothing returned": changed(3, returns=[], lengths=[]),
    "an episode too few": changed(3, returns=[1.0], lengths=[1]),
    "an episode too many": changed(3, returns=[1.0] * 3, lengths=[1] * 3),
    "no lengths": changed(3, lengths=None),
    "a negative length": changed(3, lengths=[1, -1]),
    "no step": changed(3, step=None),
    "half a step": changed(3, step=10.5),
    "a negative step": changed(2, step=-10),
    "a step of a hundred digits": replaced(3, EVALUATION % ("1" * 100)),
    "neither evaluation nor event": changed(3, returns=None, lengths=None),
    "a report of words": changed(3, report={"q": "high"}),
    "a report of a hundred digits": changed(3, report={"q": 10**100}),
    "steps out of order": changed(4, step=5),
    "an evaluation twice": inserted(4, EVALUATION % 10),
    "the last evaluation twice": inserted(7, EVALUATION % 40),
    "an evaluation is missing": (3, lambda lines: lines.pop(2)),
    "the first evaluation is missing": (2, lambda lines: lines.pop(1)),
    "past the end": inserted(7, EVALUATION % 50),
    "after a failure": inserted(3, '{"step": 0, "event": "diverged", "quantity": "q"}'),
    "no run": replaced(1, '{"code": {}}'),
    "a run without steps": header(steps=None),
    "a run of -40 steps": header(steps=-40),
    "a run of 4e1 steps": header(steps=40.5),
    "settings that are none": header(settings=[]),
    "an interval that is none": header(settings={"eval.every": 0}),
    "warm-up in words": header(settings={"warmup": "long"}),
    "a backend that is none": changed(1, backend="other"),
    "versions that are none": changed(1, code={"jax": [1]}),
}
NAMED = {"after a failure": 4}  # what follows it is wrong
STUDY = f"""
steps = 40
seeds = {len(BROKEN) + 2}
[set]
hidden = [8]
"eval.every" = 10
"eval.episodes" = 2
[grid]
task = "Pendulum-v1"
algorithm = "td3"
strategy = "none"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A study, each of whose first runs has a record that is broken in another way."""
    out = tmp_path_factory.mktemp("study")
    (out / "mine.toml").write_text(STUDY)
    study = studies.load(str(out / "mine.toml"))
    for run in study.runs:
        write_whole(out / "results" / run.name, run)
    for name, (_, change) in zip(study.names, BROKEN.values(), strict=False):
        path = out / "results" / name / "record.jsonl"
        lines = path.read_text().splitlines()
        change(lines)
        path.write_bytes(("\n".join(lines) + "\n").encode(errors="surrogateescape"))
    return out


@pytest.fixture(scope="module")
def places(folder):
    """The places of the damage: a file and a line of each broken record."""
    names = studies.load(str(folder / "mine.toml")).names
    lines = {kind: NAMED.get(kind, line) for kind, (line, _) in BROKEN.items()}
    return {
        kind: f"{folder / 'results' / name / 'record.jsonl'}, line {lines[kind]}, is damaged ("
        for kind, name in zip(BROKEN, names, strict=False)
    }


def words(folder, command):
    return command, str(folder / "mine.toml"), "--out", str(folder / "results")


def test_what_is_broken_is_named_by_file_and_line_and_nothing_else_is(folder, places):
    found = status.statuses(studies.load(str(folder / "mine.toml")), folder / "results")
    for run, place in zip(found, places.values(), strict=False):
        assert run.reason.startswith(place)
        assert "\n" not in run.reason
    assert [run.state for run in found] == ["failed"] * len(BROKEN) + ["done"] * 2


@pytest.mark.parametrize("command", ["status", "run", "report", "export"])
def test_all_commands_agree(folder, places, command, capfd):
    before = file_contents(folder)
    code = discover(*words(folder, command))
    said = " ".join(capfd.readouterr().out.split())
    assert code == (FAILED if command in ("status", "run") else 0)
    for place in places.values():
        # Long lines are folded where there is room.
        assert place.replace(" ", "") in said.replace(" ", "")
    if command in ("status", "run"):
        assert f"{len(BROKEN) + 2} runs: 2 done, {len(BROKEN)} failed" in said
    if command == "export":
        with (folder / "results" / "mine.csv").open() as file:
            rows = list(csv.DictReader(file))
        whole = [str(len(BROKEN)), str(len(BROKEN) + 1)]
        assert [row["seed"] for row in rows] == [seed for seed in whole for _ in range(5)]
    if command == "report":
        assert "Runs are missing, see above." in said
    after = file_contents(folder)
    assert {name: after[name] for name in before} == before


def test_nobody_looks_for_garbage_among_records_again_and_again(tmp_path):
    """That took longer than reading them."""
    study = declare({"task": "Pendulum-v1", "algorithm": "td3", "strategy": "none"}, seeds=20)
    write_records(tmp_path / "results", study, points=1001)
    (tmp_path / "mine.toml").write_text(
        'steps = 1100\nseeds = 20\n[grid]\ntask = "Pendulum-v1"\nalgorithm = "td3"\n'
        'strategy = "none"\n'
    )
    found: list[int] = []
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    gc.callbacks.append(lambda phase, info: found.append(info["generation"]))
    try:
        words = str(tmp_path / "mine.toml"), "--out", str(tmp_path / "results")
        assert discover("status", *words) == 0
    finally:
        gc.callbacks.pop()
        gc.set_threshold(*before)
    assert len(found) < 40  # two for each time; it was some hundreds


def test_train_refuses_a_broken_record_and_leaves_it_as_it_is(folder, places, tmp_path, capfd):
    name = studies.load(str(folder / "mine.toml")).names[0]
    broken = tmp_path / "seed-0" / "record.jsonl"
    broken.parent.mkdir()
    broken.write_bytes((folder / "results" / name / "record.jsonl").read_bytes())
    before = broken.read_bytes()
    assert discover("train", "Pendulum-v1", "--steps", "40", "--out", str(tmp_path)) == 2
    assert capfd.readouterr().err.startswith(f"{broken}, line 3, is damaged (")
    assert broken.read_bytes() == before


def test_retry_moves_a_broken_record_aside(folder, tmp_path):
    """Its run is trained again; what was there is not lost."""
    from discover_rl.studies import plan

    study = studies.load(str(folder / "mine.toml"))
    out, name = tmp_path / "out", study.names[0]
    run = study.runs[0]
    plan.agreed(study, out)
    path = write_whole(out / name, run).path
    path.write_text("nonsense\n")
    jobs = plan.agreed(study, out, retry=True)
    assert not path.exists()
    assert (out / f"{name}.old-1" / "record.jsonl").read_text() == "nonsense\n"
    assert run in [run for job in jobs for run in plan.missing(job)]
