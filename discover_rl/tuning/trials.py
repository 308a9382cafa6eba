"""Trials of a tuning: Optuna's proposals and their scores, kept in Optuna's journal.

The journal is a file of JSON lines. A trial with all its parameters is written there in one line
before it is trained, and its scores after it has ended.
"""

from __future__ import annotations

import contextlib
import csv
import io
import statistics
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict

import msgspec
import numpy as np
from msgspec import Meta

from discover_rl.core.types import UserError
from discover_rl.storage import files, schemas
from discover_rl.storage.schemas import Count, Name, Text
from discover_rl.tuning.databases import needed, open_url, without_password
from discover_rl.tuning.ranges import Range

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

STUDY = "tune"
"""The name of the study in Optuna's journal; in a storage of the user's it is the folder's."""
ENOUGH = 4
"""Trials with a score from which on importances are computed."""


@dataclass(frozen=True)
class Trial:
    """Some parameters, and their scores."""

    number: int
    parameters: dict[str, Any]
    """The values of the tuned settings, by name."""
    scores: tuple[float, ...] = ()
    """For each seed, its run's score (`storage.scores`); empty until the trial is over."""
    failure: str | None = None
    """Why it failed, if it did; it has no scores then."""

    @property
    def over(self) -> bool:
        """Whether it has scores, or has failed."""
        return bool(self.scores) or self.failure is not None

    @property
    def score(self) -> float:
        """The mean of its scores; NaN if it has none."""
        return statistics.fmean(self.scores) if self.scores else float("nan")

    @property
    def deviation(self) -> float:
        """The standard deviation of its scores; NaN if there are fewer than two."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else float("nan")


@dataclass(frozen=True)
class Tuning:
    """The result of a tuning."""

    path: Path
    """Its folder."""
    trials: list[Trial]
    """All of them, by number."""
    importances: dict[str, float] = field(default_factory=dict)
    """How much of the scores' variance each tuned setting explains, by fANOVA; they sum to 1. Empty
    where too few trials have a score."""

    @property
    def ranking(self) -> list[Trial]:
        """The trials that have scores, the best one first."""
        return sorted((one for one in self.trials if one.scores), key=lambda one: -one.score)

    @property
    def best(self) -> dict[str, Any]:
        """The parameters of the best trial; empty if all failed."""
        return self.ranking[0].parameters if self.ranking else {}


class Entry(msgspec.Struct, tag_field="op_code"):
    """A line of Optuna's journal, of the four kinds that `Journal` writes."""

    worker_id: str


class NewStudy(Entry, tag=0):
    """The study begins; it is maximised."""

    study_name: Literal["tune"]
    directions: Annotated[list[Literal[2]], Meta(min_length=1, max_length=1)]


class NewTrial(Entry, tag=4):
    """A trial was proposed."""

    study_id: Literal[0]
    state: Literal[0]
    datetime_start: datetime
    distributions: dict[Name, Text]
    params: dict[Name, float]


class NewState(Entry, tag=6):
    """A trial is over: complete or failed."""

    trial_id: Count
    state: Literal[1, 3]
    values: list[float] | None
    datetime_complete: datetime


class Attribute(TypedDict, total=False):
    """What came of a trial."""

    scores: Annotated[list[float], Meta(min_length=1)]
    failure: Text


class NewAttribute(Entry, tag=8):
    """What came of a trial is known."""

    trial_id: Count
    user_attr: Attribute


ENTRIES: Any = NewStudy | NewTrial | NewState | NewAttribute
"""Whatever a line may be."""


class Journal:
    """The trials of a tuning, in Optuna's journal. The caller holds the lock of the folder."""

    def __init__(
        self, out: Path, ranges: Mapping[str, Range], seeds: int, storage: str | None = None
    ):
        """Open the journal, or make a new one.

        Args:
            out: the folder of the tuning.
            ranges: the ranges of the tuned settings, by the settings' names.
            seeds: how many runs each trial has.
            storage: where Optuna keeps trials: a URL or a journal file; None: in the folder.

        Raises:
            Malformed: its lines are not those of such a tuning.
        """
        optuna = needed()
        self._distributions = {name: _distribution(given) for name, given in ranges.items()}
        self._name = STUDY if storage is None else out.resolve().name
        with _quiet():
            self._storage = open_storage(out, storage)
            self._study = optuna.create_study(
                storage=self._storage,
                sampler=optuna.samplers.RandomSampler(),  # never used
                study_name=self._name,
                direction="maximize",
                load_if_exists=True,
            )
        path = out / "journal.log" if storage is None else without_password(storage)
        for trial in self._study.get_trials(deepcopy=False):
            scored = len(trial.user_attrs.get("scores", ())) == seeds
            failed = "failure" in trial.user_attrs
            if trial.distributions != self._distributions or trial.params.keys() != ranges.keys():
                raise schemas.malformed(path, f"trial {trial.number} has other ranges")
            if trial.state.is_finished() and not (scored or failed):
                raise schemas.malformed(path, f"trial {trial.number} has not a score of each seed")

    @property
    def trials(self) -> list[Trial]:
        """All trials, by number."""
        return [
            Trial(
                trial.number,
                dict(trial.params),
                tuple(trial.user_attrs.get("scores", ())) if trial.state.is_finished() else (),
                trial.user_attrs.get("failure") if trial.state.is_finished() else None,
            )
            for trial in self._study.get_trials(deepcopy=False)
        ]

    def importances(self, seed: int) -> dict[str, float]:
        """How much of the scores' variance each tuned setting explains, the largest first.

        Args:
            seed: of fANOVA's forest.
        """
        scores = {trial.score for trial in self.trials if trial.scores}
        if sum(bool(trial.scores) for trial in self.trials) < ENOUGH or len(scores) < 2:
            return {}
        importance = needed().importance
        try:
            evaluator = importance.FanovaImportanceEvaluator(seed=seed)
        except ImportError:  # scikit-learn may be missing where Optuna was installed by itself
            return {}
        return dict(importance.get_param_importances(self._study, evaluator=evaluator))

    def propose(self, start: int, count: int, seed: int) -> None:
        """Add trials to the journal until it has those of a batch.

        Their parameters depend on the trials before `start`, which are over, and on the seed. So
        they are the same however many of them the journal has already, and in every process.

        Args:
            start: the number of the batch's first trial.
            count: how many trials the batch has.
            seed: the seed of the tuning.
        """
        optuna = needed()
        known = self._study.get_trials(deepcopy=False)
        if len(known) >= start + count:
            return
        state = int(np.random.SeedSequence([seed, start]).generate_state(1)[0])
        with _quiet():
            # The constant liar keeps the trials of a batch apart from each other.
            sampler = optuna.samplers.TPESampler(seed=state, multivariate=True, constant_liar=True)
            scratch = optuna.create_study(sampler=sampler, direction="maximize")
            scratch.add_trials(known[:start])
            proposed = [scratch.ask(self._distributions).params for _ in range(count)]
        for parameters in proposed[len(known) - start :]:
            self._study.add_trial(
                optuna.trial.create_trial(
                    state=optuna.trial.TrialState.RUNNING,
                    params=parameters,
                    distributions=self._distributions,
                )
            )

    def tell(self, number: int, scores: Sequence[float], failure: str | None) -> None:
        """Record that a trial is over.

        Its state is written last: if the process is killed before, the call is made again.

        Args:
            number: the number of the trial.
            scores: for each seed, the mean return of its last evaluations.
            failure: why it failed; None if it did not.
        """
        optuna = needed()
        study = self._storage.get_study_id_from_name(self._name)
        trial = self._storage.get_trial_id_from_study_id_trial_number(study, number)
        if failure is not None:
            self._storage.set_trial_user_attr(trial, "failure", failure)
            self._study.tell(number, state=optuna.trial.TrialState.FAIL)
        else:
            self._storage.set_trial_user_attr(trial, "scores", list(scores))
            self._study.tell(number, statistics.fmean(scores))


def write_table(path: Path, trials: Sequence[Trial], seeds: Sequence[int]) -> None:
    """Write a CSV file with a line for each trial that is over.

    Args:
        path: the file to write.
        trials: all trials; at least one.
        seeds: the seeds of each trial's runs.
    """
    text = io.StringIO()
    names = list(trials[0].parameters)
    columns = ["trial", *names, "score", "sd", *(f"seed-{seed}" for seed in seeds), "failure"]
    table = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    table.writeheader()
    for trial in (trial for trial in trials if trial.over):
        row = {"trial": trial.number, **trial.parameters, "failure": trial.failure or ""}
        if trial.scores:
            row |= {f"seed-{seed}": score for seed, score in zip(seeds, trial.scores, strict=True)}
            row["score"] = trial.score
        if len(trial.scores) > 1:
            row["sd"] = trial.deviation
        table.writerow(row)
    files.write(path, text.getvalue().encode())


def _distribution(given: Range) -> BaseDistribution:
    """A range as Optuna's distribution."""
    kinds = needed().distributions
    if given.choices:
        return kinds.CategoricalDistribution(given.choices)
    low, high = given.ends
    whole = isinstance(low, int)
    kind = kinds.IntDistribution if whole else kinds.FloatDistribution
    return kind(low, high, log=given.log)


def open_storage(out: Path, storage: str | None) -> Any:
    """Optuna's storage of a tuning; a UserError, `Malformed` or not, if it cannot be opened."""
    storages = needed().storages
    if storage is not None and "://" in storage:
        return open_url(storage)
    path = out / "journal.log" if storage is None else Path(storage)
    if storage is None:
        _repair(path)  # a file of the user's may be in use by others
    elif not path.parent.is_dir():
        raise UserError(f"--storage {storage} is in a folder that does not exist.")
    try:
        return storages.journal.JournalStorage(storages.journal.JournalFileBackend(str(path)))
    except Exception as error:  # whatever Optuna raises where lines contradict each other
        raise schemas.malformed(path, f"{type(error).__name__}: {error}") from error


def _repair(journal: Path) -> None:
    """Remove Optuna's lock and a torn last line, which a killed process may have left.

    Raises:
        Malformed: a line is not one that `Journal` writes.
    """
    journal.with_name(f"{journal.name}.lock").unlink(missing_ok=True)
    if not journal.exists():
        return
    content = schemas.content(journal)
    whole = content[: content.rfind(b"\n") + 1]
    schemas.decode_lines(whole, ENTRIES, journal)
    if whole != content:
        files.write(journal, whole)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """In this context, Optuna neither logs new studies nor warns that a feature may change."""
    optuna = needed()
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
