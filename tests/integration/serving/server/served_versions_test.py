"""A new version takes the place of the one that is served, and no request is lost."""

import asyncio
import re
import resource
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import tensorflow as tf

from nmt_zoo.common.errors import UserError
from nmt_zoo.serving.export.server_files import read_meta_graph
from nmt_zoo.serving.export.warm_up import WarmUpRequest, write_requests
from nmt_zoo.serving.server.loaded_model import ExportedModel
from nmt_zoo.serving.server.refusals import Refusal
from nmt_zoo.serving.server.served_versions import ServedVersions
from tests.integration.serving.server.example import Example, running


@pytest.fixture(scope="module")
def second(tmp_path_factory):
    """The example with another answer."""
    folder = tmp_path_factory.mktemp("second") / "2"
    Example("2:").save(folder)
    return folder


@pytest.fixture
def folder(example, tmp_path):
    shutil.copytree(example / "1", tmp_path / "1")
    return tmp_path


def states(versions):
    found = versions.status("example")["model_version_status"]
    return {each["version"]: each["state"] for each in found}


def test_a_reload_loses_no_request(folder, second):
    """Clients ask all the time while the second version appears."""
    with running(folder) as client:
        replaced = threading.Event()

        def ask(_):
            found = []
            while not (replaced.is_set() and found[-1:] == ["2:A"]):
                answer = client.predict({"inputs": ["a"]})
                assert answer.status == 200, answer.body
                found += answer.json()["outputs"]["translation"]
            return found

        with ThreadPoolExecutor(4) as threads:
            asking = threads.map(ask, range(4))
            shutil.copytree(second, folder / ".unfinished")
            (folder / ".unfinished").rename(folder / "2")
            replaced.set()
            for found in asking:
                changed = found.index("2:A")  # Once replaced, the first version never answers.
                assert set(found[:changed]) <= {"A"} and set(found[changed:]) == {"2:A"}
        found = client.send("GET", "/v1/models/example").json()["model_version_status"]
        assert [(each["version"], each["state"]) for each in found] == [
            ("2", "AVAILABLE"),
            ("1", "END"),
        ]
        gone = client.predict({"inputs": ["a"]}, "/v1/models/example/versions/1:predict")
        assert gone.status == 404


def test_a_version_that_is_removed_is_replaced_by_the_one_before(folder, second):
    shutil.copytree(second, folder / "2")
    versions = ServedVersions.of_folder(folder, "example")
    assert versions.number == 2
    shutil.rmtree(folder / "2")
    asyncio.run(versions.refresh())
    assert states(versions) == {"1": "AVAILABLE", "2": "END"}
    shutil.rmtree(folder / "1")
    asyncio.run(versions.refresh())  # Better an old version than none.
    assert versions.number == 1


def test_a_model_that_takes_the_number_of_the_served_one_is_served(folder, second, capsys):
    versions = ServedVersions.of_folder(folder, "example")
    shutil.rmtree(folder / "1")
    (folder / "1").mkdir()
    asyncio.run(versions.refresh())  # Of a copy that has just begun, nothing can be loaded.
    assert states(versions) == {"1": "AVAILABLE"}
    shutil.copytree(second, folder / "1", dirs_exist_ok=True)
    for _ in range(2):
        asyncio.run(versions.refresh())
        with versions.use("example") as model:
            found = model.run("serving_default", {"text": [b"a"]}, 9)["translation"].tolist()
        assert found == [b"2:A"] and states(versions) == {"1": "AVAILABLE"}
    assert capsys.readouterr().out.count("version 1 is served") == 1


def test_a_damaged_version_is_passed_over_until_its_files_change(folder, second, capsys):
    versions = ServedVersions.of_folder(folder, "example")
    (folder / "2").mkdir()
    shutil.copy(second / "saved_model.pb", folder / "2")
    for _ in range(2):
        asyncio.run(versions.refresh())
        assert states(versions) == {"1": "AVAILABLE", "2": "END"}
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 1 and printed[0].startswith("version 2 cannot be loaded: ")
    shutil.copytree(second, folder / "2", dirs_exist_ok=True)
    asyncio.run(versions.refresh())
    assert states(versions) == {"1": "END", "2": "AVAILABLE"}


def test_a_folder_that_cannot_be_read_for_a_moment_is_read_again(folder, second):
    versions = ServedVersions.of_folder(folder, "example")
    shutil.copytree(second, folder / "2")

    async def refresh_twice():
        limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))  # No file can be opened.
        try:
            await versions.refresh()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        assert versions.number == 1
        await versions.refresh()

    asyncio.run(refresh_twice())
    assert states(versions) == {"1": "END", "2": "AVAILABLE"}


def test_a_version_is_served_only_if_it_answers_its_warm_up_requests(folder, second, capsys):
    versions = ServedVersions.of_folder(folder, "example")
    signatures = read_meta_graph(second).signature_def
    asked = [WarmUpRequest("pair", {"source": ["a"], "target": ["b"]})]
    for number, line in enumerate(["bad", "good"], start=2):
        version = shutil.copytree(second, folder / ".unfinished")
        requests = [*asked, WarmUpRequest("serving_default", {"text": [line]})]
        write_requests(version, requests, signatures, "example")
        version.rename(folder / str(number))
        asyncio.run(versions.refresh())
    assert states(versions) == {"1": "END", "2": "END", "3": "AVAILABLE"}
    refused, served = capsys.readouterr().out.splitlines()
    assert "'serving_default' fails to answer a warm-up request (text[[0]] is bad)" in refused
    assert served == "version 3 is served"


def test_an_old_version_is_closed_after_its_last_request(folder, second):
    versions = ServedVersions.of_folder(folder, "example")
    inputs = {"text": [b"a"]}
    with versions.use("example") as old:
        shutil.copytree(second, folder / "2")
        asyncio.run(versions.refresh())
        with versions.use("example") as new:
            assert old.run("serving_default", inputs, 9)["translation"].tolist() == [b"A"]
            assert new.run("serving_default", inputs, 9)["translation"].tolist() == [b"2:A"]
    with pytest.raises(RuntimeError, match="closed"):
        old.run("serving_default", inputs, 9)
    with pytest.raises(Refusal, match="Specific"), versions.use("example", 1):
        pass


@pytest.mark.parametrize("content", [None, "1/nothing"])
def test_a_folder_without_a_model_is_refused_in_one_line(content, tmp_path):
    if content:
        (tmp_path / content).mkdir(parents=True)
    with pytest.raises(UserError) as found:
        ServedVersions.of_folder(tmp_path, "example")
    assert str(tmp_path) in str(found.value) and "\n" not in str(found.value)


@pytest.mark.parametrize("line", ["good", "bad"])
def test_other_signatures_warm_up_behind_the_answers_and_a_failure_is_printed(line, folder, capsys):
    signatures = read_meta_graph(folder / "1").signature_def
    asked = [
        WarmUpRequest("words", {"text": ["a b"]}),
        WarmUpRequest("serving_default", {"text": ["good"]}),
        WarmUpRequest("serving_default", {"text": [line]}),
    ]
    write_requests(folder / "1", asked, signatures, "example")
    versions = ServedVersions.of_folder(folder, "example")
    with versions.use("example") as first:
        asyncio.run(versions.succeed())
    with versions.use("example") as model:
        assert (model is first) == (line == "bad")
        assert model.run("words", {"text": [b"a b"]}, 9)["words"].tolist() == [[b"a", b"b"]]
    versions.close()
    warned = capsys.readouterr().out.splitlines()
    failure = "warning: some answers stay slow: .*'serving_default' fails to answer a warm-up .*"
    assert len(warned) == (line == "bad") and all(re.match(failure, each) for each in warned)


@pytest.mark.parametrize("slower", ["serving_default", "serving_default_compiled"])
def test_a_compiled_signature_answers_if_it_is_faster(slower, tmp_path, monkeypatch):
    plain, compiled = Example("plain "), Example("compiled ")
    plain.compiled = compiled
    names = {"serving_default": plain.translate, "serving_default_compiled": compiled.translate}
    tf.saved_model.save(plain, str(tmp_path), signatures=names)
    model, call = ExportedModel(tmp_path), ExportedModel._call

    def call_slower(self, signature, *others):
        found = call(self, signature, *others)
        time.sleep(0.2 * (signature == slower))
        return found

    def translation(*lines):
        return model.run("serving_default", {"text": lines}, 9)["translation"].tolist()

    assert translation(b"a") == [b"plain A"]
    monkeypatch.setattr(ExportedModel, "_call", call_slower)
    model.warm_up([WarmUpRequest("serving_default_compiled", {"text": [b"a"]})])
    way = b"compiled" if slower == "serving_default" else b"plain"
    assert translation(b"a") == [way + b" A"]
    assert translation(*[b"a"] * 9) == [b"plain A"] * 9  # Large batches are not compiled.
    model.close()
