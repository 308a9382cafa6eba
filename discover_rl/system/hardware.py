"""What this machine has: cores, memory, a GPU, and a folder for caches."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
import sys
import zlib
from importlib import metadata
from pathlib import Path

ONE_THREAD = {"NPROC": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
"""Environment variables that give a process one thread; XLA reads them when it starts."""
ONE_THREAD_AT_IMPORT = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""The same for NumPy and for JAX's decompositions, which read them when they are imported."""


def cores() -> int:
    """How many cores this process may use."""
    if os.environ.get("NPROC") == ONE_THREAD["NPROC"]:
        return 1
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def environment_threads() -> int:
    """How many threads step environments: all but one for learning and one for acting, if there
    are more than four cores."""
    return cores() - 2 if cores() > 4 else cores()


def use_share_of_cores(part: int, parts: int) -> None:
    """Keep this process on the `part`-th of `parts` equal shares of its cores, where the system
    can."""
    if hasattr(os, "sched_setaffinity"):
        mine = sorted(os.sched_getaffinity(0))
        if len(mine) >= parts:
            first, last = (len(mine) * i // parts for i in (part, part + 1))
            os.sched_setaffinity(0, mine[first:last])


def accelerated() -> bool:
    """Whether JAX computes on a GPU in this process.

    There is one, JAX was installed with its driver, and JAX was not told to use the CPU. JAX itself
    is not asked: that takes seconds and reserves the GPU's memory.
    """
    jax = sys.modules.get("jax")
    told = (jax.config.jax_platforms if jax else None) or os.environ.get("JAX_PLATFORMS", "")
    if told and not any(name in told for name in ("cuda", "rocm", "gpu")):
        return False
    return _has_gpu()


@functools.cache
def _has_gpu() -> bool:
    drivers = ("jax-cuda", "jax_cuda", "jax-rocm", "jax_rocm")
    names = (dist.metadata["Name"] or "" for dist in metadata.distributions())
    there = any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/kfd"))
    return there and any(name.lower().startswith(drivers) for name in names)


def place(on_policy: bool) -> str:
    """Where a run learns, "gpu" or "cpu": on-policy agents act and learn on the host."""
    return "gpu" if accelerated() and not on_policy else "cpu"


def processor_kind() -> str:
    """Tells processors apart that may not run each other's compiled programs."""
    flags = [line for line in _cpu_info() if line.startswith(("flags", "Features"))]
    return f"{platform.machine()}-{zlib.crc32(''.join(flags[:1]).encode()):08x}"


def device_name() -> str:
    """The name of what computes here: the GPU, else the processor."""
    if accelerated():
        import jax

        return jax.devices()[0].device_kind
    names = [
        line.partition(":")[2].strip() for line in _cpu_info() if line.startswith("model name")
    ]
    return names[0] if names else platform.processor() or platform.machine()


def _cpu_info() -> list[str]:
    about = Path("/proc/cpuinfo")
    return about.read_text().splitlines() if about.exists() else []


@functools.cache
def gpu_memory() -> int:
    """Bytes of the first GPU's memory; 16 GiB where the system does not say."""
    command = ["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
        return int(answer.stdout.split()[0]) * 2**20
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        return 16 * 2**30


def memory() -> int:
    """Bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def available_memory() -> int:
    """Bytes of memory that this process could still take: free here, and within its container."""
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        found = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):  # not on Linux
        return memory()
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = (int((group / f"memory.{it}").read_text()) for it in ("max", "current"))
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        found = min(found, limit - used + int(stat.get("file", 0)))  # a cache of files gives way
    except (OSError, ValueError):  # without a limit
        pass
    return max(0, found)


def cache_folder() -> Path:
    """Where this package keeps what can be made again: compiled programs, measured speeds."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "discover_rl"
