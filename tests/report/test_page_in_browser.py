"""The page of a report in a browser, as a file and while it is served."""

import re

import numpy as np
import pytest

from tests.helpers.records import declare, write_record, write_records
from tests.report.pages import (
    ARMS,
    DIVERGED,
    EVIL,
    EVIL_ARM,
    GRID,
    built,
    malicious,
    rising,
)


@pytest.fixture(scope="module")
def study_file(tmp_path_factory):
    """A page of a study, with two algorithms, as a file."""
    out = tmp_path_factory.mktemp("study")
    study = declare(GRID | {"algorithm": ["td3", "ppo"]}, seeds=3)
    rising(out, study)
    (out / "index.html").write_text(built(study, out))
    return out / "index.html"


def opened(browser, address, **options):
    """The page in a browser, and a growing list of its requests, errors and console messages."""
    usual = {"viewport": {"width": 1200, "height": 900}}
    sheet = browser.new_context(**usual | options).new_page()
    messages = []
    sheet.on("console", lambda message: messages.append(message.text))
    sheet.on("pageerror", lambda error: messages.append(str(error)))
    sheet.on("request", lambda request: messages.append(request.url))
    sheet.goto(address)
    assert messages.pop(0) == address
    return sheet, messages


@pytest.fixture
def sheet(browser, study_file):
    sheet, messages = opened(browser, study_file.as_uri(), color_scheme="light")
    yield sheet
    sheet.context.close()
    assert set(messages) <= {"data:,", study_file.as_uri()}


def lines(sheet):
    """Labels of the lines in each panel."""
    return [
        [line.get_attribute("data-label") for line in panel.query_selector_all("g.line")]
        for panel in sheet.query_selector_all("#charts svg")
    ]


def strokes(sheet):
    """The paths of all curves."""
    return [path.get_attribute("d") for path in sheet.query_selector_all("#charts .stroke")]


def test_a_click_on_the_legend_hides_a_line(sheet):
    assert lines(sheet) == [GRID["strategy"]] * 2
    axis = sheet.locator("#charts .tick").all_text_contents()
    button = sheet.locator("#legend").get_by_role("button", name="discover")
    button.click()
    assert lines(sheet) == [["none", "gaussian"]] * 2
    assert button.get_attribute("aria-pressed") == "false"
    assert sheet.locator("#charts .tick").all_text_contents() != axis  # the axis adapts
    sheet.keyboard.press("Enter")  # the focus is where it was
    assert lines(sheet) == [GRID["strategy"]] * 2


def test_choosing_changes_the_curves(sheet):
    every = strokes(sheet)
    sheet.select_option("#task", "My-v0")
    one = strokes(sheet)
    assert len(every) == 6
    assert len(one) == 3
    assert sheet.locator("figcaption").inner_text() == "My-v0"
    before = sheet.locator("#charts svg").inner_html()
    sheet.get_by_role("button", name="Mean ± ½ sd", exact=True).click()
    assert sheet.locator("#charts svg").inner_html() != before
    sheet.get_by_role("button", name="ppo", exact=True).click()
    assert len(strokes(sheet)) == 6
    sheet.locator("figure").get_by_role("button", name="Hopper-v5").click()
    assert sheet.locator("#task").input_value() == "Hopper-v5"


def test_pointing_and_arrow_keys_read_the_curves(sheet):
    sheet.select_option("#task", "Hopper-v5")
    chart = sheet.locator("#charts svg")
    chart.hover(position={"x": 600, "y": 100})
    tip = sheet.locator("#tip")
    text = tip.inner_text()
    assert re.search(r"step \d", text)
    assert re.search(r"discover\s+[\d.]+\s+\[[\d.]+, [\d.]+\]\s+3 runs", text)
    sheet.mouse.move(2, 2)
    assert tip.is_hidden()
    chart.focus()
    sheet.keyboard.press("ArrowRight")
    assert "step 0\n" in tip.inner_text()
    sheet.keyboard.press("ArrowRight")
    assert "step 50\n" in tip.inner_text()
    sheet.keyboard.press("Escape")
    assert tip.is_hidden()


def test_a_click_on_a_head_sorts(sheet):
    sheet.select_option("#task", "My-v0")
    table = sheet.locator("#table-td3-4")
    head = table.get_by_role("button", name="mean")

    def column():
        texts = table.locator("tbody tr td:nth-child(6)").all_inner_texts()
        return [float(text.replace("−", "-")) for text in texts if text != "–"]

    head.click()
    assert column() == sorted(column(), reverse=True)
    cell = table.locator("thead th").nth(5)
    assert cell.get_attribute("aria-sort") == "descending"
    head.click()
    assert column() == sorted(column())
    assert cell.get_attribute("aria-sort") == "ascending"
    assert len(set(column())) > 3


def test_the_verdict_is_seen_at_once(browser, tmp_path):
    """Scores for which all texts are long."""
    study = declare({"task": "Hopper-v5", "algorithm": "ppo", "strategy": ARMS}, 1_000_000, 10)
    rng = np.random.default_rng(0)
    for cell in study.cells[:-1]:
        for seed in cell.seeds:
            top = rng.normal(2500, 900) + 400 * (cell.strategy == "noisynet")
            write_record(tmp_path, cell, seed, (top * np.linspace(0, 1, 51)).tolist())
    write_record(tmp_path, study.cells[1], 9, [1.0, 2.0], end=False, event=DIVERGED)
    (tmp_path / "index.html").write_text(built(study, tmp_path))
    sheet, _ = opened(browser, (tmp_path / "index.html").as_uri())
    table = sheet.locator("#table-ppo-1")
    heads = table.locator("thead th").all_inner_texts()
    assert heads[:3] == ["task", "arm", "verdict"]
    assert "resamples that never reach it" in heads
    assert ", never]" in table.inner_text()
    assert "no difference can be claimed where runs failed, as 1 here did" in table.inner_text()
    assert table.evaluate("e => e.scrollWidth <= e.parentElement.clientWidth")
    legend = sheet.locator("#legend").get_by_role("button")
    drawn = {
        button.inner_text().split("\n")[0]: button.locator("svg").count() for button in legend.all()
    }
    assert drawn == {"none": 1, "discover": 1, "noisynet": 1, "coherent": 0}
    assert "“none”: 10 runs; " in sheet.locator("#caption").inner_text()
    assert "“coherent”: not begun." in sheet.locator("#caption").inner_text()
    sheet.context.close()


def test_runs_are_filtered_and_open(sheet):
    sheet.fill("#filter", "my-v0 failed")
    assert sheet.locator("#counted").inner_text() == "1 of 36 runs"
    sheet.locator(".expand").click()
    assert "critic loss is not finite" in sheet.locator("tr.details").inner_text()
    assert "numpy" in sheet.locator("tr.details").inner_text()


def test_light_and_dark(sheet):
    def looks():
        ask = "e => [getComputedStyle(document.body).backgroundColor, getComputedStyle(e).stroke]"
        return sheet.eval_on_selector("[data-label=gaussian] .stroke", ask)

    light = looks()
    sheet.get_by_role("button", name="Change to dark colours").click()
    dark = looks()
    assert all(a != b for a, b in zip(light, dark, strict=True))
    # Chromium hands what a page stores to another process: a reload can be sooner than that.
    for _ in range(20):
        sheet.reload()
        if looks() == dark:
            break
        sheet.wait_for_timeout(250)
    assert looks() == dark
    sheet.get_by_role("button", name="Change to light colours").click()
    assert looks() == light
    sheet.evaluate("localStorage.clear()")
    sheet.emulate_media(color_scheme="dark")
    sheet.reload()
    assert looks() == dark
    sheet.emulate_media(media="print")
    assert looks() == light


@pytest.mark.parametrize("width", [360, 700])
def test_it_fits_a_phone(sheet, width):
    sheet.set_viewport_size({"width": width, "height": 700})
    for task in ("", "My-v0"):
        sheet.select_option("#task", task)
        over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert sheet.evaluate(over) == 0


def test_malicious_names_are_shown_and_do_nothing(browser, tmp_path):
    study = malicious(tmp_path / "out")
    (tmp_path / "index.html").write_text(built(study, tmp_path / "out"))
    sheet, messages = opened(browser, (tmp_path / "index.html").as_uri())
    assert sheet.locator("h1").inner_text() == EVIL
    for button in sheet.locator(".expand").all():
        button.click()
    assert EVIL in sheet.locator("tr.details").nth(1).inner_text()
    sheet.locator("#charts svg").hover(position={"x": 60, "y": 50})
    assert EVIL_ARM in sheet.locator("#tip").inner_text()
    assert sheet.evaluate("window.hacked") is None
    assert sheet.locator("img").count() == 0
    assert [text for text in messages if text != "data:,"] == []
    sheet.context.close()


@pytest.mark.parametrize("size", [12_345.0, 123_456.0])
def test_long_readings_fit_a_phone(browser, tmp_path, size):
    study = declare(GRID | {"task": "My-v0"}, seeds=10)
    write_records(tmp_path, study, lambda cell, seed: -size * (seed + 1))
    (tmp_path / "index.html").write_text(built(study, tmp_path))
    sheet, _ = opened(browser, (tmp_path / "index.html").as_uri())
    sheet.set_viewport_size({"width": 360, "height": 700})
    sheet.locator("#charts svg").hover(position={"x": 200, "y": 100})
    assert "10 runs" in sheet.locator("#tip").inner_text()
    for box in (sheet.locator("#tip").bounding_box(), sheet.locator("#tip table").bounding_box()):
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 360
    sheet.context.close()


def test_a_page_that_is_watched_shows_what_is_new_and_keeps_what_was_chosen(served, browser):
    study, out, address = served
    sheet, messages = opened(browser, address)
    assert [path.count("L") for path in strokes(sheet)] == [1, 11]  # each on steps of its own
    sheet.locator("#legend").get_by_role("button", name="discover").click()
    sheet.fill("#filter", "none")
    assert sheet.locator("#runs-table tbody td").nth(2).inner_text() == "500"
    write_record(out, study.cells[0], 0, [1.0, 2.0, 99.0])  # it grew, and came to its end
    sheet.locator("#states", has_text="2 done").wait_for()
    assert sheet.locator("#runs-table tbody td").nth(2).inner_text() == "1,000"
    assert sheet.locator("#filter").input_value() == "none"
    assert lines(sheet) == [["none"]]
    chart = sheet.locator("#charts svg")
    chart.hover(position={"x": chart.bounding_box()["width"] - 15, "y": 100})
    assert "step 1,000" in sheet.locator("#tip").inner_text()
    assert sheet.locator("#live").inner_text() == "live"
    assert {text for text in messages if text != "data:,"} == {f"{address}data.json"}
    sheet.context.close()


def test_axes_have_names_and_the_page_ends_with_its_conclusion(sheet):
    assert sheet.locator("#charts svg .name").all_text_contents() == [
        *("environment steps", "return"),
        *("environment steps", "return"),
    ]
    said = sheet.locator("#concluded").inner_text()
    assert "against “gaussian”" in said
    assert sheet.locator("#finding").inner_text() == said
    last = sheet.locator("main > section").last
    assert last.get_attribute("id") == "conclusion"


def test_charts_fill_the_width_of_the_page(sheet):
    boxes = [it.bounding_box() for it in sheet.locator("#charts svg").all()]
    right = max(box["x"] + box["width"] for box in boxes)
    place = sheet.locator("#charts").bounding_box()
    assert right == pytest.approx(place["x"] + place["width"], abs=2)


def test_a_phone_shows_that_a_table_goes_on(browser, study_file):
    sheet, _ = opened(browser, study_file.as_uri(), viewport={"width": 390, "height": 844})
    frame = sheet.locator("#scores .frame.more-right").first
    assert frame.locator(".hint").is_visible()
    frame.locator(".scroll").evaluate("box => { box.scrollLeft = box.scrollWidth; }")
    sheet.locator("#scores .frame.more-left").first.wait_for()
    first = sheet.locator("#scores .frame.more-left tbody th").first
    assert first.bounding_box()["x"] >= 0  # the first column stays in sight
    assert first.locator(".row-name").bounding_box()["height"] < 30  # one line
    assert sheet.locator("#scores .frame.more-left .hint").first.is_hidden()
    sheet.context.close()
