"""Colours belong to strategies, whichever of them is the baseline."""

from discover_rl.report import colours, style
from discover_rl.strategies import STRATEGIES
from tests.helpers.records import analysed, declare, write_records

ARMS = "".join(
    f'[[arm]]\nname = "white-{sigma}"\nstrategy = "gaussian"\n"strategy.sigma" = {sigma}\n'
    for sigma in (0.1, 0.3, 0.6)
)


def styles(out, grid, more=""):
    study = declare(grid | {"task": "My-v0"}, more=more)
    write_records(out, study)
    _, (found,) = analysed(study, out)
    return found.group.base, style.line_styles(found.group)


def test_a_strategy_looks_the_same_with_every_baseline(tmp_path):
    pair = ["none", "discover"]
    base, alone = styles(tmp_path / "a", {"algorithm": "td3", "strategy": pair})
    other, beside = styles(tmp_path / "b", {"algorithm": "td3", "strategy": [*pair, "gaussian"]})
    assert (base, other) == ("none", "gaussian")
    assert alone == {name: beside[name] for name in alone}
    assert beside["discover"] == colours.STRATEGIES["discover"]


def test_every_strategy_has_a_style_of_its_own():
    assert set(STRATEGIES) <= set(colours.STRATEGIES)
    looks = list(colours.STRATEGIES.values())
    assert len(set(looks)) == len(looks)


def test_arms_of_one_strategy_are_shades_of_its_colour_beside_others(tmp_path):
    more = ARMS + '[[arm]]\nname = "greedy"\nstrategy = "none"\n'
    _, found = styles(tmp_path, {"algorithm": "td3"}, more)
    assert found["white-0.1"] == colours.STRATEGIES["gaussian"]
    assert found["white-0.3"].colour == "#E69E66"  # two fifths of the way to white
    assert len({(it.colour, it.dashes, it.marker) for it in found.values()}) == 4


def test_the_arm_with_its_strategys_name_has_the_plain_colour():
    arms = {"greedy": "gaussian", "gaussian": "gaussian", "discover": "discover"}
    found = colours.line_styles(arms)
    assert list(found) == list(arms)
    assert found["gaussian"] == colours.STRATEGIES["gaussian"] != found["greedy"]


def test_alone_they_are_told_apart_by_colours(tmp_path):
    _, found = styles(tmp_path, {"algorithm": "td3"}, ARMS)
    assert [it.colour for it in found.values()] == list(colours.COLOURS[:3])


def test_a_strategy_from_outside_takes_a_colour_that_is_free():
    found = colours.line_styles({"none": "none", "discover": "discover", "mine": "of-my-own"})
    assert found["mine"].colour not in {colours.BLACK, colours.BLUE}
