"""A change spoils a resume exactly where it could move a result."""

import shutil

import pytest

from discover_rl.system import provenance


def source() -> str:
    return provenance.code.__wrapped__()["source"]


@pytest.fixture
def copied(tmp_path, monkeypatch):
    """A copy of the package, of which the hash is taken."""
    root = tmp_path / "discover_rl"
    shutil.copytree(provenance.ROOT, root, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(provenance, "ROOT", root)
    return root


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("core/equations.py", True),
        ("strategies/discover.py", True),
        ("agents/off_policy/step.py", True),
        ("envs/tasks.py", True),
        ("training/cohort.py", True),
        ("system/compilation.py", True),  # the precision of matrix products
        ("training/observers/terminal.py", False),
        ("training/engines/ray.py", False),
        ("report/tables.py", False),
        ("cli/train.py", False),
        ("api.py", False),
    ],
)
def test_what_a_change_spoils(copied, file, counts):
    before = source()
    (copied / file).write_text((copied / file).read_text() + "# changed\n")
    assert (source() != before) == counts


def test_bystanders_are_packages_that_exist():
    assert all((provenance.ROOT / name / "__init__.py").is_file() for name in provenance.BYSTANDERS)
