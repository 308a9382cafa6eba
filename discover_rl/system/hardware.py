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
CONTROL_GROUPS = Path("/sys/fs/cgroup")
"""Where Linux shows control groups and their limits."""
PROCESS_FILES = Path("/proc/self")
"""Where Linux describes this process."""


def cores() -> int:
    """How many cores this process may use."""
    if os.environ.get("NPROC") == ONE_THREAD["NPROC"]:
        return 1
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def environment_threads() -> int:
    """Return how many threads step environments. With more than four cores, one is left for
    learning and one for acting."""
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

    It does if there is a GPU, JAX's plugin for it is installed, and no setting makes JAX use the
    CPU. JAX itself is not asked: that takes seconds and reserves the GPU's memory.
    """
    jax = sys.modules.get("jax")
    asked = (jax.config.jax_platforms if jax else None) or os.environ.get("JAX_PLATFORMS", "")
    if asked and not any(name in asked for name in ("cuda", "rocm", "gpu")):
        return False
    return _has_gpu()


@functools.cache
def _has_gpu() -> bool:
    drivers = ("jax-cuda", "jax_cuda", "jax-rocm", "jax_rocm")
    names = (dist.metadata["Name"] or "" for dist in metadata.distributions())
    there = any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/kfd"))
    return there and any(name.lower().startswith(drivers) for name in names)


def place(on_policy: bool, gpu: bool | None = None) -> str:
    """Where a run learns, "gpu" or "cpu": on-policy agents act and learn on the host.

    Args:
        on_policy: whether its algorithm is on-policy.
        gpu: whether JAX computes on a GPU where the run is trained; None: as in this process.
    """
    if gpu is None:
        gpu = accelerated()
    return "gpu" if gpu and not on_policy else "cpu"


def processor_kind() -> str:
    """Return a name for this kind of processor: compiled programs may not run on another kind."""
    flags = [line for line in _cpu_info() if line.startswith(("flags", "Features"))]
    return f"{platform.machine()}-{zlib.crc32(''.join(flags[:1]).encode()):08x}"


def device_name() -> str:
    """Return the name of the device that computes: the GPU, else the processor."""
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


def has_mps() -> bool:
    """Whether NVIDIA's MPS is on, with which processes use a GPU together and not in turns."""
    folder = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"))
    try:
        number = int((folder / "nvidia-cuda-mps-control.pid").read_text())
    except (OSError, ValueError):
        return False
    return Path(f"/proc/{number}").exists()


def memory() -> int:
    """Bytes of this machine's memory, or of the part of it that this process may take; no limit
    where the system does not say."""
    if not hasattr(os, "sysconf"):  # on Windows, where nothing is trained
        return sys.maxsize
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([there, *(limit for limit, _ in _limits())])


def available_memory() -> int:
    """Bytes of memory that this process could still take: free here, and within its limits."""
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        found = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):  # not on Linux
        return memory()
    return max(0, min([found, *(left for _, left in _limits())]))


def holds(size: int) -> bool:
    """Whether a file of so many bytes can be read: a copy of it may be made."""
    return size <= 2**24 or 2 * size <= available_memory()


def _limits() -> list[tuple[int, int]]:
    """The limits of Linux's control groups: those of a container, of a batch job, of a user.

    Returns:
        For each group that this process is in, at any depth, its limit in bytes and what is left of
        that. A cache of files gives way, so it counts as left.
    """
    try:
        lines = (PROCESS_FILES / "cgroup").read_text().splitlines()
    except OSError:  # not on Linux
        return []
    found = []
    for line in lines:
        _, kinds, path = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        root = CONTROL_GROUPS / "memory" if kinds else CONTROL_GROUPS
        names = ("limit_in_bytes", "usage_in_bytes") if kinds else ("max", "current")
        own = root / path.lstrip("/")
        # In a container the root is its own group, and the path may be one outside of it.
        for group in (own, *(parent for parent in own.parents if parent.is_relative_to(root))):
            try:
                limit, used = (int((group / f"memory.{name}").read_text()) for name in names)
                stat = dict(it.split() for it in (group / "memory.stat").read_text().splitlines())
            except (OSError, ValueError):  # no such group here, or without a limit
                continue
            prefix = "total_" if kinds else ""
            cached = sum(int(stat.get(f"{prefix}{it}_file", 0)) for it in ("active", "inactive"))
            found.append((limit, limit - used + cached))
    return found


def cache_folder() -> Path:
    """Return the folder for data that can be made again: compiled programs, measured speeds."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "discover_rl"
