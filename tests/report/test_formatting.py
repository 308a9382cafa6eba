"""Reports: digits, names in LaTeX and Markdown, what published scores span, and old files."""

import csv
import io
import json
import re

import pytest
from markdown_it import MarkdownIt

from discover_rl import report
from discover_rl.report import formatting, learning_curves, style, summary, tables
from discover_rl.report.resampling import Interval
from discover_rl.storage import files
from tests.helpers.records import analysed, declare, write_record, write_records

TWO = {"task": "Hopper-v5", "algorithm": "td3", "strategy": ["gaussian", "discover"]}


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
    text = formatting.number_format(scores)
    found = [" ± ".join(text(number) for number in pair if number is not None) for pair in scores]
    assert found == texts


def test_small_scores_are_not_written_as_0(tmp_path):
    study = declare(TWO, seeds=5)
    for cell in study.cells:
        for seed in cell.seeds:
            sign = -1 if cell.strategy == "discover" else 1
            write_record(tmp_path, cell, seed, [sign * (0.003 + 0.0001 * seed)] * 12)
    written = report.write(study, tmp_path)
    for name in ("md", "tex"):
        page = (tmp_path / f"report/tables/td3.{name}").read_text()
        assert "0.003200" in page
        assert "0.000158" in page
    assert not re.search(r"[−-]0\.0+\b", written.summary)
    assert summary.interval_text(Interval(-0.3, -200.0, 200.0)) == "+0 [−200, 200]"


# Names


def study_with_arms(out, names):
    """A study with two arms of these names, the second of which is better."""
    arms = "".join(
        f'[[arm]]\nname = {json.dumps(name)}\nstrategy = "{strategy}"\n'
        for name, strategy in zip(names, ("gaussian", "discover"), strict=True)
    )
    study = declare({"task": ["My-v0", "Your-v0"], "algorithm": "td3"}, seeds=5, more=arms)
    write_records(out, study, lambda cell, seed: 100 + seed + 50 * (cell.strategy == "discover"))
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
    assert formatting.latex(text) == right


def test_every_greek_letter_has_a_name_that_latex_knows():
    for letter in "αβγδεζηθικλμνξοπρςστυφχψωΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩϵϕµ":
        assert re.fullmatch(r"\$(\\[A-Za-z]+|[A-Za-z])\$", formatting.latex(letter)), letter
    assert formatting.latex("ψω") == r"$\psi$$\omega$"
    assert formatting.latex("ΧΨ") == r"$X$$\Psi$"


def test_latex_is_escaped(tmp_path):
    name = "50% & a_b {x} #1 $y$ ~^"
    arms = f'[[arm]]\nname = {json.dumps(name)}\nstrategy = "discover"\n'
    grid = {"task": "My-v0", "algorithm": "td3"}
    study = declare(grid, more=arms + '[[arm]]\nname = "other"\nstrategy = "gaussian"\n')
    write_records(tmp_path, study)
    _, (found,) = analysed(study, tmp_path)
    text = tables.latex(tables.overview(found))
    assert formatting.latex("\\") == r"\textbackslash{}"
    right = r"50\% \& a\_b \{x\} \#1 \$y\$ \textasciitilde{}\textasciicircum{}"
    assert right in text
    rows = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(rows) == 3
    assert all(line.replace(r"\&", "").count("&") == 1 for line in rows)
    # A dollar in it is no mathematics.
    assert learning_curves.grid(found.group, "iqm", {})["png"]


WICKED = ["a|b *c* _d_ <e> `f`", "[σ](x) ~g~ &lt; $h$"]


def rendered(text):
    """What Markdown looks like to a reader: texts of paragraphs, entries and lines."""
    tokens = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    blocks = [token.children or [] for token in tokens if token.type == "inline"]
    assert {token.type for block in blocks for token in block} <= {
        *("text", "softbreak", "strong_open", "strong_close", "text_special"),
    }
    return ["".join(token.content for token in block) for block in blocks]


def test_names_in_markdown_are_shown_as_they_are(tmp_path):
    study = study_with_arms(tmp_path, WICKED)
    written = report.write(study, tmp_path)
    table = rendered((tmp_path / "report/tables/td3.md").read_text())
    text = rendered((tmp_path / "report/summary.md").read_text())
    a, b = WICKED
    for name in WICKED:
        assert name in table
    assert any(line.startswith(f"“{b}” − “{a}” on My-v0: +50") for line in text)
    assert f"“{b}” − “{a}” on My-v0" in written.summary  # on a terminal without backslashes
    assert rendered(formatting.markdown("\\*x*\\")) == ["\\*x*\\"]
    assert formatting.markdown("\x1b[2J") == r"\\x1b[2J"  # which a terminal would obey
    assert r"a\|b \*c\* \_d\_ \<e\>" in (tmp_path / "report/summary.md").read_text()


def test_a_table_keeps_its_columns_whatever_the_names(tmp_path):
    study = study_with_arms(tmp_path, ["a|b", "c|d|e"])
    _, (found,) = analysed(study, tmp_path)
    tokens = MarkdownIt("commonmark").enable("table").parse(tables.markdown(tables.overview(found)))
    kinds = [token.type for token in tokens]
    assert (kinds.count("th_open"), kinds.count("td_open")) == (3, 6)


# Published scores


@pytest.mark.parametrize(
    ("points", "note"),
    [
        (1001, None),
        (51, "Paper: last 10 evaluations, 9,000 steps; here: last 10, 180,000 steps."),
        (6, "Paper: last 10 evaluations, 9,000 steps; here: the last one alone."),
    ],
)
def test_a_note_says_what_published_scores_span_where_it_differs(tmp_path, points, note):
    study = declare(TWO, steps=1_000_000)
    write_records(tmp_path, study, points=points)
    report.write(study, tmp_path)
    folder = tmp_path / "report"
    for name in ("tables/td3.md", "tables/td3-details.tex", "index.html"):
        page = (folder / name).read_text()
        assert "authors' released curves" in page
        assert "They are not targets." in page
        assert (note in page) if note else ("stretches of training" not in page), name
    row = next(csv.DictReader(io.StringIO((folder / "tables/td3.csv").read_text())))
    assert row["published_span"] == "10 evaluations over 9000 steps"
    assert (row["span"] == row["published_span"]) == (note is None)


def test_without_published_scores_there_is_no_note(tmp_path):
    study = declare(TWO, steps=2000)
    write_records(tmp_path, study, points=51)
    _, (found,) = analysed(study, tmp_path)
    assert tables.published_remarks(found) == []


# Old files


def test_a_report_removes_an_earlier_reports_files_and_no_others(tmp_path, monkeypatch):
    # Figures do not matter here, and take long.
    monkeypatch.setattr(style, "figure_files", lambda figure: dict.fromkeys(style.FORMATS, b""))
    grid = TWO | {"task": ["Hopper-v5", "Swimmer-v5"], "env.reward_delay": [1, 5]}
    larger = declare(grid, seeds=5)
    write_records(tmp_path, larger)
    before = report.write(larger, tmp_path).files
    folder = tmp_path / "report"
    own = [
        *("notes.md", "tables/mine.md", "tables/td3-mine.csv", "curves/td3-mine.png"),
        *("curves/td3/notes.txt", "curves/td3/Hopper-v5.png", "curves/mine/a-iqm.png"),
        "elsewhere/tables/td3.md",
    ]
    for name in own:
        files.write(folder / name, b"mine")
    smaller = declare(TWO | {"strategy": "discover"}, seeds=5)
    write_records(tmp_path, smaller)
    after = report.write(smaller, tmp_path).files
    assert set(before) - set(after)
    left = {path for path in folder.rglob("*") if path.is_file()}
    assert left == set(after) | {folder / name for name in own}
    assert all((folder / name).read_bytes() == b"mine" for name in own)
    assert not (folder / "curves/td3-settings").exists()  # nothing is left in it
