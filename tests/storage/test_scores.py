"""Scores: which evaluations count, at every length of run."""

import dataclasses

import pytest

from discover_rl.config import Request, resolve
from discover_rl.storage import scores
from discover_rl.storage.results import Result


def result(returns, every, settings=None, **more):
    steps = [i * every for i in range(len(returns))]
    run = {"settings": settings or {}}
    return Result(path=None, run=run, steps=steps, returns=[[one] for one in returns], **more)  # type: ignore[arg-type]


def test_a_short_run_is_scored_by_what_it_learned():
    # As a run of Pendulum that ends at −97: with all nine evaluations it would be at −871.
    returns = [-1400.0, -1450, -1400, -1300, -1100, -700, -300, -120, -97]
    assert result(returns, 1000, {"warmup": 1000}).score() == -97


def test_a_run_of_the_papers_length_is_scored_by_its_last_ten_evaluations():
    for count in (51, 101, 1001):
        returns = [float(i) for i in range(count)]
        assert result(returns, 1_000_000 // (count - 1)).score() == count - 5.5


@pytest.mark.parametrize("count", range(2, 60))
def test_at_least_one_counts_and_never_the_untrained_policy(count):
    counted = result([0.0] * count, 10, {"warmup": 10}).counted()
    assert counted[-1] == count - 1
    assert 0 not in counted
    assert len(counted) <= max(1, count // 10) or count >= 50


def test_nothing_before_learning_starts_counts_however_many_are_asked_for():
    off = result([-9.0, -9, 4, 6], 100, {"warmup": 100}, score_last=10)
    on = result([-9.0, 2, 4, 6], 100, {"horizon": 100, "env.count": 2}, score_last=10)
    assert (off.score(), on.score()) == (5.0, 5.0)
    assert result([-9.0, 1, 2, 3], 100, score_last=2).score() == 2.5


def test_the_setting_is_part_of_no_run():
    plain, scored = (
        resolve(Request("Pendulum-v1", settings=given))[0] for given in ({}, {"score.last": 3})
    )
    assert (plain.score.last, scored.score.last) == (0, 3)
    assert plain.to_json() == scored.to_json()
    assert dataclasses.replace(scored, score=plain.score) == plain


def test_it_is_said_in_words():
    assert scores.in_words(1) == "last evaluation"
