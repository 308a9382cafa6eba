"""The lines that Optuna's journal may have in the folder of a tuning."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal, TypedDict

import msgspec
from msgspec import Meta

from discover_rl.storage.records import Return
from discover_rl.storage.schemas import Count, Name, Text


class Entry(msgspec.Struct, tag_field="op_code"):
    """A line of Optuna's journal, of the five kinds that `Journal` writes."""

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
    """A trial is over: complete, pruned or failed."""

    trial_id: Count
    state: Literal[1, 2, 3]
    values: list[Return] | None
    datetime_complete: datetime


class NewValue(Entry, tag=7):
    """A trial has this value at a step on the way."""

    trial_id: Count
    step: Count
    intermediate_value: Return


class Attribute(TypedDict, total=False):
    """The outcome of a trial: its scores, or why it has none."""

    scores: Annotated[list[Return], Meta(min_length=1)]
    failure: Text


class NewAttribute(Entry, tag=8):
    """What came of a trial is known."""

    trial_id: Count
    user_attr: Attribute


ENTRIES: Any = NewStudy | NewTrial | NewState | NewValue | NewAttribute
"""Whatever a line may be."""
