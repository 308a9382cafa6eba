"""Tests run stricter than users do: a broadcast that changes a rank raises, warnings are errors.

Compiling is what costs, so the compiler is told not to try hard, and programs are kept on disk:
tests, workers and the processes that tests start share what one of them has compiled.
"""

import gc
import os
import shutil
from importlib import metadata
from pathlib import Path

import pytest

# In the environment, not in jax.config, so that the processes which tests start inherit it.
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
# In a folder of the user's: programs are run, and in /tmp anybody could have put some there before.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "discover_rl"
PROGRAMS = CACHE / "test-programs"
PROGRAMS.mkdir(mode=0o700, parents=True, exist_ok=True)
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(PROGRAMS)
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.05"
QUICK_TO_COMPILE = [
    "--xla_backend_optimization_level=0",
    "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_parallel_codegen_split_count=1",  # the other core is for the other worker
]
if metadata.version("jaxlib").startswith("0.10."):  # others may not know it, and refuse to start
    QUICK_TO_COMPILE.append("--xla_cpu_use_fusion_emitters=false")  # half of the time
os.environ.setdefault("XLA_FLAGS", " ".join(QUICK_TO_COMPILE))
# Records name the commit; of files that are edited while tests run, they are to know nothing.
os.environ["GIT_DIR"] = os.devnull


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items):
    """What shares programs goes to the same worker: the tests of a file, or of a cell of laws; not
    those that drop theirs."""
    for item in items:
        params = item.callspec.params if hasattr(item, "callspec") else {}
        group = "-".join(params["cell"]) if "cell" in params else item.path.stem
        group = item.name if "light" in item.fixturenames else group
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(autouse=True, scope="module")
def programs_are_dropped():
    """Every program takes memory maps, of which a process may have so many and then crashes."""
    yield
    drop_programs()


def drop_programs() -> None:
    import jax  # here, because what is set above must come before it

    jax.clear_caches()
    gc.collect()


@pytest.fixture
def no_limits(monkeypatch):
    """Settings may have any value: an absurd learning rate is how tests make a run diverge."""
    from discover_rl.core import hyperparameters

    monkeypatch.setattr(hyperparameters, "_within", lambda number, meta: True)


@pytest.fixture(scope="module")
def browser():
    """Chromium, where there is one."""
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        pytest.skip("there is no Chromium here (apt-get install chromium)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as play:
        chromium = play.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()
