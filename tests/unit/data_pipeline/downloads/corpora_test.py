"""Named corpora, from downloads off a server on this machine to finished files."""

import hashlib
import io
import json
import re
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline import datasets
from nmt_zoo.data_pipeline.datasets import DATASETS
from nmt_zoo.data_pipeline.downloads.corpora import Corpus, Text
from nmt_zoo.data_pipeline.downloads.remote_files import Downloads, RemoteFile
from tests.unit.data_pipeline.published import IWSLT14, WMT14, WMT14_MADE, publish

PUBLISHED = {name: dataset for name, dataset in DATASETS.items() if isinstance(dataset, Corpus)}


@pytest.fixture
def wmt14(web_server):
    return publish(DATASETS["wmt14_en_de"], WMT14, web_server)


def made(folder):
    """Reads the files of a corpus, {name: text}, without the report."""
    paths = [path for path in Path(folder).rglob("*") if path.is_file()]
    return {p.name: p.read_text(encoding="utf-8") for p in paths if p.name != "report.json"}


def make(corpus, tmp_path, **how):
    downloads = Downloads(tmp_path / "downloads", **{"delay": 0, "attempts": 2, **how})
    return corpus.prepare(tmp_path / "corpus", downloads)


def test_wmt14_becomes_plain_files_and_the_report_counts_every_pair(wmt14, tmp_path, capsys):
    splits = make(wmt14, tmp_path)
    assert made(tmp_path / "corpus") == {
        **WMT14_MADE,
        "test.en": "Q&A\ntwo lines\nOne\n",
        "test.de": "F & A\nzwei Zeilen\nEins\n",
    }
    assert list(splits) == ["train", "valid", "test"]
    printed = capsys.readouterr().err
    for name, sides in splits.items():
        assert sides == tuple(tmp_path / "corpus" / f"{name}.{side}" for side in ("en", "de"))
    assert f"{splits['train'].source} and {splits['train'].target}: " in printed
    assert {path.name for path in tmp_path.rglob("*climbed*")} == set()
    report = json.loads((tmp_path / "corpus" / "report.json").read_text(encoding="utf-8"))
    train = report["train"]
    assert (train["read"], train["kept"]) == (9, 5)
    assert train["dropped"] == {
        "a side is empty": 1,
        "seen before": 1,
        "both sides are the same": 1,
        "length ratio above 3": 1,
    }
    assert [(part["read"], part["kept"]) for part in train["parts"]] == [(4, 3), (3, 1), (2, 1)]
    assert train["mended"]["entities undone"] == 1
    assert report["valid"]["read"] == report["valid"]["kept"] == 3
    assert "5 of 9 pairs" in printed and "1 length ratio above 3" in printed
    assert "1 entities undone" in printed


def test_what_was_made_is_used_again_or_made_anew_if_damaged_or_of_other_rules(
    wmt14, web_server, tmp_path
):
    splits = make(wmt14, tmp_path)
    texts = made(tmp_path / "corpus")
    web_server.requests.clear()
    for name in ("train.de", "report.json"):
        path = tmp_path / "corpus" / name
        for change in (path.unlink, lambda path=path: path.write_bytes(path.read_bytes()[:-3])):
            change()
            make(wmt14, tmp_path, offline=True)
            assert made(tmp_path / "corpus") == texts
    reverse = publish(DATASETS["wmt14_de_en"], WMT14, web_server)
    reverse.prepare(tmp_path / "reverse", Downloads(tmp_path / "downloads"))
    assert made(tmp_path / "reverse") == {
        **WMT14_MADE,
        "test.de": "Eins\nF & A\nzwei Zeilen\n",
        "test.en": "One\nQ&A\ntwo lines\n",
    }
    (tmp_path / "downloads").rename(tmp_path / "away")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "corpus").iterdir()}
    assert make(wmt14, tmp_path, offline=True) == splits
    assert web_server.requests == []
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "corpus").iterdir()}
    (tmp_path / "away").rename(tmp_path / "downloads")
    make(wmt14._replace(filters=False), tmp_path, offline=True)
    assert made(tmp_path / "corpus")["train.en"].count("\n") == 8


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"training/europarl-v7.de-en.de": "Eins\n"}, r"has 4 lines and .*has 1; line n of one"),
        ({"dev/newstest2013.de": "Eins\n"}, r"newstest2013\.en has 3 lines"),
        (
            {"test-full/newstest2014-deen-ref.de.sgm": '<doc docid="x"><seg id="1">a</seg></doc>'},
            r"[0-9]+ are in only one of the two",
        ),
        (
            {name: "x\n" for name in WMT14 if name.endswith(("en", "de"))},
            "none of 3 pairs is left: 3 both sides are the same",
        ),
    ],
)
def test_what_makes_no_corpus_leaves_nothing_half_made(web_server, tmp_path, change, fault):
    corpus = publish(DATASETS["wmt14_en_de"], {**WMT14, **change}, web_server)
    with pytest.raises(UserError, match=fault) as e:
        make(corpus, tmp_path)
    assert "\n" not in str(e.value)
    assert not (tmp_path / "corpus" / "report.json").exists()
    assert not list(tmp_path.rglob(".unfinished*"))
    complete = made(tmp_path / "corpus")
    assert complete == {name: WMT14_MADE[name] for name in complete}


@pytest.mark.parametrize(
    ("name", "valid", "test", "ending"),
    [
        ("multi30k_cs_fr", "val", "test_2016_flickr", ".gz"),
        ("europarl10k_de_en", "val", "test", ""),
    ],
)
def test_files_of_a_repository_are_had_in_any_direction(
    name, valid, test, ending, web_server, tmp_path
):
    corpus = DATASETS[name]
    texts = {file.path: f"{file.path}\n{file.path}\n" for file in corpus.files()}
    splits = make(publish(corpus, texts, web_server), tmp_path)
    for (split, files), published in zip(splits.items(), ("train", valid, test), strict=True):
        for path, language in zip(files, corpus.languages, strict=True):
            line = f"{name.partition('_')[0]}/{published}.{language}{ending}\n"
            assert path.read_text() == 2 * line and path.name == f"{split}.{language}"


def test_talks_are_trained_on_and_every_23rd_pair_of_them_validates(web_server, tmp_path):
    corpus = publish(DATASETS["iwslt14_de_en"], IWSLT14, web_server)
    make(corpus._replace(valid_every=3), tmp_path)
    tests = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
    assert made(tmp_path / "corpus") == {
        "train.de": "Ein: Titel\nTED Talk Subtitles\nNun\n< 3\n",
        "train.en": "A: title\nTED Talk Subtitles\nNow\n< 3\n",
        "valid.de": "Danke.\n",
        "valid.en": "Thanks.\n",
        **{
            f"test.{language}": "".join(f"{language} {name} & 1\n2\n" for name in tests)
            for language in ("de", "en")
        },
    }
    report = json.loads((tmp_path / "corpus" / "report.json").read_text(encoding="utf-8"))
    assert (report["train"]["read"], report["valid"]["read"]) == (4, 1)
    make(corpus._replace(valid_every=2), tmp_path, offline=True)
    assert made(tmp_path / "corpus")["valid.en"] == "TED Talk Subtitles\nNow\n"


@pytest.mark.parametrize("name", ["anki_es_en", "anki_en_es_honest"])
def test_pairs_of_tutorials_are_split_and_honestly_by_their_english_side(
    name, web_server, tmp_path, monkeypatch
):
    pairs = [(f"Go {i // 4}.", f"Ve\u2028 {i}.") for i in range(400)]
    with zipfile.ZipFile(packed := io.BytesIO(), "w") as archive:
        archive.writestr("spa-eng/spa.txt", "".join(f"{en}\t{es}\n" for en, es in pairs))
    data = web_server.files["/spa-eng.zip"] = packed.getvalue()
    checksum = f"sha256:{hashlib.sha256(data).hexdigest()}"
    file = RemoteFile("anki/spa-eng.zip", (f"{web_server.url}/spa-eng.zip",), len(data), checksum)
    monkeypatch.setattr(datasets, "_ANKI", file)
    splits = datasets.prepare(name, tmp_path, delay=0)
    texts = {n: [p.read_text().split("\n")[:-1] for p in sides] for n, sides in splits.items()}
    assert [len(texts[n][0]) for n in ("train", "valid", "test")] == [280, 60, 60]
    sides = [[line for split in texts.values() for line in split[i]] for i in (0, 1)]
    source, target = sides if name == "anki_en_es_honest" else sides[::-1]
    assert sorted(zip(source, target, strict=True)) == sorted(pairs)
    english = [set(split[name.startswith("anki_es")]) for split in texts.values()]
    shared = english[0] & (english[1] | english[2])
    assert bool(shared) == (not name.endswith("honest"))
    assert datasets.prepare(name, tmp_path, offline=True) == splits


def test_pairs_to_validate_are_counted_through_blocks_and_texts(tmp_path):
    files = {f"x/{i}.{side}": RemoteFile(f"x/{i}.{side}", ()) for i in (1, 2) for side in "ab"}
    (tmp_path / "downloads" / "x").mkdir(parents=True)
    for path in files:
        lines = [f"{path} {i}\n" for i in range(21_000)]
        (tmp_path / "downloads" / path).write_text("".join(lines))
    parts = tuple(tuple(Text(files[f"x/{i}.{side}"]) for side in "ab") for i in (1, 2))
    corpus = Corpus(("a", "b"), parts, (), (), "", "", "", "", False, valid_every=7)
    make(corpus, tmp_path, offline=True)
    for side in "ab":
        whole = [f"x/{i}.{side} {j}" for i in (1, 2) for j in range(21_000)]
        valid, train = (
            (tmp_path / "corpus" / f"{part}.{side}").read_text().splitlines()
            for part in ("valid", "train")
        )
        assert valid == whole[6::7] and train == [x for i, x in enumerate(whole, 1) if i % 7]


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_named_corpus_is_well_defined(name):
    corpus = PUBLISHED[name]
    assert name.endswith("_" + "_".join(corpus.languages))
    assert corpus.train and corpus.test and bool(corpus.valid) != bool(corpus.valid_every)
    assert all((corpus.about, corpus.size, corpus.licence, corpus.citation))
    for file in corpus.files():
        assert re.fullmatch(r"\w+/[\w.-]+", file.path)
        if file.path == "iwslt14/de-en.tgz":  # No checksum of it is published.
            assert file.size and not file.checksum
        else:
            assert re.fullmatch("sha256:[0-9a-f]{64}|md5:[0-9a-f]{32}", file.checksum)
        assert file.addresses
        for address in file.addresses:
            parts = urlsplit(address)
            assert parts.scheme in ("http", "https") and parts.netloc
            assert parts.path.endswith("/" + file.path.partition("/")[2]), address
