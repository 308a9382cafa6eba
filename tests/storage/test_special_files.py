"""Pipes, devices and links in a stranger's folder: none is waited for, filled from or followed."""

import os
import subprocess
import sys

import pytest

from discover_rl import studies
from discover_rl.core.types import UserError
from discover_rl.report import folder
from discover_rl.storage import checkpoints, files, schemas
from discover_rl.storage.policies import load_policy
from discover_rl.storage.records import read_record
from discover_rl.studies import plan, status
from discover_rl.system import hardware
from discover_rl.system.paths import SpecialFile
from discover_rl.training import launch
from tests.helpers import hostile
from tests.helpers.trainings import runs_of
from tests.storage.test_damage import save
from tests.system.test_modules import save_policy
from tests.tuning.test_tune import QUICK, pretended, tuned

__all__ = ["pretended"]

STUDY = 'steps = 100\n[grid]\ntask = "%s"\nalgorithm = "td3"\nstrategy = "none"\n'


def pipe(path):
    os.mkfifo(path)


def device(path):
    path.symlink_to("/dev/zero")


@pytest.fixture(params=[pipe, device])
def special(request):
    """Makes something at a path that no reading of ends."""
    return request.param


def test_a_record_that_is_no_file_is_damaged_and_others_are_read(tmp_path, special):
    special(tmp_path / "record.jsonl")
    assert (
        "cannot be read (neither a file nor a folder)"
        in read_record(tmp_path / "record.jsonl").damage
    )
    (tmp_path / "x.jsonl").mkdir()
    assert "cannot be read" in read_record(tmp_path / "x.jsonl").damage


@pytest.mark.parametrize("name", ["policy.json", "policy.safetensors"])
def test_a_policy_that_is_no_file_is_refused(tmp_path, special, name):
    save_policy(tmp_path, "Pendulum-v1")
    (tmp_path / name).unlink()
    special(tmp_path / name)
    with pytest.raises(UserError, match="cannot be read"):
        load_policy(tmp_path)


def test_what_else_is_no_file_is_refused(tmp_path, special):
    special(tmp_path / "mine.toml")
    with pytest.raises(UserError, match="cannot be read"):
        studies.load(str(tmp_path / "mine.toml"))
    special(tmp_path / plan.FILE)
    with pytest.raises(SpecialFile):
        plan.workdirs(tmp_path)
    special(tmp_path / status.TROUBLE)
    assert status._cohort_status(tmp_path)[0] == "failed"
    with pytest.raises(UserError, match="cannot be read"):
        files.read(tmp_path / status.TROUBLE, {"bytes": 1, "crc32": 1})
    special(tmp_path / ".lock")
    with pytest.raises(SpecialFile):
        files.in_use(tmp_path)


def test_a_lock_that_is_a_link_neither_empties_nor_makes_another_file(tmp_path):
    (tmp_path / "theirs").write_text("content")
    for target in ("theirs", "absent"):
        folder = tmp_path / f"with-{target}"
        folder.mkdir()
        (folder / ".lock").symlink_to(tmp_path / target)
        with pytest.raises(UserError, match="cannot be written to"), files.locked(folder):
            pass
    assert (tmp_path / "theirs").read_text() == "content"
    assert not (tmp_path / "absent").exists()


def test_a_draft_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "theirs").write_text("content")
    (tmp_path / "mine.tmp").symlink_to(tmp_path / "theirs")
    files.write(tmp_path / "mine", b"new")
    assert (tmp_path / "theirs").read_text() == "content"
    assert (tmp_path / "mine").read_bytes() == b"new"


@pytest.mark.parametrize(
    "name", ["777", "checkpoint-007", "checkpoint-٣", "checkpoint-" + "9" * 30]
)
def test_a_folder_of_another_name_is_no_checkpoint(tmp_path, name):
    (tmp_path / name).mkdir()
    (tmp_path / name / checkpoints.MANIFEST).write_text("{}")
    assert checkpoints.find(tmp_path) is None


# Names and numbers of a study's file


@pytest.mark.parametrize("task", ["", ".", "..", "a\\u0000b", "\\n", "x" * 300])
def test_a_task_that_leads_out_of_the_studys_folder_is_refused(task):
    with pytest.raises(UserError, match="cannot be the name of a folder") as caught:
        studies.study.declared(STUDY % task, "mine", "mine.toml")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("name", ["..", ".", "a\nb", "\x1b[2J"])
def test_a_study_whose_name_leads_out_of_the_folder_of_results_is_refused(tmp_path, name):
    file = tmp_path / f"{name}.toml"
    file.write_text(STUDY % "Pendulum-v1")
    with pytest.raises(UserError, match="cannot be the name of a folder") as caught:
        studies.load(str(file))
    assert "\n" not in str(caught.value)


def test_a_setting_that_leads_out_of_the_studys_folder_is_refused():
    text = STUDY % "Pendulum-v1" + '"../../x" = [1, 2]\n'
    with pytest.raises(UserError, match="cannot be the name of a folder"):
        studies.study.declared(text, "mine", "mine.toml")


def test_a_number_that_python_cannot_write_is_refused():
    with pytest.raises(ValueError, match="64 bits"):
        schemas.read_toml(f"[set]\ngamma = [[0x{'f' * 10_000}]]")
    assert schemas.read_toml(f"x = {2**63 - 1}") == {"x": 2**63 - 1}


# Text that a terminal, or UTF-8, does not have


def test_a_path_that_no_record_could_have_is_refused(tmp_path):
    for words in (["status", "\udcff.toml"], ["train", "Pendulum-v1", "--from", "\udcff"]):
        ran = discover(words, tmp_path)
        assert ran.returncode == 2
        assert ran.stderr.count(b"\n") == 1


def test_a_terminal_without_greek_letters_is_enough(tmp_path):
    """Nor do files of the package depend on the terminal's encoding."""
    poor = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    ran = discover(["list", "td3"], tmp_path, poor)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"score.last" in ran.stdout


def discover(words, folder, environment=()):
    code = "import sys; from discover_rl.cli import main; main()"
    (folder / "\udcff").mkdir(exist_ok=True)
    (folder / "\udcff.toml").write_text(STUDY % "Pendulum-v1")
    return subprocess.run(
        [sys.executable, "-c", code, *words],
        cwd=folder,
        env=os.environ | dict(environment),
        capture_output=True,
        check=False,
    )


# Files that are larger than memory


def test_a_file_that_memory_does_not_hold_is_not_read(tmp_path, monkeypatch):
    """It may take nothing on the disk."""
    monkeypatch.setattr(hardware, "available_memory", lambda: 2 * 10**9)
    save_policy(tmp_path, "Pendulum-v1")
    path = tmp_path / "policy.safetensors"
    os.truncate(path, 10**12)
    with pytest.raises(UserError, match="1,000,000,000,000 bytes are too many for memory"):
        load_policy(tmp_path)
    with pytest.raises(UserError, match="too many for memory"):
        files.read(path, {"bytes": 10**12, "crc32": 0})
    os.truncate(path, 10**8)
    monkeypatch.setattr(type(path), "read_bytes", None)
    with pytest.raises(UserError, match="is damaged"):
        files.read(path, {"bytes": 5, "crc32": 0})


# Links in the folder of a study or of runs


def theirs(folder):
    """A folder with files that have the names of those which training removes."""
    for name in ("checkpoint-7/x", "replay/x.safetensors", "checkpoint/x", "model.safetensors"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("precious")
    return hostile.snapshot(folder)


@pytest.mark.parametrize("link", ["workers/0", "workers", "seed-1"])
def test_training_follows_no_link(tmp_path, link):
    elsewhere, out = tmp_path / "elsewhere", tmp_path / "out"
    before = theirs(elsewhere)
    if link == "workers":
        theirs(elsewhere / "0")
        before = hostile.snapshot(elsewhere)
    (out / link).parent.mkdir(parents=True)
    (out / link).symlink_to(elsewhere)
    with pytest.raises(UserError, match=f"{link.split('/')[0]}.* is a link, behind which"):
        launch.train(runs_of(), out)
    assert hostile.snapshot(elsewhere) == before


def test_a_checkpoint_is_not_added_to_where_a_link_leads(tmp_path):
    save(tmp_path / "out", 3)
    elsewhere = (tmp_path / "out/replay").rename(tmp_path / "elsewhere")
    (elsewhere / "model.safetensors").write_text("precious")
    (tmp_path / "out/replay").symlink_to(elsewhere)
    before = hostile.snapshot(tmp_path)
    with pytest.raises(UserError, match="replay is a link, behind which"):
        save(tmp_path / "out", 5)
    assert hostile.snapshot(tmp_path) == before


RUNS = ("cohorts", "cohorts/0000", "Pendulum-v1", "Pendulum-v1/td3")
REPORT = ("report", "report/tables", "report/curves")


@pytest.mark.parametrize(
    ("write", "link"),
    [*((plan.agreed, link) for link in RUNS), *((folder.write, link) for link in REPORT)],
)
def test_a_study_and_its_report_follow_no_link(tmp_path, write, link):
    elsewhere, out = tmp_path / "elsewhere", tmp_path / "out"
    before = theirs(elsewhere)
    (out / link).parent.mkdir(parents=True)
    (out / link).symlink_to(elsewhere)
    study = studies.study.declared(STUDY % "Pendulum-v1", "mine", "mine.toml")
    with pytest.raises(UserError, match=f"{link} is a link, behind which"):
        write(study, out)
    assert hostile.snapshot(elsewhere) == before


def test_a_tuning_follows_no_link(tmp_path, pretended):
    before = theirs(tmp_path / "elsewhere")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/batch-000").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="batch-000 is a link, behind which"):
        tuned(tmp_path / "out", **QUICK)
    assert hostile.snapshot(tmp_path / "elsewhere") == before


def test_a_folder_of_ones_own_may_be_a_link_and_a_link_is_removed_not_followed(tmp_path):
    before = theirs(tmp_path / "elsewhere")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    files.refuse_links(tmp_path / "link", ["seed-0", "workers/0"])
    files.remove(tmp_path / "link")
    assert not (tmp_path / "link").is_symlink()
    assert hostile.snapshot(tmp_path / "elsewhere") == before
    (tmp_path / "checkpoint-9").symlink_to(tmp_path / "elsewhere/checkpoint-7")
    (tmp_path / "elsewhere/checkpoint-7" / checkpoints.MANIFEST).write_text("{}")
    assert checkpoints.find(tmp_path) is None
