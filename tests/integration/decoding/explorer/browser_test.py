"""Tests of the explorer's pages in a browser: by pointer, by keyboard, for accessibility."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import numpy as np
import pytest

from nmt_zoo.decoding.alignment.subword_merging import merge_words
from nmt_zoo.decoding.explorer.page import explorer_page, model_data
from tests.browser import opener, packages, violations
from tests.running import ROOT

HOSTILE = "<script>document.title='x'</script> \"q\" 'q' & \u202edlrow"
SOURCE = ["▁the", "▁old", "▁teach", "er", "▁<b>", HOSTILE, "</s>"]
TARGET = ["▁der", "▁al", "te", "▁Lehrer", "▁كتاب", "</s>"]
TEXTS = "the old teacher <b>" + HOSTILE, "der alte Lehrer كتاب"


def random_maps(layers=2, heads=3):
    """Returns the maps of a Transformer with random weights."""
    rng = np.random.default_rng(3)
    sizes = {"encoder/{}/self": (7, 7), "decoder/{}/self": (6, 6), "decoder/{}/cross": (6, 7)}
    return {
        name.format(layer): rng.dirichlet(np.full(columns, 0.2), (heads, rows))
        for name, (rows, columns) in sizes.items()
        for layer in range(layers)
    }


def translation(tokens, **facts):
    """Returns a TRANSLATION of `explorer.js`."""
    steps = [
        {"token": token, "logProb": -0.1 * i, "best": [[token, -0.1 * i], [HOSTILE, -3.0]]}
        for i, token in enumerate(tokens)
    ]
    common = {"text": "", "score": -0.5, "logProb": -1.0, "finished": True, "given": False}
    return {**common, "shown": False, **facts, "steps": steps}


MAPS = random_maps()
WHOLE = model_data(
    HOSTILE,
    TEXTS,
    (SOURCE, TARGET),
    MAPS,
    translations=[translation(TARGET, shown=True), translation(TARGET[:1] + TARGET[-1:])],
)
PLAIN = model_data("plain", TEXTS, (SOURCE, TARGET), {"decoder/0/cross": MAPS["decoder/0/cross"]})
NOTHING = model_data("without", TEXTS, (SOURCE, TARGET), {})
CHOICE = {"kind": "cross", "layer": 2, "head": 1, "merge": False}


@pytest.fixture
def opened(browser, tmp_path):
    """Returns a function that opens a page; at its end, checks that all was well in the browser."""

    with opener(browser, tmp_path / "page.html") as open_text:

        def open_page(text):
            open_text(text)
            return Page(browser)

        yield open_page


class Page:
    """A page in the browser."""

    def __init__(self, driver):
        self.driver = driver

    def all(self, selector):
        return self.driver.find_elements("css selector", selector)

    def first(self, selector):
        return self.driver.find_element("css selector", selector)

    def choose(self, name, value):
        self.first(f"select[name={name}] option[value='{value}']").click()

    def press(self, *keys):
        self.driver.switch_to.active_element.send_keys(*keys)

    def reading(self):
        return self.first(".reading").text

    def shown(self, view=""):
        """Returns the choice of the first view, or of the one that a selector names."""
        lists = [self.first(f"{view}select[name={name}]") for name in ("kind", "layer", "head")]
        return [each.get_attribute("value") for each in lists]

    def numbers(self):
        cells = "return [...document.querySelectorAll('.numbers tbody tr')].map("
        cells += "row => [...row.querySelectorAll('td')].map(cell => Number(cell.textContent)))"
        return np.array(self.driver.execute_script(cells))


def shown_page(*models, **choice):
    """Returns the page of some models."""
    return explorer_page({"models": models, "choice": {**CHOICE, **choice}}, HOSTILE)


def test_the_matrix_of_every_choice_has_the_weights_of_the_model(opened):
    page = opened(shown_page(WHOLE))
    page.first(".numbers summary").click()
    tokens = {"cross": (SOURCE, TARGET), "encoder": (SOURCE, SOURCE)}
    tokens["decoder"] = (["<s>", *TARGET[:-1]], TARGET)
    names = {
        "cross": "decoder/{}/cross",
        "encoder": "encoder/{}/self",
        "decoder": "decoder/{}/self",
    }
    choices = [("cross", 1, 3), ("encoder", "mean", "mean"), ("decoder", 2, "mean")]
    for kind, layer, head in choices:
        for name, value in (("kind", kind), ("layer", layer), ("head", head)):
            page.choose(name, value)
        layers = (0, 1) if layer == "mean" else (layer - 1,)
        weights = np.mean([MAPS[names[kind].format(i)] for i in layers], axis=0)
        weights = weights.mean(axis=0) if head == "mean" else weights[head - 1]
        np.testing.assert_allclose(page.numbers(), weights, atol=0.01)
        page.first("input[name=merge]").click()
        expected = merge_words(weights, *tokens[kind])[0]
        np.testing.assert_allclose(page.numbers(), expected, atol=0.02)
        page.first("input[name=merge]").click()


def test_pointing_at_a_word_shows_where_it_looks(opened):
    from selenium.webdriver import ActionChains

    page = opened(shown_page(WHOLE))
    weights = MAPS["decoder/1/cross"][0]
    item = page.all(".words:last-child li")[3]
    ActionChains(page.driver).move_to_element(item).perform()
    best = weights[3].argmax()
    named = re.match(r"_Lehrer attends to (.*?) ([\d.]+)", page.reading())
    assert named[1].startswith(SOURCE[best][:4].replace("▁", "_")) and float(
        named[2]
    ) == pytest.approx(weights[3, best], abs=0.01)
    shares = page.driver.execute_script(
        "return [...document.querySelectorAll('.words:first-child li')].map("
        "item => Number(item.style.getPropertyValue('--share')))"
    )
    np.testing.assert_allclose(shares, weights[3], atol=0.01)
    shown = "return [...document.querySelectorAll('.link')].filter("
    shown += "line => line.style.display !== 'none').map(line => Number(line.getAttribute('y1')))"
    lines = [22 * column + 11 for column in np.flatnonzero(weights[3] > 0.02)]
    assert page.driver.execute_script(shown) == lines
    item = page.all(".words:first-child li")[0]
    ActionChains(page.driver).move_to_element(item).perform()
    assert page.reading().startswith("_the is attended to by ")
    ActionChains(page.driver).move_to_element(page.first(".matrix .cell")).perform()
    assert re.fullmatch(r"(?s).* attends to .* [\d.]+", page.reading())


def test_words_of_which_the_model_is_unsure_are_underlined(opened):
    sure = [0.9, 0.8, 0.5, 0.95, 0.2, 1.0]  # "alte" is in two pieces.
    page = opened(shown_page({**WHOLE, "confidence": sure}, PLAIN, merge=True))
    marked = ".view:first-child .words li.unsure"
    assert [item.get_attribute("title") for item in page.all(marked)] == [
        "alte (40% sure)",
        "كتاب (20% sure)",
    ]
    assert "underline" in page.first(marked).value_of_css_property("text-decoration-line")
    assert "less than 50% sure" in page.reading() and not page.all(f".view:last-child {marked}")
    page.all(marked)[0].click()
    assert page.reading().startswith("alte (40% sure) attends to")
    page.choose("kind", "encoder")
    assert not page.all(marked)


def test_all_is_reached_by_keyboard(opened):
    from selenium.webdriver.common.keys import Keys

    page = opened(shown_page(WHOLE))
    reached = []
    for _ in range(14):
        page.press(Keys.TAB)
        active = page.driver.switch_to.active_element
        reached.append(active.get_attribute("name") or active.get_attribute("role"))
        if reached[-1] == "listbox":
            break
    assert reached == ["kind", "layer", "head", "merge", "listbox"]
    page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert page.reading().startswith("_old is attended to by")
    page.press(Keys.ARROW_DOWN)
    page.press(Keys.END)
    assert page.reading().startswith("</s> attends to")
    active = page.driver.switch_to.active_element
    chosen = page.first(f"#{active.get_attribute('aria-activedescendant')}")
    assert chosen.get_attribute("aria-selected") == "true" and chosen.text == "</s>"
    page.press(Keys.ESCAPE)
    assert page.reading().startswith("Point at a word")
    page.all(".layer button")[2].click()
    assert page.shown() == ["cross", "1", "3"]


def test_the_choices_of_the_search_are_stepped_through(opened):
    page = opened(shown_page(WHOLE))
    (back, forward), rows = page.all(".beam button"), ".beam tbody tr"
    assert not back.is_enabled() and "token 1 of 6" in page.first(".beam output").text
    forward.click()
    forward.click()
    first, second = (row.text for row in page.all(rows))
    assert "81.9%" in first and "-0.30" in first and "ended" in second
    assert page.first(f"{rows} strong").text == "te"
    assert page.reading().startswith("te attends to")
    page.first("input[name=merge]").click()
    forward.click()
    assert page.reading().startswith("Lehrer attends to")


def test_links_have_names_and_tokens_without_probabilities_have_no_columns(opened):
    row = translation(TARGET, shown=True)
    row["steps"] = [{**step, "best": []} for step in row["steps"]]
    links = np.eye(6, 7)[None]
    maps = {"links": links, "phrases": links}
    model = model_data("phrases", TEXTS, (SOURCE, TARGET), maps, translations=[row])
    page = opened(explorer_page({"models": [model]}, "phrases"))
    assert page.shown() == ["links", "1", "1"] and not page.all(".layer button")
    assert page.all(".words:last-child li")[1].text == "alte"  # Subwords are merged.
    page.all(".words:last-child li")[1].click()
    assert page.reading() == "alte is linked to old 0.50, teacher 0.50"
    headings = [heading.text for heading in page.all(".beam thead th")]
    assert headings == ["number", "translation", "score"]


def test_the_matrix_is_saved_as_a_picture_by_itself(opened):
    page = opened(shown_page(WHOLE))
    page.driver.execute_script("document.addEventListener('click', (e) => e.preventDefault())")
    page.first("a[download]").click()
    address = page.first("a[download]").get_attribute("href")
    svg = ElementTree.fromstring(unquote(address.partition(",")[2]))
    fills = [part.get("fill") for part in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert fills == ["rgb(27, 27, 31)"] * 13 and "_teach" in "".join(svg.itertext())


def test_hostile_text_is_shown_as_text(opened):
    page = opened(shown_page(WHOLE, NOTHING))
    text = page.first("main").get_attribute("textContent")
    shown = HOSTILE.replace("\u202e", "\\u202e")
    assert text.count(shown) >= 4 and "\u202e" not in text
    assert page.driver.title == shown and not page.all("main script, main b")
    assert len(page.all(".view")) == 2
    assert "This model has no attention to show." in page.all(".view")[1].text


def test_models_side_by_side_have_one_choice_and_one_scale(opened):
    maps = {"decoder/0/cross": np.full([1, 6, 7], 0.15)}
    faint = model_data("faint", TEXTS, (SOURCE, TARGET), maps)
    assert opened(shown_page(faint)).first(".scale").text.split() == ["weight", "0", "0.3"]
    page = opened(shown_page(WHOLE, PLAIN, faint))
    assert {bar.text.split()[-1] for bar in page.all(".scale")} == {"1"}
    page.choose("layer", 1)
    page.choose("head", 3)
    assert page.shown(".view:nth-child(2) ") == ["cross", "1", "3"]
    assert page.shown(".view:nth-child(3) ") == ["cross", "1", "1"]
    page.choose("kind", "encoder")
    assert page.shown()[0] == "encoder" and page.shown(".view:nth-child(2) ")[0] == "cross"
    page = opened(explorer_page({"models": [{**WHOLE, "choice": {"layer": 2, "head": 3}}]}, "a"))
    assert page.shown() == ["cross", "2", "3"]


def test_a_long_sentence_fits_on_a_phone(opened, browser):
    tokens = [f"▁word{i}" for i in range(41)] + ["</s>"]
    maps = {"decoder/0/cross": np.full([2, 42, 42], 1 / 42)}
    texts, both = ("a text", "its translation"), (tokens, tokens)
    shown = [translation(tokens, shown=True)]
    model = model_data("long", texts, both, maps, translations=shown)
    size = {"width": 390, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    page = opened(shown_page(model))
    assert browser.execute_script("return document.documentElement.scrollWidth") == 390
    assert page.first(".sentences").size["height"] < 600
    table, around = page.first(".beam table"), page.first(".beam .scrolled")
    assert table.size["width"] <= around.size["width"]
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_serious_is_found_by_axe(opened, browser, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    page = opened(shown_page(WHOLE, PLAIN))
    for summary in page.all(".numbers summary"):
        summary.click()
    background = page.first("body").value_of_css_property("background-color")
    assert (background == "rgba(255, 255, 255, 1)") == (scheme == "light")
    assert violations(browser) == []
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def test_scripts_of_pages_pass_the_linter():
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    eslint = packages() / ".bin" / "eslint"
    rules = ROOT / "tests" / "javascript" / "eslint.config.mjs"
    command = [eslint, "--config", rules, "--format=json", "nmt_zoo"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert {Path(each["filePath"]).name for each in found} >= {"explorer.js", "server.js"}
    assert [(each["filePath"], each["messages"]) for each in found if each["messages"]] == []
