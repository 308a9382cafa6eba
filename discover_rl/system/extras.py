"""Extras: packages that only some features need, and the message if one is missing.

The core trains, saves and loads with none of them. Each is imported where it is used, and
pyproject.toml names what each extra brings.
"""

from __future__ import annotations

from discover_rl.core.types import UserError

EXTRAS = {
    "Box2D": "box2d",
    "dm_control": "dm_control",
    "dm_env": "dm_control",
    "gymnasium_robotics": "robotics",
    "imageio": "mujoco",  # Gymnasium's MuJoCo tasks import it
    "mujoco": "mujoco",
    "pygame": "video",  # which draws Gymnasium's own tasks
    "shimmy": "dm_control",
}
"""Modules that tasks need, and the extra of this package that brings each."""


def hint(what: str, extra: str) -> str:
    """The sentence for a feature whose package is missing.

    >>> hint("A video", "video")
    "A video needs a package: pip install 'discover_rl[video]'."
    """
    return f"{what} needs a package: pip install 'discover_rl[{extra}]'."


def missing_module(error: BaseException | None) -> str:
    """Return the module whose absence caused an error; '' if the error has another cause.

    In a chain of errors, each the cause of the one before, the last one that names a module counts.
    """
    found = ""
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name:
            found = error.name
        error = error.__cause__
    return found


def needed_for_figures() -> None:
    """Raise a UserError if Matplotlib is missing: call it before work that ends in a figure."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise UserError(hint("A figure", "plots")) from error
