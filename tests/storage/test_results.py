"""What a run came to: how it prints."""

import dataclasses
from pathlib import Path

from discover_rl.storage.results import Result

RUN = {"task": "Pendulum-v1", "algorithm": "td3", "strategy": "none", "seed": 3, "settings": {}}


def test_a_result_prints_as_one_line():
    result = Result(Path("runs/p/seed-3"), RUN, [0, 5000], [[-9.0], [-1.0, -2.0]], score_last=1)
    line = "Result(Pendulum-v1 td3 none seed 3: score -1.5 after 5,000 steps, in runs/p/seed-3)"
    assert str(result) == repr(result) == line
    failed = dataclasses.replace(result, failure={"step": 7}, reason="a loss is not finite")
    assert "failed: a loss is not finite after" in str(failed)
    nasty = dataclasses.replace(result, run=RUN | {"task": "\x1b[2J\n"})
    assert str(nasty).startswith(r"Result(\x1b[2J")
