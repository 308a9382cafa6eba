"""Reports on the first steps of runs, as if these had ended there."""

import json

import pytest
from typer.testing import CliRunner

from discover_rl.cli.main import app
from discover_rl.core.types import UserError
from discover_rl.report import comparisons, data, payload, summary, tables
from tests.helpers.records import declare, write_record, write_records

TWO = {"task": "Hopper-v5", "algorithm": "td3", "strategy": ["gaussian", "discover"]}


@pytest.fixture
def study(tmp_path):
    """Scores grow by 1 at every hundred steps; one run is at step 550, one failed at 1,050."""
    declared = declare(TWO, seeds=3)
    write_records(tmp_path, declared)
    for cell in declared.cells:
        for seed in cell.seeds:
            write_record(tmp_path, cell, seed, list(range(12)))
    cell = declared.cells[1]
    write_record(tmp_path, cell, 0, list(range(12)), end=False)
    diverged = {"step": 1050, "event": "diverged", "quantity": "critic"}
    write_record(tmp_path, cell, 1, list(range(12)), event=diverged)
    path = tmp_path / cell.names[1] / "record.jsonl"
    lines = [line for line in path.read_text().splitlines() if json.loads(line).get("step") != 1100]
    path.write_text("\n".join(lines) + "\n")
    return declared


def test_runs_count_as_done_once_they_got_there(study, tmp_path):
    found = data.load(study, tmp_path, 500)
    assert [run.state for run in found.runs] == ["done"] * 6
    assert found.progress == "6 runs, looked at up to step 500 of 1,100: 6 done"
    assert not summary.missing(found)
    assert all(cell.steps.max() == 500 for cell in found.cells)
    assert found.cells[0].final.tolist() == [5.0] * 3  # the last of 0, 1, …, 5
    later = data.load(study, tmp_path, 600)
    assert [run.state == "done" for run in later.cells[1].runs] == [False, True, True]
    assert later.cells[1].runs[0].step == 550
    whole = data.load(study, tmp_path)
    assert [run.state for run in whole.cells[1].runs][1:] == ["failed", "done"]


def test_captions_and_summary_name_the_steps(study, tmp_path):
    found = data.load(study, tmp_path, 500)
    (analysis,) = comparisons.analyse(found)
    assert "of the first 500 steps of runs" in tables.overview(analysis).caption
    assert "up to step 500 of 1,100" in summary.text(found, [analysis])
    assert ["500", "steps of 1,100 a run"] in payload.build(found, [analysis], (), {})["facts"]


@pytest.mark.parametrize("until", [-5, 0, 1100, 2000])
def test_there_must_be_such_steps(study, tmp_path, until):
    with pytest.raises(UserError, match="between 1 and 1,099"):
        data.load(study, tmp_path, until)


def test_the_command(study, tmp_path):
    del study
    text = "about = 'A test'\nsteps = 1100\nseeds = 3\n[grid]\n"
    text += "\n".join(f"{name} = {json.dumps(value)}" for name, value in TWO.items())
    (tmp_path / "test.toml").write_text(text)
    words = ["report", str(tmp_path / "test.toml"), "--out", str(tmp_path), "--until"]
    done = CliRunner().invoke(app, [*words, "500"])
    assert done.exit_code == 0, done.output
    assert "up to step 500 of 1,100: 6 done" in done.output.replace("\n", " ")


def test_a_step_before_any_evaluation_of_what_was_learned_is_said(study, tmp_path):
    with pytest.raises(UserError, match="has no evaluation but that at step 0"):
        data.load(study, tmp_path, 50)


def test_a_run_that_ended_at_step_0_has_no_score_and_spoils_no_report(tmp_path):
    declared = declare(TWO, seeds=1)
    write_records(tmp_path, declared)
    stopped = {"step": 0, "event": "stopped", "reason": "enough"}
    write_record(tmp_path, declared.cells[0], 0, [1], event=stopped, end=False)
    found = data.load(declared, tmp_path)
    assert [run.state for run in found.runs] == ["failed", "done"]
    comparisons.analyse(found)
