"""Tests of the page of a comparison in a browser: order, search, width, accessibility."""

import pytest

from nmt_zoo.decoding.comparison.words import Texts
from tests.browser import opener, violations
from tests.unit.decoding.comparison.page_test import HOSTILE, make_page

REFERENCE = ["a small dog runs", "the cat sees a house", "one big bird", "two old men sing"]
OUTPUTS = {
    "first": ["a small dog runs", "x y z", "one big bird", "two men"],
    "second <b>": ["a small cat", "the cat sees a house", "one big bird", ""],
}


@pytest.fixture
def opened(browser, tmp_path):
    """Returns a function that opens the page of some `Texts`; then, nothing was asked for."""

    with opener(browser, tmp_path / "page.html") as open_text:

        def open_page(lines):
            open_text(make_page(lines))
            return browser

        yield open_page


def lines_shown(driver):
    return [int(each.text.split()[1]) for each in driver.find_elements("css selector", "h3")]


def choose(driver, name, value):
    driver.find_element("css selector", f"#{name} option[value='{value}']").click()


def test_an_accessible_page_orders_by_the_difference_of_two_systems(opened):
    driver = opened(Texts(["s"] * 4, REFERENCE, OUTPUTS))
    assert violations(driver) == []
    assert lines_shown(driver) == [1, 2, 3, 4]
    choose(driver, "order", "second")
    assert lines_shown(driver)[0] == 2
    choose(driver, "order", "worst")
    assert lines_shown(driver)[0] == 4
    choose(driver, "order", "first")
    assert lines_shown(driver)[2:] == [3, 2]
    choose(driver, "second", "0")
    assert lines_shown(driver) == [1, 2, 3, 4]
    assert driver.find_element("css selector", "tr.shown th").text == "second <b>"


def test_sentences_are_searched_and_come_in_pages(opened):
    texts = [f"sentence {n} of many" for n in range(1, 121)]
    driver = opened(Texts(texts, texts, {"one": texts, "two": texts[::-1]}))
    more = driver.find_element("css selector", "#more")
    assert lines_shown(driver) == [*range(1, 51)]
    more.click()
    more.click()
    assert lines_shown(driver) == [*range(1, 121)] and not more.is_displayed()
    driver.find_element("css selector", "#words").send_keys("line 77")
    assert lines_shown(driver) == [77]
    assert driver.find_element("css selector", "#count").text == "1 of 120 sentences"


def test_hostile_lines_do_not_widen_the_page(opened):
    outputs = {"a" * 90: ["y" * 5000] * len(HOSTILE), "b": HOSTILE}
    driver = opened(Texts(HOSTILE, ["x"] * len(HOSTILE), outputs))
    before = driver.get_window_size()
    driver.set_window_size(500, 900)
    root = driver.find_element("css selector", "html")
    assert int(root.get_property("scrollWidth")) <= int(root.get_property("clientWidth"))
    driver.set_window_size(**before)
    assert driver.title == "Translations"
