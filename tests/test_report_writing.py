"""Reports: digits, names in LaTeX and Markdown, what published scores span, what is left behind."""

import csv
import io
import json
import re

import pytest
from markdown_it import MarkdownIt

from discover_rl import report, store
from discover_rl.report import comparisons, data, style, summary, tables, writing
from discover_rl.stats import Interval
from tests.records import declare, fill, put

TWO = {"task": "Hopper-v5", "algorithm": "td3", "strategy": ["gaussian", "discover"]}


def analysed(study, out):
    everything = data.load(study, out)
    return everything, comparisons.analyse(everything)


# Digits


@pytest.mark.parametrize(
    ("scores", "texts"),
    [
        ([(3350.27, 297.7)], ["3350 ± 298"]),
        ([(16.5, 10.0)], ["16.5 ± 10.0"]),
        ([(0.0042, 0.0011)], ["0.00420 ± 0.00110"]),
        ([(-0.0042, 0.0011)], ["−0.00420 ± 0.00110"]),
        ([(-0.0001, 0.5)], ["0.000 ± 0.500"]),  # and no minus before 0
        ([(300.0, 20.0), (0.004, 0.001)], ["300.000 ± 20.000", "0.004 ± 0.001"]),
        ([(2000.0, 0.5), (3000.0, 300.0)], ["2000.0 ± 0.5", "3000.0 ± 300.0"]),
        ([(100.0, 1e-14)], ["100.0 ± 0.0"]),  # what is left of rounding is no spread
        ([(100.0, None)], ["100.0"]),
        ([(0.0, 0.0)], ["0.00 ± 0.00"]),
        ([(0.0042, None), (-0.00001, None)], ["0.004200", "−0.000010"]),
    ],
)
def test_digits_are_those_of_the_spread(scores, texts):
    shown = writing.digits(scores)
    found = [" ± ".join(shown(it) for it in pair if it is not None) for pair in scores]
    assert found == texts


def test_small_scores_are_not_written_as_nothing(tmp_path):
    study = declare(TWO, seeds=5)
    for cell in study.cells:
        for seed in cell.seeds:
            sign = -1 if cell.strategy == "discover" else 1
            put(tmp_path, cell, seed, [sign * (0.003 + 0.0001 * seed)] * 12)
    written = report.write(study, tmp_path)
    for name in ("md", "tex"):
        page = (tmp_path / f"report/tables/td3.{name}").read_text()
        assert "0.003200" in page
        assert "0.000158" in page
    assert not re.search(r"[−-]0\.0+\b", written.summary)
    assert summary.signed(Interval(-0.3, -200.0, 200.0)) == "+0 [−200, 200]"


# Names


def named(out, names):
    arms = "".join(
        f'[[arm]]\nname = {json.dumps(name)}\nstrategy = "{strategy}"\n'
        for name, strategy in zip(names, ("gaussian", "discover"), strict=True)
    )
    study = declare({"task": ["My-v0", "Your-v0"], "algorithm": "td3"}, seeds=5, more=arms)
    fill(out, study, lambda cell, seed: 100 + seed + 50 * (cell.strategy == "discover"))
    return study


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("α ε σ λ ω", r"$\alpha$ $\varepsilon$ $\sigma$ $\lambda$ $\omega$"),
        ("Σ Ω Δ Α ο", r"$\Sigma$ $\Omega$ $\Delta$ $A$ $o$"),
        ("a<b>c|d", r"a\textless{}b\textgreater{}c\textbar{}d"),
        ("σ_0 = 5%", r"$\sigma$\_0 = 5\%"),
    ],
)
def test_names_in_latex(text, right):
    assert writing.latex(text) == right


def test_every_greek_letter_has_a_name_that_latex_knows():
    for letter in "αβγδεζηθικλμνξοπρςστυφχψωΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩϵϕµ":
        assert re.fullmatch(r"\$(\\[A-Za-z]+|[A-Za-z])\$", writing.latex(letter)), letter
    assert writing.latex("ψω") == r"$\psi$$\omega$"
    assert writing.latex("ΧΨ") == r"$X$$\Psi$"


WICKED = ["a|b *c* _d_ <e> `f`", "[σ](x) ~g~ &lt; $h$"]


def shown(text):
    """What a reader of Markdown shows: texts of paragraphs, entries and lines, and what is bold."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    blocks = [it.children or [] for it in tokens if it.type == "inline"]
    assert {it.type for block in blocks for it in block} <= {
        *("text", "softbreak", "strong_open", "strong_close", "text_special"),
    }
    return ["".join(it.content for it in block) for block in blocks]


def test_names_in_markdown_are_shown_as_they_are(tmp_path):
    study = named(tmp_path, WICKED)
    written = report.write(study, tmp_path)
    table = shown((tmp_path / "report/tables/td3.md").read_text())
    text = shown((tmp_path / "report/summary.md").read_text())
    a, b = WICKED
    for name in WICKED:
        assert name in table
    assert any(line.startswith(f"“{b}” − “{a}” on My-v0: +50") for line in text)
    assert f"“{b}” − “{a}” on My-v0" in written.summary  # on a terminal without backslashes
    assert shown(writing.markdown("\\*x*\\")) == ["\\*x*\\"]
    assert r"a\|b \*c\* \_d\_ \<e\>" in (tmp_path / "report/summary.md").read_text()


def test_a_table_keeps_its_columns_whatever_the_names(tmp_path):
    study = named(tmp_path, ["a|b", "c|d|e"])
    _, (found,) = analysed(study, tmp_path)
    tokens = MarkdownIt("commonmark").enable("table").parse(tables.markdown(tables.overview(found)))
    kinds = [it.type for it in tokens]
    assert (kinds.count("th_open"), kinds.count("td_open")) == (3, 6)


# Published scores


@pytest.mark.parametrize(
    ("points", "said"),
    [
        (1001, None),
        (51, "Paper: last 10 evaluations, 9,000 steps; here: last 10, 180,000 steps."),
        (6, "Paper: last 10 evaluations, 9,000 steps; here: last 6, 1,000,000 steps."),
    ],
)
def test_what_published_scores_span_is_said_where_it_differs(tmp_path, points, said):
    study = declare(TWO, steps=1_000_000)
    fill(tmp_path, study, points=points)
    report.write(study, tmp_path)
    folder = tmp_path / "report"
    for name in ("tables/td3.md", "tables/td3-details.tex", "index.html"):
        page = (folder / name).read_text()
        assert "authors' released curves" in page
        assert "They are not targets." in page
        assert (said in page) if said else ("stretches of training" not in page), name
    row = next(csv.DictReader(io.StringIO((folder / "tables/td3.csv").read_text())))
    assert row["published_span"] == "10 evaluations over 9000 steps"
    assert (row["span"] == row["published_span"]) == (said is None)


def test_without_published_scores_there_is_nothing_to_tell_apart(tmp_path):
    study = declare(TWO, steps=2000)
    fill(tmp_path, study, points=51)
    _, (found,) = analysed(study, tmp_path)
    assert tables.source(found) == []


# What is left behind


def test_a_report_leaves_what_it_wrote_and_what_is_not_a_reports(tmp_path, monkeypatch):
    # What is in figures does not matter here, and takes long.
    monkeypatch.setattr(style, "rendered", lambda drawn: dict.fromkeys(style.FORMATS, b""))
    grid = TWO | {"task": ["Hopper-v5", "Swimmer-v5"], "env.reward_delay": [1, 5]}
    larger = declare(grid, seeds=5)
    fill(tmp_path, larger)
    before = report.write(larger, tmp_path).files
    folder = tmp_path / "report"
    own = [
        *("notes.md", "tables/mine.md", "tables/td3-mine.csv", "curves/td3-mine.png"),
        *("curves/td3/notes.txt", "curves/td3/Hopper-v5.png", "curves/mine/a-iqm.png"),
        "elsewhere/tables/td3.md",
    ]
    for name in own:
        store.write(folder / name, b"mine")
    smaller = declare(TWO | {"strategy": "discover"}, seeds=5)
    after = report.write(smaller, tmp_path).files
    assert set(before) - set(after)
    left = {it for it in folder.rglob("*") if it.is_file()}
    assert left == set(after) | {folder / name for name in own}
    assert all((folder / name).read_bytes() == b"mine" for name in own)
    assert not (folder / "curves/td3-settings").exists()  # nothing is left in it
