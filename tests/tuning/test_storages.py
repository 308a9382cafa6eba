"""Databases and journals of the user's that hold what no tuning has written."""

import contextlib
import json
import sqlite3

import pytest

from discover_rl.core.types import UserError
from tests.tuning.test_tune import QUICK, pretended, tuned

__all__ = ["pretended"]
FEW = {**QUICK, "trials": 2}
CHANGES = [
    "update trials set state = 'x'",
    "update trials set number = null",
    "update trials set number = 7",
    "update trials set datetime_start = 'x'",
    "update study_directions set direction = 'x'",
    "update trial_params set distribution_json = 'x'",
    "update trial_params set param_value = 1e308",
    "update trial_user_attributes set value_json = '\"x\"'",
    "update trial_user_attributes set value_json = '[\"a\"]'",
    "update trial_user_attributes set value_json = '[NaN]'",
    "update trial_user_attributes set value_json = '[1e300]'",
    "update trial_values set value_type = 'x'",
    "delete from trials",
    "delete from trial_user_attributes",
    "drop table trials",
    "drop table studies",
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_database_that_no_tuning_has_written_is_refused(tmp_path, pretended, change):
    path, storage = tmp_path / "x.db", f"sqlite:///{tmp_path}/x.db"
    tuned(tmp_path / "out", storage=storage, **FEW)
    with contextlib.closing(sqlite3.connect(path)) as base:
        base.execute(change)
        base.commit()
    with pytest.raises(UserError, match=r"is damaged|cannot be opened") as caught:
        tuned(tmp_path / "out", storage=storage, **QUICK)
    assert "\n" not in str(caught.value)


LINES = [
    {"op_code": 4, "study_id": 0, "state": 0, "user_attrs": 5, "params": {}, "distributions": {}},
    {"op_code": 8, "trial_id": 1, "user_attr": {"scores": ["a"]}},
    {"op_code": 8, "trial_id": 1, "user_attr": {"failure": 5}},
    {"op_code": 7, "trial_id": 1, "step": "x", "intermediate_value": "x"},
    {"op_code": 99},
    [],
]


@pytest.mark.parametrize("line", LINES, ids=str)
@pytest.mark.parametrize("own", [False, True])
def test_a_journal_that_no_tuning_has_written_is_refused(tmp_path, pretended, line, own):
    out = tmp_path / "out"
    path = out / "journal.log" if own else tmp_path / "x.log"
    options = {} if own else {"storage": str(path)}
    tuned(out, **options, **FEW)
    # The last line, which would say that the last trial is over, is another one.
    lines = path.read_bytes().splitlines(keepends=True)[:-1]
    given = {"worker_id": "w", "datetime_start": "2026-01-01T00:00:00"}
    said = given | line if isinstance(line, dict) else line
    path.write_bytes(b"".join(lines) + json.dumps(said).encode() + b"\n")
    with pytest.raises(UserError, match="is damaged") as caught:
        tuned(out, **options, **QUICK)
    assert "\n" not in str(caught.value)
