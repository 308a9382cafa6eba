"""Which action and observation spaces can be trained on; their sizes, in numbers.

Actions have to be a Box of continuous numbers with bounds, observations a Box or a Dict or Tuple of
Boxes.
"""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces

from discover_rl.core.types import Spec, UserError
from discover_rl.envs import dm_control_tasks
from discover_rl.envs.answers import LARGEST
from discover_rl.envs.catalogue import DM_CONTROL


def check_spaces(env: gymnasium.Env, task: str) -> None:
    """A UserError if nothing can be trained on these spaces."""
    acted, observed = (_space(env, task, f"{name}_space") for name in ("action", "observation"))
    if not isinstance(acted, spaces.Box) or acted.dtype.kind != "f":
        raise UserError(f"{task} has {_kind(acted)} actions; a Box of continuous ones is needed.")
    if acted.dtype.itemsize < 4:
        raise UserError(f"{task} has {acted.dtype} actions; a Box of float32 or more is needed.")
    low, high = acted.low.astype(float), acted.high.astype(float)
    if not low.size:
        raise UserError(f"{task} has actions without dimensions; at least one is needed.")
    largest = dm_control_tasks.UNBOUNDED if task.startswith(DM_CONTROL) else np.inf
    if not (np.abs([low, high]) < largest).all():
        raise UserError(f"{task} has actions without bounds; every dimension needs low < high.")
    if (low >= high).any():
        raise UserError(f"{task} has an action that cannot vary; every dimension needs low < high.")
    with np.errstate(over="ignore"):
        widest = np.abs([low, high, high - low, high + low]).max()
    if widest > LARGEST:
        raise UserError(f"{task} has action bounds that are too large for single precision.")
    if not Spec((), acted.shape, tuple(low.ravel()), tuple(high.ravel())).fits_single_precision:
        raise UserError(f"{task} has action bounds that single precision cannot tell apart.")
    try:
        parts = parts_of(observed)
    except TypeError:
        raise UserError(f"{task} has a Dict of observations whose keys have no order.") from None
    if unfit := next((part for part in parts if not isinstance(part, spaces.Box)), None):
        whole = "" if unfit is observed else f"{_kind(observed)} of "
        way = " (gymnasium.wrappers.FlattenObservation makes one)"
        raise UserError(
            f"{task} has {whole}{_kind(unfit)} observations; a Box is needed, or a Dict or Tuple "
            f"of Boxes{way if observed.is_np_flattenable else ''}."
        )
    if not size_of(observed):
        raise UserError(f"{task} has observations without numbers; at least one is needed.")


def _space(env: gymnasium.Env, task: str, name: str) -> gymnasium.Space:
    """The action_space or observation_space of an environment; a UserError if it has none."""
    try:
        space = getattr(env, name)
    except AttributeError:
        space = None
    if not isinstance(space, gymnasium.Space):
        raise UserError(f"{task} has no {name}, which must be a space of Gymnasium's.")
    return space


def parts_of(space: gymnasium.Space) -> list[gymnasium.Space]:
    """The spaces that a space is made of, in the order of `observations.flatten`."""
    if isinstance(space, spaces.Dict):
        inner = [space[key] for key in sorted(space.spaces)]
    elif isinstance(space, spaces.Tuple):
        inner = list(space.spaces)
    else:
        return [space]
    return [part for one in inner for part in parts_of(one)]


def size_of(space: gymnasium.Space) -> int:
    """How many numbers an observation of Boxes has."""
    return sum(int(np.prod(part.shape or ())) for part in parts_of(space))


def _kind(space: gymnasium.Space) -> str:
    whole = isinstance(space, gymnasium.spaces.Box)
    return "whole-number" if whole else type(space).__name__


def is_image(space: gymnasium.Space) -> bool:
    """Whether a Box looks like one of images."""
    dimensions = len(space.shape or ())
    return dimensions == 3 or (dimensions == 2 and space.dtype == np.uint8)
