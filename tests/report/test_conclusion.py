"""The conclusion: what may be claimed, and nothing else."""

import pytest

from discover_rl.report import conclusion
from tests.helpers.records import analysed, declare, write_record, write_records

GRID = {"task": "My-v0", "algorithm": "td3", "strategy": ["gaussian", "discover", "none"]}


def found(study, out):
    _, analyses = analysed(study, out)
    return conclusion.sentences(analyses)


def test_it_says_which_lines_are_better_and_worse_by_which_measure(tmp_path):
    study = declare(GRID, steps=1000, seeds=5)
    for cell in study.cells:
        top = {"gaussian": 100.0, "discover": 100.0, "none": 50.0}[cell.strategy]
        rises = 2 if cell.strategy == "discover" else 5
        for seed in cell.seeds:
            write_record(tmp_path, cell, seed, [0.0] * rises + [top + seed] * (11 - rises))
    (text,) = found(study, tmp_path)
    assert text == (
        "td3, against “gaussian”. Final scores: “none” is worse on My-v0; no difference can be "
        "claimed in 1 of 2 comparisons. Areas under the curve: “discover” is better on My-v0; "
        "“none” is worse on My-v0."
    )


@pytest.mark.parametrize(("seeds", "says"), [(4, "nothing can be claimed yet"), (5, "in any of 2")])
def test_too_few_runs_allow_no_claim_and_equals_none_either(tmp_path, seeds, says):
    study = declare(GRID, seeds=seeds)
    write_records(tmp_path, study)
    (text,) = found(study, tmp_path)
    assert says in text
    assert "better" not in text


def test_several_tasks_have_a_conclusion_over_all(tmp_path):
    study = declare(GRID | {"task": ["Hopper-v5", "Swimmer-v5"]}, seeds=5)
    write_records(tmp_path, study, lambda cell, seed: seed + 90.0 * (cell.strategy == "discover"))
    (text,) = found(study, tmp_path)
    assert "“discover” is better on Hopper-v5 and Swimmer-v5" in text
    assert text.endswith("Over all tasks: “discover” is better.")


def test_one_line_alone_has_none(tmp_path):
    study = declare(GRID | {"strategy": "none"})
    write_records(tmp_path, study)
    assert found(study, tmp_path) == []


def test_up_to_four_lines_are_named_and_of_more_the_first_three():
    assert conclusion._named("abcd") == "“a”, “b”, “c” and “d” are"
    assert conclusion._named("abcde") == "“a”, “b”, “c” and 2 more are"
