"""What the documentation tells users to type is understood."""

import re
import shlex
from pathlib import Path

import pytest

from discover_rl import config
from discover_rl.strategies import STRATEGIES

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(page: Path) -> list[str]:
    """Every `discover train TASK …` in a page, continued lines joined."""
    text = page.read_text().replace("\\\n", " ")
    found = re.findall(r"discover train [A-Za-z0-9_:/-]+-v[0-9]+[^`\n#]*", text)
    return [command for command in found if "…" not in command]


def test_there_is_something_to_check():
    assert sum(len(commands(page)) for page in PAGES) > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_resolves(page):
    for command in commands(page):
        words = iter(shlex.split(command)[2:])
        task, options, settings = next(words), {"steps": "10", "seeds": "1"}, {}
        for word in words:
            name, equals, value = word.partition("=")
            if not equals or name == "--set":
                value = value or next(words)
            if name == "--set":
                key, _, setting = value.partition("=")
                settings[key] = setting
            else:
                options[name.removeprefix("--")] = value
        strategy = options.get("strategy", "discover")
        assert strategy in STRATEGIES, command
        steps, seeds = int(options["steps"]), int(options["seeds"])
        algorithm = options.get("algorithm", "td3")
        assert config.resolve(task, algorithm, strategy, steps, seeds, settings), command
