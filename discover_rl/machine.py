"""What this machine has, and what pays on it."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform
import subprocess
import zlib
from importlib import metadata
from pathlib import Path

from discover_rl.types import UserError

MUJOCO = (
    *("Ant", "HalfCheetah", "Hopper", "Humanoid", "HumanoidStandup", "Swimmer", "Walker2d"),
    *("Reacher", "InvertedPendulum", "InvertedDoublePendulum", "Pusher"),
)
"""Gymnasium's tasks on MuJoCo, without their versions."""


ALONE = {"NPROC": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
"""The environment of a process that is to have one thread; XLA reads both."""
ALONE_FROM_START = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""The same for NumPy and for JAX's decompositions, which look when they are loaded."""


def cores() -> int:
    """How many this process may use."""
    if os.environ.get("NPROC") == ALONE["NPROC"]:
        return 1
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def threads() -> int:
    """That step environments: of many cores, one is left to what learns and one to what acts."""
    return cores() - 2 if cores() > 4 else cores()


def keep_to(part: int, parts: int) -> None:
    """From now on use only one of so many parts of the cores, where the system knows of such."""
    if hasattr(os, "sched_setaffinity"):
        mine = sorted(os.sched_getaffinity(0))
        if len(mine) >= parts:
            first, last = (len(mine) * i // parts for i in (part, part + 1))
            os.sched_setaffinity(0, mine[first:last])


def kind() -> str:
    """Tells processors apart that may not run each other's programs."""
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    flags = [line for line in lines if line.startswith(("flags", "Features"))]
    return f"{platform.machine()}-{zlib.crc32(''.join(flags[:1]).encode()):08x}"


def device() -> str:
    """What computes here, by name: the GPU, else the processor."""
    import jax

    if jax.default_backend() != "cpu":
        return jax.devices()[0].device_kind
    about = Path("/proc/cpuinfo")
    lines = about.read_text().splitlines() if about.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def place(off_policy: bool) -> str:
    """Where a run learns, "gpu" or "cpu"; what acts on the host learns there, too."""
    return "gpu" if off_policy and accelerated() else "cpu"


def engine(task: str, asked: str, place: str) -> str:
    """What is to step a task's environments: what was asked for, if it can be had.

    "auto" is EnvPool where it pays: where lanes learn on a GPU and there are cores for their
    environments and for evaluation. On CPUs, runs go to a process for each core, and to hand an
    environment over to a thread takes about as long as stepping it.
    """
    installed = importlib.util.find_spec("envpool") is not None
    there = task.endswith("-v5") and task.removesuffix("-v5") in MUJOCO
    if asked == "envpool" and not there:
        raise UserError(
            f"env.engine=envpool is for MuJoCo's tasks of version 5; {task} needs gymnasium."
        )
    if asked == "envpool" and not installed:
        raise UserError("env.engine=envpool needs a package: pip install 'discover_rl[envpool]'.")
    if asked == "auto":
        pays = place == "gpu" and cores() >= 4
        return "envpool" if installed and there and pays else "gymnasium"
    return asked


def has_gpu() -> bool:
    """NVIDIA's or AMD's; asked of the system, because asking JAX takes seconds."""
    return any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/kfd"))


@functools.cache
def accelerated() -> bool:
    """Whether JAX would compute on a GPU: there is one, JAX has come with what drives it, and it
    was not told otherwise."""
    told = os.environ.get("JAX_PLATFORMS", "")
    if told and not any(name in told for name in ("cuda", "rocm", "gpu")):
        return False
    drivers = ("jax-cuda", "jax_cuda", "jax-rocm", "jax_rocm")
    names = (dist.metadata["Name"] or "" for dist in metadata.distributions())
    return has_gpu() and any(name.lower().startswith(drivers) for name in names)


@functools.cache
def gpu_memory() -> int:
    """Bytes of the first GPU; 16 GiB where the system does not tell."""
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        return int(answer.stdout.split()[0]) * 2**20
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return 16 * 2**30


def memory() -> int:
    """Bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
