"""Strategies and algorithms of one's own: registered, by module:name, by entry points."""

import importlib
import inspect
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest

import discover_rl
from discover_rl import algorithms, strategies
from discover_rl.algorithms import AlgorithmModule
from discover_rl.config import Request, pairs, resolve
from discover_rl.core.types import UserError
from discover_rl.storage.records import Record
from discover_rl.strategies import StrategyModule
from discover_rl.strategies.interface import View
from discover_rl.system.registry import Registry
from discover_rl.training import headers, job
from discover_rl.training.observers import Observer
from tests.cli.test_cli import SETTINGS, discover
from tests.helpers.trainings import files

ROOT = Path(__file__).parents[2]
CODE = '''
"""Noise of a fixed size."""
from discover_rl import register_algorithm, register_strategy
from discover_rl.algorithms import off_policy_parts, td3
from discover_rl.core.hyperparameters import hyper, setting
from discover_rl.core.types import Nudge
from discover_rl.strategies.interface import Acting, Strategy

SIZE = 0.5

@hyper
class Hyper:
    """Hyper-parameters."""

    size: float = setting(0.1, "How large.", low=0)

def make(spec, settings, blueprint):
    """The strategy."""

    def behave(state, memory, view, obs, noise, warmup):
        return memory, Nudge(view.net, shift=SIZE * state.size)

    return Strategy(acting=Acting(behave=behave))

class Patient:
    """TD3 with another default."""

    @hyper
    class Hyper(td3.Hyper):
        """Hyper-parameters."""

        delay = 3

    blueprint = staticmethod(td3.blueprint)
    make = staticmethod(td3.make)

register_strategy("loud", __name__, "a constant shift", only=["td3", "patient"])
register_algorithm("patient", Patient, "TD3 that waits")
'''


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write the module into the working directory and forget what it registered before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = {id(it): dict(it) for it in _tables()}

    def write(code=CODE):
        (tmp_path / "louder.py").write_text(code)
        sys.modules.pop("louder", None)
        importlib.invalidate_caches()

    write()
    yield write
    sys.modules.pop("louder", None)
    for table in _tables():
        table.clear()
        table.update(before[id(table)])


def _tables() -> list[dict]:
    registries = strategies.registry, algorithms.registry
    return [it for r in registries for it in (r.members, r.only, r._registered)]


def asked(strategy="louder:loud", algorithm="td3", **settings):
    return resolve(Request("Pendulum-v1", algorithm, strategy, 40, 1, SETTINGS | settings))[0]


@pytest.mark.usefixtures("write")
def test_a_module_of_ones_own_registers_what_it_has():
    with pytest.raises(UserError, match="There is no strategy loud"):
        asked("loud")
    run = asked()
    assert (run.strategy, run.strategy_hyper.size) == ("loud", 0.1)
    assert asked("loud", **{"strategy.size": 0.3}).strategy_hyper.size == 0.3
    assert ("td3", "loud") in pairs()
    assert ("ppo", "loud") not in pairs()
    with pytest.raises(UserError, match="loud is for td3 and patient; ppo explores by"):
        asked("loud", "ppo", horizon=20, minibatches=1)
    other = asked("gaussian", "louder:patient")
    assert (other.algorithm, other.hyper.delay) == ("patient", 3)
    folder = Request("Pendulum-v1", "louder:patient", "louder:loud").default_folder
    assert folder.name == "Pendulum-v1-patient-loud"


@pytest.mark.usefixtures("write")
def test_what_is_registered_is_listed(capfd):
    assert discover("list", "louder:loud") == 0
    assert capfd.readouterr().out.startswith("loud: a constant shift\n  strategy.size")
    assert discover("list") == 0
    assert "patient    TD3 that waits" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("registry", "protocol"),
    [(strategies.registry, StrategyModule), (algorithms.registry, AlgorithmModule)],
)
def test_every_member_has_what_its_protocol_documents(registry, protocol):
    methods = [name for name, it in vars(protocol).items() if inspect.isfunction(it)]
    methods = [name for name in methods if not name.startswith("_")]
    assert {*registry.needs} == {*methods, *protocol.__annotations__}
    for name in registry.members:
        member = registry.load(name)
        assert isinstance(member.Hyper, type), name
        for method in methods:
            documented = list(inspect.signature(getattr(protocol, method)).parameters)[1:]
            assert list(inspect.signature(getattr(member, method)).parameters) == documented, name


def test_the_example_of_the_page_works(write, tmp_path, monkeypatch):
    page = (ROOT / "docs/customise.md").read_text()
    (tmp_path / "loud.py").write_text(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[1])
    monkeypatch.delitem(sys.modules, "loud", raising=False)
    (run,) = resolve(Request("Pendulum-v1", "td3", "loud:loud", 3000, 1, {"strategy.size": 0.3}))
    assert run.strategy == "loud"
    strategy = strategies.load("loud").make(None, run.strategy_hyper, None)
    view = View({"net": {}, "joint": {}}, policy=None, features=None)
    _, nudge = strategy.acting.behave(run.strategy_hyper, (), view, None, (), 0)
    assert nudge.shift == 0.3


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("nowhere:loud", "nowhere:loud cannot be imported: ModuleNotFoundError: No module named"),
        (
            "louder:quiet",
            "Importing louder registers no strategy quiet; it has to call discover_rl",
        ),
    ],
)
@pytest.mark.usefixtures("write")
def test_a_module_that_does_not_is_one_sentence(word, sentence):
    with pytest.raises(UserError, match=sentence):
        asked(word)


@pytest.mark.parametrize("name", ["unheard_of", "evil:x", "off_policy", "interface", ""])
def test_a_name_from_a_file_that_nobody_registered_is_one_sentence(name):
    """Nor is any other module of the package taken for a member."""
    for kind in (algorithms, strategies):
        with pytest.raises(UserError, match=f"There is no (algorithm|strategy) {name};"):
            kind.load(name)


def test_what_cannot_be_registered_is_refused():
    for name, said in (("td3", "td3 is an algorithm of discover_rl"), ("A b", "small letters")):
        with pytest.raises(UserError, match=said):
            discover_rl.register_algorithm(name, algorithms.load("td3"))
    with pytest.raises(UserError, match="The strategy empty has no Hyper and no make"):
        discover_rl.register_strategy("empty", object())
    registry = Registry("strategy", "nobody.strategies", {}, {}, ())
    registry.register("ghost", "no_such_module")
    with pytest.raises(UserError, match=r"^no_such_module:ghost cannot be imported: "):
        registry.load("ghost")


def test_the_code_of_a_strategy_of_ones_own_is_part_of_a_run(write, tmp_path):
    run = asked()
    first = headers.sources(run)
    assert set(first) == {"strategy_source"}
    assert headers.sources(asked("gaussian", "louder:patient")).keys() == {"algorithm_source"}
    assert headers.sources(asked("gaussian")) == {}
    Record(tmp_path / "out/seed-0/record.jsonl").begin({"run": run.to_json(), **first})
    assert job.open_record(run, tmp_path / "out").header is not None
    write(CODE.replace("SIZE = 0.5", "SIZE = 0.6"))
    with pytest.raises(UserError, match=r"holds runs by another loud: its code has changed since"):
        job.open_record(asked(), tmp_path / "out")
    assert job.open_record(asked(), tmp_path / "out", anyway=True).header is not None


def test_installed_packages_have_entry_points(monkeypatch):
    """The member is imported when it is used, not when it is listed."""
    value = "discover_rl.strategies.gaussian"
    point = metadata.EntryPoint("quiet", value, "discover_rl.strategies")
    broken = metadata.EntryPoint("broken", "no_such_module", "discover_rl.strategies")
    monkeypatch.setattr(metadata, "entry_points", lambda group: [point, broken])
    members: dict[str, str] = {"none": "nothing"}
    registry = Registry("strategy", "discover_rl.strategies", members, {}, ("Hyper", "make"))
    assert list(members) == ["none", "quiet", "broken"]
    assert registry.outside("none") is None
    assert registry.load("quiet") is importlib.import_module(value)
    assert members["quiet"].startswith("White Gaussian noise")
    with pytest.raises(UserError, match="The strategy broken cannot be imported: ModuleNotFound"):
        registry.load("broken")


@pytest.mark.slow
@pytest.mark.usefixtures("write")
def test_processes_of_their_own_know_it_too(tmp_path):
    words = [f"--set {name}={value}" for name, value in (SETTINGS | {"hidden": 8}).items()]
    command = ["train", "Pendulum-v1", "--strategy", "louder:loud", "--algorithm", "louder:patient"]
    command += ["--steps", "40", "--seeds", "2", *" ".join(words).split()]
    assert discover(*command, "--processes", "2", "--out", "two") == 0
    records = [Record(tmp_path / f"two/seed-{seed}/record.jsonl") for seed in (0, 1)]
    assert all(record.done for record in records)
    assert set(records[0].sources) == {"strategy_source", "algorithm_source"}
    assert discover(*command, "--processes", "1", "--out", "one") == 0
    assert "seed-0/record.jsonl" in files(tmp_path / "one")


@pytest.mark.usefixtures("write")
def test_it_trains(tmp_path):
    given = {"steps": 40, "observer": Observer(), "out": tmp_path / "out", **SETTINGS}
    (result,) = discover_rl.train("Pendulum-v1", strategy="louder:loud", **given)
    assert result.run["strategy"] == "loud"
    assert Record(result.path / "record.jsonl").done
