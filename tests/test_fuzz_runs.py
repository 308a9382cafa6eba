"""What runs leave for later, changed by strangers: a sentence, or what it was; nothing is written.

Checkpoints that other runs start from and longer ones go on from, critics and best policies,
replays, journals of tunings and copies of curves. Cases are generated as in `test_fuzz`.
"""

import contextlib
import io
import json
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import strategies as st

from discover_rl.agents.build import build_agent
from discover_rl.analysis import visitation
from discover_rl.core.pytrees import stack_floats
from discover_rl.core.types import UserError
from discover_rl.envs.backends import spaces
from discover_rl.report import published
from discover_rl.storage import checkpoints, files, load_run
from discover_rl.storage.records import Record
from discover_rl.training import job, launch
from discover_rl.training.agent_setup import setup_of
from discover_rl.training.inheritance import inherited
from discover_rl.training.warm_start import started_from
from tests.helpers import hostile
from tests.helpers.hostile import MORE, SAMPLE, attack, copied, ends_well, here_it_ends, one_file_of
from tests.helpers.trainings import runs_of
from tests.tuning.test_tune import QUICK, tuned

KEEP = {"compute.keep_checkpoint": True, "compute.keep_replay": True}
PART = "seed-0/checkpoint/"


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory):
    """A working directory with a run, tunings and curves; nothing more is trained there."""
    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        launch.train(runs_of(steps=90, seeds=1, **KEEP), Path("run"))
        patch.setattr(job, "train_locked", here_it_ends)
        few = QUICK | {"trials": 2}
        with pytest.MonkeyPatch.context() as meanwhile:
            meanwhile.setattr(launch, "train", _scores)
            tuned(Path("tuning"), **few)
            Path("stored").mkdir()
            tuned(Path("stored/out"), storage="stored/x.log", **few)
        Path("curves").mkdir()
        np.save("curves/TD3_Hopper-v2_3.npy", np.array(["HOST a", "1.5", "2.5"]))
        columns = {"study": "evaluation", "algorithm": "td3", "task": "Hopper-v2", "setting": ""}
        table = {
            name: np.array([text]) for name, text in (columns | {"strategy": "discover"}).items()
        }
        np.savez("curves/x.npz", returns=np.ones((1, 3)), **table)
        yield folder


def _scores(runs, out, *_, **__):
    """In place of training: records with a score."""
    records = {run.name: Record(out / run.name / "record.jsonl") for run in runs}
    for run in runs:
        records[run.name].lines = [{"run": run.to_json()}, {"step": run.steps, "returns": [1.0]}]
    return records


def refused(function, *given, **named) -> bool:
    """Call a function; whether it raised a UserError of one line, the only error it may raise."""
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            function(*given, **named)
    except UserError as error:
        said = str(error)
    else:
        return False
    assert "\n" not in said
    return True


def is_whole(copy: Path, folder: str) -> bool:
    """Whether a copy has the files of the original, and whatever else."""
    return hostile.snapshot(copy).items() >= hostile.contents(folder).items()


# Checkpoints that were kept


@st.composite
def forged_parts(draw) -> dict[str, bytes]:
    """Files of a kept checkpoint of which one says something else, with checksums that fit."""
    manifest, lane = PART + checkpoints.MANIFEST, PART + checkpoints.LANE
    body = hostile.contents("run")[manifest].partition(b"\n")[2]
    raw = hostile.contents("run")[lane]
    if draw(st.booleans()):
        line = json.dumps(json.loads(body)).encode()
        return {manifest: checkpoints.with_checksum(draw(hostile.rewritten(line)))}
    arrays = safetensors.numpy.load(raw)
    name = draw(st.sampled_from(sorted(arrays)))
    match draw(st.sampled_from(("gone", "more", "number", "shape", "kind", "raw"))):
        case "gone":
            del arrays[name]
        case "more":
            arrays[draw(st.sampled_from(("replay.other", "x", "learner.actor")))] = np.ones(3)
        case "number":
            value = draw(st.sampled_from((np.nan, np.inf, -1, 0, 1, 2**30)))
            with np.errstate(invalid="ignore"):
                arrays[name] = np.full_like(arrays[name], value)
        case "shape":
            arrays[name] = arrays[name][None]
        case "kind":
            arrays[name] = arrays[name].astype(draw(st.sampled_from((np.int64, np.float16, bool))))
        case _:
            raw = draw(hostile.damaged(raw))
    raw = raw if raw != hostile.contents("run")[lane] else safetensors.numpy.save(arrays)
    content = json.loads(body) | {"checksum": files.write(Path("lane"), raw)}
    return {lane: raw, manifest: checkpoints.with_checksum(json.dumps(content).encode())}


def start_from(source: Path) -> None:
    """Start a run from another, as far as that takes anything from there."""
    runs = runs_of(steps=90, seeds=1, warmup=0)
    spec = spaces(runs[0].task, runs[0].env, "cpu")
    (run,) = started_from(source, runs, spec, Path("nowhere"))
    inherited(*_fresh(run, spec), run.start)


_agents = {}


def _fresh(run, spec):
    """An agent and its first state, which are the same for all cases."""
    if not _agents:
        agent = build_agent(setup_of(run, spec, 0))
        hyper = (stack_floats([it]) for it in (run.hyper, run.strategy_hyper))
        _agents["one"] = agent, agent.init(np.zeros(1, np.uint32), *hyper)
    return _agents["one"]


def check_start(place: Path, case: tuple[str, bytes]) -> None:
    copy = copied("run", case)
    before = hostile.snapshot(copy)
    if not refused(start_from, copy / "seed-0"):
        assert PART not in case[0] or is_whole(copy, "run")
    assert hostile.snapshot(copy) == before


def check_forged(place: Path, parts: dict[str, bytes]) -> None:
    copy = copied("run", next(iter(parts.items())))
    for name, content in parts.items():
        (copy / name).write_bytes(content)
    before = hostile.snapshot(copy)
    refused(start_from, copy / "seed-0")
    assert hostile.snapshot(copy) == before


def check_longer(place: Path, case: tuple[str, bytes]) -> None:
    copy = copied("run", case)
    before = hostile.snapshot(copy)
    assert refused(launch.train, runs_of(steps=180, seeds=1, **KEEP), copy)
    assert hostile.snapshot(copy).items() >= before.items()


# What else a run leaves


def check_networks(place: Path, case: tuple[str, bytes]) -> None:
    copy = copied("run", case)
    before = hostile.snapshot(copy)
    refused(lambda: load_run(copy).critic([1.0, 0.0, 0.0], [0.5]))
    refused(lambda: load_run(copy).policy(best=True).predict([1.0, 0.0, 0.0]))
    ends_well("evaluate", "copy", "--episodes", "1", "--best")
    assert hostile.snapshot(copy) == before


def check_replay(place: Path, case: tuple[str, bytes]) -> None:
    copy = copied("run", case)
    if not refused(visitation.load, copy):
        assert np.isfinite(visitation.load(copy).replay.obs).all()


def check_tuning(place: Path, case: tuple[str, bytes]) -> None:
    copy = copied("tuning", case)
    before = hostile.snapshot(copy)
    refused(tuned, copy, **QUICK | {"trials": 2})
    # A torn last line is taken off, and where all lines are gone the tuning begins again.
    for made_again in ("journal.log", "trials.csv"):
        before.pop(made_again)
    assert hostile.snapshot(copy).items() >= before.items()


def check_storage(place: Path, case: tuple[str, bytes]) -> None:
    copied("stored", case)
    refused(tuned, Path("copy/out"), storage="copy/x.log", **QUICK | {"trials": 2})


def check_curves(place: Path, case: tuple[str, bytes]) -> None:
    copy = copied("curves", case)
    before = hostile.snapshot(copy)
    refused(published.curves, copy)
    assert hostile.snapshot(copy) == before


RUN_FILES = (PART, "seed-0/record.jsonl", "seed-0/policy.json")
KINDS = {
    "runs to start from": (lambda: one_file_of("run", RUN_FILES), check_start, 100),
    "forged checkpoints": (forged_parts, check_forged, 150),
    "runs to go on with": (lambda: one_file_of("run", RUN_FILES), check_longer, 80),
    "networks": (
        lambda: one_file_of("run", ("critic", "policy-best")),
        check_networks,
        60,
    ),
    "replays": (lambda: one_file_of("run", ("replay.safetensors",)), check_replay, 60),
    "tunings": (lambda: one_file_of("tuning"), check_tuning, 60),
    "storages": (lambda: one_file_of("stored", ("x.log",)), check_storage, 60),
    "curves": (lambda: one_file_of("curves"), check_curves, 70),
}
"""Of each kind: its cases, what is checked of one, and how many there are in all."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_hundreds_of_hostile_cases_end_well(place, kind):
    attack(place, KINDS[kind], KINDS[kind][2] * max(1, MORE))


def test_a_sample_of_hostile_cases_ends_well(place):
    for kind in KINDS.values():
        attack(place, kind, SAMPLE // 6)
