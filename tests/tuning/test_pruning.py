"""Pruning with training replaced by a function: who is stopped where, and what Optuna is told."""

import csv
import statistics
from pathlib import Path

import optuna
import pytest

import discover_rl
from discover_rl.config import Request
from discover_rl.core.types import UserError
from discover_rl.storage.records import Record, record_path
from discover_rl.training import launch
from discover_rl.training.observers import Observer
from discover_rl.tuning import Tuning, make_plan, pruning
from tests.cli.test_cli import discover
from tests.helpers.trainings import OFF, runs_of

STEPS = 800
SETTINGS = OFF | {"eval.every": 100, "eval.episodes": 1}
RUNGS = [100, 200, 400]
LAM = {"strategy.lam": (0, 1)}


def curve(lam: float, seed: int, step: int) -> float:
    """In the end, the closer λ is to 0.3 the better are returns; at first, the larger it is."""
    share = step / STEPS
    return share * (1 - (lam - 0.3) ** 2) + 0.06 * (1 - share) * lam + 1e-3 * (seed - 1000)


class Pretended:
    """In place of training: writes records of curves, up to the step that is asked for."""

    def __init__(self):
        self.legs, self.failing, self.stopping = [], set(), {}

    def train(self, runs, out, *_, until=None):
        """Continue the records of these runs."""
        self.legs.append((out.name, until, [run.name for run in runs]))
        records = {run.name: Record(record_path(out, run.name)) for run in runs}
        for run in runs:
            record = records[run.name]
            if record.header is None:
                record.begin({"run": run.to_json()})
            for step in range(0, (until or run.steps) + 1, run.eval.every):
                if not record.over and not record.evaluated(step):
                    self.evaluate(run, record, step)
        return records

    def evaluate(self, run, record, step):
        """Add an evaluation to a record, or its end."""
        score = curve(run.settings["strategy.lam"], run.seed, step)
        record.append({"step": step, "returns": [score], "lengths": [1]}, sync=False)
        if step == 100 and run.name in self.failing:
            record.append({"step": step, "event": "diverged", "quantity": "reward"})
        elif step == self.stopping.get(run.name):
            record.append({"step": step, "event": "stopped", "reason": "good enough"})


@pytest.fixture
def pretended(monkeypatch) -> Pretended:
    """Training is replaced by curves."""
    pretended = Pretended()
    monkeypatch.setattr(launch, "train", pretended.train)
    return pretended


def tuned(out: Path, ranges=LAM, **options) -> Tuning:
    """Tune λ with pruning: batches of eight trials, two seeds each."""
    options = {"seeds": 2, "lanes": 16, "trials": 24, "prune": "median", **options}
    options = {"steps": STEPS, "observer": Observer(), **SETTINGS, **options}
    return discover_rl.tune("Pendulum-v1", ranges, out=out, **options)


def expected(trials, start: int) -> dict[int, int | None]:
    """Where the trials of a batch are to be pruned, worked out by hand."""
    complete = [trial for trial in trials[:start] if trial.scores]
    found = {}
    for trial in trials[start : start + 8]:
        lam, found[trial.number] = trial.parameters["strategy.lam"], None
        for rung in RUNGS:
            mine = max(curve(lam, 1000, step) for step in RUNGS if step <= rung) + 5e-4
            median = statistics.median(one.values[rung] for one in complete)
            if mine < median and found[trial.number] is None:
                found[trial.number] = rung
    return found


def test_trials_below_the_median_of_earlier_ones_are_stopped(tmp_path, pretended):
    tuning = tuned(tmp_path)
    assert not any(trial.pruned for trial in tuning.trials[:8])  # with whom others are compared
    for start in (8, 16):
        found = {trial.number: trial.pruned for trial in tuning.trials[start : start + 8]}
        assert found == expected(tuning.trials, start)
    assert 4 < len(tuning.pruned) < 16
    assert len({trial.pruned for trial in tuning.pruned}) > 1
    for trial in tuning.pruned:
        assert (trial.scores, trial.failure) == ((), None)
        assert list(trial.values) == RUNGS[: RUNGS.index(trial.pruned) + 1]
        lam = trial.parameters["strategy.lam"]
        assert trial.values[trial.pruned] == pytest.approx(curve(lam, 1000, trial.pruned) + 5e-4)
        assert trial not in tuning.ranking
    assert abs(tuning.best["strategy.lam"] - 0.3) < 0.1
    assert [leg[:2] for leg in pretended.legs][:2] == [("batch-000", None), ("batch-001", 100)]
    for batch, until, names in pretended.legs[1:]:  # only those go on that are not pruned
        own = tuning.trials[8 * int(batch[-1]) :][:8]
        living = [it.number for it in own if it.pruned is None or it.pruned >= until]
        assert names == [f"trial-{i}/seed-{seed}" for i in living for seed in (1000, 1001)]


@pytest.mark.slow
def test_records_the_table_and_optuna_say_where_each_was_pruned(tmp_path, pretended):
    tuning = tuned(tmp_path, storage=f"sqlite:///{tmp_path}/trials.db")
    pruned = tuning.pruned[0]
    for seed in (1000, 1001):
        (folder,) = tmp_path.glob(f"batch-*/trial-{pruned.number}/seed-{seed}")
        record = Record(folder / "record.jsonl")
        reason = f"pruned: with {max(pruned.values.values()):.1f}, its trial is worse than the "
        assert (record.lines[-1]["step"], record.lines[-1]["event"]) == (pruned.pruned, "stopped")
        assert record.lines[-1]["reason"] == f"{reason}median of earlier trials"
        assert record.done
    with (tmp_path / "trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row, trial in zip(rows, tuning.trials, strict=True):
        assert row["pruned"] == ("" if trial.pruned is None else str(trial.pruned))
        assert bool(row["score"]) != bool(row["pruned"])
        if trial.pruned:
            assert float(row["return when pruned"]) == trial.values[trial.pruned]
    study = optuna.load_study(study_name=tmp_path.name, storage=f"sqlite:///{tmp_path}/trials.db")
    states = {trial.number: trial.state.name for trial in study.trials}
    assert {number for number, name in states.items() if name == "PRUNED"} == {
        trial.number for trial in tuning.pruned
    }
    assert study.best_params == tuning.best
    for theirs, trial in zip(study.trials, tuning.trials, strict=True):
        assert theirs.intermediate_values == trial.values
        if trial.scores:
            assert list(trial.values) == RUNGS
    assert tuned(tmp_path / "own").trials == tuning.trials  # with the journal in the folder


def test_importances_are_of_trials_with_a_score(tmp_path, pretended):
    """They are the same if all that was pruned is taken out of the study."""
    tuning = tuned(tmp_path, ranges={**LAM, "critic_lr": (1e-5, 1e-2, "log")})
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / "journal.log"))
    storage = optuna.storages.journal.JournalStorage(backend)
    study = optuna.create_study(direction="maximize")
    known = optuna.load_study(study_name="tune", storage=storage).trials
    study.add_trials([trial for trial in known if trial.state.name == "COMPLETE"])
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    assert len(study.trials) < len(tuning.trials)
    assert tuning.importances == pytest.approx(found)


class Killed(BaseException):
    """The process ends here."""


def test_a_tuning_that_is_killed_at_any_write_prunes_the_same(tmp_path, pretended, monkeypatch):
    """Of the journal and of records alike."""
    whole, left, kills = tuned(tmp_path / "whole"), 0, 0
    backend = optuna.storages.journal.JournalFileBackend

    def killing(function):
        def called(*given, **options):
            nonlocal left
            if not left:
                raise Killed
            left -= 1
            return function(*given, **options)

        return called

    with monkeypatch.context() as patch:
        patch.setattr(backend, "append_logs", killing(backend.append_logs))
        patch.setattr(Record, "append", killing(Record.append))
        for writes in [200, *(5 + i % 3 for i in range(20))]:
            left = writes
            try:
                tuned(tmp_path / "killed")
            except Killed:
                kills += 1
    assert kills > 18
    assert tuned(tmp_path / "killed").trials == whole.trials
    for path in (tmp_path / "whole").rglob("*.[cj]s*"):  # records, the table, the request
        assert (tmp_path / "killed" / path.relative_to(tmp_path / "whole")).read_bytes() == (
            path.read_bytes()
        )


def test_trials_that_are_added_later_are_pruned_as_in_one_tuning(tmp_path, pretended):
    whole = tuned(tmp_path / "whole")
    for trials in (8, 11, 20, 24):
        tuning = tuned(tmp_path / "more", trials=trials)
    assert tuning.trials == whole.trials
    pretended.legs.clear()
    tuned(tmp_path / "more")
    assert pretended.legs == []


def test_an_optuna_storage_that_is_lost_is_filled_again_from_records(tmp_path, pretended):
    whole = tuned(tmp_path)
    (tmp_path / "journal.log").unlink()
    assert tuned(tmp_path).trials == whole.trials


def test_a_trial_with_a_run_that_failed_is_not_compared(tmp_path, pretended):
    worst = tuned(tmp_path / "a").pruned[-1].number
    pretended.failing.add(f"trial-{worst}/seed-1001")
    trial = tuned(tmp_path / "b").trials[worst]
    assert (trial.pruned, trial.values) == (None, {})
    assert trial.failure == "reward is not finite (step 100), seed 1001"
    names = [run for *_, runs in pretended.legs[-8:] for run in runs]
    assert f"trial-{worst}/seed-1000" in names


def test_a_run_that_has_learned_enough_counts_with_its_last_evaluation(tmp_path, pretended):
    plain = tuned(tmp_path / "a")
    worst = next(trial.number for trial in plain.pruned if trial.pruned == 100)
    pretended.stopping = {f"trial-{worst}/seed-{seed}": 100 for seed in (1000, 1001)}
    both = tuned(tmp_path / "b").trials[worst]
    assert both.pruned is None  # nothing is left to be saved
    assert set(both.values.values()) == set(plain.trials[worst].values.values())
    assert len(both.scores) == 2
    del pretended.stopping[f"trial-{worst}/seed-1001"]
    one = tuned(tmp_path / "c").trials[worst]
    assert (one.pruned, one.values) == (100, plain.trials[worst].values)


def test_rungs_are_evaluations_and_never_before_learning():
    def rungs(steps, every):
        return pruning.rungs(runs_of(steps=steps, **{"eval.every": every})[0])

    assert rungs(8000, 1000) == [1000, 2000, 4000]
    assert rungs(1_000_000, 10_000) == [130_000, 250_000, 500_000]
    assert rungs(250, 100) == [100, 200]
    assert rungs(100, 100) == []
    run = runs_of(steps=800, warmup=150, **{"eval.every": 100, "eval.episodes": 1})[0]
    record = Record(Path("none.jsonl"))
    record.lines = [{"run": run.to_json()}]
    record.lines += [{"step": step, "returns": [float(step)]} for step in range(0, 801, 100)]
    assert pruning.values([run], {run.name: record}, 800) == {200: 200.0, 400: 400.0}
    assert pruning.values([run], {run.name: record}, 399) == {200: 200.0}


def test_repeated_parameters_are_pruned_like_the_first(tmp_path, pretended):
    choices = {"strategy.lam": [0.0, 0.3, 0.31, 0.32, 0.9]}
    options = {"steps": STEPS, "observer": Observer(), "prune": "median", **SETTINGS}
    out = {"out": tmp_path, "lanes": 5, "trials": 30}
    tuning = discover_rl.tune("Pendulum-v1", choices, **out, **options)
    for trial in tuning.trials:
        same = [one for one in tuning.trials if one.parameters == trial.parameters]
        assert {(one.pruned, one.scores) for one in same} == {(trial.pruned, trial.scores)}
    assert len({str(trial.parameters) for trial in tuning.trials}) == 5


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"prune": "hyperband"}, "There is no pruner hyperband. There is median."),
        (
            {"prune": "median", "eval.every": 800},
            "--prune has no evaluation to compare trials at, after learning starts and up to half "
            "of the 800 steps; train for longer, or evaluate more often (eval.every).",
        ),
        ({"prune": "median", "warmup": 500}, "--prune has no evaluation to compare trials at"),
    ],
)
def test_what_cannot_be_pruned_is_one_sentence(tmp_path, options, sentence):
    with pytest.raises(UserError) as caught:
        tuned(tmp_path / "new", **options)
    assert str(caught.value).startswith(sentence)
    assert not (tmp_path / "new").exists()


def test_pruning_is_part_of_what_was_asked_for(tmp_path, pretended):
    tuned(tmp_path, prune=None, trials=2)
    with pytest.raises(UserError, match="--prune is nothing there and median here"):
        tuned(tmp_path, trials=2)


def test_a_plan_without_pruning_is_as_before():
    request = Request("Pendulum-v1", "td3", "discover", 800, 1, SETTINGS)
    assert "--prune" not in make_plan(request, LAM).to_json()


def test_the_command_says_how_many_were_pruned_and_where(tmp_path, pretended, capfd):
    words = f"tune Pendulum-v1 --steps {STEPS} --seeds 2 --trials 12 --range strategy.lam=0:1"
    settings = [f"--set={name}={str(value).strip('(),')}" for name, value in SETTINGS.items()]
    words = [*words.split(), "--prune", "median", "--out", str(tmp_path), *settings]
    assert discover(*words) == 0
    out = capfd.readouterr().out
    with (tmp_path / "trials.csv").open() as file:
        pruned = [row for row in csv.DictReader(file) if row["pruned"]]
    assert f"{len(pruned)} of 12 trials were pruned: " in out
    assert f"12 of 12 trials, {len(pruned)} of them pruned; the best is trial" in out
    steps = {int(row["pruned"]) for row in pruned}
    for step in steps:
        assert f"{sum(row['pruned'] == str(step) for row in pruned)} at step {step:,}" in out
    assert f"at {max(steps):,}: " in out  # in the table
    assert discover(*words, "--prune", "nonsense") == 2
    assert capfd.readouterr().err == "There is no pruner nonsense. There is median.\n"
