"""Statistics: closed forms, definitions that others share, and how often intervals are right."""

import tracemalloc

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, trim_mean

from discover_rl.core.types import UserError
from discover_rl.report import resampling, statistics
from discover_rl.report.resampling import Interval, Resampling
from discover_rl.report.statistics import Reached

QUICK = Resampling(resamples=400)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


# Statistics


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([7], 7),
        ([1, 5], 3),
        ([0, 1, 100], 101 / 3),  # a quarter of three is no whole run: nothing is cut
        ([100, 1, 0, 2], 1.5),
        ([9, 1, 2, 3, 4], 3),  # of five, one at either end: 2, 3, 4
        ([0, 0, 1, 2, 3, 4, 99, 99], 2.5),
    ],
)
def test_iqm_of_known_lists(scores, expected):
    assert statistics.iqm(scores) == pytest.approx(expected)


@pytest.mark.parametrize("runs", range(1, 14))
def test_iqm_is_the_trimmed_mean_with_and_without_equal_weights(runs):
    x = normal(runs, 3)
    np.testing.assert_allclose(statistics.iqm(x), trim_mean(x, 0.25, axis=0), rtol=1e-12)
    weighted = statistics.iqm(x, weights=np.full(runs, 5.0))
    np.testing.assert_allclose(weighted, statistics.iqm(x), rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(statistics.iqm(x.T, axis=1), statistics.iqm(x))


def test_iqm_cuts_through_a_weight():
    """Sorted, −100 has an eighth of the weight, 4 a half, 8 a quarter and 100 an eighth. What lies
    from 1/4 to 3/4 is 4 as far as 5/8, then 8: three parts of one, one part of the other."""
    got = statistics.iqm([100, -100, 8, 4], weights=[1, 1, 2, 4])
    assert got == pytest.approx((3 * 4 + 8) / 4)


def test_optimality_gap():
    assert statistics.optimality_gap([0.5, 2.0, 1.0, 0.0]) == pytest.approx(1 - 2.5 / 4)
    assert statistics.optimality_gap([1.0, 3.0], target=2.0) == pytest.approx(0.5)


def test_mean_deviation_and_the_band_of_half_of_it():
    assert statistics.mean_sd([1.0, 3.0, 5.0]) == (3.0, 2.0)
    assert statistics.half_sd_band([1.0, 3.0, 5.0]) == Interval(3.0, 2.0, 4.0)
    band = statistics.half_sd_band([[1.0, 0.0], [3.0, 0.0]])
    np.testing.assert_allclose(band.high - band.value, [2**0.5 / 2, 0.0])


def test_smoothing_looks_back_and_is_shorter_at_the_start():
    assert statistics.smooth([1, 2, 3, 4, 5, 6, 7]).tolist() == [1, 1.5, 2, 2.5, 3, 4, 5]
    assert statistics.smooth([[4, 0], [0, 2]], window=5).tolist() == [[4, 2], [0, 1]]
    assert statistics.smooth([3, 1, 2], window=1).tolist() == [3, 1, 2]


def test_normalised_scores_have_their_references_at_0_and_1():
    assert statistics.normalise([10, 20, 40], low=20, high=40).tolist() == [-0.5, 0, 1]


# Intervals


def test_the_bootstrap_of_two_runs_is_known():
    """Of 0 and 1 a resample's mean is 0, ½ or 1 with probabilities ¼, ½, ¼: so 60 % of them lie
    between the quantiles 0.2 and 0.8, which are 0 and 1, and 40 % between 0.3 and 0.7: ½ and ½."""
    scores = [0.0, 1.0]
    wide = statistics.bootstrap(scores, np.average, Resampling(2000, level=0.6))
    assert wide == Interval(0.5, 0.0, 1.0)
    assert statistics.bootstrap(scores, np.average, Resampling(2000, level=0.4)) == (0.5, 0.5, 0.5)


def test_intervals_agree_with_the_normal_ones_where_runs_are_many():
    x = normal(400)
    got = statistics.bootstrap(x, np.average, Resampling(4000))
    error = x.std() / 20
    assert got.low == pytest.approx(x.mean() - 1.96 * error, abs=0.1 * error)
    assert got.high == pytest.approx(x.mean() + 1.96 * error, abs=0.1 * error)


@pytest.mark.parametrize(("statistic", "share"), [(np.average, 0.906), (statistics.iqm, 0.936)])
def test_how_often_an_interval_of_ten_runs_covers_the_truth(statistic, share):
    """What the docstring says, by 10,000 cases; here within three standard errors of 1,000.

    For the mean it can be derived: means of resamples are nearly normal, with the deviation
    of scores over √10, by n and not n − 1. So the interval is ±1.96 √0.9 of what Student's t with 9
    degrees of freedom is about, which holds in 90 % of cases.
    """
    covered = 0
    for seed, case in enumerate(normal(1000, 10, seed=3)):  # the same draws would err alike
        low, high = statistics.bootstrap(case, statistic, QUICK._replace(seed=seed))[1:]
        covered += low <= 0 <= high
    assert covered / 1000 == pytest.approx(share, abs=3 * (share * (1 - share) / 1000) ** 0.5)


def test_runs_are_drawn_within_their_task():
    """Two tasks without spread, far apart: no resample mixes them."""
    got = statistics.bootstrap({"a": [0.0] * 3, "b": [10.0] * 5}, np.average, QUICK)
    assert got == pytest.approx((5.0, 5.0, 5.0))


def test_tasks_weigh_the_same_whatever_their_number_of_runs():
    full = {"a": [1.0, 3.0], "b": [10.0, 20.0, 30.0, 40.0]}
    assert statistics.bootstrap(full, np.average, QUICK).value == pytest.approx((2 + 25) / 2)
    # For the IQM, one run of six is cut off at either end: 1/6 of the weight. 1 and 3 have 1/4
    # each, the others 1/8: left are 1 with 1/12, 3 with 1/4, 10 and 20 with 1/8, 30 with 1/12.
    left = 1 / 12 + 3 / 4 + (10 + 20) / 8 + 30 / 12
    assert statistics.bootstrap(full, statistics.iqm, QUICK).value == pytest.approx(left / (2 / 3))


def test_as_many_runs_for_every_task_are_pooled():
    scores = dict(zip("abc", normal(3, 7), strict=True))
    pooled = trim_mean(np.concatenate([*scores.values()]), 0.25)
    assert statistics.bootstrap(scores, resampling=QUICK).value == pytest.approx(pooled)


def test_curves_are_resampled_as_wholes_and_block_by_block(monkeypatch):
    curves = normal(6, 50)
    whole = statistics.bootstrap(curves, resampling=QUICK)
    assert whole.low.shape == (50,)
    assert (whole.low <= whole.value).all()
    assert (whole.value <= whole.high).all()
    for point in (0, 17, 49):  # each point has the interval that it has alone
        alone = statistics.bootstrap(curves[:, point], resampling=QUICK)
        assert alone == (whole.value[point], whole.low[point], whole.high[point])
    monkeypatch.setattr(resampling, "BLOCK", 1)
    np.testing.assert_array_equal(statistics.bootstrap(curves, resampling=QUICK), whole)


def test_a_long_curve_takes_little_memory():
    curves = normal(10, 1001)
    tracemalloc.start()
    statistics.bootstrap(curves)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100e6  # all resamples at once take 160 MB, before they are sorted


def test_a_difference_is_of_independent_runs():
    a, b = normal(200, seed=1) + 1.0, normal(300, seed=2)
    got = statistics.difference(a, b, np.average, Resampling(4000))
    error = (a.var() / 200 + b.var() / 300) ** 0.5
    assert got.value == pytest.approx(a.mean() - b.mean())
    assert got.high - got.low == pytest.approx(2 * 1.96 * error, rel=0.06)
    # The same runs on both sides: paired draws would leave no width at all.
    same = statistics.difference(a, a, np.average, QUICK)
    assert same.value == 0
    assert same.high - same.low > 0.2


# Comparisons


def test_probability_of_improvement_by_hand():
    """3 beats 1, 2 and ties with 3: 2½ of 3; 1 ties with 1: ½ of 3. U = 3 of 6."""
    assert statistics.improvement([3, 1], [1, 2, 3], QUICK).value == pytest.approx(0.5)
    tasks = statistics.improvement({"a": [3, 1], "b": [9, 8]}, {"b": [1, 2], "a": [1, 2, 3]}, QUICK)
    assert tasks.value == pytest.approx((0.5 + 1) / 2)


def test_probability_of_improvement_is_mann_and_whitneys():
    a, b = normal(9, seed=1), normal(13, seed=2)
    u = mannwhitneyu(a, b).statistic
    assert statistics.improvement(a, b, QUICK).value == pytest.approx(u / (9 * 13))


def test_resampled_probabilities_are_those_of_resampled_runs():
    """Of one pair that wins and one that loses, the first side's draws decide: ¼ 0, ½ ½, ¼ 1."""
    got = statistics.improvement([0.0, 2.0], [1.0, 1.0], Resampling(2000, level=0.6))
    assert got == (0.5, 0.0, 1.0)


def test_profile_by_hand():
    got = statistics.profile({"a": [0, 1, 2], "b": [1, 5]}, [-1, 1, 4.9, 5], QUICK)
    np.testing.assert_allclose(got.value, [1, (1 / 3 + 1 / 2) / 2, 1 / 4, 0])
    np.testing.assert_allclose((got.low[0], got.high[0], got.high[3]), (1, 1, 0))
    assert got.low[1] < got.value[1] < got.high[1]


def test_bold_is_for_what_beats_all_others():
    a, b, c = normal(10, seed=1) + 5, normal(10, seed=2), normal(10, seed=3) + 4.9
    assert statistics.bold({"b": b, "a": a}) == "a"
    assert statistics.bold({"b": b, "a": a, "c": c}) is None  # c is too close
    assert statistics.bold({"a": a, "b": b[:1]}) is None
    assert statistics.bold({"a": a}) is None


@pytest.mark.parametrize(("entries", "share"), [(2, 0.045), (4, 0.006)])
def test_how_often_one_of_equals_is_bold(entries, share):
    """What the docstring says, within three standard errors of 300 rows."""
    rows = normal(300, entries, 10, seed=4)
    bold = sum(
        statistics.bold(dict(enumerate(row)), resampling=QUICK._replace(seed=seed)) is not None
        for seed, row in enumerate(rows)
    )
    assert abs(bold / 300 - share) <= 3 * (share * (1 - share) / 300) ** 0.5


@pytest.mark.parametrize("entries", [2, 4])
def test_how_often_what_is_truly_better_is_bold(entries):
    """By three standard deviations, with 10 runs each: in nearly all rows, and never another."""
    rows = normal(100, entries, 10, seed=5)
    rows[:, 1] += 3
    bold = [
        statistics.bold(dict(enumerate(row)), resampling=QUICK._replace(seed=seed))
        for seed, row in enumerate(rows)
    ]
    assert bold.count(1) >= 98
    assert set(bold) <= {1, None}


# Sample efficiency


def test_the_step_at_which_a_level_is_reached():
    steps = [0, 10, 20, 30]
    rising = [[0, 1, 2, 3], [0, 1, 2, 3.0]]
    for level, window, expected in (
        (2, 1, Reached(20, 20, 20, 1.0)),
        (1.5, 5, Reached(30, 30, 30, 1.0)),
        (4, 1, Reached(None, None, None, 0.0)),
    ):
        assert statistics.reach(steps, rising, level, window=window, resampling=QUICK) == expected
    dip = [[0, 5, 0, 9], [0, 5, 0, 9]]
    found = statistics.reach(steps, dip, 4, window=1, resampling=QUICK)
    assert found.step == 10  # it need not stay there


def test_runs_that_never_reach_it_make_the_bound_never():
    """Means of two draws of 0 and 4: 0, 2 or 4 with ¼, ½, ¼; 2 is enough from step 10 on."""
    curves = [[0, 4], [0, 0]]
    got = statistics.reach([0, 10], curves, 2, np.average, 1, Resampling(2000, level=0.6))
    assert got[:3] == (10, 10, None)
    assert got.share == pytest.approx(0.75, abs=0.03)


def test_a_level_that_is_uncertain_makes_the_step_uncertain():
    """Means of two draws of 1 and 3: 1, 2 or 3 with ¼, ½, ¼. All curves are 0, 1, 2, 3."""
    steps, rising = [0, 10, 20, 30], [[0, 1, 2, 3.0]] * 2
    how = Resampling(2000, level=0.8)
    sure = statistics.reach(steps, rising, 2.0, np.average, 1, how)
    assert sure == Reached(20, 20, 20, 1.0)
    assert statistics.reach(steps, rising, [1.0, 3.0], np.average, 1, how) == Reached(
        20, 10, 30, 1.0
    )
    often = statistics.reach(steps[:3], [row[:3] for row in rising], [1.0, 3.0], np.average, 1, how)
    assert often[:3] == (20, 10, None)
    assert often.share == pytest.approx(0.75, abs=0.03)
    assert statistics.reach(steps, rising, [2.0], np.average, 1, how) == Reached(
        20, None, None, None
    )


def test_runs_that_reach_their_own_scores_are_resampled_together():
    """Each run ends at its score, so the mean of any resample does; not that of another one."""
    curves = [[0, 1.0], [0, 5.0]]
    together = statistics.reach([0, 10], curves, [1.0, 5.0], np.average, 1, QUICK, paired=True)
    assert together == Reached(10, 10, 10, 1.0)
    assert statistics.reach([0, 10], curves, [1.0, 5.0], np.average, 1, QUICK).share < 0.9


# Always the same; and what is refused


def every_interval(scores, other) -> list:
    return [
        statistics.bootstrap(scores, resampling=QUICK),
        statistics.difference(scores, other, resampling=QUICK),
        statistics.improvement(scores, other, QUICK),
        statistics.profile(scores, [0.0, 0.5], QUICK),
    ]


def test_the_same_input_gives_the_same_output_and_another_seed_another():
    scores = {"a": normal(5), "b": normal(9, seed=1)}
    other = {"a": normal(6, seed=2), "b": normal(2, seed=3)}
    first, second = every_interval(scores, other), every_interval(scores, other)
    assert [np.asarray(x).tobytes() for x in first] == [np.asarray(x).tobytes() for x in second]
    seeds = [
        statistics.bootstrap(scores, resampling=QUICK._replace(seed=seed)).low for seed in (0, 1)
    ]
    assert seeds[0] != seeds[1]


@pytest.mark.parametrize("scores", [[3.0], {"a": [1.0, 2.0], "b": [3.0]}], ids=["one", "ragged"])
def test_one_run_has_no_interval(scores):
    for value, low, high in every_interval(scores, scores):
        assert np.isfinite(value).all()
        assert (low, high) == (None, None)
    assert statistics.mean_sd([3.0]) == (3.0, None)
    assert statistics.half_sd_band([3.0]) == Interval(3.0, None, None)
    assert statistics.reach([5], [[1.0]], 1) == Reached(5, None, None, None)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused(bad):
    message = "Scores of Hopper must be finite: leave a failed run out, or give it a score."
    with pytest.raises(UserError, match=message):
        statistics.bootstrap({"Hopper": [1.0, bad]})
    for call in (statistics.mean_sd, statistics.half_sd_band, statistics.bootstrap):
        with pytest.raises(UserError, match="Scores must be finite"):
            call([1.0, bad])
    with pytest.raises(UserError, match="Scores must be finite"):
        statistics.reach([0, 1], [[1.0, bad]], 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: statistics.bootstrap([]),
            "Give scores: one number per run, and one run at least.",
        ),
        (lambda: statistics.bootstrap({"a": []}), "Give scores of a: one number per run"),
        (lambda: statistics.profile([[1, 2]], [0]), "Give scores: one number per run"),
        (lambda: statistics.improvement([1, 2], [[1, 2]]), "Give scores: one number per run"),
        (lambda: statistics.bootstrap({}), "Give scores of one task at least."),
        (
            lambda: statistics.difference({"a": [1], "b": [1]}, {"a": [1], "c": [1]}),
            "Only scores of the same tasks can be compared; only one side has b, c.",
        ),
        (lambda: statistics.normalise([1], 2, 2), "must be below the higher one, not 2 and 2."),
        (lambda: statistics.smooth([1], 0), "window must be at least 1, not 0."),
        (lambda: statistics.reach([0], [[1, 2]], 1), "Curves must have a point for each step."),
    ],
)
def test_mistakes_are_one_sentence(call, message):
    with pytest.raises(UserError, match=message):
        call()
