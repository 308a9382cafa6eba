"""Tunings with training replaced by a function: proposals, scores, and interrupted processes."""

import csv
import json
import sys
from pathlib import Path

import optuna
import pytest

import discover_rl
from discover_rl import config
from discover_rl.core.types import Stopped, UserError
from discover_rl.storage.files import locked
from discover_rl.storage.records import Record
from discover_rl.training import headers, launch
from discover_rl.training.observers import Observer
from tests.cli.test_cli import discover
from tests.helpers.trainings import OFF

RANGES = {"strategy.lam": (0, 1), "critic_lr": (1e-5, 1e-2, "log")}
SETTINGS = OFF | {"eval.every": 120, "eval.episodes": 1}
QUICK = {"seeds": 2, "lanes": 8, "trials": 10, "observer": Observer()}


def tuned(out: Path, ranges=RANGES, **options) -> discover_rl.Tuning:
    """Tune small runs on Pendulum."""
    fixed = {name: value for name, value in SETTINGS.items() if name not in ranges}
    options = {"steps": 240, "lanes": 2, "trials": 4, "observer": Observer(), **fixed, **options}
    return discover_rl.tune("Pendulum-v1", ranges, out=out, **options)


@pytest.fixture
def pretended(monkeypatch):
    """Training is replaced by a score that is best at λ = 0.3; the runs, by their folders."""
    trained = {}

    def train(runs, out, *_, **__):
        trained[out.name] = runs
        records = {}
        for run in runs:
            records[run.name] = Record(out / run.name / "record.jsonl")
            lam = run.to_json()["settings"].get("strategy.lam", 0)
            score = -((lam - 0.3) ** 2) + 1e-3 * run.seed
            lines = {"run": run.to_json()}, {"step": run.steps, "returns": [score]}
            records[run.name].lines = list(lines)
        return records

    monkeypatch.setattr(launch, "train", train)
    return trained


def test_the_best_value_is_found_and_written_to_the_table(tmp_path, pretended):
    tuning = tuned(tmp_path, {"strategy.lam": "0:1"}, **{**QUICK, "trials": 40})
    assert abs(tuning.best["strategy.lam"] - 0.3) < 0.03
    assert [trial.number for trial in tuning.trials] == list(range(40))
    late = [abs(trial.parameters["strategy.lam"] - 0.3) for trial in tuning.trials[24:]]
    assert sum(late) / len(late) < 0.2  # at random it would be 0.29
    best = tuning.ranking[0]
    expected = [-((best.parameters["strategy.lam"] - 0.3) ** 2) + bonus for bonus in (1.0, 1.001)]
    assert best.scores == pytest.approx(expected)
    assert best.deviation == pytest.approx(1e-3 / 2**0.5)
    expected = [f"trial-{i}/seed-{seed}" for i in range(36, 40) for seed in (1000, 1001)]
    assert [run.name for run in pretended["batch-009"]] == expected
    assert len(pretended) == 10
    with (tmp_path / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["score"]) for row in rows] == [trial.score for trial in tuning.trials]
    assert float(rows[7]["seed-1001"]) == tuning.trials[7].scores[1]


def test_optuna_reads_the_journal(tmp_path, pretended):
    tuning = tuned(tmp_path, **QUICK)
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / "journal.log"))
    storage = optuna.storages.journal.JournalStorage(backend)
    study = optuna.load_study(study_name="tune", storage=storage)
    assert study.best_params == tuning.best


class Killed(BaseException):
    """The process ends here."""


def test_a_tuning_that_is_killed_at_any_write_has_the_same_trials(tmp_path, pretended, monkeypatch):
    whole = tuned(tmp_path / "whole", **QUICK)
    table = (tmp_path / "whole/trials.csv").read_bytes()
    backend = optuna.storages.journal.JournalFileBackend
    append, left = backend.append_logs, 0

    def tear(self, logs):
        nonlocal left
        if not left:
            text = json.dumps(logs[0])
            with open(self._file_path, "a") as file:
                file.write(text[: len(text) // 2])
            Path(f"{self._file_path}.lock").symlink_to(self._file_path)
            raise Killed
        left -= 1
        append(self, logs)

    monkeypatch.setattr(backend, "append_logs", tear)
    kills = 0
    for writes in (0, 1, 5, 7, 8, 11, 13, 2, 1):
        left = writes
        try:
            tuned(tmp_path / "killed", **QUICK)
        except Killed:
            kills += 1
    left = 1000
    assert tuned(tmp_path / "killed", **QUICK).trials == whole.trials
    assert kills > 4
    assert (tmp_path / "killed/trials.csv").read_bytes() == table


def test_trials_that_are_added_later_are_those_of_one_tuning(tmp_path, pretended):
    whole = tuned(tmp_path / "whole", **QUICK)
    for trials in (1, 6, 3, 10):  # a smaller number removes none
        tuning = tuned(tmp_path / "more", **{**QUICK, "trials": trials})
        assert len(tuning.trials) == max(trials, 6 if trials == 3 else 0)
    assert tuning.trials == whole.trials
    pretended.clear()
    tuned(tmp_path / "more", **QUICK)
    assert pretended == {}


def test_another_seed_proposes_other_trials(tmp_path, pretended):
    first, second = (tuned(tmp_path / str(seed), seed=seed, **QUICK) for seed in (0, 1))
    assert first.best != second.best


def test_repeated_parameters_are_not_trained_again(tmp_path, pretended):
    tuning = tuned(tmp_path, {"strategy.lam": "0.1,0.3", "delay": "1:2"}, **QUICK)
    different = {str(trial.parameters) for trial in tuning.trials}
    assert len(tuning.trials) == 10 > len(different)
    assert sum(map(len, pretended.values())) == 2 * len(different)
    for trial in tuning.trials:
        same = [other.scores for other in tuning.trials if other.parameters == trial.parameters]
        assert set(same) == {trial.scores}


def test_choices_that_are_not_floats_make_cohorts(tmp_path, pretended):
    ranges = {"strategy.lam": (0, 1), "batch_size": [8, 4]}
    tuning = tuned(tmp_path, ranges, lanes=8, trials=8)
    sizes = [trial.parameters["batch_size"] for trial in tuning.trials]
    assert set(sizes) == {8, 4}
    cohorts = config.cohorts(pretended["batch-000"])
    assert [[run.hyper.batch_size for run in lanes] for lanes in cohorts] == [
        [size] * sizes.count(size) for size in dict.fromkeys(sizes)
    ]


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"steps": 300}, "steps is 240 there and 300 here"),
        ({"gamma": 0.5}, "gamma is 0.99 there and 0.5 here"),
        ({"seed": 3}, "seed is 0 there and 3 here"),
        ({"lanes": 4}, "trials at a time is 4 there and 2 here"),
        (
            {"ranges": {**RANGES, "strategy.lam": "0:0.5"}},
            "--range strategy.lam is 0.0:1.0 there and 0.0:0.5 here",
        ),
        (
            {"ranges": {**RANGES, "tau": "0:0.5"}},
            "--range tau is nothing there and 0.0:0.5 here",
        ),
    ],
)
def test_another_request_is_refused_by_what_differs(tmp_path, pretended, change, difference):
    tuned(tmp_path, **QUICK)
    journal = (tmp_path / "journal.log").read_bytes()
    with pytest.raises(UserError) as caught:
        tuned(tmp_path, **{**QUICK, **change})
    message = f"{tmp_path} holds another tuning: {difference}; choose another --out."
    assert str(caught.value) == message
    assert (tmp_path / "journal.log").read_bytes() == journal


@pytest.mark.parametrize("kind", ["task", "strategy", "algorithm"])
def test_other_code_of_ones_own_is_another_tuning(tmp_path, pretended, monkeypatch, kind):
    tuned(tmp_path, **QUICK)
    monkeypatch.setattr(headers, "sources", lambda run: {f"{kind}_source": "12"})
    with pytest.raises(UserError, match=f"{kind}'s source is nothing there and 12 here"):
        tuned(tmp_path, **QUICK | {"trials": 20})


JOURNALS = {
    "no JSON": (3, lambda line: b"nonsense"),
    "an empty line": (3, lambda line: b""),
    "an operation that is none": (2, lambda line: line.replace(b'"op_code":4', b'"op_code":99')),
    "another study": (1, lambda line: line.replace(b'"tune"', b'"else"')),
    "a score that is none": (-2, lambda line: line.replace(b'"scores":[', b'"scores":["x",')),
    "a time that is none": (
        2,
        lambda line: line.replace(b'"datetime_start":"', b'"datetime_start":"x'),
    ),
    "a parameter in words": (
        2,
        lambda line: line.replace(b'"strategy.lam":0.', b'"strategy.lam":"x",".":0.'),
    ),
}


@pytest.mark.parametrize("kind", JOURNALS)
def test_a_journal_that_is_damaged_is_named_by_its_line(tmp_path, pretended, kind):
    tuned(tmp_path, **QUICK)
    path, (number, change) = tmp_path / "journal.log", JOURNALS[kind]
    lines = path.read_bytes().splitlines()
    number = number if number > 0 else len(lines) + number + 1
    damaged = change(lines[number - 1])
    assert damaged != lines[number - 1]
    lines[number - 1] = damaged
    path.write_bytes(b"\n".join(lines) + b"\n")
    before = path.read_bytes()
    with pytest.raises(UserError) as caught:
        tuned(tmp_path, **QUICK)
    assert str(caught.value).startswith(f"{path}, line {number}, is damaged (")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'\\"high\\": 1.0', b'\\"high\\": 2.0'),
        (b'"distributions":{', b'"distributions":{"tau":"x",'),
        (b'"scores":[', b'"scores":[1.0,'),
    ],
)
def test_a_journal_whose_lines_are_of_another_tuning_is_refused(tmp_path, pretended, old, new):
    tuned(tmp_path, **QUICK)
    path = tmp_path / "journal.log"
    assert old in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(old, new))
    with pytest.raises(UserError, match=r"journal\.log is damaged \("):
        tuned(tmp_path, **QUICK)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"settings": [], "ranges": {}}'])
def test_a_request_that_is_damaged_is_refused(tmp_path, pretended, content):
    tuned(tmp_path, **QUICK)
    (tmp_path / "request.json").write_bytes(content)
    with pytest.raises(UserError, match=r"request\.json is damaged"):
        tuned(tmp_path, **QUICK)


def test_a_folder_with_runs_that_are_no_trials_is_refused(tmp_path):
    (tmp_path / "seed-0").mkdir()
    (tmp_path / "seed-0/record.jsonl").touch()
    with pytest.raises(UserError, match="holds runs that are no tuning's"):
        tuned(tmp_path)


def test_one_process_tunes_in_a_folder(tmp_path):
    with locked(tmp_path), pytest.raises(UserError, match="Another process is training in"):
        tuned(tmp_path)


def test_a_missing_optuna_is_named(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert discover("tune", "Pendulum-v1", "--range", "strategy.lam=0:1") == 2
    message = "Tuning needs a package: pip install 'discover_rl[tune]'.\n"
    assert capfd.readouterr() == ("", message)
    assert list(tmp_path.iterdir()) == []


COMMAND = "tune Pendulum-v1 --steps 500 --seeds 2 --trials 3 --range strategy.lam=0:1 --set delay=3"


def test_the_command_prints_a_table_and_how_to_train_with_the_best(tmp_path, pretended, capfd):
    assert discover(*COMMAND.split(), "--out", str(tmp_path / "t")) == 0
    out, err = capfd.readouterr()
    assert err == ""
    *_, last = out.splitlines()
    with (tmp_path / "t/trials.csv").open() as file:
        best = max(csv.DictReader(file), key=lambda row: float(row["score"]))
    assert (
        last.split()
        == (
            "discover train Pendulum-v1 --algorithm td3 --strategy discover --steps 500 --seeds 10 "
            f"--out {tmp_path / 't'}-best --set delay=3 --set strategy.lam={best['strategy.lam']}"
        ).split()
    )
    row = next(line for line in out.splitlines() if line.startswith("│"))
    assert [cell.strip() for cell in row.strip("│").split("│")] == [
        best["trial"],
        f"{float(best['strategy.lam']):.4g}",
        f"{float(best['score']):.1f}",
        f"{float(best['sd']):.1f}",
    ]
    assert f"3 of 3 trials; the best is trial {best['trial']} with" in out
    assert "The score of a run is the last evaluation." in out


def test_ctrl_c_prints_how_to_continue(tmp_path, monkeypatch, capfd):
    def train(*_, **__):
        raise Stopped(120)

    monkeypatch.setattr(launch, "train", train)
    words = [*COMMAND.split(), "--out", str(tmp_path)]
    assert discover(*words) == 130
    message = f"Stopped at step 120, all is saved. To go on: discover {' '.join(words)}\n"
    assert capfd.readouterr().err == message


def test_values_that_are_impossible_together_fail_alone(tmp_path, pretended):
    """PPO's default horizon, 2,048, is longer than these runs."""
    ranges = {"horizon": [10, 100], "minibatches": [64, 2]}
    settings = {"algorithm": "ppo", "steps": 200, "trials": 16, "observer": Observer()}
    tuning = discover_rl.tune("Pendulum-v1", ranges, out=tmp_path, **settings)
    impossible = {"horizon": 10, "minibatches": 64}
    failures = {trial.failure for trial in tuning.trials if trial.parameters == impossible}
    assert failures == {"minibatches must be 10 at most, a rollout's steps, not 64."}
    assert all(trial.scores for trial in tuning.trials if trial.parameters != impossible)
    with pytest.raises(UserError, match="steps must be 300 at least, one rollout, not 200"):
        discover_rl.tune("Pendulum-v1", {"horizon": [50, 300]}, out=tmp_path, **settings)


@pytest.mark.parametrize("kind", ["sqlite:///{}/trials.db", "{}/trials.log"])
def test_trials_are_kept_in_the_users_storage_and_go_on_there(tmp_path, pretended, kind):
    storage, out = kind.format(tmp_path), tmp_path / "lam"
    few = {**QUICK, "trials": 4}
    tuned(out, storage=storage, **few)
    tuning = tuned(out, storage=storage, **QUICK)
    assert tuning.trials == tuned(tmp_path / "own", **QUICK).trials
    assert not (out / "journal.log").exists()
    if "://" in storage:
        study = optuna.load_study(study_name="lam", storage=storage)
        assert study.best_params == tuning.best
    with pytest.raises(UserError, match=r"--storage is .* there and nothing here"):
        tuned(out, **QUICK)


def test_a_storage_that_cannot_be_opened_is_a_mistake_in_one_sentence(tmp_path, pretended):
    with pytest.raises(
        UserError, match="--storage nonsense://me:\\*\\*\\*@host/db cannot be opened"
    ):
        tuned(tmp_path / "a", storage="nonsense://me:secret@host/db", **QUICK)
    assert not (tmp_path / "a" / "request.json").exists()
    with pytest.raises(UserError, match="in a folder that does not exist"):
        tuned(tmp_path / "b", storage=str(tmp_path / "none" / "trials.log"), **QUICK)


def test_importances_say_which_setting_explains_the_scores(tmp_path, pretended, capfd):
    found = tuned(tmp_path / "a", **{**QUICK, "trials": 20}).importances
    assert found.keys() == RANGES.keys()
    assert found["strategy.lam"] > 0.6 > found["critic_lr"]  # the scores depend on λ alone
    assert sum(found.values()) == pytest.approx(1)
    assert tuned(tmp_path / "a", **{**QUICK, "trials": 20}).importances == found
    assert tuned(tmp_path / "b", **{**QUICK, "trials": 3}).importances == {}
