"""Hyper-parameters: what is accepted, what is refused, and what the refusal says."""

import dataclasses

import jax
import pytest

from discover_rl.core.hyperparameters import build, hyper, nearest, setting
from discover_rl.core.types import UserError


@hyper
class Example:
    rate: float = setting(0.1, "A rate.", low=0, high=1)
    step: float = setting(1.0, "A step.", above=0)
    count: int = setting(3, "A count.", low=1)
    switch: bool = setting(True, "A switch.")
    colour: str = setting("red", "A colour.", choices=("red", "blue"))
    sizes: tuple[int, ...] = setting((4, 4), "Sizes.", low=1)
    many: int = setting(3, "A large number.", low=1, high=1_000_000)


def refusal(prefix: str = "", **values) -> str:
    with pytest.raises(UserError) as caught:
        build(Example, values, prefix)
    return str(caught.value)


def test_floats_are_leaves_and_all_else_is_static():
    leaves, structure = jax.tree.flatten(Example(rate=0.25, step=2.0))
    assert leaves == [0.25, 2.0]
    same = jax.tree.structure(Example(rate=0.75))
    assert structure == same
    for other in (Example(count=4), Example(switch=False), Example(sizes=(4,))):
        assert jax.tree.structure(other) != structure


def test_a_traced_function_is_compiled_anew_only_for_statics():
    traced = []

    @jax.jit
    def double(example: Example):
        traced.append(example.count)
        return example.rate * 2

    assert double(Example(rate=0.25)) == 0.5
    assert double(Example(rate=0.5)) == 1.0
    assert traced == [3]
    double(Example(count=5))
    assert traced == [3, 5]


def test_what_is_left_out_keeps_its_default():
    assert build(Example, {"count": 7}) == Example(0.1, 1.0, 7, True, "red", (4, 4), 3)


@pytest.mark.parametrize(
    ("name", "given", "meant"),
    [
        ("rate", "0.5", 0.5),
        ("rate", 1, 1.0),
        ("rate", "1e-3", 0.001),
        ("count", "1e3", 1000),
        ("count", 5.0, 5),
        ("count", " 5 ", 5),
        ("switch", "off", False),
        ("switch", "True", True),
        ("switch", 0, False),
        ("switch", False, False),
        ("colour", "blue", "blue"),
        ("sizes", "64,32", (64, 32)),
        ("sizes", 64, (64,)),
        ("sizes", [8, 4.0, "2"], (8, 4, 2)),
    ],
)
def test_words_and_numbers_are_cast_to_the_fields_type(name, given, meant):
    value = getattr(build(Example, {name: given}), name)
    assert value == meant
    assert type(value) is type(meant)


@pytest.mark.parametrize("value", [0, 1, "0", "1.0"])
def test_bounds_belong_to_the_range(value):
    assert build(Example, {"rate": value}).rate == float(value)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"rate": 1.5}, "rate must be at least 0 and at most 1, not 1.5."),
        ({"rate": "-0.1"}, "rate must be at least 0 and at most 1, not -0.1."),
        ({"step": 0}, "step must be above 0, not 0."),
        ({"count": 0}, "count must be at least 1, not 0."),
        ({"sizes": "8,0"}, "sizes must be at least 1, not 8,0."),
        ({"many": "1e308"}, "many must be at least 1 and at most 1,000,000, not 1e308."),
        ({"many": 10**400}, f"many must be at least 1 and at most 1,000,000, not 1{'0' * 56}…."),
        ({"sizes": [1] * 33}, "sizes must have 32 parts at most, not 33."),
        ({"colour": "green"}, "colour must be one of red, blue, not green."),
    ],
)
def test_a_value_out_of_range_is_refused_with_the_range(values, sentence):
    assert refusal(**values) == sentence


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ({"rate": "fast"}, "a number"),
        ({"rate": "nan"}, "a number"),
        ({"rate": float("inf")}, "a number"),
        ({"rate": True}, "a number"),
        ({"rate": "٣"}, "a number"),
        ({"count": "３"}, "a whole number"),
        ({"sizes": "8,٣"}, "whole numbers with commas between them"),
        ({"rate": None}, "a number"),
        ({"rate": [0.1, 0.2]}, "a number"),
        ({"count": 2.5}, "a whole number"),
        ({"count": "many"}, "a whole number"),
        ({"count": "inf"}, "a whole number"),
        ({"switch": "perhaps"}, "true or false"),
        ({"switch": 2}, "true or false"),
        ({"sizes": "8,x"}, "whole numbers with commas between them"),
        ({"sizes": ()}, "whole numbers with commas between them"),
        ({"sizes": [8, 2.5]}, "whole numbers with commas between them"),
        ({"sizes": 2.5}, "whole numbers with commas between them"),
        ({"sizes": None}, "whole numbers with commas between them"),
    ],
)
def test_a_value_of_another_type_is_refused_with_the_type(values, wanted):
    ((name, value),) = values.items()
    assert refusal(**values) == f"{name} must be {wanted}, not {value!r}."


def test_an_unknown_name_gives_the_nearest_with_its_prefix():
    assert refusal(cuont=1) == "There is no setting cuont. Did you mean count?"
    said = refusal(prefix="strategy.", swich=1)
    assert said == "There is no setting strategy.swich. Did you mean strategy.switch?"
    assert refusal(prefix="eval.", rate=2).startswith("eval.rate must be")


def test_a_name_near_nothing_gives_all_of_them():
    assert "There are rate, step, count, switch, colour, sizes, many." in refusal(zzzzzz=1)


def test_nearest_looks_past_capitals_and_says_nothing_where_nothing_is_near():
    words = ["Pendulum-v1", "Hopper-v5"]
    assert nearest("hopper-v5", words) == " Did you mean Hopper-v5?"
    assert nearest("pendulm-v1", words) == " Did you mean Pendulum-v1?"
    assert nearest("xyz", words) == ""


def test_a_hyper_parameter_cannot_be_changed_afterwards():
    with pytest.raises(AttributeError):
        Example().rate = 0.5


def test_a_subclass_changes_defaults_by_assignment_and_adds_fields():
    @hyper
    class Base:
        rate: float = setting(0.5, "A rate.", low=0)
        count: int = setting(3, "A count.", low=1)
        switch: bool = setting(True, "A switch.")

    @hyper
    class Derived(Base):
        rate = 0.25
        switch = False
        more: float = setting(1.0, "One more.")

    assert dataclasses.asdict(Base()) == {"rate": 0.5, "count": 3, "switch": True}
    assert dataclasses.asdict(Derived()) == {
        "rate": 0.25,
        "count": 3,
        "switch": False,
        "more": 1.0,
    }
    fields = {field.name: field.metadata for field in dataclasses.fields(Derived)}
    assert fields["rate"]["help"] == "A rate."
    assert jax.tree.leaves(Derived()) == [0.25, 1.0]
    with pytest.raises(UserError, match="rate must be at least 0"):
        build(Derived, {"rate": -1})
