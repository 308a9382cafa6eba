"""Reports of studies whose runs are missing, failed, or were made by other code."""

import math

import numpy as np
import pytest

from discover_rl import report
from discover_rl.core.types import UserError
from discover_rl.report import summary, tables
from discover_rl.storage import files
from tests.helpers.records import DIVERGED, analysed, declare, write_record, write_records
from tests.report.test_report import TWO, by_strategy


def test_runs_of_different_lengths_count_as_far_as_they_came_and_are_named(tmp_path):
    study = declare(TWO, seeds=4)
    cell = study.cells[1]
    write_record(tmp_path, cell, 0, [10.0] * 12)
    write_record(tmp_path, cell, 1, [20.0] * 6, end=False)
    write_record(tmp_path, cell, 2, [60.0] * 6, end=False, event=DIVERGED)
    everything, (found,) = analysed(study, tmp_path)
    results = everything.cells[1]
    assert [run.state for run in results.runs] == ["done", "waiting", "failed", "waiting"]
    assert results.count == "3 of 4 runs, 1 done"
    assert results.final.tolist() == [10.0]
    curve = results.curves["paper"]
    at = dict(zip(curve.steps.tolist(), zip(curve.value, curve.runs, strict=True), strict=True))
    assert at[0] == (30.0, 3)
    assert at[1100] == (10.0, 1)
    ends = curve.steps.tolist().index(1100)
    assert math.isnan(curve.low[ends])  # one run has no band
    assert curve.low[0] == pytest.approx(30 - np.std([10, 20, 60], ddof=1) / 2)
    assert "10.00 (1 of 4)" in tables.markdown(tables.overview(found))
    page = summary.text(everything, [found])
    assert "seed 2: critic is not finite (step 551)" in page
    assert "8 runs: 1 done, 6 waiting, 1 failed" in page
    assert f"{cell.name}, seeds 1, 3: waiting, steps 0 to 550" in page


def test_a_study_that_was_never_begun_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(UserError, match=r"nothing to report: in .*nowhere no run of \S+ has begun"):
        report.write(declare(TWO), tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_a_study_of_which_no_run_has_come_to_an_end_is_reported(tmp_path):
    study = declare(TWO)
    write_record(tmp_path, study.cells[0], 0, [10.0], end=False)
    written = report.write(study, tmp_path)
    assert "4 runs: 4 waiting" in written.summary
    assert "– (0 of 2)" in (tmp_path / "report/tables/td3.md").read_text()
    assert written.missing
    assert all(file.stat().st_size for file in written.files)


@pytest.mark.parametrize("failing", [False, True])
def test_several_tasks_without_a_finished_run_are_reported(tmp_path, failing):
    study = declare(TWO | {"task": ["Hopper-v5", "Swimmer-v5"]})
    for cell in study.cells:
        for seed in cell.seeds:
            event = DIVERGED if failing else None
            write_record(tmp_path, cell, seed, [1.0, 2.0], end=False, event=event)
    written = report.write(study, tmp_path)
    assert "Nothing can be said over all tasks." in written.summary
    assert ("8 failed" if failing else "8 waiting") in written.summary


def test_records_of_another_study_do_not_count(tmp_path):
    write_records(tmp_path, declare(TWO, steps=2200, seeds=5))
    written = report.write(declare(TWO, seeds=5), tmp_path)
    assert "10 runs: 10 failed" in written.summary
    assert "steps is 2200 there and 1100 here" in written.summary
    assert "– (0 of 5)" in (tmp_path / "report/tables/td3.md").read_text()


def test_nothing_is_claimed_where_runs_failed(tmp_path):
    """Those of discover that came to their end are far better; half of them did not."""
    study = declare(TWO, seeds=10)
    write_records(tmp_path, study, by_strategy(500))
    (found,) = analysed(study, tmp_path)[1]
    assert [compared.claim for compared in found.comparisons] == [1]
    assert found.best == {"Hopper-v5": "discover"}
    for seed in range(5):
        write_record(tmp_path, study.cells[1], seed, [1.0, 2.0], end=False, event=DIVERGED)
    everything, (found,) = analysed(study, tmp_path)
    assert [compared.claim for compared in found.comparisons] == [0]
    assert found.best == {"Hopper-v5": None}
    sentence = "5 and 10 runs: no difference can be claimed where runs failed, as 5 here did"
    assert sentence in summary.text(everything, [found])


def test_tasks_that_lack_a_rival_are_left_out_of_the_whole_and_named(tmp_path):
    study = declare(TWO | {"task": ["Hopper-v5", "Swimmer-v5", "My-v0"]}, seeds=5)
    write_records(tmp_path, study)
    lost = next(
        cell for cell in study.cells if cell.task == "Swimmer-v5" and cell.arm == "discover"
    )
    files.remove(tmp_path / lost.name)
    everything, (found,) = analysed(study, tmp_path)
    assert found.overall.over == "2 of 3 tasks"
    page = summary.text(everything, [found])
    assert "Swimmer-v5 (no finished run of “discover”)" in page


def test_one_run_and_one_arm_are_reported_without_bounds(tmp_path):
    study = declare(TWO | {"strategy": "discover"}, seeds=1)
    write_records(tmp_path, study)
    written = report.write(study, tmp_path)
    assert "There is one arm only, “discover”: nothing to compare." in written.summary
    assert "| discover | 100.0 |" in (tmp_path / "report/tables/td3.md").read_text()


def test_runs_of_other_code_are_pointed_out(tmp_path):
    study = declare(TWO)
    write_records(tmp_path, study)
    page = summary.text(*analysed(study, tmp_path))
    assert "4 runs: discover_rl 0.1.0, numpy 2.4; commit abc123" in page
    assert "Not all runs" not in page
    file = tmp_path / study.names[0] / "record.jsonl"
    file.write_text(file.read_text().replace('"numpy": "2.4"', '"numpy": "2.5"'))
    page = summary.text(*analysed(study, tmp_path))
    assert "Not all runs were made by the same code and versions." in page


def test_a_task_whose_code_changed_between_runs_is_pointed_out(tmp_path):
    study = declare(TWO)
    write_records(tmp_path, study)
    files = [tmp_path / name / "record.jsonl" for name in study.names]
    for file in files:
        file.write_text(file.read_text().replace('"commit"', '"task_source": "12", "commit"'))
    assert "states of it" not in summary.text(*analysed(study, tmp_path))
    changed = '{"step": 0, "event": "task_changed", "task_source": "34"}\n'
    first, *rest = files[0].read_text().splitlines(keepends=True)
    files[0].write_text("".join([first, changed, *rest]))
    text = (
        f"The code of {study.cells[0].task} is not the same in all runs: there are 2 states of it"
    )
    assert text in summary.text(*analysed(study, tmp_path))
