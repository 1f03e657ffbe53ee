"""A Chromium without a window, for tests of pages."""

import contextlib
import json
import shutil
from pathlib import Path

import pytest

_PACKAGES = Path(__file__).parent / "javascript" / "node_modules"


def packages():
    """Returns the folder of the packages of npm; skips without it."""
    if not _PACKAGES.exists():
        pytest.skip("`npm ci --prefix tests/javascript` has not been run")
    return _PACKAGES


@contextlib.contextmanager
def opener(driver, path):
    """Yields a function that opens a text as a page; then, checks requests and the log."""

    def open_page(text):
        path.write_text(text, encoding="utf-8")
        requested(driver)
        driver.get_log("browser")
        driver.get(path.as_uri())

    yield open_page
    assert all(url.startswith(("file:", "data:")) for url in requested(driver))
    assert driver.get_log("browser") == []


@contextlib.contextmanager
def chromium():
    """Yields a driver of selenium that logs console and network; skips without Chromium."""
    webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    driver = shutil.which("chromedriver")
    browser = shutil.which("chromium")
    if not driver or not browser:
        pytest.skip("chromium and chromium-driver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    # With the path of the driver, selenium does not look for one in the network.
    found = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield found
    finally:
        found.quit()


def requested(driver):
    """Returns the addresses that the browser has asked for since the last call."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [each for each in messages if each["method"] == "Network.requestWillBeSent"]
    return [each["params"]["request"]["url"] for each in sent]


def violations(driver):
    """Returns what axe finds inaccessible in the page: (rule, impact, first element)."""
    driver.execute_script((packages() / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    found = driver.execute_async_script("axe.run().then(arguments[0])")["violations"]
    return [(each["id"], each["impact"], each["nodes"][0]["html"]) for each in found]
