"""The quiet faults of docs/tutorials/faults.md: each is planted, and what it names must find it."""

import contextlib
import io

import pytest

from docs.tutorials import faults
from docs.tutorials.faults import FAULTS, planted

LAWS = [name for name, fault in FAULTS.items() if not fault.says]
WARNED = [name for name, fault in FAULTS.items() if fault.says]


def failures(*nodes):
    """Runs tests by pytest in this process; returns the assertions that failed, by node."""
    failed = {}

    class Listener:
        def pytest_exception_interact(self, node, call):
            found = call.excinfo.errisinstance((AssertionError, pytest.fail.Exception))
            failed[node.nodeid] = "assertion" if found else call.excinfo.exconly()

    arguments = ["-p", "no:xdist", "-p", "no:cacheprovider", "-p", "no:faulthandler", "--tb=no"]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = pytest.main([*arguments, "-s", *nodes], [Listener()])
    assert status in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED), out.getvalue()
    return failed


def test_without_a_fault_every_law_holds():
    assert failures(*{FAULTS[name].finder for name in LAWS}) == {}


@pytest.mark.parametrize("name", LAWS)
def test_a_law_finds_the_fault(name):
    with planted(name):
        assert failures(FAULTS[name].finder) == {FAULTS[name].finder: "assertion"}


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return faults.pairs(tmp_path_factory.mktemp("data"))[:2]


@pytest.mark.parametrize("name", WARNED)
def test_a_warning_tells_of_the_fault_and_a_sound_text_has_none(name, pairs, tmp_path, monkeypatch):
    monkeypatch.setattr(faults, "ROOT", tmp_path)
    fault = FAULTS[name]
    assert fault.says(*pairs) == []
    assert any(fault.finder in line for line in fault.says(*fault.change(*pairs)))


def test_the_page_has_the_table_of_the_results():
    text = faults.PAGE.read_text(encoding="utf-8")
    assert text == faults.page(text), "run `python -m docs.tutorials.faults`"
