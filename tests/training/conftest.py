"""A stand-in for the package of Weights & Biases."""

import sys
import types

import pytest


class TheirRun:
    """A run of theirs, as far as it is used: steps increase, and what is logged is kept."""

    def __init__(self, **options):
        self.options, self.logged, self.summary, self.open = options, [], {}, True
        self.step = 0

    def log(self, numbers, step, commit):
        assert self.open
        assert step >= self.step
        if self.logged and self.logged[-1][0] == step:  # not committed yet: it becomes one row
            self.logged[-1][1].update(numbers)
        else:
            self.logged.append((step, dict(numbers)))
        self.step = step + commit

    def finish(self):
        self.open = False


@pytest.fixture
def wandb(monkeypatch):
    """The module `wandb`, which keeps logins and runs in lists."""
    module = types.ModuleType("wandb")
    module.Error = type("Error", (Exception,), {})
    module.logins, module.runs = [], []
    module.login = lambda: module.logins.append(len(module.runs))

    def init(**options):
        module.runs.append(TheirRun(**options))
        return module.runs[-1]

    module.init = init
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module
