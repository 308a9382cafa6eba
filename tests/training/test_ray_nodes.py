"""A Ray cluster of several nodes, of which one dies: the same results as on one machine."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from discover_rl.storage import checkpoints
from discover_rl.training.engines import local
from discover_rl.training.engines import ray as engine
from discover_rl.training.events import Evaluated, Started
from tests.helpers.ray_jobs import LONG, Recorder, holder, jobs_of
from tests.helpers.trainings import assert_same_files

pytestmark = pytest.mark.slow

os.environ |= {"RAY_worker_niceness": "0"}  # else tests at the same time delay Ray's workers
REQUESTS = LONG, LONG | {"strategy": "pink"}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The jobs as they are trained by processes of this machine."""
    out = tmp_path_factory.mktemp("whole")
    assert local.run(jobs_of(out, *REQUESTS), Recorder(), bool, places={"cpu": 2}) == [None] * 2
    return out


@pytest.fixture
def cluster():
    """A head, which trains nothing, and two nodes with room for one cohort each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    options = {"num_gpus": 0, "object_store_memory": engine.OBJECTS, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **options})
    for _ in range(2):
        cluster.add_node(num_cpus=1, **options)
    yield cluster
    cluster.shutdown()


def node_of(cluster, pid: int):
    """The node whose worker a process is: the worker's parent is the node's raylet."""
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    for node in cluster.worker_nodes:
        if any(its.process.pid == parent for its in node.all_processes["raylet"]):
            return node
    raise AssertionError("no node has this worker")


def wait_until(condition, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_node_is_killed_and_the_other_one_goes_on_for_it(cluster, whole, tmp_path):
    jobs, killed = jobs_of(tmp_path, *REQUESTS), []

    def kill(number, event):
        if number == 0 and isinstance(event, Evaluated) and event.step >= 1500 and not killed:
            killed.append(checkpoints.step_of(jobs[0].workdir))
            node = node_of(cluster, holder(jobs[0].workdir))
            assert node is not node_of(cluster, holder(jobs[1].workdir))
            cluster.remove_node(node, allow_graceful=False)

    recorder = Recorder(kill)
    given = {"address": cluster.address, "checkpoint_seconds": 0.1}
    assert engine.run(jobs, recorder, bool, **given) == [None, None]
    begun = [event.step for event in recorder.of_kind(0, Started)]
    assert begun[0] == 0 < killed[0] <= begun[1]
    assert len(begun) == 2
    assert len(recorder.of_kind(1, Started)) == 1
    for i in range(2):
        assert_same_files(whole / str(i), tmp_path / str(i))


DRIVER = """
import sys
from pathlib import Path
from discover_rl.training.engines import ray
from discover_rl.training.events import Started
from tests.helpers.ray_jobs import Recorder, jobs_of
jobs, received = jobs_of(Path(sys.argv[1]), *{requests!r}), Recorder()
ray.run(jobs, received, bool, address=sys.argv[2], checkpoint_seconds=0.1)
print(*(received.of_kind(i, Started)[0].step for i in range(2)))
"""


def test_the_head_is_killed_all_end_and_the_same_again_goes_on(cluster, whole, tmp_path):
    """In processes of their own: Ray cannot begin anew in the one that a cluster was made in."""
    code, jobs = DRIVER.format(requests=REQUESTS), jobs_of(tmp_path, *REQUESTS)
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen([*command, cluster.address], stderr=subprocess.PIPE, text=True) as first:
        wait_until(lambda: first.poll() or all(checkpoints.step_of(job.workdir) for job in jobs))
        workers = [holder(job.workdir) for job in jobs]
        cluster.remove_node(cluster.head_node, allow_graceful=False)
        _, err = first.communicate(timeout=60)
    assert first.returncode == 1
    assert "ChildProcessError: Ray failed (" in err
    assert "the same command again goes on from the last checkpoints" in err
    wait_until(lambda: not any(map(is_there, workers)))
    steps = [checkpoints.step_of(job.workdir) for job in jobs]
    assert all(0 < step < 4000 for step in steps)
    again = subprocess.run([*command, "local"], check=True, timeout=90, stdout=subprocess.PIPE)
    assert [int(step) for step in again.stdout.split()] == steps
    for i in range(2):
        assert_same_files(whole / str(i), tmp_path / str(i))
