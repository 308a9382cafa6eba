"""One rule for whether there is a GPU, and what follows from it."""

import os
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


def control_group(folder, limit, used, version=2):
    """Make the files of a control group with this limit; 1 GB of what is used is cached files."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {1: ("limit_in_bytes", "usage_in_bytes"), 2: ("max", "current")}[version]
    for name, value in zip(names, (limit, used), strict=True):
        (folder / f"memory.{name}").write_text(f"{value}\n")
    prefix = "total_" if version == 1 else ""
    cached = f"{prefix}active_file {4 * 10**8}\n{prefix}inactive_file {6 * 10**8}\n"
    (folder / "memory.stat").write_text(f"anon 5\n{cached}{prefix}shmem 7\n")


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """A folder for control groups, on a machine with 24 GB, all of them free."""
    root, own = tmp_path / "groups", tmp_path / "self"
    root.mkdir()
    own.mkdir()
    monkeypatch.setattr(hardware, "CONTROL_GROUPS", root)
    monkeypatch.setattr(hardware, "PROCESS_FILES", own)
    monkeypatch.setattr(hardware.os, "sysconf", lambda name: {"SC_PHYS_PAGES": 24}.get(name, 10**9))
    read = Path.read_text
    meminfo = "MemTotal: 9 kB\nMemAvailable: 20000000 kB\n"
    monkeypatch.setattr(
        Path, "read_text", lambda path: meminfo if path.name == "meminfo" else read(path)
    )
    return root


FREE = 20_000_000 * 1024
GROUPS = {
    "a container: the root has the limit": ("0::/", "", 2, 8 * 10**9),
    "a container that sees its name outside": ("0::/docker/1f", "", 2, 8 * 10**9),
    "a batch job: a group inside has it": ("0::/slurm/job_1/step_0", "slurm/job_1", 2, 8 * 10**9),
    "the older kind": ("4:cpu,memory:/job_1\n0::/", "memory/job_1", 1, 8 * 10**9),
    "no limit": ("0::/user", "user", 2, "max"),
    "of the older kind, no limit": ("4:memory:/user", "memory/user", 1, 2**63 - 4096),
    "of another process": ("0::/mine", "theirs", 2, None),
}


@pytest.mark.parametrize("case", GROUPS.values(), ids=GROUPS)
def test_the_memory_of_a_control_group_is_all_there_is(groups, case):
    named, folder, version, limit = case
    (hardware.PROCESS_FILES / "cgroup").write_text(f"{named}\n")
    control_group(groups / folder, limit or 8 * 10**9, 3 * 10**9, version)
    expected = (limit, 6 * 10**9) if limit == 8 * 10**9 else (24 * 10**9, FREE)
    assert (hardware.memory(), hardware.available_memory()) == expected


def test_the_narrowest_of_several_limits_counts(groups):
    (hardware.PROCESS_FILES / "cgroup").write_text("0::/job/step\n")
    control_group(groups / "job" / "step", 16 * 10**9, 2 * 10**9)
    control_group(groups / "job", 12 * 10**9, 11 * 10**9)
    assert (hardware.memory(), hardware.available_memory()) == (12 * 10**9, 2 * 10**9)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="not on Linux")
def test_mps_is_on_as_long_as_its_server_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert not hardware.has_mps()
    file = tmp_path / "nvidia-cuda-mps-control.pid"
    file.write_text(f"{os.getpid()}\n")
    assert hardware.has_mps()
    file.write_text(f"{2**22 + 1}\n")  # larger than any
    assert not hardware.has_mps()
