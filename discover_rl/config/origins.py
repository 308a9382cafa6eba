"""Where each number of a run comes from: the user, a preset with its source, or a default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discover_rl.config.resolve import preset_sources
from discover_rl.config.run import Run
from discover_rl.config.settings import current_names

BY_LENGTH = "by the length of the run: 100 evaluations, 1,000 steps apart or more"
"""The origin of eval.every where nobody has set it."""


def origins(run: Run, given: Mapping[str, Any] | None = None, giver: str = "--set") -> dict:
    """What each setting of a run is, and who says so.

    Args:
        run: A run, fully resolved.
        given: Settings that were asked for, by name.
        giver: Who asked for them, as "the study".

    Returns:
        By the name of a setting: its value, and a phrase.

    >>> from discover_rl.config import Request, resolve
    >>> (run,) = resolve(Request("Hopper-v5", "td3", "none", settings={"gamma": 0.98}))
    >>> found = origins(run, {"gamma": 0.98})
    >>> found["gamma"], found["smoothing"][0], found["env.count"]
    ((0.98, '--set'), 0.2, (1, 'default'))
    """
    sources = preset_sources(run.algorithm, run.task, run.strategy)
    asked = current_names(given or {})
    found = {}
    for name, value in run.settings.items():
        group = name.partition(".")[0] if "." in name else ""
        owner = {"": run.algorithm, "strategy": run.strategy}.get(group)
        origin = f"default of {owner}" if owner else "default"
        if name == "eval.every":
            origin = BY_LENGTH
        if name in sources:
            origin = f"preset: {sources[name]}"
        if name in asked:
            origin = giver
        found[name] = (value, origin)
    return found
