"""Tuning: what is asked for is checked, trials are lanes, and stopping costs nothing."""

import csv
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest

import discover_rl
from discover_rl import agent, config, training, tuning
from discover_rl.observers import Observer
from discover_rl.store import Record, locked
from discover_rl.tuning.ranges import Range
from discover_rl.types import Stopped, UserError
from tests.test_cli import discover
from tests.trainings import OFF, Patience, assert_same_files

RANGES = {"strategy.lam": (0, 1), "critic_lr": (1e-5, 1e-2, "log")}
SETTINGS = OFF | {"eval.every": 120, "eval.episodes": 1}
QUICK = {"seeds": 2, "lanes": 8, "trials": 10, "observer": Observer()}


def tuned(out: Path, ranges=RANGES, **options) -> discover_rl.Tuning:
    fixed = {name: value for name, value in SETTINGS.items() if name not in ranges}
    options = {"steps": 240, "lanes": 2, "trials": 4, "observer": Observer(), **fixed, **options}
    return discover_rl.tune("Pendulum-v1", ranges, out=out, **options)


def planned(ranges, algorithm="td3", **overrides) -> tuning.Plan:
    request = "Pendulum-v1", algorithm, "discover", 10_000, 1, ranges, overrides
    return tuning.plan(*request)


# Ranges


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        ("strategy.lam", "0:1", Range((0.0, 1.0))),
        ("strategy.lam", (0, 1), Range((0.0, 1.0))),
        ("actor_lr", " 1e-5 : 1e-2 : log", Range((1e-5, 1e-2), log=True)),
        ("actor_lr", (1e-5, 1e-2, "log"), Range((1e-5, 1e-2), log=True)),
        ("batch_size", "64:256:log", Range((64, 256), log=True)),
        ("batch_size", "64,128,256", Range(choices=(64, 128, 256))),
        ("strategy.delayed", [True, False], Range(choices=(True, False))),
        ("strategy.delayed", "on,off", Range(choices=(True, False))),
        ("hidden", "64,64;256", Range(choices=("64,64", "256"))),
        ("hidden", [(64, 64), 256], Range(choices=("64,64", "256"))),
        ("gamma", "0.9,0.99", Range(choices=(0.9, 0.99))),
    ],
)
def test_a_range_has_the_kind_of_its_setting(name, given, expected):
    found = planned({name: given}).ranges[name]
    assert found == expected
    assert [type(it) for it in (*found.ends, *found.choices)] == [
        type(it) for it in (*expected.ends, *expected.choices)
    ]
    assert planned({name: str(found)}).ranges[name] == expected  # as request.json has it


@pytest.mark.parametrize(
    ("ranges", "sentence"),
    [
        ({}, "There is nothing to tune; --range strategy.lam=0:1 would tune λ."),
        ({"gama": "0:1"}, "There is no setting gama. Did you mean gamma?"),
        ({"gamma": "0.9:1.5"}, "gamma must be at least 0 and at most 1, not 1.5."),
        ({"gamma": "0.9,1.5"}, "gamma must be at least 0 and at most 1, not 1.5."),
        ({"delay": "1:2.5"}, "delay must be a whole number, not '2.5'."),
        ({"gamma": "1:0.9"}, "gamma must go from a lower number to a higher, not 1.0 to 0.9."),
        ({"gamma": "0:1:log"}, "gamma must start above 0 to go by its logarithm, not at 0.0."),
        ({"gamma": "0.9,0.90"}, "gamma must have choices without repetition."),
        ({"hidden": "8:64"}, "hidden is no number; give it choices, hidden=a,b."),
        (
            {"strategy.acts": "0:1"},
            "strategy.acts is no number; give it choices, strategy.acts=a,b.",
        ),
        (
            {"eval.every": "1:9"},
            "eval.every is how trials are measured; --set it, the same for all.",
        ),
        *(
            (
                {"gamma": wrong},
                "A range is NAME=LOW:HIGH, NAME=LOW:HIGH:log or NAME=a,b,c, not gamma="
                + str(wrong),
            )
            for wrong in ("0.9", "0:1:lin", "0:0.5:1", 0.9)
        ),
    ],
)
def test_a_wrong_range_is_one_sentence(ranges, sentence):
    with pytest.raises(UserError) as caught:
        planned(ranges)
    assert str(caught.value).removesuffix(".") == sentence.removesuffix(".")


def test_a_setting_has_one_value_or_a_range():
    with pytest.raises(UserError, match="tau is both set and tuned"):
        planned({"tau": "0:1"}, tau=0.5)
    with pytest.raises(UserError, match="tau has several values; --range tau=a,b tries"):
        planned({"gamma": "0:1"}, tau="0.1,0.2")


def test_lanes_are_trials_times_seeds():
    request = "Pendulum-v1", "td3", "discover", 10_000, 3, RANGES, {}
    assert tuning.plan(*request).batch == 8
    assert tuning.plan(*request, lanes=10).batch == 3
    with pytest.raises(UserError, match="lanes must be at least 3, one for each seed, not 2"):
        tuning.plan(*request, lanes=2)


def test_values_that_do_not_go_together_fail_alone(tmp_path, pretended):
    """PPO's rollouts have 2,048 steps where nothing else is said, more than these runs have."""
    ranges = {"horizon": [10, 100], "minibatches": [64, 2]}
    settings = {"algorithm": "ppo", "steps": 200, "trials": 16, "observer": Observer()}
    came = discover_rl.tune("Pendulum-v1", ranges, out=tmp_path, **settings)
    impossible = {"horizon": 10, "minibatches": 64}
    failures = {trial.failure for trial in came.trials if trial.parameters == impossible}
    assert failures == {"minibatches must be 10 at most, a rollout's steps, not 64."}
    assert all(trial.scores for trial in came.trials if trial.parameters != impossible)
    with pytest.raises(UserError, match="steps must be 300 at least, one rollout, not 200"):
        discover_rl.tune("Pendulum-v1", {"horizon": [50, 300]}, out=tmp_path, **settings)


# Whole tunings, training pretended


@pytest.fixture
def pretended(monkeypatch):
    """Training, in no time: best at λ = 0.3. What it was asked for, by folder."""
    asked = {}

    def train(runs, out, *_):
        asked[out.name] = runs
        records = {}
        for run in runs:
            records[run.name] = Record(out / run.name / "record.jsonl")
            score = -((getattr(run.strategy_hyper, "lam", 0) - 0.3) ** 2) + 1e-3 * run.seed
            lines = {"run": run.to_json()}, {"step": run.steps, "returns": [score]}
            records[run.name].lines = list(lines)
        return records

    monkeypatch.setattr(training, "train", train)
    return asked


def test_it_finds_what_is_best_and_says_so(tmp_path, pretended):
    came = tuned(tmp_path, {"strategy.lam": "0:1"}, **{**QUICK, "trials": 40})
    assert abs(came.best["strategy.lam"] - 0.3) < 0.03
    assert [trial.number for trial in came.trials] == list(range(40))
    late = [abs(trial.parameters["strategy.lam"] - 0.3) for trial in came.trials[24:]]
    assert sum(late) / len(late) < 0.2  # at random it would be 0.29
    best = came.ranking[0]
    expected = [-((best.parameters["strategy.lam"] - 0.3) ** 2) + it for it in (1.0, 1.001)]
    assert best.scores == pytest.approx(expected)
    assert best.deviation == pytest.approx(1e-3 / 2**0.5)
    expected = [f"trial-{i}/seed-{seed}" for i in range(36, 40) for seed in (1000, 1001)]
    assert [run.name for run in pretended["batch-009"]] == expected
    assert len(pretended) == 10
    with (tmp_path / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["score"]) for row in rows] == [trial.score for trial in came.trials]
    assert float(rows[7]["seed-1001"]) == came.trials[7].scores[1]


def test_optuna_can_read_it(tmp_path, pretended):
    came = tuned(tmp_path, **QUICK)
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / "journal.log"))
    storage = optuna.storages.journal.JournalStorage(backend)
    study = optuna.load_study(study_name="tune", storage=storage)
    assert study.best_params == came.best


class Killed(BaseException):
    pass


def test_killed_at_any_write_it_comes_to_the_same(tmp_path, pretended, monkeypatch):
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


def test_more_trials_later_are_those_it_would_have_had(tmp_path, pretended):
    whole = tuned(tmp_path / "whole", **QUICK)
    for trials in (1, 6, 3, 10):  # fewer than there are: they stay
        came = tuned(tmp_path / "more", **{**QUICK, "trials": trials})
        assert len(came.trials) == max(trials, 6 if trials == 3 else 0)
    assert came.trials == whole.trials
    pretended.clear()
    tuned(tmp_path / "more", **QUICK)
    assert pretended == {}


def test_another_seed_tries_others(tmp_path, pretended):
    first, second = (tuned(tmp_path / str(seed), seed=seed, **QUICK) for seed in (0, 1))
    assert first.best != second.best


def test_what_was_tried_is_not_trained_again(tmp_path, pretended):
    came = tuned(tmp_path, {"strategy.lam": "0.1,0.3", "delay": "1:2"}, **QUICK)
    different = {str(trial.parameters) for trial in came.trials}
    assert len(came.trials) == 10 > len(different)
    assert sum(map(len, pretended.values())) == 2 * len(different)
    for trial in came.trials:
        same = [it.scores for it in came.trials if it.parameters == trial.parameters]
        assert set(same) == {trial.scores}


def test_choices_that_are_no_floats_make_cohorts(tmp_path, pretended):
    ranges = {"strategy.lam": (0, 1), "batch_size": [8, 4]}
    came = tuned(tmp_path, ranges, lanes=8, trials=8)
    sizes = [trial.parameters["batch_size"] for trial in came.trials]
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
    said = f"{tmp_path} holds another tuning: {difference}; choose another --out."
    assert str(caught.value) == said
    assert (tmp_path / "journal.log").read_bytes() == journal


def test_a_folder_with_runs_of_its_own_is_refused(tmp_path):
    (tmp_path / "seed-0").mkdir()
    (tmp_path / "seed-0/record.jsonl").touch()
    with pytest.raises(UserError, match="holds runs that are no tuning's"):
        tuned(tmp_path)


def test_one_process_tunes_in_a_folder(tmp_path):
    with locked(tmp_path), pytest.raises(UserError, match="Another process is training in"):
        tuned(tmp_path)


def test_optuna_is_named_where_it_is_missing(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "optuna", None)
    assert discover("tune", "Pendulum-v1", "--range", "strategy.lam=0:1") == 2
    said = "Tuning needs a package: pip install 'discover_rl[tune]'.\n"
    assert capfd.readouterr() == ("", said)
    assert list(tmp_path.iterdir()) == []


COMMAND = "tune Pendulum-v1 --steps 500 --seeds 2 --trials 3 --range strategy.lam=0:1 --set delay=3"


def test_the_command_ends_with_a_table_and_how_to_train_the_best(tmp_path, pretended, capfd):
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


def test_ctrl_c_says_how_to_go_on(tmp_path, monkeypatch, capfd):
    def train(*_):
        raise Stopped(120)

    monkeypatch.setattr(training, "train", train)
    words = [*COMMAND.split(), "--out", str(tmp_path)]
    assert discover(*words) == 130
    said = f"Stopped at step 120, all is saved. To go on: discover {' '.join(words)}\n"
    assert capfd.readouterr().err == said


# Whole tunings, trained


class Counting(Observer):
    def __init__(self):
        self.cohorts = []

    def started(self, runs, step):
        self.cohorts.append([run.name for run in runs])


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, list[list[str]]]:
    """An undisturbed tuning, and its cohorts."""
    out, counting = tmp_path_factory.mktemp("whole"), Counting()
    tuned(out, observer=counting)
    return out, counting.cohorts


@pytest.mark.slow
def test_trials_of_a_batch_are_lanes_of_one_cohort(whole):
    assert whole[1] == [[f"trial-{i}/seed-1000" for i in pair] for pair in ((0, 1), (2, 3))]


@pytest.mark.slow
def test_runs_are_those_of_the_same_settings_by_hand(whole, tmp_path):
    out, _ = whole
    with (out / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))[:2]
    runs = []
    for row in rows:
        settings = SETTINGS | {name: float(row[name]) for name in RANGES}
        runs += config.resolve("Pendulum-v1", "td3", "discover", 240, [1000], settings)
    for row, run in zip(rows, runs, strict=True):
        record = Record(out / f"batch-000/trial-{row['trial']}/seed-1000/record.jsonl")
        assert record.header is not None
        assert record.header["run"] == run.to_json()
        returns = [line["returns"][0] for line in record.evaluations]
        assert float(row["score"]) == pytest.approx(sum(returns) / 3)


@pytest.mark.slow
def test_stopped_in_a_batch_it_goes_on_exactly(whole, tmp_path, monkeypatch):
    patience = Patience(100)
    monkeypatch.setattr(agent, "CHUNK", 1)
    with monkeypatch.context() as patch:
        train = training.train

        def impatient(runs, out, observer, _stopping, *options):
            return train(runs, out, patience, patience.over, *options)

        patch.setattr(training, "train", impatient)
        with pytest.raises(Stopped) as stopped:
            tuned(tmp_path)
    assert stopped.value.step == 100
    tuned(tmp_path)
    for name in ("trials.csv", "request.json"):
        assert (tmp_path / name).read_bytes() == (whole[0] / name).read_bytes()
    for batch in ("batch-000", "batch-001"):
        assert_same_files(whole[0] / batch, tmp_path / batch)


@pytest.mark.slow
def test_a_trial_that_diverges_fails_and_keeps_the_reason(tmp_path, capfd):
    """Learning starts after 40 steps; with steps of 1e30 it takes two or three to leave floats."""
    settings = [f"--set={name}={str(value).strip('(),')}" for name, value in SETTINGS.items()]
    words = ["tune", "Pendulum-v1", "--steps=240", "--trials=4", "--lanes=2", "--processes=1"]
    words += [f"--out={tmp_path}", "--range=critic_lr=3e-4,1e30", *settings]
    assert discover(*words) == 0
    with (tmp_path / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    bad = [row for row in rows if row["critic_lr"] == "1e+30"]
    assert 0 < len(bad) < 4  # Optuna, of two choices, tries both
    for row in rows:
        assert bool(row["failure"]) == (row in bad) == (not row["score"])
    assert "is not finite (step 4" in bad[0]["failure"]
    assert bad[0]["failure"].endswith(", seed 1000")
    out = capfd.readouterr().out
    assert f"failed, the first of them trial {bad[0]['trial']}: {bad[0]['failure']}\n" in out
    assert "--set critic_lr=0.0003" in out.splitlines()[-1]


KILLED = """
import discover_rl
discover_rl.tune("Pendulum-v1", {ranges!r}, steps=4000, seeds=1, trials=6, lanes=4, out={out!r},
                 checkpoint_seconds=0.2, processes=2, **{settings!r})
"""


@pytest.mark.slow
def test_kill_9_loses_nothing(tmp_path):
    """In the first batch and in the second, with two processes."""

    def command(name: str) -> list[str]:
        settings = OFF | {"eval.every": 1000}
        code = KILLED.format(ranges=RANGES, out=str(tmp_path / name), settings=settings)
        return [sys.executable, "-c", code]

    subprocess.run(command("whole"), check=True, stdout=subprocess.DEVNULL)
    for batch in ("batch-000", "batch-001"):
        process = subprocess.Popen(command("killed"), stdout=subprocess.DEVNULL)
        while not any((tmp_path / "killed" / batch).glob("workers/*/checkpoint-*/cohort.json")):
            assert process.poll() is None, "it ended before it could be killed"
            time.sleep(0.01)
        time.sleep(0.3)
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL
    subprocess.run(command("killed"), check=True, stdout=subprocess.DEVNULL)
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert (whole / "trials.csv").read_bytes() == (killed / "trials.csv").read_bytes()
    for batch in ("batch-000", "batch-001"):
        assert_same_files(whole / batch, killed / batch)
