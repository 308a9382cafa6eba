"""Curves in Weights & Biases, which has a run for each run here."""

from __future__ import annotations

import contextlib
import importlib
import re
import secrets
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from discover_rl.config import Run
from discover_rl.core.types import UserError
from discover_rl.storage import files, schemas
from discover_rl.system import extras
from discover_rl.training.events import Report
from discover_rl.training.observers.base import Observer, scalars, training_scalars

ID = re.compile(r"[\w-]{1,64}", re.ASCII)
"""What an id there may be."""
_open: dict[str, Any] = {}
"""Open runs of Weights & Biases by id. A run that was stopped stays open: a process can open each
only once."""


class WeightsAndBiases(Observer):
    """Logs the runs in `out` to a project of Weights & Biases.

    The id that a run has there is kept in its folder here, so a run that is continued here is
    continued there.
    """

    def __init__(self, out: str | Path, project: str):
        self.out, self.project = Path(out), project
        try:
            self._wandb = importlib.import_module("wandb")
        except ModuleNotFoundError as error:
            raise UserError(extras.hint("Weights & Biases", "wandb")) from error
        with self._access():
            self._wandb.login()  # it may ask for a key, so do it before training starts

    def evaluated(self, run: Run, step: int, returns: Sequence[float], report: Report) -> None:
        """Log an evaluation's numbers."""
        theirs = self._of(run)
        if step >= theirs.step:  # earlier steps were logged before the run was resumed
            theirs.log(scalars(returns, report), step=step, commit=True)

    def measured(self, run: Run, step: int, metrics: Report, steps_per_second: float) -> None:
        """Log metrics of training."""
        theirs = self._of(run)
        if step >= theirs.step:
            # Not committed yet: an evaluation of the same step may follow and joins this entry.
            theirs.log(training_scalars(metrics, steps_per_second), step=step, commit=False)

    def noted(self, run: Run, step: int, note: str) -> None:
        """Put a note into the summary."""
        self._of(run).summary["note"] = f"step {step}: {note}"

    def finished(self, runs: Sequence[Run]) -> None:
        """Finish these runs there."""
        for run in runs:
            if theirs := _open.pop(self._id(run), None):
                theirs.finish()

    def _of(self, run: Run) -> Any:
        identity = self._id(run)
        if identity not in _open:
            with self._access():
                _open[identity] = self._wandb.init(
                    project=self.project,
                    id=identity,
                    name=run.name,
                    group=self.out.name,
                    config=run.to_json(),
                    resume="allow",
                    reinit="create_new",  # several are open at once
                    settings={"console": "off"},  # what is printed is about all of them
                )
        return _open[identity]

    def _id(self, run: Run) -> str:
        path = self.out / run.name / "wandb-id"
        if not path.exists():
            files.write(path, f"{secrets.token_hex(8)}\n".encode())
        found = schemas.content(path).decode("ascii", "replace").strip()
        if not ID.fullmatch(found):
            raise schemas.malformed(path, "no id of Weights & Biases")
        return found

    @contextlib.contextmanager
    def _access(self) -> Iterator[None]:
        try:
            yield
        except self._wandb.Error as error:
            raise UserError(
                f"Weights & Biases refuses the login ({error}); run `wandb login`, or set "
                "WANDB_MODE=offline to upload later."
            ) from error
