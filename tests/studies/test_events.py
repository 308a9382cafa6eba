"""Events of a campaign: the board and the observers get the same ones."""

from dataclasses import is_dataclass

from discover_rl import studies
from discover_rl.core.types import Stopped
from discover_rl.storage.files import FolderInUse
from discover_rl.studies import campaign
from discover_rl.training import job as jobs
from discover_rl.training.events import (
    Ended,
    Evaluated,
    EvaluationTime,
    Event,
    Finished,
    Started,
    Stepped,
)
from discover_rl.training.observers import Observer
from tests.studies.test_campaign import pretend


class RecordingBoard(campaign.Board):
    """Keeps the events of each cohort, by the name of its work folder, and all in their order."""

    def __init__(self):
        self.by_cohort: dict[str, list[Event]] = {}
        self.events: list[Event] = []

    def on_event(self, job, event):
        self.by_cohort.setdefault(job.workdir.name, []).append(event)
        self.events.append(event)


class RecordingObserver(Observer):
    """Keeps all events."""

    def __init__(self):
        self.events: list[Event] = []

    def on_event(self, event):
        self.events.append(event)


class Forward(Observer):
    """Passes the events of a job on to an engine's `on_event`."""

    def __init__(self, number, pass_on):
        self.number, self.pass_on = number, pass_on

    def on_event(self, event):
        self.pass_on(self.number, event)


def train_here(cohorts, on_event, stopping, patience):
    """An engine that trains in this process, one cohort after the other."""
    for number, job in enumerate(cohorts):
        jobs.train(job, Forward(number, on_event), stopping, patience=patience)
        on_event(number, Ended(None))
    return [None] * len(cohorts)


def test_the_board_and_the_observers_get_the_same_events_of_each_cohort(small, tmp_path, one_core):
    # Warm-up lasts to the end: nothing is learned, so little has to be compiled.
    small.write_text(small.read_text().replace("warmup = 40", "warmup = 120"))
    prepared = campaign.prepare(studies.load(str(small)), tmp_path / "out")
    board, observer = RecordingBoard(), RecordingObserver()
    assert campaign.carry_out(prepared, train_here, board, observer, bool)
    assert board.events == observer.events
    assert all(is_dataclass(event) for event in observer.events)
    names = [job.workdir.name for job in prepared.cohorts]
    assert list(board.by_cohort) == names == ["0000", "0001"]
    first = 0
    for job in prepared.cohorts:
        events = board.by_cohort[job.workdir.name]
        assert observer.events[first : first + len(events)] == events
        first += len(events)
        assert events[0] == Started(job.runs, 0)
        assert events[-2:] == [Finished(job.runs), Ended(None)]
        evaluated = [event for event in events if isinstance(event, Evaluated)]
        assert [(event.run, event.step) for event in evaluated] == [
            (run, step) for step in (0, 60, 120) for run in job.runs
        ]
        times = [event.step for event in events if isinstance(event, EvaluationTime)]
        assert times == [0, 60, 120]
        assert [event.step for event in events if isinstance(event, Stepped)][-1] == 120


def test_the_board_and_the_observers_get_the_same_ends(small, tmp_path, one_core):
    """Of cohorts that fail, that are stopped, and that another process is training."""
    full, stopped, taken = OSError(28, "No space"), Stopped(60), FolderInUse("another process")
    outcomes = {"0000": [taken, taken], "0001": full, "0002": stopped}
    text = small.read_text().replace('"gaussian"', '"gaussian", "ou", "discover"')
    small.write_text(text)
    prepared = campaign.prepare(studies.load(str(small)), tmp_path / "out")
    board, observer = RecordingBoard(), RecordingObserver()
    engine, _ = pretend(outcomes)
    assert not campaign.carry_out(prepared, engine, board, observer, bool)
    assert board.events == observer.events
    ends = {name: events[-1].outcome for name, events in board.by_cohort.items()}
    assert (ends["0001"], ends["0002"], ends["0003"]) == (full, stopped, None)
    assert isinstance(ends["0000"], FolderInUse)
    counts = {name: len(events) for name, events in board.by_cohort.items()}
    assert counts == {"0000": 1, "0001": 1, "0002": 1, "0003": 2}
