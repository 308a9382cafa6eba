"""Where each number of a run comes from: the user, a preset with its source, or a default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from discover_rl.config.resolve import preset_sources
from discover_rl.config.run import Run
from discover_rl.config.settings import current_names
from discover_rl.config.unused import unused

BY_LENGTH = {
    "eval.every": "by the length of the run: 100 evaluations, 1,000 steps apart or more",
    "score.last": "by the number of evaluations: the last tenth, ten if there are 50 or more",
    "metrics.every": "by the length of the run: 200 measurements, 1,000 steps apart or more",
}
"""The origins of settings that nobody has set and that depend on the run."""


def origins(run: Run, given: Mapping[str, Any] | None = None, giver: str = "--set") -> dict:
    """Return the value of each setting of a run, and where the value comes from.

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
    found, idle = {}, unused(run)
    beside = {"score.last": run.score.last, "metrics.every": run.metrics.every}
    for name, value in (run.settings | beside).items():
        group = name.partition(".")[0] if "." in name else ""
        owner = {"": run.algorithm, "strategy": run.strategy}.get(group)
        origin = f"default of {owner}" if owner else "default"
        origin = BY_LENGTH.get(name, origin)
        if name in sources:
            origin = f"preset: {sources[name]}"
        if name in asked:
            origin = giver
        if name in idle:
            origin += f"; does nothing with {run.algorithm}"
        found[name] = (value, origin)
    return found
