"""The rooms and who may enter which: imports go one way."""

import ast
from pathlib import Path

import discover_rl

HERE = Path(discover_rl.__file__).parent
# Each room may import itself and the rooms before it in this list, and no others of ours.
ORDER = [
    ["_version", "types"],
    ["interfaces", "hyper", "networks", "equations", "replay", "running", "provenance", "machine"],
    ["stats", "theory"],
    ["keys", "trees", "parcels", "packing", "programs", "watch"],
    ["policy", "algorithms", "strategies", "sequels", "tasks"],
    ["lane", "config", "envs", "store"],
    ["calls"],
    ["flight"],
    ["agent"],
    ["pools", "visits"],
    ["memories", "noise", "track"],
    ["rollouts", "evaluate", "checkpoint", "results", "observers"],
    ["film", "visitation"],
    ["cohort"],
    ["jobs"],
    ["engines"],
    ["training"],
    ["studies"],
    ["display", "report"],
    ["board", "api"],
    ["tuning"],
    ["commands"],
    ["cli"],
]
PURE = [
    "types",
    "interfaces",
    "hyper",
    "networks",
    "equations",
    "replay",
    "algorithms",
    "strategies",
    "parcels",
    "packing",
    "watch",
    "sequels",
    "lane",
    "calls",
    "flight",
    "agent",
    "stats",
    "theory",
    "visits",
]


def room(path: Path) -> str:
    return path.relative_to(HERE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """The top names of everything a file imports, ours as 'discover_rl.<room>'."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            names |= {f"{module}.{alias.name}" for alias in node.names}
    return {
        ".".join(name.split(".")[:2]) if name.startswith("discover_rl.") else name.split(".")[0]
        for name in names
    }


FILES = [path for path in HERE.rglob("*.py") if room(path) not in ("__init__", "__main__")]


def test_every_room_has_its_place():
    assert {room(path) for path in FILES} == {name for level in ORDER for name in level}


def test_imports_go_one_way():
    level = {name: i for i, names in enumerate(ORDER) for name in names}
    for path in FILES:
        for name in imported(path):
            if name.startswith("discover_rl."):
                other = name.split(".")[1]
                here = room(path)
                assert level[other] < level[here] or other == here, f"{here} imports {other}"


def test_algorithms_and_strategies_do_not_know_each_other():
    for path in FILES:
        here = room(path)
        members = {"algorithms", "strategies"} - {here}
        if here in ("algorithms", "strategies"):
            assert not {f"discover_rl.{name}" for name in members} & imported(path), path


def test_only_one_room_knows_the_simulators_and_pure_rooms_know_no_files():
    for path in FILES:
        names = imported(path)
        if room(path) != "tasks":
            assert not {"gymnasium", "mujoco"} & names, path
        if room(path) != "pools":
            assert "envpool" not in names, path
        if room(path) != "tuning":
            assert "optuna" not in names, path
        if room(path) != "engines":
            assert "ray" not in names, path
        if room(path) != "visitation":
            assert "openTSNE" not in names, path
        if room(path) in PURE:
            assert not {"os", "pathlib", "json", "time", "random"} & names, path


def test_nothing_pickles():
    for path in FILES:
        assert not {"pickle", "dill", "cloudpickle", "joblib", "shelve"} & imported(path), path
        assert "eval(" not in path.read_text().replace("_eval(", ""), path


def test_files_stay_short():
    for path in FILES:
        assert len(path.read_text().splitlines()) <= 300, path
