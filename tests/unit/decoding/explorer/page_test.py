"""Tests of the data and of the page that the explorer draws."""

import json

import numpy as np

from nmt_zoo.decoding.explorer.page import explorer_page, model_data
from tests.unit.decoding.comparison.page_test import Page

HOSTILE = "<script>alert('x')</script> \"quotes\" & \u202eright to left\u2028"


def data_of(page):
    """Returns the data of a page as the browser parses them."""
    return json.loads(Page(page).texts["script"][0])


def test_hostile_text_is_data_and_nothing_else():
    weights = np.random.default_rng(1).dirichlet(np.ones(4), size=(2, 3)).astype(np.float32)
    tokens = ["▁Hal", "lo", HOSTILE, "</s>"], ["▁Good", "▁day", "</s>"]
    model = model_data("a model", (HOSTILE, "Good day"), tokens, {"decoder/0/cross": weights})
    page = explorer_page({"models": [model]}, HOSTILE)
    source = data_of(page)["models"][0]["source"]
    assert source["text"] == HOSTILE
    # Tokens are numbered by their words.
    assert source["wordOf"] == [0, 0, 0, 1]
    assert source["words"][-1] == "</s>" and len(source["words"]) == 2
    assert "\u202e" not in page and "\u2028" not in page and "alert('x')</script>" not in page
    scripts = [attributes for tag, attributes in Page(page).tags if tag == "script"]
    assert scripts == [{"type": "application/json", "id": "explorer-data"}, {}]
