"""Optuna's journal of a tuning: its proposals, and what came of them.

The journal is a file of JSON lines. A trial with all its parameters is written there in one line
before it is trained, its values on the way as they come, and its scores after it has ended.
"""

from __future__ import annotations

import contextlib
import statistics
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discover_rl.core.types import UserError
from discover_rl.storage import files, schemas
from discover_rl.storage.records import Return
from discover_rl.system.paths import a_file, plain
from discover_rl.tuning.databases import needed, open_url, without_password
from discover_rl.tuning.journal_lines import ENTRIES, Attribute
from discover_rl.tuning.ranges import Range
from discover_rl.tuning.trials import Trial

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

STUDY = "tune"
"""The name of the study in Optuna's journal; in a storage of the user's it is the folder's."""
ENOUGH = 4
"""Trials with a score from which on importances are computed."""
STARTUP = 5
"""Trials with a score from which on others are pruned: Optuna's own number."""


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
        path = out / "journal.log" if storage is None else without_password(storage)
        self._path = path
        self._storage = open_storage(out, storage)
        with _quiet(), _readable(path):
            self._study = optuna.create_study(
                storage=self._storage,
                sampler=optuna.samplers.RandomSampler(),  # never used
                study_name=self._name,
                direction="maximize",
                load_if_exists=True,
            )
            trials = self._study.get_trials(deepcopy=False)
            optuna.create_study().add_trials(trials)  # which checks them
        for number, trial in enumerate(trials):
            if trial.number != number:
                raise schemas.malformed(path, f"trial {number} is missing")
            outcome = schemas.check(trial.user_attrs, Attribute, str(path))
            schemas.check(trial.intermediate_values, dict[schemas.Count, Return], str(path))
            scored = len(outcome.get("scores", ())) == seeds
            failed = "failure" in outcome
            pruned = trial.state == optuna.trial.TrialState.PRUNED and trial.intermediate_values
            if trial.distributions != self._distributions or trial.params.keys() != ranges.keys():
                raise schemas.malformed(path, f"trial {trial.number} has other ranges")
            if trial.state.is_finished() and not (scored or failed or pruned):
                raise schemas.malformed(path, f"trial {trial.number} has not a score of each seed")

    @property
    def trials(self) -> list[Trial]:
        """All trials, by number."""
        pruned = needed().trial.TrialState.PRUNED
        return [
            Trial(
                trial.number,
                dict(trial.params),
                tuple(trial.user_attrs.get("scores", ())) if trial.state.is_finished() else (),
                trial.user_attrs.get("failure") if trial.state.is_finished() else None,
                dict(trial.intermediate_values),
                trial.last_step if trial.state == pruned else None,
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
            trial = optuna.trial.create_trial(
                state=optuna.trial.TrialState.RUNNING,
                params=parameters,
                distributions=self._distributions,
            )
            with _readable(self._path):
                self._study.add_trial(trial)

    def may_prune(self, start: int) -> bool:
        """Whether trials can be pruned that are compared with those before the one numbered so."""
        return sum(bool(trial.scores) for trial in self.trials[:start]) >= STARTUP

    def is_worse(self, start: int, values: Mapping[int, float]) -> bool:
        """Whether a trial is to be pruned, by Optuna's MedianPruner.

        Args:
            start: the number of the first trial of its batch; those before it are over.
            values: its values so far, by their steps; at the last of these it is compared.
        """
        optuna = needed()
        pruner = optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_min_trials=STARTUP)
        with _quiet():
            scratch = optuna.create_study(direction="maximize")
            scratch.add_trials(self._study.get_trials(deepcopy=False)[:start])
        state = optuna.trial.TrialState.RUNNING
        trial = optuna.trial.create_trial(state=state, intermediate_values=dict(values))
        return pruner.prune(scratch, trial)

    def report(self, number: int, values: Mapping[int, float]) -> None:
        """Record the values that a trial has on the way; nothing, if it is over.

        Args:
            number: the number of the trial.
            values: all of them so far, by their steps.
        """
        known = self._study.get_trials(deepcopy=False)[number]
        fresh = values.keys() - known.intermediate_values.keys()
        for step in () if known.state.is_finished() else sorted(fresh):
            self._storage.set_trial_intermediate_value(self._id(number), step, values[step])

    def tell(
        self,
        number: int,
        scores: Sequence[float] = (),
        failure: str | None = None,
        values: Mapping[int, float] | None = None,
        pruned: bool = False,
    ) -> None:
        """Record that a trial is over; nothing, if that is recorded already.

        Its state is written last: if the process is killed before, the call is made again.

        Args:
            number: the number of the trial.
            scores: for each seed, the mean return of its last evaluations.
            failure: why it failed; None if it did not.
            values: those that it had on the way, by their steps.
            pruned: whether it was pruned, at the last of these.
        """
        states = needed().trial.TrialState
        if self.trials[number].over:
            return
        self.report(number, values or {})
        if pruned:
            self._study.tell(number, state=states.PRUNED)
        elif failure is not None:
            self._storage.set_trial_user_attr(self._id(number), "failure", failure)
            self._study.tell(number, state=states.FAIL)
        else:
            self._storage.set_trial_user_attr(self._id(number), "scores", list(scores))
            self._study.tell(number, statistics.fmean(scores))

    def _id(self, number: int) -> int:
        """What the storage calls a trial."""
        study = self._storage.get_study_id_from_name(self._name)
        return self._storage.get_trial_id_from_study_id_trial_number(study, number)


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
    path = out / "journal.log" if storage is None else a_file(storage)
    if storage is None:
        _repair(path)  # a file of the user's may be in use by others
    elif not path.parent.is_dir():
        raise UserError(f"--storage {storage} is in a folder that does not exist.")
    elif path.exists():
        plain(path)
    with _quiet(), _readable(path):
        return storages.journal.JournalStorage(storages.journal.JournalFileBackend(str(path)))


@contextlib.contextmanager
def _readable(path: Any) -> Iterator[None]:
    """A context in which whatever Optuna raises of a journal or a database is `Malformed`, but for
    errors of reading and writing."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # where lines or tables contradict each other, of all kinds
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise schemas.malformed(path, said[:200]) from error


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
