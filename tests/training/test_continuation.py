"""More steps for finished runs: exact where it can be, else refused in a sentence."""

import shutil
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file

from discover_rl.config import Request, resolve
from discover_rl.core.types import UserError
from discover_rl.storage import kept_checkpoints
from discover_rl.storage.records import Record
from discover_rl.training import continuation, launch
from discover_rl.training.job import Job
from discover_rl.training.observers import Observer
from tests.helpers.lanes import listing
from tests.helpers.trainings import assert_same_files, runs_of, stop_at

KEEP = {"compute.keep_checkpoint": True}


@pytest.fixture(scope="module")
def short(tmp_path_factory) -> Path:
    """Two runs of 100 steps, the last of which is no multiple of 60, the steps of evaluations."""
    out = tmp_path_factory.mktemp("short")
    launch.train(runs_of(steps=100, **KEEP), out)
    return out


@pytest.fixture(scope="module")
def long(tmp_path_factory) -> Path:
    """The same with 240 steps from the start."""
    out = tmp_path_factory.mktemp("long")
    launch.train(runs_of(**KEEP), out)
    return out


def copied(folder, out):
    shutil.copytree(folder, out)
    return out


def without_checkpoints(out):
    """What is kept in them is the same, but in other files: their segments depend on the clock."""
    for path in out.glob("*/checkpoint"):
        shutil.rmtree(path)
    return out


def test_more_steps_equal_a_longer_run(short, long, tmp_path):
    out = copied(short, tmp_path / "out")
    launch.train(runs_of(**KEEP), out)
    for seed in range(2):
        states = [load_file(it / f"seed-{seed}/checkpoint/lane.safetensors") for it in (out, long)]
        jax.tree.map(np.testing.assert_array_equal, *states)
    whole = copied(long, tmp_path / "long")
    assert_same_files(without_checkpoints(out), without_checkpoints(whole))


def test_a_longer_run_that_is_stopped_goes_on(short, long, tmp_path):
    out = copied(short, tmp_path / "out")
    for step in (100, 150):
        stop_at(step, runs_of(**KEEP), out)
    launch.train(runs_of(), out)  # what is not to be kept any more is removed
    assert len(list(out.glob("*/checkpoint"))) == 2
    assert not list(out.glob("*/checkpoint/replay"))
    lines = [Record(it / "seed-1/record.jsonl").lines[1:] for it in (out, long)]
    assert lines[0] == lines[1]


def test_a_worker_is_known_to_go_on_from_there(short, tmp_path):
    """Before it has begun: the terminal says at which step."""
    job = Job(runs_of(**KEEP), short, tmp_path / "0")
    assert [job.step, job._replace(longer=True).step, job._replace(left=True).step] == [0, 100, 100]


def test_killed_before_all_records_are_longer(short, long, tmp_path, monkeypatch):
    out, lengthen = copied(short, tmp_path / "out"), continuation._lengthen

    def killed(run, record, out):
        if run.seed == 1:
            raise KeyboardInterrupt
        lengthen(run, record, out)

    monkeypatch.setattr(continuation, "_lengthen", killed)
    with pytest.raises(KeyboardInterrupt):
        launch.train(runs_of(**KEEP), out)
    monkeypatch.undo()
    launch.train(runs_of(**KEEP), out)
    whole = copied(long, tmp_path / "long")
    assert_same_files(without_checkpoints(out), without_checkpoints(whole))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "strategy", "settings"),
    [("ppo", "none", {"lr_decay": 0, "horizon": 40}), ("sac", "rnd", {"replay_size": 50})],
)
def test_every_family_goes_on_exactly(tmp_path, algorithm, strategy, settings):
    """A rollout that is half full; a replay buffer that has overflown and is not to grow."""
    given = {"algorithm": algorithm, "strategy": strategy, **settings, **KEEP}
    launch.train(runs_of(**given), tmp_path / "long")
    launch.train(runs_of(steps=100, **given), tmp_path / "out")
    launch.train(runs_of(**given), tmp_path / "out")
    folders = [without_checkpoints(tmp_path / name) for name in ("long", "out")]
    assert_same_files(*folders)


def test_a_run_that_ended_early_ends_there_with_more_steps_too(tmp_path):
    settings = {"eval.stop_at": -1e9, **KEEP}
    launch.train(runs_of(seeds=1, steps=100, **settings), tmp_path)
    records = launch.train(runs_of(seeds=1, **settings), tmp_path)
    assert records["seed-0"].lines[-1]["event"] == "stopped"
    assert records["seed-0"].lines[0]["run"]["steps"] == 240
    assert kept_checkpoints.kept(tmp_path / "seed-0")["step"] == 60


def refused(out, message, **settings):
    before = sorted(out.rglob("*"))
    with pytest.raises(UserError, match=message):
        launch.train(runs_of(**settings), out)
    assert sorted(out.rglob("*")) == before


def test_what_would_not_be_exact_is_refused_in_a_sentence(short, tmp_path, monkeypatch):
    out = copied(short, tmp_path / "out")
    refused(out, "holds another run: steps is 100 there and 240 here", seeds=1)
    refused(out, "holds another run: gamma", gamma=0.5)
    refused(out, "steps is 100 there and 80 here", steps=80)
    monkeypatch.setattr(continuation.provenance, "code", lambda: {"jax": "99"})
    refused(out, r"has ended after 100 steps, and was trained by other code \(jax")
    monkeypatch.undo()
    monkeypatch.setattr(continuation, "_outgrown", lambda *given: True)
    refused(out, "replay buffer has lost")
    without_checkpoints(out)
    refused(out, "its last checkpoint is gone, so it cannot go on.$")


def test_a_run_that_has_not_ended_gets_no_more_steps_yet(tmp_path):
    (before,), (run,) = runs_of(steps=1000, seeds=1), runs_of(seeds=1, steps=2000)
    Record(tmp_path / "seed-0/record.jsonl").begin({"run": before.to_json()})
    with pytest.raises(UserError, match=r"seed-0 in .* is on its way to 1,000 steps; train it to"):
        launch.train([run], tmp_path)


def test_without_its_replay_a_run_is_refused_and_a_warm_start_offered(tmp_path):
    """On-policy there is none, and any run that has ended can go on."""
    launch.train(runs_of(steps=60, seeds=1), tmp_path / "off")
    why = "its replay was not kept .compute.keep_checkpoint=true keeps it., so going on would not"
    refused(tmp_path / "off", f"{why} be exact; --from .*seed-0 starts a new run", seeds=1)
    on = {"algorithm": "ppo", "strategy": "none", "seeds": 1, "lr_decay": 0, "horizon": 40}
    launch.train(runs_of(steps=60, **on), tmp_path / "on")
    launch.train(runs_of(**on), tmp_path / "on")
    launch.train(runs_of(**on), tmp_path / "long")
    assert_same_files(tmp_path / "on", tmp_path / "long")


def test_whatever_has_changed_of_what_was_kept_is_refused(short, tmp_path):
    out = copied(short, tmp_path / "out")
    before = listing(out)
    for path in sorted((out / "seed-1/checkpoint").rglob("*.*")):
        content = path.read_bytes()
        for at in range(0, len(content), max(1, len(content) // 20)):
            changed = bytes([content[at] ^ 1])
            path.write_bytes(content[:at] + changed + content[at + 1 :])
            with pytest.raises(UserError, match=r"damaged|format"):
                launch.train(runs_of(**KEEP), out)
        path.write_bytes(content)
    assert listing(out) == before
    shutil.rmtree(out / "seed-1/checkpoint")
    shutil.copytree(out / "seed-0/checkpoint", out / "seed-1/checkpoint")
    refused(out, "seed-1 is of another run than the record there")


@pytest.mark.parametrize(
    ("name", "value"), [("lr_decay", 0.5), ("strategy.lam", "linear:0.3:0.1:1")]
)
def test_settings_that_change_over_a_run_are_named(name, value):
    (run,) = runs_of(seeds=1, **{name: value})
    assert continuation.changing_settings(run) == name
    assert continuation.changing_settings(runs_of(seeds=1)[0]) == ""


def test_a_replay_buffer_that_lost_something_may_not_grow(tmp_path, monkeypatch):
    """Rows run out where episodes are short; then transitions leave before there are as many."""
    launch.train(runs_of(seeds=1, steps=60, **KEEP), tmp_path)
    (run,) = runs_of(seeds=1)
    assert not continuation._outgrown(run, 60, tmp_path)
    counted = kept_checkpoints.counters(tmp_path / "seed-0") | {"oldest": 3}
    monkeypatch.setattr(kept_checkpoints, "counters", lambda folder: counted)
    assert continuation._outgrown(run, 60, tmp_path)
    (fixed,) = runs_of(seeds=1, replay_size=50)
    assert not continuation._outgrown(fixed, 60, tmp_path)


def test_the_spacing_of_evaluations_stays_as_it_is(tmp_path):
    """It follows from the number of steps, unless more of them are asked for later."""
    given = {"hidden": 8, "batch_size": 8, "warmup": 40, "eval.episodes": 1, **KEEP}
    request = Request("Pendulum-v1", "td3", "none", 100_000, 1, given)
    record = Record(tmp_path / "seed-0/record.jsonl")
    record.begin({"run": resolve(request)[0].to_json()})
    longer = Request("Pendulum-v1", "td3", "none", 300_000, 1, given)
    assert launch.spaced_as_before(longer, tmp_path).settings["eval.every"] == 1000
    assert launch.spaced_as_before(longer, tmp_path / "elsewhere") == longer
    chosen = Request("Pendulum-v1", "td3", "none", 300_000, 1, given | {"eval.every": 500})
    assert launch.spaced_as_before(chosen, tmp_path) == chosen


@pytest.mark.slow
def test_workers_go_on_with_more_steps_as_workers(tmp_path):
    launch.train(runs_of(**KEEP), tmp_path / "long", Observer(), processes=2)
    launch.train(runs_of(steps=100, **KEEP), tmp_path / "out", Observer(), processes=2)
    assert kept_checkpoints.kept(tmp_path / "out/seed-0")["workdir"].startswith("workers/")
    launch.train(runs_of(**KEEP), tmp_path / "out", Observer(), processes=2)
    folders = [without_checkpoints(tmp_path / name) for name in ("long", "out")]
    assert_same_files(*folders)
