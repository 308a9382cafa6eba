"""What several tests of the page need."""

import signal
import subprocess
import sys

import pytest

from discover_rl import studies
from tests.helpers.records import write_record, write_records


@pytest.fixture
def served(tmp_path):
    """A study's file, its folder, and the address at which another process serves it."""
    file, out = tmp_path / "live.toml", tmp_path / "out"
    file.write_text(
        'steps = 1000\n[grid]\ntask = "My-v0"\nalgorithm = "td3"\nstrategy = ["none", "discover"]\n'
    )
    study = studies.load(str(file))
    write_records(out, study)
    write_record(out, study.cells[0], 0, [1.0, 2.0], end=False)
    command = [sys.executable, "-m", "discover_rl", "watch", str(file), "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = next(line.split()[0] for line in process.stdout if line.startswith("http"))
        yield study, out, address
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
