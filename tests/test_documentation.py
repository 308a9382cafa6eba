"""What the documentation tells users to type is understood."""

import re
import shlex
import sys
import types
from pathlib import Path

import numpy as np
import pytest

from discover_rl import config, tuning
from discover_rl.strategies import STRATEGIES
from tests import cells

ROOT = Path(__file__).parent.parent
FLAGS = ("--tensorboard",)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(page: Path) -> list[str]:
    """Every `discover train TASK …` and `tune` in a page, continued lines joined."""
    text = page.read_text().replace("\\\n", " ")
    found = re.findall(r"discover (?:train|tune) [A-Za-z0-9_:/-]+-v[0-9]+[^`\n#]*", text)
    return [command for command in found if "…" not in command]


def example(page: str) -> str:
    """The first piece of Python in a page."""
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)[0]


def test_there_is_something_to_check():
    assert sum(len(commands(page)) for page in PAGES) > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_resolves(page):
    for command in commands(page):
        _, verb, task, *rest = shlex.split(command)
        words, options, settings, ranges = iter(rest), {"steps": "1000000", "seeds": "1"}, {}, {}
        for word in words:
            if word in FLAGS:
                continue
            name, equals, value = word.partition("=")
            if not equals or name in ("--set", "--range"):
                value = value or next(words)
            if name in ("--set", "--range"):
                key, _, setting = value.partition("=")
                (settings if name == "--set" else ranges)[key] = setting
            else:
                options[name.removeprefix("--")] = value
        strategy = options.get("strategy", "discover")
        assert strategy in STRATEGIES, command
        steps, seeds = int(options["steps"]), int(options["seeds"])
        algorithm = options.get("algorithm", "td3")
        request = task, algorithm, strategy, steps, seeds
        if verb == "train":
            assert config.resolve(*request, settings), command
        else:
            lanes = int(options["lanes"]) if "lanes" in options else None
            assert tuning.plan(*request, ranges, settings, lanes), command


@pytest.mark.parametrize("algorithm", ["td3", pytest.param("ppo", marks=pytest.mark.slow)])
def test_the_example_strategy_works(algorithm, monkeypatch):
    module = types.ModuleType("discover_rl.strategies.uniform")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(example("CONTRIBUTING.md"), "uniform.py", "exec"), module.__dict__)
    hypers = cells.hypers(algorithm, "uniform", strategy_half_life=5.0)
    agent = cells.made(algorithm, "uniform", *hypers)
    state, actions = cells.run(agent, cells.begin(agent, [5], *hypers), [5], 12)
    assert np.abs(actions).max() <= 1.0
    assert state.learner.strategy.age.item() == 8  # off-policy, 4 steps of 12 are warm-up
    # PPO reports on a rollout before it learns from it: half of its eight updates.
    age = 4 if algorithm == "ppo" else 8
    width = agent.report(state, np.int32(12))["width"].item()
    assert width == pytest.approx(0.5 * 0.5 ** (age / 5), rel=1e-5)


def test_the_example_observer_works(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(example("docs/observers.md"), "best.py", "exec"), names)
    said = capfd.readouterr().out
    means = [float(mean) for mean in re.findall(r"step [\d,]+  return (-[\d.]+)", said)]
    assert len(means) == 2 * 4  # on the terminal: at 0, 1,000, 2,000 and 2,048
    records = [max(means[: i + 1]) for i in range(len(means))]
    assert said.count("best return so far") == len(set(records))
    assert round(names["best"].best, 1) == max(means)
