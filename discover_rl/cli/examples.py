"""What help shows: two examples for each command, which tests parse, and the exit codes."""

from __future__ import annotations

import inspect

from discover_rl.cli import exit_codes

EXAMPLES = {
    "train": (
        "discover train Pendulum-v1 --steps 8000 --seeds 3 --set hidden=64,64",
        "discover train Hopper-v5 --algorithm sac --strategy pink --out runs/hopper",
    ),
    "tune": (
        "discover tune Pendulum-v1 --steps 5000 --seeds 3 --range strategy.lam=0:1",
        "discover tune Hopper-v5 --range actor_lr=1e-5:1e-3:log --prune median",
    ),
    "evaluate": (
        "discover evaluate runs/hopper --episodes 20",
        "discover evaluate runs/hopper/seed-0 --video hopper.mp4",
    ),
    "list": (
        "discover list td3",
        "discover list Hopper-v5 --algorithm sac --strategy none",
    ),
    "plan": ("discover plan smoke", "discover plan paper-td3 --no-measure"),
    "run": ("discover run smoke", "discover run mine.toml --minutes 50 --shard 2/4"),
    "status": ("discover status smoke", "discover status mine.toml --out results/mine"),
    "export": ("discover export smoke", "discover export smoke --to smoke.csv"),
    "report": ("discover report smoke", "discover report mine.toml --until 4000"),
    "watch": ("discover watch smoke", "discover watch mine.toml --port 8000"),
    "theory": ("discover theory", "discover theory --states 32 --out runs/theory"),
    "visitation": (
        "discover visitation runs/a/seed-0 runs/b/seed-0",
        "discover visitation runs/a/seed-0 runs/b/seed-0 --points 2000 --common-axes",
    ),
}
"""Commands as one types them, by the name of the command."""


def epilog(command: str) -> str:
    """The end of a command's help: its examples, each on a line of its own."""
    return "\n\n".join(["Examples:", *EXAMPLES[command]])


def unwrapped(docstring: str) -> str:
    """A docstring with every paragraph on one line, which a terminal breaks where it ends."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def exit_code_table() -> str:
    """The end of the help of `discover` itself: what its exit codes mean."""
    rows = (f"{code:>3}  {meaning}" for code, meaning in exit_codes.MEANINGS.items())
    return "\n\n".join(["Exit codes:", *rows])
