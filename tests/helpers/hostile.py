"""What strangers may write: words for a command line, values for files, and damage to files.

And how all of it is tried: the same cases each time, or other ones by `make fuzz`.
"""

import contextlib
import functools
import io
import json
import os
import shutil
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from discover_rl.core.types import UserError
from tests.cli.test_cli import discover

MORE = int(os.environ.get("FUZZ", "0"))
"""How many times as many cases `make fuzz` tries; 0: the tests, whose cases are fixed."""
SAMPLE = 30
"""Cases of each kind among the quick tests."""

WORDS = [
    *("", " ", "-", "--", "0", "-1", "1", "2", "1.5", "1e308", "-1e308", "nan", "inf", "1e15"),
    *("٣", "３", "²", "1_000", "0x10", "9" * 30, "9" * 5000, "1" + "0" * 400, "true", "none"),
    *("linear:0.6:0.1:0.5", "linear:", "linear:1:2:0", "64,64", ",", "1,2,3", "8," * 40, "0.1,0.2"),
    *("Pendulum-v1", "Pendulum", "Hopper-v99", "evil:Pendulum-v1", ":", "a:b:c", ".", "1/2", "3/2"),
    *("/dev/null", "nowhere/at/all", "f", "f/x", "d", "x" * 300, "a=b", "=", "gamma", "td3", "ppo"),
    *("\x1b[2J", "[bold]x[/bold]", "[/x]", "\u202egnp", "\ud800", "é", "日本", "a\nb", "%s", "{x}"),
    *("discover", "smoke", "explore-td3", "mine.toml", "gymnasium"),
]
"""Words that are right somewhere and wrong elsewhere, or wrong everywhere; none leads out of the
working directory, where they may be taken for folders."""
letters = st.characters(exclude_characters="/\0")
words = st.sampled_from(WORDS) | st.text(letters, max_size=12).filter(lambda text: text != "..")
NUMBERS = [0, -1, 1, 2, 3, 7.5, -0.0, 1e-308, 1e308, float("nan"), float("inf"), 10**30, 2**31]
DEEP = json.loads("[" * 90 + "]" * 90)
VALUES = [*NUMBERS, None, True, False, "", "x", "\x1b[2J[/x]", "../../x", "9" * 400, [], {}, [1]]
VALUES += [[[]], [None], ["a", 1], {"a": 1}, {"": None}, {"run": {}}, [1e308] * 3, DEEP, "x" * 5000]
values = st.sampled_from(VALUES)
"""What JSON can say in the place of something else."""
TOML = [
    *("0", "-1", "1.5", "nan", "inf", "1e308", "9" * 30, "9" * 5000, "true", '""', '"x"', "[]"),
    *("{}", "[[1]]", "{a = 1}", "1979-05-27", "07:32:00", '"\\u001b[2J"', '["a", "a"]', "="),
    *('"td3"', '["td3", "ppo"]', '"٣"', "[" * 90 + "]" * 90, '"../../x"', f'"{"x" * 400}"'),
]
"""What TOML can say in the place of something else."""


@st.composite
def damaged(draw, content: bytes) -> bytes:
    """The content of a file with some bytes changed, gone or added, or lines in another order."""
    lines = content.splitlines(keepends=True) or [b""]
    at = draw(st.integers(0, max(0, len(content) - 1)))
    line = draw(st.integers(0, len(lines) - 1))
    match draw(
        st.sampled_from(("flip", "cut", "insert", "drop", "twice", "swap", "other", "none"))
    ):
        case "flip":
            mask = 1 << draw(st.integers(0, 7))
            flipped = bytes(byte ^ mask for byte in content[at : at + 1])
            return content[:at] + flipped + content[at + 1 :]
        case "cut":
            return content[:at]
        case "insert":
            return content[:at] + draw(st.binary(min_size=1, max_size=20)) + content[at:]
        case "drop":
            return b"".join(lines[:line] + lines[line + 1 :])
        case "twice":
            return b"".join(lines[: line + 1] + lines[line:])
        case "swap":
            return b"".join(lines[line:] + lines[:line])
        case "other":
            return draw(st.binary(max_size=200))
        case _:
            return b""


@st.composite
def rewritten(draw, content: bytes) -> bytes:
    """The content of a file of JSON, or of lines of JSON, in which one value is another or gone."""
    lines = content.splitlines()
    whole = (
        lines if all(line.startswith(b"{") and line.endswith(b"}") for line in lines) else [content]
    )
    which = draw(st.integers(0, len(whole) - 1))
    try:
        root = [json.loads(whole[which])]
    except ValueError:  # more than JSON, such as a checksum
        return draw(damaged(content))
    places = [(root, 0)]
    for holder, key in places:
        child = holder[key]
        if isinstance(child, dict | list):
            keys = child if isinstance(child, dict) else range(len(child))
            places += [(child, each) for each in keys]
    holder, key = places[draw(st.integers(0, len(places) - 1))]
    if isinstance(holder, dict) and draw(st.booleans()):
        del holder[key]
    else:
        holder[key] = draw(values)
    whole[which] = json.dumps(root[0]).encode("utf-8", "replace")
    return b"\n".join(whole) + b"\n"


@st.composite
def declared(draw, text: str) -> bytes:
    """A study's file in which one value or one line is another, gone or there twice."""
    lines = text.splitlines()
    at = draw(st.integers(0, len(lines) - 1))
    name, equals, _ = lines[at].partition("=")
    if equals and draw(st.integers(0, 3)):
        lines[at] = f"{name}= {draw(st.sampled_from(TOML))}"
    elif draw(st.booleans()):
        lines.insert(at, draw(st.sampled_from(lines)))
    else:
        return draw(damaged(text.encode()))
    return "\n".join(lines).encode()


def snapshot(folder) -> dict[str, bytes]:
    """The contents of all files below a folder but locks, by their paths."""
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            if name != ".lock":
                path = os.path.join(where, name)
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder)] = file.read()
    return found


def ends_well(*words: str) -> int:
    """Run a command; its exit code, which must be one of those that are documented."""
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        code = discover(*words)
    assert code in (0, 1, 2, 3), words
    assert "Traceback" not in err.getvalue()
    assert bool(err.getvalue()) or code != 2, words
    return code


def here_it_ends(*_, **__):
    """Stands for what would take long: all that comes before it has been done."""
    raise UserError("It would begin now.")


def contents(folder: str) -> dict[str, bytes]:
    """What the files of a folder had in them when they were first asked for."""
    return _contents(os.path.abspath(folder))


@functools.cache
def _contents(folder: str) -> dict[str, bytes]:
    return snapshot(folder)


def copied(folder: str, case: tuple[str, bytes]) -> Path:
    """A copy of a folder in which one file has another content."""
    copy = Path("copy")
    shutil.rmtree(copy, ignore_errors=True)
    for name, content in (contents(folder) | dict([case])).items():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes(content)
    return copy


@st.composite
def one_file_of(draw, folder: str, among: tuple[str, ...] = ("",)) -> tuple[str, bytes]:
    """The name and the new content of one file of a folder; `among`: parts of possible names."""
    names = [name for name in sorted(contents(folder)) if any(part in name for part in among)]
    name = draw(st.sampled_from(names))
    content = contents(folder)[name]
    text = name.endswith((".json", ".jsonl", ".log"))
    change = rewritten if text and draw(st.booleans()) else damaged
    return name, draw(change(content))


def attack(place: Path, kind, count: int) -> None:
    """Check that many cases of a kind.

    Args:
        place: the working directory.
        kind: a function that returns its cases, and one that checks a case.
        count: how many.
    """
    cases, check, *_ = kind

    @settings(
        max_examples=count,
        derandomize=not MORE,
        deadline=None,
        report_multiple_bugs=False,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(cases())
    def each(case) -> None:
        check(place, case)

    each()
