"""What version 0.1.0 wrote still works: records, policies, study folders, tunings, `--set` names.

`tests/data/0.1.0` was written by that version and is never written again. Beside its folders,
`actions.json` has what that version's policies did.
"""

import importlib.util
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import discover_rl
from discover_rl import studies
from discover_rl.analysis.visitation import states
from discover_rl.config import Request, resolve, settings
from discover_rl.core.types import UserError
from discover_rl.storage import checkpoints
from discover_rl.storage.policies import load_policy
from discover_rl.storage.records import Record, read_record
from discover_rl.storage.results import read
from discover_rl.studies import plan, status
from discover_rl.training import evaluation, job
from discover_rl.training import launch as training
from discover_rl.training.observers import Observer
from tests.cli.test_cli import discover
from tests.helpers.lanes import listing

OLD = Path(__file__).parent.parent / "data" / "0.1.0"
RECORDS = sorted(OLD.rglob("record.jsonl"))
WHOLE = [path for path in RECORDS if "unfinished" not in path.parts]
POLICIES = json.loads((OLD / "actions.json").read_text())
NOTE = "Note: the setting env.engine is called env.backend now.\n"

ALWAYS = {"hidden": "8,8", "eval.every": 20, "eval.episodes": 1}
OFF = ALWAYS | {"batch_size": 8, "warmup": 20, "replay_size": 100}
ON = ALWAYS | {"horizon": 20, "minibatches": 2, "epochs": 2}
# The requests of the finished folders, as they were made then.
RUNS = {
    "td3-discover": Request(
        "Pendulum-v1", "td3", "discover", 60, 1, OFF | {"compute.keep_replay": True}
    ),
    "td3-envpool": Request(
        "InvertedPendulum-v5", "td3", "none", 60, 1, OFF | {"env.engine": "envpool"}
    ),
    "ppo": Request("Pendulum-v1", "ppo", "none", 60, 1, ON),
}
UNFINISHED = {"hidden": "4", "batch_size": 4, "warmup": 20, "replay_size": 50}
UNFINISHED |= {"eval.every": 20, "eval.episodes": 1}


@pytest.fixture(autouse=True)
def nothing_old_changes():
    """Whatever a test does, it leaves the old files alone."""
    settings.note_old_name.cache_clear()
    before = listing(OLD)
    yield
    after = {name: content for name, content in listing(OLD).items() if ".lock" not in name}
    assert after == before
    settings.note_old_name.cache_clear()


@pytest.fixture
def old(tmp_path):
    """A copy of an old folder, to work in."""

    def copied(name: str) -> Path:
        shutil.copytree(OLD / name, tmp_path / name)
        if (OLD / f"{name}.toml").exists():
            shutil.copyfile(OLD / f"{name}.toml", tmp_path / f"{name}.toml")
        return tmp_path / name

    return copied


def needs_envpool(name: str):
    """A parameter that can only be tested where EnvPool is installed."""
    missing = not importable("envpool") and "envpool" in name
    return pytest.param(name, marks=pytest.mark.skipif(missing, reason="EnvPool is missing"))


def importable(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def words_of(request: Request, out: Path) -> list[str]:
    """The command of a request."""
    words = ["train", request.task, "--algorithm", request.algorithm, "--strategy"]
    words += [request.strategy, "--steps", str(request.steps), "--seeds", str(request.seeds)]
    words += ["--out", str(out), "--processes", "1"]
    return words + [it for name, value in request.settings.items() for it in pair(name, value)]


def pair(name: str, value) -> tuple[str, str]:
    return "--set", f"{name}={value}"


def test_they_are_there_and_small():
    assert len(WHOLE) == 3 + 4 + 2 + 2
    assert {Record(path).header["code"]["discover_rl"] for path in RECORDS} == {"0.1.0"}
    assert all("env.engine" in Record(path).header["run"]["settings"] for path in RECORDS)
    assert sum(len(content) for content in listing(OLD).values()) < 100_000


# Records


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: str(path.parent.relative_to(OLD)))
def test_a_record_is_read_and_done(path):
    record = Record(path)
    assert record.done
    assert read_record(path).done
    assert record.failure is None
    result = read(record)
    steps = result.run["steps"]
    assert result.steps == list(range(0, steps + 1, 20))
    lines = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert result.returns == [line["returns"] for line in lines]
    last = [np.mean(line["returns"]) for line in lines[-2:]]
    assert result.score(last=2) == pytest.approx(np.mean(last))
    assert result.policy().about["step"] == steps


def test_an_unfinished_record_is_read_and_not_done():
    record = Record(OLD / "unfinished" / "seed-0" / "record.jsonl")
    assert not record.over
    assert [line["step"] for line in record.evaluations] == [0, 20, 40]


# Policies


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_does_what_it_did(name):
    policy, stored = load_policy(OLD / name), POLICIES[name]
    actions, _ = policy.predict(np.asarray(stored["obs"]))
    np.testing.assert_allclose(actions, stored["actions"], rtol=1e-6, atol=1e-7)
    assert policy.about["settings"]["env.engine"] in ("gymnasium", "envpool")


@pytest.mark.parametrize("name", ["td3-discover", "ppo", needs_envpool("td3-envpool")])
def test_a_policy_is_evaluated_from_where_its_run_was(name):
    """By the backend that its run had, which its file has by the old name."""
    policy, task = load_policy(OLD / name), RUNS[name].task
    backend = "envpool" if name == "td3-envpool" else "gymnasium"
    assert evaluation.backend_of(policy, task) == backend
    assert evaluation.own_settings(policy, task)["env.backend"] == backend
    scores = evaluation.evaluate_policy(policy, task, 1)
    recorded = Record(OLD / name / "seed-0" / "record.jsonl").evaluations[-1]
    np.testing.assert_allclose(scores.returns[0], recorded["returns"], rtol=1e-3)
    assert scores.lengths[0].tolist() == recorded["lengths"]


@pytest.mark.parametrize("name", ["td3-discover", needs_envpool("td3-envpool")])
def test_discover_evaluate(name, capfd):
    assert discover("evaluate", str(OLD / name), "--episodes", "1") == 0
    said = capfd.readouterr()
    last = Record(OLD / name / "seed-0" / "record.jsonl").evaluations[-1]["returns"][0]
    assert f"{last:.1f}" in said.out
    assert not said.err


# Folders of runs


@pytest.mark.parametrize("name", RUNS)
def test_the_same_command_has_nothing_left_to_do(name, old, capfd):
    out, request = old(name), RUNS[name]
    before = listing(out)
    assert discover(*words_of(request, out)) == 0
    said = capfd.readouterr()
    assert f"Nothing is left to train in {out}." in said.out
    assert said.err == (NOTE if "env.engine" in request.settings else "")
    assert {**listing(out), ".lock": b""} == {**before, ".lock": b""}


@pytest.mark.parametrize("backend", ["envpool", "auto"])
def test_the_new_name_asks_for_the_same_run(backend, old, capfd):
    out, request = old("td3-envpool"), RUNS["td3-envpool"]
    new = {name: value for name, value in request.settings.items() if name != "env.engine"}
    (result,) = discover_rl.train(
        request.task,
        algorithm="td3",
        strategy="none",
        steps=60,
        out=out,
        observer=Observer(),
        **new,
        **{"env.backend": backend},
    )
    assert result.steps == [0, 20, 40, 60]
    assert not capfd.readouterr().err


def test_another_backend_is_another_run(old):
    request = RUNS["td3-envpool"]
    other = {**request.settings, "env.engine": "gymnasium"}
    runs = resolve(Request(request.task, "td3", "none", 60, 1, other))
    with pytest.raises(UserError, match=r"env\.backend is envpool there and gymnasium here"):
        training.train(runs, old("td3-envpool"))


def test_a_new_seed_joins_an_old_folder(old):
    out, request = old("ppo"), RUNS["ppo"]
    before = listing(out)
    runs = resolve(Request(request.task, "ppo", "none", 60, 2, request.settings))
    records = training.train(runs, out)
    assert all(record.done for record in records.values())
    after = listing(out)
    assert {name: after[name] for name in before} == before
    names = [set(record.header["run"]["settings"]) for record in records.values()]
    assert names[0] - names[1] == {"env.engine"}
    assert names[1] - names[0] == {"env.backend"}
    steps = [[line["step"] for line in record.evaluations] for record in records.values()]
    assert steps[0] == steps[1]


def test_an_unfinished_run_is_refused_in_one_sentence(old):
    out = old("unfinished")
    before = listing(out)
    runs = resolve(Request("Pendulum-v1", "td3", "none", 80, 1, UNFINISHED))
    (path,) = out.glob("checkpoint-*")
    said = (
        f"{path} has format 2, and this version reads format 3; finish these runs with the version "
        f"that began them, or remove {path} to start them over."
    )
    for ask in (
        lambda: training.train(runs, out),
        lambda: job.resumable(path, {run.name: run for run in runs}),
        lambda: checkpoints.load(path, None),
    ):
        with pytest.raises(UserError) as caught:
            ask()
        assert str(caught.value) == said
    assert {name: it for name, it in listing(out).items() if name != ".lock"} == before


def test_a_replay_that_was_kept_is_read():
    visited = states.load(OLD / "td3-discover")
    assert (visited.first, visited.replay.obs.shape) == (20, (40, 3))  # without its warm-up
    assert np.isfinite(visited.replay.error).all()
    assert (visited.replay.error > 0).all()


# Studies


@pytest.mark.parametrize("name", ["study", "backends"])
def test_a_study_is_known_to_be_done(name, old, capfd):
    out = old(name)
    study = studies.load(f"{out}.toml")
    assert {one.state for one in status.statuses(study, out)} == {"done"}
    assert discover("status", f"{out}.toml", "--out", str(out)) == 0
    said = capfd.readouterr()
    assert f"{len(study.names)} runs: {len(study.names)} done; 100.0% of all steps." in said.out
    assert not said.err


@pytest.mark.parametrize("name", ["study", "backends"])
def test_nothing_of_a_study_is_left_to_do(name, old, capfd):
    out = old(name)
    before = listing(out)
    assert not plan.left(plan.agreed(studies.load(f"{out}.toml"), out))
    assert discover("run", f"{out}.toml", "--out", str(out), "--processes", "1") == 0
    said = capfd.readouterr()
    assert said.err == NOTE
    after = {name: it for name, it in listing(out).items() if not name.endswith(".lock")}
    assert after == before


def test_a_study_is_exported(old, capfd):
    out = old("study")
    assert discover("export", f"{out}.toml", "--out", str(out)) == 0
    lines = (out / "study.csv").read_text().splitlines()
    assert len(lines) == 1 + 4 * 3
    assert lines[0].startswith("task,algorithm,strategy,arm,seed,step,return_mean,")
    said = capfd.readouterr()
    assert said.out == f"12 evaluations in {out / 'study.csv'}\n"


def test_a_setting_that_varies_keeps_its_old_name(old, capfd):
    """The study's file still says it, and so do its folders."""
    out = old("backends")
    assert discover("export", f"{out}.toml", "--out", str(out)) == 0
    lines = (out / "backends.csv").read_text().splitlines()
    column = lines[0].split(",").index("env.engine")
    assert [line.split(",")[column] for line in lines[1:]] == ["gymnasium"] * 3 + ["envpool"] * 3


@pytest.mark.parametrize("name", ["study", "backends"])
def test_a_study_is_reported(name, old, capfd):
    out = old(name)
    assert discover("report", f"{out}.toml", "--out", str(out)) == 0
    said = capfd.readouterr()
    assert "Runs are missing" not in said.out
    assert (out / "report" / "summary.md").exists()
    text = (out / "report" / "index.html").read_text()
    assert "InvertedPendulum-v5" in text
    # Settings are shown by the names they have now; what varies, by the name in the study's file.
    assert "env.backend" in text
    assert ("env.engine" in text) == (name == "backends")


# Tunings


@pytest.mark.parametrize("trials", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_tuning_goes_on(trials, old, capfd):
    pytest.importorskip("optuna")
    out = old("tuning")
    words = ["tune", "Pendulum-v1", "--algorithm", "a2c", "--strategy", "none", "--steps", "40"]
    words += ["--trials", str(trials), "--seeds", "1", "--out", str(out), "--processes", "1"]
    words += ["--range", "actor_lr=0.0001:0.01:log"]
    given = ALWAYS | {"horizon": 20, "minibatches": 2}
    words += [it for name, value in given.items() for it in pair(name, value)]
    before = listing(out)
    assert discover(*words, *pair("env.engine", "gymnasium")) == 0
    said = capfd.readouterr()
    assert (f"Nothing is left to train in {out}." in said.out) == (trials == 2)
    assert "-1235.6" in said.out  # the score of trial 1
    assert said.err == NOTE
    after = listing(out)
    runs = [name for name in before if name.startswith("batch-000/trial-")]
    assert {name: after[name] for name in runs} == {name: before[name] for name in runs}
    assert len((out / "trials.csv").read_text().splitlines()) == 1 + trials
