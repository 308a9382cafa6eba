"""Read files of arrays, as safetensors: whatever is wrong with one is a ValueError."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, load_file

from discover_rl.system import hardware
from discover_rl.system.paths import plain


def read(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a file, by their names.

    Raises:
        ValueError: it holds no arrays, or some of a type that NumPy lacks, or too much for memory.
        OSError: it cannot be read.
    """
    if not hardware.holds(size := plain(path)):
        raise ValueError(f"its {size:,} bytes are too many for memory")
    return _checked(load_file, path)


def decode(raw: bytes) -> dict[str, np.ndarray]:
    """Return the arrays in a file's content; a ValueError if it holds none."""
    return _checked(load, raw)


def _checked(reader, source) -> dict[str, np.ndarray]:
    try:
        return reader(source)
    except (SafetensorError, KeyError) as error:
        raise ValueError(str(error)) from error
    except (AttributeError, TypeError) as error:  # eight bits, which the format has
        raise ValueError("its numbers are of a type that NumPy lacks") from error
