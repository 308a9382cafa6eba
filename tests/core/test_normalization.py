"""Running statistics against those of all values at once."""

import numpy as np

from discover_rl.core import normalization


def test_running_statistics_are_numpys():
    values = 1e6 + np.random.default_rng(0).normal(size=(10**5, 2))
    # Of arrays, and of numbers.
    both = (
        normalization.RunningStats(0.0, np.zeros(2), np.zeros(2)),
        normalization.RunningStats(0.0, 0.0, 0.0),
    )
    for row in values:
        both = normalization.update(both[0], row), normalization.update(both[1], float(row[0]))
    for stats, expected in zip(both, (values, values[:, 0]), strict=True):
        assert stats.samples == 10**5
        np.testing.assert_allclose(stats.mean, expected.mean(0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(stats.variance, expected.var(0), rtol=1e-9)
        np.testing.assert_allclose(normalization.deviation(stats), expected.std(0), rtol=1e-7)
