"""Pages of made-up studies."""

import json
import re

from discover_rl import studies
from discover_rl.report import comparisons, data, page
from tests.helpers.records import declare, write_record, write_records

EVIL = '</script><img src=x onerror="window.hacked=1"><!--'
EVIL_ARM = EVIL.replace("/", "")  # without slashes, as it is a folder's name
GRID = {
    "task": ["Hopper-v5", "My-v0"],
    "algorithm": "td3",
    "strategy": ["none", "gaussian", "discover"],
}
DIVERGED = {"event": "diverged", "step": 551, "quantity": "critic loss"}
ARMS = ["none", "discover", "noisynet", "coherent"]


def built(study, out, cache=None):
    """The page of a study."""
    return document(data.load(study, out), cache)


def document(everything, cache=None):
    """The page of what is recorded."""
    content = page.content(everything, comparisons.analyse(everything), cache=cache)
    return page.document(everything.study.name, content)


def data_in(text):
    """The data that a page holds."""
    (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    return json.loads(found)


def rising(out, study, points=23):
    """Runs that rise to levels of their own, of which the last cell's last seed failed."""
    for i, cell in enumerate(study.cells):
        for seed in cell.seeds:
            write_record(out, cell, seed, [(10.0 * i + seed) * k / points for k in range(points)])
    write_record(out, cell, seed, [50.0] * 12, end=False, event=DIVERGED)


def malicious(out):
    """A study all of whose texts try to run something."""
    arms = f'[[arm]]\nname = {json.dumps(EVIL_ARM)}\nstrategy = "discover"\n'
    arms += '[[arm]]\nname = "other"\nstrategy = "gaussian"\n'
    grid = {"task": EVIL, "algorithm": "td3"}
    made = declare(grid, more=arms)
    study = studies.Study(EVIL, EVIL, made.steps, made.cells)
    write_records(out, study)
    event = {"event": "crashed", "step": 551, "reason": EVIL}
    write_record(out, study.cells[0], 0, [1.0, 2.0], end=False, event=event)
    file = out / study.cells[0].names[1] / "record.jsonl"
    first, _, rest = file.read_text().partition("\n")
    header = json.loads(first) | {"commit": EVIL, "code": {EVIL: EVIL}}
    header["run"]["settings"] = {EVIL: EVIL, "__proto__": "x"}
    file.write_text(json.dumps(header) + "\n" + rest)
    return study
