"""Running statistics against those of all values at once."""

import numpy as np

from discover_rl import running


def test_running_statistics_are_numpys():
    values = 1e6 + np.random.default_rng(0).normal(size=(10**5, 2))
    # Of arrays, and of numbers.
    both = running.Running(0.0, np.zeros(2), np.zeros(2)), running.Running(0.0, 0.0, 0.0)
    for row in values:
        both = running.met(both[0], row), running.met(both[1], float(row[0]))
    for met, expected in zip(both, (values, values[:, 0]), strict=True):
        assert met.seen == 10**5
        np.testing.assert_allclose(met.mean, expected.mean(0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(met.scatter / met.seen, expected.var(0), rtol=1e-9)
        np.testing.assert_allclose(running.deviation(met), expected.std(0), rtol=1e-7)
