"""Whatever is typed or read: an exit code as documented, never a traceback, no good file changed.

Cases are generated, always the same ones. `make fuzz` tries others, and more of them.
"""

import contextlib
import shutil
from pathlib import Path

import pytest
from hypothesis import strategies as st

from discover_rl import report
from discover_rl.algorithms import ALGORITHMS
from discover_rl.analysis import theory
from discover_rl.core.types import UserError
from discover_rl.report import data, live
from discover_rl.storage import checkpoints, load_policy
from discover_rl.strategies import STRATEGIES
from discover_rl.training import engines, job, launch
from tests.config.test_limits import FIELDS
from tests.helpers import hostile
from tests.helpers.hostile import MORE, SAMPLE, attack, copied, ends_well, here_it_ends, one_file_of
from tests.helpers.lanes import RUNS
from tests.helpers.records import declare, write_records
from tests.storage.test_damage import LANES, save, state_at
from tests.system.test_modules import save_policy

STUDY = """about = "one"
steps = 1_000
seeds = 2
task_steps."Pendulum-v1" = 500

[set]
"eval.every" = 100
hidden = [8, 8]

[grid]
task = ["Pendulum-v1", "MountainCarContinuous-v0"]
algorithm = "td3"
gamma = [0.9, 0.99]

[[arm]]
name = "one"
strategy = "discover"
"strategy.lam" = 0.1

[[arm]]
name = "two"
strategy = "none"

[[skip]]
task = "Pendulum-v1"
gamma = 0.9
"""
OPTIONS = {
    "train": (
        *("--algorithm", "--strategy", "--steps", "--seeds", "--out", "--processes", "--set"),
        *("--from", "--set"),
    ),
    "tune": (
        *("--range", "--steps", "--seeds", "--trials", "--lanes", "--seed", "--out", "--set"),
        *("--strategy", "--prune", "--storage"),
    ),
    "evaluate": ("--episodes", "--task", "--trust", "--video", "--seed", "--best"),
    "list": (),
    "plan": ("--out", "--no-measure", "--trust"),
    "run": ("--out", "--shard", "--engine", "--minutes", "--processes", "--checkpoint-seconds"),
    "status": ("--out",),
    "export": ("--out", "--to"),
    "report": ("--out", "--to", "--published", "--until", "--leaderboard"),
    "watch": ("--out", "--port"),
    "theory": ("--out", "--states", "--seeds", "--cap"),
    "visitation": ("--to", "--points", "--seed"),
}


NAMES = ["gamma", "hidden", "strategy.lam", "eval.every", "env.count", "env.kwargs.x", "", "x"]


@pytest.fixture(scope="module", autouse=True)
def place(tmp_path_factory):
    """A working directory with a file f, a folder d and whole results; nothing is trained there."""
    folder = tmp_path_factory.mktemp("fuzz")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(launch, "_train_side_by_side", here_it_ends)
        patch.setattr(job, "train_locked", here_it_ends)
        patch.setattr(engines, "choose", lambda name, *_: _engine(name))
        patch.setattr(theory, "measure", here_it_ends)
        patch.setattr(live, "serve", here_it_ends)
        patch.setattr(report, "write", lambda study, out, *_: here_it_ends(data.load(study, out)))
        Path("f").write_text("f")
        Path("d").mkdir()
        Path("mine.toml").write_text(STUDY)
        study = declare({"task": "Pendulum-v1", "algorithm": "td3", "strategy": ["none", "ou"]})
        write_records(Path("whole"), study)
        shutil.copy("mine.toml", "d/other.toml")
        Path("policies").mkdir()
        save_policy(Path("policies/run"), "Pendulum-v1")
        for step in (3, 5):
            save(Path("checkpoint"), step)
        yield folder


def _engine(name: str):
    if name not in ("local", "ray"):
        raise UserError(f"There is no engine {name}.")
    return lambda jobs, *_: [UserError("It would begin now.") for _ in jobs]


# What is typed


@st.composite
def command_lines(draw) -> list[str]:
    command = draw(st.sampled_from(list(OPTIONS)))
    given_words = [draw(hostile.words) for _ in range(draw(st.integers(0, 2)))]
    given_words = given_words or [draw(st.sampled_from(("Pendulum-v1", "smoke", "mine.toml", "d")))]
    for _ in range(draw(st.integers(0, 3)) if OPTIONS[command] else 0):
        option = draw(st.sampled_from(OPTIONS[command]))
        value = draw(hostile.words)
        if option in ("--set", "--range"):
            value = f"{draw(st.sampled_from(NAMES))}={value}"
        given_words += [option] if option in ("--no-measure", "--best") else [option, value]
    return [command, *given_words, *["--no-measure"] * (command == "plan")]


def check_command_line(place: Path, words: list[str]) -> None:
    before = {name: Path(name).read_bytes() for name in ("f", "mine.toml", "d/other.toml")}
    ends_well(*words)
    assert {name: Path(name).read_bytes() for name in before} == before
    for made in ("results", "runs"):
        shutil.rmtree(made, ignore_errors=True)


@st.composite
def setting_lines(draw) -> list[str]:
    algorithm = draw(st.sampled_from(list(ALGORITHMS)))
    strategy = draw(st.sampled_from(list(STRATEGIES)))
    names = [name.rpartition(" ")[2] for name in FIELDS]
    chosen = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3))
    pairs = [f"--set={name}={draw(hostile.words)}" for name in chosen]
    return ["train", "Pendulum-v1", "--algorithm", algorithm, "--strategy", strategy, *pairs]


# What is read


def check_study(place: Path, case: tuple[str, bytes]) -> None:
    command, content = case
    Path("fuzzed.toml").write_bytes(content)
    ends_well(*command.split())
    assert Path("fuzzed.toml").read_bytes() == content
    shutil.rmtree("results", ignore_errors=True)


STUDY_COMMANDS = ("status", "export", "plan --no-measure", "run", "report")
study_files = st.tuples(
    st.sampled_from(STUDY_COMMANDS).map(lambda words: f"{words} fuzzed.toml"),
    hostile.declared(STUDY),
)


READERS = ("status", "export --to x.csv", "run", "report")
RECORDS = """steps = 1100
seeds = 2
[grid]
task = "Pendulum-v1"
algorithm = "td3"
strategy = ["none", "ou"]
"""


def check_records(place: Path, case: tuple[str, tuple[str, bytes]]) -> None:
    command, file = case
    Path("test.toml").write_text(RECORDS)
    copy = copied("whole", file)
    before = hostile.snapshot(copy)
    ends_well(*command.split(), "test.toml", "--out", "copy")
    after = hostile.snapshot(copy)
    assert {name: after.get(name) for name in before} == before


def check_policy(place: Path, case: tuple[str, bytes]) -> None:
    copy = copied("policies", case)
    before = hostile.snapshot(copy)
    with contextlib.suppress(UserError):
        load_policy(copy / "run")
    ends_well("evaluate", "copy", "--episodes", "1", "--task", "Pendulum-v1")
    assert hostile.snapshot(copy) == before


def check_checkpoint(place: Path, case: tuple[str, bytes]) -> None:
    copy = copied("checkpoint", case)
    before = hostile.snapshot(copy)
    path = checkpoints.find(copy)
    if path is not None:
        try:
            job.resumable(path, {run.name: run for run in RUNS[:LANES]})
            checkpoints.load(path, state_at(0))
        except UserError:
            pass
        else:
            assert before == hostile.contents("checkpoint")
    assert hostile.snapshot(copy) == before


KINDS = {
    "command lines": (command_lines, check_command_line, 350),
    "settings": (setting_lines, check_command_line, 200),
    "study files": (lambda: study_files, check_study, 250),
    "records": (
        lambda: st.tuples(st.sampled_from(READERS), one_file_of("whole")),
        check_records,
        200,
    ),
    "policies": (lambda: one_file_of("policies"), check_policy, 150),
    "checkpoints": (lambda: one_file_of("checkpoint"), check_checkpoint, 150),
}
"""Of each kind: its cases, what is checked of one, and how many there are in all."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_of_hostile_cases_ends_well(place, kind):
    attack(place, KINDS[kind], SAMPLE)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_thousand_hostile_cases_end_well(place, kind):
    attack(place, KINDS[kind], KINDS[kind][2] * max(1, MORE))


def test_there_are_a_thousand():
    assert sum(count for _, _, count in KINDS.values()) >= 1000
