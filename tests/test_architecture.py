"""The architecture: which package may import which, what every file must have."""

import ast
import doctest
import functools
import importlib
import inspect
import itertools
import pkgutil
import re
import types
from pathlib import Path

import pytest

import discover_rl
from discover_rl.algorithms import ALGORITHMS
from discover_rl.cli.main import app
from discover_rl.strategies import STRATEGIES

HERE = Path(discover_rl.__file__).parent
# The order of the packages, as the documentation draws it. Each imports itself and those before it.
ORDER = [
    "core",
    "system",
    "envs",
    "strategies",
    "algorithms",
    "agents",
    "config",
    "storage",
    "training",
    "studies",
    "report",
    "analysis",
    "tuning",
    "api",
    "cli",
]
PURE = ["core", "strategies", "algorithms", "agents"]
"""No files, clocks or global generators."""
ONLY = {
    "gymnasium": "envs",
    "mujoco": "envs",
    "envpool": "envs",
    "optuna": "tuning",
    "ray": "training/engines",
    "tensorboardX": "training/observers",
    "openTSNE": "analysis",
}
"""Packages of others, and where alone they are imported."""
ROOT = ["__init__", "__main__", "_version"]


def package(path: Path) -> str:
    return path.relative_to(HERE).parts[0].removesuffix(".py")


def imported(path: Path) -> set[str]:
    """Everything that a file imports, by its full name."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


FILES = sorted(path for path in HERE.rglob("*.py") if package(path) not in ROOT)


def test_the_packages_are_those_of_the_order():
    assert {package(path) for path in FILES} == set(ORDER)


def test_imports_go_one_way():
    place = {name: i for i, name in enumerate(ORDER)}
    for path in FILES:
        for name in imported(path):
            if name.startswith("discover_rl.") and (other := name.split(".")[1]) not in ROOT:
                here = package(path)
                assert place[other] <= place[here], f"{path} imports {name}"


def test_the_documentation_draws_this_order():
    """Its table has the packages in this order, and its picture an arrow, or several in a row, for
    every import between two packages."""
    page = (HERE.parent / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page.split("## One environment step")[0], re.MULTILINE)
    named = [name.removesuffix(".py") for row in rows for name in re.findall(r"`([\w.]+)`", row)]
    assert named == ORDER
    above: dict[str, set[str]] = {name: set() for name in ORDER}
    lines = page.split("```mermaid")[1].split("```")[0].splitlines()
    arrows = [itertools.pairwise(line.split(" --> ")) for line in map(str.strip, lines)]
    for one, other in sorted(itertools.chain(*arrows), key=lambda pair: ORDER.index(pair[0])):
        above[other] |= above[one] | {one}
    for path in FILES:
        others = {name.split(".")[1] for name in imported(path) if name.startswith("discover_rl.")}
        here = package(path)
        assert others - {here, *ROOT} <= above[here], f"{path}: no arrow leads to {here}"


def test_algorithms_and_strategies_know_each_other_by_the_interface_alone():
    for path in FILES:
        for name in imported(path):
            if package(path) == "algorithms" and name.startswith("discover_rl.strategies"):
                assert name.startswith("discover_rl.strategies.interface."), path
            if package(path) == "strategies":
                assert not name.startswith("discover_rl.algorithms"), path


def test_nothing_is_reached_through_a_third_module():
    """A name is imported from the module that defines it, or from a package that re-exports it."""
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
                "discover_rl."
            ):
                continue
            source = importlib.import_module(node.module)
            for alias in node.names:
                found = getattr(source, alias.name, None)
                home = getattr(found, "__module__", node.module)
                public = alias.name in getattr(source, "__all__", [])
                if isinstance(found, types.FunctionType | type) and home.startswith("discover_rl"):
                    assert home == node.module or public, f"{path}: {alias.name} is from {home}"


def test_nor_is_a_constant_or_an_attribute_of_a_module():
    """`module.name` and `from module import NAME`: the module has not itself imported the name."""
    for path in FILES:
        modules, taken, nodes = {}, [], list(ast.walk(ast.parse(path.read_text())))
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("discover_rl"):
                for alias in node.names:
                    if is_module(node.module, alias.name):
                        modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                    else:
                        taken.append((node.module, alias.name))
        for node in nodes:
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                taken += [(modules[node.value.id], node.attr)] if node.value.id in modules else []
        for source, name in taken:
            public = name in getattr(importlib.import_module(source), "__all__", [])
            assert public or name not in from_elsewhere(source), f"{path}: {name} of {source}"


def is_module(package: str, name: str) -> bool:
    folder = HERE.parent / package.replace(".", "/")
    return (folder / f"{name}.py").exists() or (folder / name / "__init__.py").exists()


@functools.cache
def from_elsewhere(name: str) -> set[str]:
    """The names that a module imports."""
    nodes = ast.walk(ast.parse(inspect.getsource(importlib.import_module(name))))
    found = [it for it in nodes if isinstance(it, ast.Import | ast.ImportFrom)]
    return {alias.asname or alias.name for node in found for alias in node.names}


def test_packages_of_others_are_imported_in_one_place():
    for path in FILES:
        here = path.relative_to(HERE).as_posix()
        for name in {name.split(".")[0] for name in imported(path)}:
            if name in ONLY:
                assert here.startswith(ONLY[name]), f"{path} imports {name}"
            if package(path) in PURE:
                assert name not in ("os", "pathlib", "json", "time", "random"), path


def test_nothing_pickles():
    for path in FILES:
        names = {name.split(".")[0] for name in imported(path)}
        assert not {"pickle", "dill", "cloudpickle", "joblib", "shelve"} & names, path
        assert "eval(" not in path.read_text().replace("_eval(", ""), path


def test_files_stay_short():
    for path in [*FILES, *Path(__file__).parent.rglob("*.py")]:
        assert len(path.read_text().splitlines()) <= 350, path


# Documentation in the code.

MODULES = [
    name
    for _, name, _ in pkgutil.walk_packages(discover_rl.__path__, "discover_rl.")
    if not name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_everything_public_has_a_docstring(name):
    module = importlib.import_module(name)
    assert module.__doc__, name
    assert len(module.__doc__.split()) >= 3, name  # no "TODO."
    for own, value in vars(module).items():
        if own.startswith("_") or getattr(value, "__module__", None) != name:
            continue
        if inspect.isfunction(value):
            assert inspect.getdoc(value), f"{name}.{own}"
        elif inspect.isclass(value):
            assert value.__doc__, f"{name}.{own}"
            assert not value.__doc__.startswith(f"{own}("), f"{name}.{own}"  # made by NamedTuple
            for method, function in vars(value).items():
                if inspect.isfunction(function) and not method.startswith("_"):
                    documented = inspect.getdoc(getattr(value, method))
                    assert documented, f"{name}.{own}.{method}"


def test_a_package_names_what_lives_in_it():
    """All modules are in the docstring of their package, but commands and registered members."""
    listed = {*ALGORITHMS, *STRATEGIES, *(command.name for command in app.registered_commands)}
    for package in [HERE, *(path for path in HERE.rglob("*") if (path / "__init__.py").exists())]:
        text = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
        for found in pkgutil.iter_modules([str(package)]):
            named = re.search(rf"\b{found.name}\b", text) or found.name in ROOT
            assert named or found.name in listed, f"{package}: {found.name} is not described"


@pytest.mark.parametrize("name", ["core.types", "training.events"])
def test_a_package_re_exports_a_module_as_a_whole(name):
    """What `core` and `training` re-export is every class of these modules."""
    module = importlib.import_module(f"discover_rl.{name}")
    package = importlib.import_module(module.__name__.rpartition(".")[0])
    classes = {it.name for it in ast.parse(inspect.getsource(module)).body if hasattr(it, "bases")}
    assert classes <= set(package.__all__)


def test_every_package_re_exports_or_says_why_not():
    """Or defines its public names itself."""
    for file in HERE.rglob("__init__.py"):
        module = ast.parse(file.read_text())
        exports = any(
            isinstance(it, ast.Assign) and it.targets[0].id == "__all__" for it in module.body
        )
        text = " ".join((ast.get_docstring(module) or "").split())
        exports |= any(isinstance(it, ast.FunctionDef) for it in module.body)
        assert exports or re.search(r"[Ii]mport (the modules|these) themselves", text), file


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(HERE).as_posix())
def test_constants_have_a_docstring(path):
    """A name in capitals, or an alias of types, is followed by a string that explains it."""
    body = ast.parse(path.read_text()).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            if any(name.isupper() and not name.startswith("_") for name in names):
                explained = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
                # Several in a row may share an explanation, after the last of them.
                assert explained or isinstance(after, ast.Assign | ast.AnnAssign), (path, names)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name):
    module = importlib.import_module(name)
    assert doctest.testmod(module).failed == 0
