"""Trials of a tuning: what Optuna proposes, what it is told, and where both are kept.

Optuna's journal is a file of lines of JSON. A trial is written there in one line, with all of its
parameters, before it is trained, and what it came to once it has ended.
"""

from __future__ import annotations

import contextlib
import csv
import io
import statistics
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from discover_rl import store
from discover_rl.tuning.ranges import Range
from discover_rl.types import UserError

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

STUDY = "tune"


@dataclass(frozen=True)
class Trial:
    """Some parameters, and what they came to."""

    number: int
    parameters: dict[str, Any]
    scores: tuple[float, ...] = ()
    """Of each seed, the mean return of its last ten evaluations; none before the end."""
    failure: str | None = None
    """Why it has none in the end, if it has not."""

    @property
    def over(self) -> bool:
        return bool(self.scores) or self.failure is not None

    @property
    def score(self) -> float:
        return statistics.fmean(self.scores) if self.scores else float("nan")

    @property
    def deviation(self) -> float:
        """The standard deviation over seeds; NaN where there is one seed."""
        return statistics.stdev(self.scores) if len(self.scores) > 1 else float("nan")


@dataclass(frozen=True)
class Tuning:
    """What came of a tuning."""

    path: Path
    """Its folder."""
    trials: list[Trial]
    """All of them, by number."""

    @property
    def ranking(self) -> list[Trial]:
        """Trials that have a score, the best one first."""
        return sorted((it for it in self.trials if it.scores), key=lambda it: -it.score)

    @property
    def best(self) -> dict[str, Any]:
        """The parameters of the best trial; none if all failed."""
        return self.ranking[0].parameters if self.ranking else {}


class Journal:
    """The trials in a folder. Whoever opens it has locked the folder."""

    def __init__(self, out: Path, ranges: Mapping[str, Range]):
        optuna = needed()
        path = out / "journal.log"
        _mend(path)
        backend = optuna.storages.journal.JournalFileBackend(str(path))
        with _quiet():
            self._storage = optuna.storages.journal.JournalStorage(backend)
            self._study = optuna.create_study(
                storage=self._storage,
                sampler=optuna.samplers.RandomSampler(),  # which is never asked
                study_name=STUDY,
                direction="maximize",
                load_if_exists=True,
            )
        self._distributions = {name: _distribution(it) for name, it in ranges.items()}

    @property
    def trials(self) -> list[Trial]:
        return [
            Trial(
                it.number,
                dict(it.params),
                tuple(it.user_attrs.get("scores", ())) if it.state.is_finished() else (),
                it.user_attrs.get("failure") if it.state.is_finished() else None,
            )
            for it in self._study.get_trials(deepcopy=False)
        ]

    def propose(self, start: int, count: int, seed: int) -> None:
        """See to it that there are so many trials from number `start` on.

        What they are depends on those before `start`, which are over, and on the seed. So it does
        not matter how many of them are there already, nor which process asks.
        """
        optuna = needed()
        there = self._study.get_trials(deepcopy=False)
        if len(there) >= start + count:
            return
        state = int(np.random.SeedSequence([seed, start]).generate_state(1)[0])
        with _quiet():
            # Trials of a batch keep away from each other by the constant liar.
            sampler = optuna.samplers.TPESampler(seed=state, multivariate=True, constant_liar=True)
            scratch = optuna.create_study(sampler=sampler, direction="maximize")
            scratch.add_trials(there[:start])
            proposed = [scratch.ask(self._distributions).params for _ in range(count)]
        for parameters in proposed[len(there) - start :]:
            self._study.add_trial(
                optuna.trial.create_trial(
                    state=optuna.trial.TrialState.RUNNING,
                    params=parameters,
                    distributions=self._distributions,
                )
            )

    def tell(self, number: int, scores: Sequence[float], failure: str | None) -> None:
        """A trial is over. Its state is written last: killed before that, it is told again."""
        optuna = needed()
        study = self._storage.get_study_id_from_name(STUDY)
        trial = self._storage.get_trial_id_from_study_id_trial_number(study, number)
        if failure is not None:
            self._storage.set_trial_user_attr(trial, "failure", failure)
            self._study.tell(number, state=optuna.trial.TrialState.FAIL)
        else:
            self._storage.set_trial_user_attr(trial, "scores", list(scores))
            self._study.tell(number, statistics.fmean(scores))


def needed() -> Any:
    """Optuna, or a UserError where it is not installed."""
    try:
        import optuna
        import optuna.storages.journal
    except ImportError as error:
        raise UserError("Tuning needs a package: pip install 'discover_rl[tune]'.") from error
    return optuna


def write_table(path: Path, trials: Sequence[Trial], seeds: Sequence[int]) -> None:
    """A line per trial that is over."""
    text = io.StringIO()
    names = list(trials[0].parameters)
    columns = ["trial", *names, "score", "sd", *(f"seed-{seed}" for seed in seeds), "failure"]
    table = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    table.writeheader()
    for trial in filter(lambda it: it.over, trials):
        row = {"trial": trial.number, **trial.parameters, "failure": trial.failure or ""}
        if trial.scores:
            row |= {f"seed-{seed}": it for seed, it in zip(seeds, trial.scores, strict=True)}
            row["score"] = trial.score
        if len(trial.scores) > 1:
            row["sd"] = trial.deviation
        table.writerow(row)
    store.write(path, text.getvalue().encode())


def _distribution(given: Range) -> BaseDistribution:
    kinds = needed().distributions
    if given.choices:
        return kinds.CategoricalDistribution(given.choices)
    low, high = given.ends
    whole = isinstance(low, int)
    kind = kinds.IntDistribution if whole else kinds.FloatDistribution
    return kind(low, high, log=given.log)


def _mend(journal: Path) -> None:
    """Undo what a process left that was killed while it wrote."""
    journal.with_name(f"{journal.name}.lock").unlink(missing_ok=True)  # Optuna's own, not ours
    if not journal.exists():
        return
    store.lines(journal)  # which complains if a line is damaged
    content = journal.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        store.write(journal, whole)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Optuna neither reports studies it makes nor warns of samplers that may yet change."""
    optuna = needed()
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)
