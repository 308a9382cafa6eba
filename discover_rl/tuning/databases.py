"""Optuna, and databases of the user's that it may keep trials in."""

from __future__ import annotations

import re
from typing import Any

from discover_rl.core.types import UserError
from discover_rl.system import extras


def needed() -> Any:
    """The package Optuna; a UserError if it is not installed."""
    try:
        import optuna
        import optuna.storages.journal
    except ImportError as error:
        raise UserError(extras.hint("Tuning", "tune")) from error
    return optuna


def open_url(storage: str) -> Any:
    """Optuna's storage at a URL; a UserError if it cannot be opened."""
    storages = needed().storages
    try:
        return storages.get_storage(storage)
    except Exception as error:  # of SQLAlchemy, of a driver, of the disk
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"--storage {without_password(storage)} cannot be opened ({reason}); give a URL "
            "such as sqlite:///tuning.db, or a file for Optuna's journal."
        ) from error


def without_password(storage: str) -> str:
    """A storage's URL as it may be shown.

    >>> without_password("mysql://me:secret@host/db"), without_password("sqlite:///tuning.db")
    ('mysql://me:***@host/db', 'sqlite:///tuning.db')
    """
    return re.sub(r"(://[^:/@]*):[^@]*@", r"\1:***@", storage)
