"""The command line: exit codes, messages, and a small run from start to finish."""

import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from importlib import metadata
from pathlib import Path

import pytest

import discover_rl
from discover_rl import api, cli, config, storage
from discover_rl.algorithms import ALGORITHMS
from discover_rl.envs import versions
from discover_rl.storage.policies import load_policy
from discover_rl.storage.records import Record
from discover_rl.strategies import STRATEGIES
from discover_rl.training.evaluation import evaluate_policy
from discover_rl.training.observers import Observer

# Warm-up lasts to the end: nothing is learned, so little has to be compiled.
SETTINGS = {
    "hidden": 8,
    "batch_size": 8,
    "warmup": 40,
    "replay_size": 40,
    "eval.every": 20,
    "eval.episodes": 2,
}
TINY = ["Pendulum-v1", "--strategy", "gaussian", "--steps", "40", "--seeds", "2"]
TINY += [word for name, value in SETTINGS.items() for word in ("--set", f"{name}={value}")]


def discover(*words: str) -> int:
    """Run a command in this process; return its exit code."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["discover", *words])
        patch.setattr(sys, "path", [*sys.path])
        with pytest.raises(SystemExit) as caught:
            cli.main()
    return caught.value.code or 0


def elsewhere(*words: str, command=(sys.executable, "-m", "discover_rl"), **options):
    """Run a command in a process of its own."""
    return subprocess.run([*command, *words], capture_output=True, text=True, **options)


def files(folder: Path) -> dict[str, bytes]:
    """The contents of all files below a folder but locks, by their relative paths."""
    found = {str(p.relative_to(folder)): p for p in folder.rglob("*") if p.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name != ".lock"}


# Answers


def test_the_command_is_installed_and_prints_its_version(capfd):
    (entry,) = metadata.entry_points(group="console_scripts", name="discover")
    assert entry.load() is cli.main
    assert discover("--version") == 0
    assert capfd.readouterr().out == f"{discover_rl.__version__}\n"


@pytest.mark.parametrize("words", ["--help", "list", "train --help", "tune --help"])
def test_help_and_list_need_neither_jax_nor_gymnasium(tmp_path, words):
    for name in ("jax", "gymnasium", "optax"):
        (tmp_path / f"{name}.py").write_text(f"raise RuntimeError('{name} was imported')\n")
    done = elsewhere(*words.split(), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    wanted = {"--help": ["train", "tune", "evaluate", "list"]}
    wanted |= {"train --help": ["--strategy", "--set"], "tune --help": ["--range", "--lanes"]}
    for word in wanted.get(words, [*ALGORITHMS, *STRATEGIES]):
        assert word in done.stdout


def test_list_says_which_values_presets_of_tasks_have(capfd):
    assert discover("list", "td3") == 0
    lines = capfd.readouterr().out.splitlines()
    warmup = next(line for line in lines if line.split()[:2] == ["warmup", "1000"])
    assert warmup.endswith("(presets of tasks: 25000 or 10000)")
    assert not any("presets" in line for line in lines if line.split()[0] == "tau")


def test_a_task_without_a_version_is_the_newest_one(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert discover("train", "Pendulum", "--set", "gamma=2") == 2
    note, mistake = capfd.readouterr().err.splitlines()
    assert note == "Note: Pendulum means Pendulum-v1 here, the newest version."
    assert mistake.startswith("gamma must be")
    asked = []
    monkeypatch.setattr(api, "launch", lambda request, *_: asked.append(request) or [])
    discover_rl.train("Pendulum")
    assert [str(request.default_folder) for request in asked] == ["runs/Pendulum-v1-td3-discover"]
    assert versions.full_id("tests.helpers.fragile:Fragile") == "tests.helpers.fragile:Fragile-v0"
    assert versions.full_id("Hopper") == "Hopper-v5"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_list_shows_every_setting_with_its_default_and_a_sentence(capfd, algorithm):
    assert discover("list", algorithm) == 0
    first, *lines = capfd.readouterr().out.splitlines()
    assert first == f"{algorithm}: {ALGORITHMS[algorithm]}"
    words = [line.split() for line in lines]
    shown = {name: value for name, value, *sentence in words if sentence[-1][-1] in ".)"}
    (run,) = config.resolve(config.Request("Pendulum-v1", algorithm, "none", 10_000, 1, {}))
    hidden = ",".join(map(str, run.hyper.hidden))
    expected = run.settings | {"hidden": hidden, "eval.every": 0}
    expected |= {"score.last": 0, "metrics.every": 0}  # which make no other run
    expected |= {"env.wrappers": "none", "env.kwargs": "none"}
    assert shown == {name: str(value) for name, value in expected.items()}


def test_list_shows_the_settings_of_a_strategy(capfd):
    assert discover("list", "discover") == 0
    assert re.search(r"^  strategy\.lam +0\.3 +λ", capfd.readouterr().out, re.MULTILINE)


# A complete run


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "out"
    assert discover("train", *TINY, "--out", str(out)) == 0
    return out


def test_a_run_writes_records_and_policies_and_nothing_else(finished):
    kinds = ("policy", "critic")  # no policy is best: warm-up takes the whole run
    names = [f"{kind}.{end}" for kind in kinds for end in ("json", "safetensors")]
    names += ["record.jsonl", "checkpoint/cohort.json", "checkpoint/lane.safetensors"]
    assert files(finished).keys() == {f"seed-{i}/{name}" for i in (0, 1) for name in names}
    for seed in (0, 1):
        record = Record(finished / f"seed-{seed}" / "record.jsonl")
        assert record.done
        assert [line["step"] for line in record.evaluations] == [0, 20, 40]
        assert [line["lengths"] for line in record.evaluations] == [[200, 200]] * 3
        assert record.header is not None
        assert record.header["run"]["seed"] == seed
        assert (
            record.header["run"]["settings"] | SETTINGS | {"hidden": [8]}
            == (record.header["run"]["settings"])
        )


def test_evaluate_takes_the_best_policy_on_request(finished, tmp_path, capfd):
    assert discover("evaluate", str(finished / "seed-0"), "--best") == 2
    assert "There is no policy-best.json" in capfd.readouterr().err
    policy = load_policy(finished / "seed-0")
    policy.about["step"] = 20
    for name, content in (policy.to_bytes() | policy.to_bytes(best=True)).items():
        storage.files.write(tmp_path / name, content)
    storage.files.write(tmp_path / "policy.safetensors", b"damaged")
    assert discover("evaluate", str(tmp_path), "--episodes", "2", "--best") == 0
    assert re.search(r" 20 │ +-1753\.4 ", capfd.readouterr().out)


def test_evaluate_repeats_the_last_evaluation(finished, monkeypatch, capfd):
    monkeypatch.chdir(finished.parent)
    assert discover("evaluate", "out", "--episodes", "2") == 0
    table = capfd.readouterr().out
    for seed in (0, 1):
        record = Record(finished / f"seed-{seed}" / "record.jsonl")
        returns = record.evaluations[-1]["returns"]
        policy = discover_rl.load_policy(finished / f"seed-{seed}")
        assert evaluate_policy(policy, "Pendulum-v1", 2).returns.tolist() == [returns]
        (row,) = [line for line in table.splitlines() if f"seed-{seed} " in line]
        cells = [cell.strip() for cell in row.strip("│").split("│")]
        deviation = abs(returns[0] - returns[1]) / 2
        expected = ["Pendulum-v1", "40", f"{sum(returns) / 2:.1f}", f"{deviation:.1f}", "200"]
        assert cells[1:] == expected


def test_evaluate_cuts_episodes_where_the_run_did(finished):
    policy = discover_rl.load_policy(finished / "seed-0")
    policy.about["settings"]["eval.max_steps"] = 7
    assert evaluate_policy(policy, "Pendulum-v1", 2).lengths.tolist() == [[7, 7]]


def test_evaluate_starts_where_a_run_of_another_seed_does(finished, capfd):
    """The two policies play the same episodes as if each were of seed 7."""
    assert discover("evaluate", str(finished), "--episodes", "2", "--seed", "7") == 0
    table = capfd.readouterr().out
    for seed in (0, 1):
        policy = discover_rl.load_policy(finished / f"seed-{seed}")
        own = evaluate_policy(policy, "Pendulum-v1", 2).returns
        asked = evaluate_policy(policy, "Pendulum-v1", 2, seed=7).returns
        policy.about["seed"] = 7
        assert (evaluate_policy(policy, "Pendulum-v1", 2).returns == asked).all()
        assert (own != asked).all()
        assert f" {asked.mean():.1f} " in table


def test_evaluate_asks_for_the_module_of_a_task_that_none_has_registered(finished, tmp_path, capfd):
    shutil.copytree(finished / "seed-0", tmp_path / "seed-0")
    file = tmp_path / "seed-0" / "policy.json"
    file.write_text(file.read_text().replace("Pendulum-v1", "Reach-v0"))
    for words in ([], ["--task", "Reach-v0"]):
        assert discover("evaluate", str(tmp_path / "seed-0"), *words) == 2
        assert capfd.readouterr().err == (
            f"No module that is imported here registers Reach-v0, which {tmp_path / 'seed-0'} was "
            "trained on; name the one that does: --task module:Reach-v0.\n"
        )


def test_each_record_is_read_once(tmp_path, monkeypatch):
    """By the command that trains new runs, and by the same command when they are finished."""
    read, reads = storage.schemas.content, Counter()

    def counted(path: Path):
        reads[str(path.relative_to(tmp_path))] += path.name == "record.jsonl"
        return read(path)

    monkeypatch.setattr(storage.schemas, "content", counted)
    for _ in ("new", "finished"):
        reads.clear()
        assert discover("train", *TINY, "--processes", "1", "--out", str(tmp_path)) == 0
        assert +reads == {f"seed-{seed}/record.jsonl": 1 for seed in (0, 1)}


def test_the_same_command_again_changes_nothing(finished, capfd):
    before = files(finished)
    assert discover("train", *TINY, "--out", str(finished)) == 0
    assert files(finished) == before
    assert "seed-1" in capfd.readouterr().out


def test_python_gets_the_same_results_from_the_same_folder(finished):
    class Untrained(Observer):
        def started(self, runs, step):
            raise AssertionError("nothing is left to train")

    results = discover_rl.train(
        "Pendulum-v1",
        strategy="gaussian",
        steps=40,
        seeds=2,
        out=finished,
        observer=Untrained(),
        **SETTINGS,
    )
    assert [result.run["seed"] for result in results] == [0, 1]
    for result in results:
        lines = Record(result.path / "record.jsonl").evaluations
        assert (result.steps, result.failure) == ([0, 20, 40], None)
        assert result.returns == [line["returns"] for line in lines]
        assert result.score(last=1) == pytest.approx(sum(lines[-1]["returns"]) / 2)
        assert result.score() == result.score(last=1)  # the last tenth of three
        # The untrained policy never counts.
        assert result.score(last=10) == pytest.approx(
            sum(sum(line["returns"]) for line in lines[1:]) / 4
        )
        assert result.policy().about["seed"] == result.run["seed"]


ON_A_FULL_DISK = """
import resource, sys
from discover_rl.cli import main
limit = int(sys.argv.pop(1))
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
main()
"""


@pytest.mark.slow
def test_a_full_disk_is_one_sentence_and_the_same_command_then_finishes(finished, tmp_path):
    """The disk is full while the first checkpoint is written, and later has space again."""
    out, reference = tmp_path / "out", files(finished)
    header = reference["seed-0/record.jsonl"].partition(b"\n")[0]
    limit = len(header) + 40
    command = sys.executable, "-c", ON_A_FULL_DISK, str(limit)
    done = elsewhere("train", *TINY, "--out", str(out), command=command)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "File too large" in done.stderr
    assert done.stderr.endswith(f": discover train {' '.join(TINY)} --out {out}\n")
    assert (out / "seed-0" / "record.jsonl").stat().st_size == len(header) + 1
    assert discover("train", *TINY, "--out", str(out)) == 0
    assert files(out) == reference


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (OSError("File ant.xml does not exist"), "File ant.xml does not exist"),
    ],
)
def test_an_error_of_the_disk_is_printed_with_a_command_to_paste(
    monkeypatch, capfd, error, message
):
    def launch(*_, **__):
        raise error

    monkeypatch.setattr(api, "launch", launch)
    words = "train", "Pendulum-v1", "--out", "my runs"
    assert discover(*words) == 1
    err = capfd.readouterr().err
    assert err.count("\n") == 1
    assert message in err
    assert err.endswith(f": {shlex.join(['discover', *words])}\n")
