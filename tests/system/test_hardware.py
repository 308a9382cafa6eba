"""One rule for whether there is a GPU, and what follows from it."""

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import pytest

import discover_rl
from discover_rl.system import hardware

PACKAGE = Path(discover_rl.__file__).parent


@pytest.fixture
def gpu(monkeypatch):
    """As if there were a GPU, and JAX came with its driver."""
    monkeypatch.setattr(hardware, "_has_gpu", lambda: True)


@pytest.fixture
def platforms():
    """Tells JAX which platforms to use, as a worker does; as before in the end."""
    before = jax.config.jax_platforms
    yield lambda names: jax.config.update("jax_platforms", names)
    jax.config.update("jax_platforms", before)


NAMES = [("", True), ("cuda,cpu", True), ("rocm", True), ("gpu", True), ("cpu", False)]
NAMES += [("tpu", False)]


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(("names", "found"), NAMES)
def test_a_gpu_that_the_environment_forbids_does_not_count(monkeypatch, names, found):
    """As long as JAX is not imported, the variable is all there is."""
    monkeypatch.delitem(sys.modules, "jax")
    monkeypatch.setenv("JAX_PLATFORMS", names)
    assert hardware.accelerated() == found


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize(("names", "found"), NAMES)
def test_a_gpu_that_jax_is_told_not_to_use_does_not_count(monkeypatch, platforms, names, found):
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    platforms(names or None)
    assert hardware.accelerated() == found


@pytest.mark.usefixtures("gpu")
def test_what_jax_was_told_last_goes_before_the_environment(monkeypatch, platforms):
    monkeypatch.setenv("JAX_PLATFORMS", "cuda")
    platforms("cpu")
    assert not hardware.accelerated()
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    platforms("cuda")
    assert hardware.accelerated()


@pytest.mark.parametrize("names", ["", "cuda", "cpu"])
def test_without_a_gpu_there_is_none_whatever_jax_is_told(monkeypatch, platforms, names):
    monkeypatch.setattr(hardware, "_has_gpu", lambda: False)
    platforms(names or None)
    assert not hardware.accelerated()


WORKER = """
from discover_rl.system import hardware
hardware._has_gpu = lambda: True
assert hardware.accelerated()
from discover_rl.training.engines.local import prepare_process
prepare_process("cpu")
assert not hardware.accelerated()
assert hardware.place(on_policy=False) == "cpu"
import jax
assert jax.default_backend() == "cpu"
assert hardware.cores() == 1
"""


def test_a_worker_for_the_cpu_knows_no_gpu(monkeypatch):
    """Whatever the machine has, and though nobody has set a variable."""
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    subprocess.run([sys.executable, "-c", WORKER], check=True, timeout=120)


@pytest.mark.parametrize("driver", ["jax-cuda12-plugin", "jax_cuda13_pjrt", "jax-rocm60-plugin"])
@pytest.mark.parametrize("device", ["/dev/nvidiactl", "/dev/kfd"])
def test_a_gpu_takes_a_device_and_its_driver(monkeypatch, driver, device):
    def has_gpu(devices, packages):
        monkeypatch.setattr(Path, "exists", lambda path: str(path) in devices)
        found = [SimpleNamespace(metadata={"Name": name}) for name in packages]
        monkeypatch.setattr(hardware.metadata, "distributions", lambda: found)
        return hardware._has_gpu.__wrapped__()

    assert has_gpu([device], ["numpy", driver])
    assert not has_gpu([], ["numpy", driver])
    assert not has_gpu([device], ["numpy", "jax", "jaxlib", None])


@pytest.mark.parametrize("there", [False, True])
def test_off_policy_runs_learn_on_the_gpu_and_on_policy_runs_on_the_host(monkeypatch, there):
    monkeypatch.setattr(hardware, "accelerated", lambda: there)
    assert hardware.place(on_policy=False) == ("gpu" if there else "cpu")
    assert hardware.place(on_policy=True) == "cpu"


def test_nobody_else_has_a_rule_for_gpus():
    """No other file asks JAX for its backend, the system for devices or the environment."""
    rules = re.compile(r"default_backend|/dev/(nvidia|kfd)|environ\W+JAX_PLATFORMS|_has_gpu")
    files = [path for path in PACKAGE.rglob("*.py") if rules.search(path.read_text())]
    assert files == [PACKAGE / "system" / "hardware.py"]
