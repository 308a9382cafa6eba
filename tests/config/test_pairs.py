"""Which algorithm explores by which strategy: every pair, but for strategies that are for some."""

import importlib
import itertools
import sys

import pytest

from discover_rl import config, strategies
from discover_rl.algorithms import ALGORITHMS
from discover_rl.cli import main
from discover_rl.core.types import UserError

# The first exists for two algorithms, the second for one. Neither has a module: what is refused is
# refused before anything is imported.
SOME = {"twin": ("ddpg", "td3"), "lone": ("ddpg",)}
EVERYWHERE = [name for name in strategies.STRATEGIES if name not in strategies.ONLY]
RESOLVE = importlib.import_module("discover_rl.config.resolve")  # not the function of that name


@pytest.fixture
def some(monkeypatch):
    """Strategies for some algorithms alone, in place of those there are."""
    members = dict.fromkeys(EVERYWHERE, "everywhere") | dict.fromkeys(SOME, "for some")
    for module in (strategies, RESOLVE):
        monkeypatch.setattr(module, "STRATEGIES", members)
        monkeypatch.setattr(module, "ONLY", SOME)
    monkeypatch.setattr(strategies.registry, "members", members)


def listed(monkeypatch, capfd) -> str:
    monkeypatch.setattr(sys, "argv", ["discover", "list"])
    monkeypatch.setattr(sys, "path", [*sys.path])
    with pytest.raises(SystemExit) as caught:
        main()
    assert not caught.value.code
    return capfd.readouterr().out


def refusal(algorithm: str, strategy: str) -> str:
    with pytest.raises(UserError) as caught:
        config.resolve(config.Request("Pendulum-v1", algorithm, strategy, 10_000, 1, {}))
    return str(caught.value)


def test_what_is_for_some_is_for_algorithms_that_exist():
    for members in strategies.ONLY.values():
        assert members
        assert set(members) <= set(ALGORITHMS)


def test_every_pair_exists_but_those_of_members_for_some():
    existing = config.pairs()
    assert len(set(existing)) == len(existing)
    for pair in itertools.product(ALGORITHMS, strategies.STRATEGIES):
        algorithm, strategy = pair
        assert (pair in existing) == (algorithm in strategies.ONLY.get(strategy, ALGORITHMS))


@pytest.mark.usefixtures("some")
def test_members_for_some_are_paired_with_these_alone():
    existing = config.pairs()
    assert [name for name, strategy in existing if strategy == "twin"] == ["ddpg", "td3"]
    assert [name for name, strategy in existing if strategy == "lone"] == ["ddpg"]
    assert len(existing) == len(ALGORITHMS) * len(EVERYWHERE) + 3


@pytest.mark.usefixtures("some")
def test_a_pair_that_does_not_exist_is_refused_with_those_that_do():
    own = ", ".join(EVERYWHERE)
    assert refusal("ppo", "lone") == f"lone is for ddpg; ppo explores by {own}."
    assert refusal("sac", "twin") == f"twin is for ddpg and td3; sac explores by {own}."
    assert refusal("td3", "lone") == f"lone is for ddpg; td3 explores by {own}, twin."


@pytest.mark.usefixtures("some")
@pytest.mark.parametrize("pair", [("ddpg", "lone"), ("td3", "twin")])
def test_a_pair_that_exists_gets_as_far_as_its_module(pair):
    with pytest.raises(ModuleNotFoundError, match=pair[1]):
        config.resolve(config.Request("Pendulum-v1", *pair, 10_000, 1, {}))


@pytest.mark.usefixtures("some")
def test_the_list_ends_with_a_matrix_of_the_pairs(monkeypatch, capfd):
    lines = listed(monkeypatch, capfd).splitlines()
    *_, last = lines
    assert last == "`discover list NAME` shows the settings."
    matrix = lines[-2 - len(EVERYWHERE) - len(SOME) : -1]
    head, *rows = [line.split() for line in matrix]
    assert head == ["pairs", *ALGORITHMS]
    shown = {
        (algorithm, strategy)
        for strategy, *marks in rows
        for algorithm, mark in zip(ALGORITHMS, marks, strict=True)
        if mark == "x"
    }
    assert shown == set(config.pairs())
    # Marks stand under their algorithm.
    for line in matrix[1:]:
        for algorithm in ALGORITHMS:
            assert line[matrix[0].index(f" {algorithm}") + 1] in "x–"


def test_the_list_fits_80_columns(monkeypatch, capfd):
    for line in listed(monkeypatch, capfd).splitlines():
        assert len(line) <= 80
        assert line == line.rstrip()
