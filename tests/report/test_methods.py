"""Reports: which arm is the baseline, and which published number belongs to a cell, whatever
settings are written out."""

import pytest

from discover_rl.report import data, groups, published
from tests.helpers.records import declare


def arms_text(*arms):
    """The text of a study's arms; each is (name, strategy, settings)."""
    lines = []
    for name, strategy, settings in arms:
        lines += ["[[arm]]", f'name = "{name}"', f'strategy = "{strategy}"']
        lines += [f'"{setting}" = {value}' for setting, value in settings.items()]
    return "\n".join(lines)


def declared(*arms, task="Hopper-v5", algorithm="td3", **grid):
    """A study of a million steps with these arms."""
    grid = {"task": task, "algorithm": algorithm, **grid}
    return declare(grid, steps=1_000_000, more=arms_text(*arms))


def sigma(value):
    return {"strategy.sigma": value}


GREEDY = ("greedy", "gaussian", sigma(0.0))
OURS = ("discover", "discover", {})


@pytest.mark.parametrize(
    ("arms", "base"),
    [
        ([GREEDY, ("gaussian", "gaussian", sigma(0.1)), OURS], "gaussian"),
        ([GREEDY, ("gaussian", "gaussian", sigma(0.2)), OURS], "gaussian"),  # by its name
        ([GREEDY, ("usual", "gaussian", sigma(0.1)), OURS], "usual"),  # by its settings
        ([GREEDY, ("wide", "gaussian", sigma(0.5)), OURS], "greedy"),  # the first
        ([GREEDY, ("usual", "gaussian", {})], "usual"),  # of one strategy, too
    ],
)
def test_the_baseline_is_the_arm_that_is_named_or_set_as_usual(tmp_path, arms, base):
    (group,) = groups.groups(data.load(declared(*arms), tmp_path))
    assert (group.base, group.why) == (base, "the baseline")


@pytest.mark.parametrize("strategy", ["discover", "gaussian"])
def test_arms_without_a_baseline_among_them_are_compared_with_the_first(tmp_path, strategy):
    odd = {"discover": "strategy.lam", "gaussian": "strategy.sigma"}[strategy]
    arms = [("one", strategy, {odd: 0.5}), ("two", strategy, {odd: 0.7})]
    (group,) = groups.groups(data.load(declared(*arms), tmp_path))
    assert group.base == "one"
    assert group.why.startswith("the first in the study")


def keys(*arms, **grid):
    """The published results that the arms repeat."""
    return [published.key(cell) for cell in declared(*arms, **grid).cells]


def test_a_value_written_out_is_the_value_without():
    plain, gaussian = keys(OURS, ("gaussian", "gaussian", {}))
    assert plain.study == gaussian.study == "evaluation"
    written = {"strategy.lam": 0.3, "gamma": 0.99, "env.reward_delay": 1}
    assert keys(("discover", "discover", written)) == [plain]
    assert keys(("gaussian", "gaussian", sigma(0.1))) == [gaussian]
    # A preset's value is the usual one where there is a preset: 0.1 on-policy, and not 0.3.
    (own,) = keys(OURS, algorithm="ppo")
    assert keys(("a", "discover", {"strategy.lam": 0.1}), algorithm="ppo") == [own]
    (other,) = keys(("a", "discover", {"strategy.lam": 0.3}), algorithm="ppo")
    assert (own.study, other.study) == ("evaluation", "lambda")


def test_noise_of_no_width_has_no_number_of_the_papers_noise():
    assert keys(GREEDY, ("gaussian", "gaussian", sigma(0.0))) == [None, None]


def test_a_grid_is_the_papers_study_of_it_the_usual_value_included():
    found = keys(OURS, **{"strategy.lam": [0.1, 0.3]})
    assert [(key.study, key.setting) for key in found] == [("lambda", "0.1"), ("lambda", "0.3")]
    found = keys(OURS, task="Walker2d-v5", **{"env.reward_delay": [1, 5]})
    assert [(key.study, key.setting) for key in found] == [
        ("delayed_reward", "1"),
        ("delayed_reward", "5"),
    ]
    assert keys(("a", "discover", {"strategy.lam": 0.6, "gamma": 0.9})) == [None]
