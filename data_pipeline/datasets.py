"""Corpora by name. To add a corpus, add an entry to `DATASETS`: a `Corpus`, or a `Included`."""

import itertools
import random
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from nmt_zoo.common.errors import UserError
from nmt_zoo.common.files import FilePath, write_text
from nmt_zoo.data_pipeline.downloads.corpora import SPLITS, Corpus, Split, Text
from nmt_zoo.data_pipeline.downloads.remote_files import Downloads, RemoteFile


class Included(NamedTuple):
    """A corpus with a way of its own of making its files; its fields are those of `Corpus`."""

    prepare: Callable[[Path, Downloads], dict[str, Split]]  # writes the files, as `Corpus.prepare`
    about: str
    size: str
    licence: str
    citation: str


# Nine files: train, valid and test in .en and .de, and in .en-de their true alignments, "0-0 1-2".
# A random bilingual grammar of this project made them: data_pipeline/demo/ at commit 4a72607. Then
# marks were joined to the words before, which links count. As people type, the last 3,000 training
# pairs are short, mostly questions; 1 in 20 has no last mark, 1 in 30 a small first letter; half of
# the clauses after "and" have a comma, a quarter of "not" is n't.
_DEMO_ARCHIVE = Path(__file__).with_name("demo.tar.xz")


def _prepare_demo(folder, _):
    with tarfile.open(_DEMO_ARCHIVE) as archive:
        texts = {member.name: archive.extractfile(member).read() for member in archive}
    return _written(folder, texts, "en", "de")


def _written(folder, texts, source, target):
    """Writes the files that are missing or differ, name -> bytes; returns the splits."""
    for name, text in texts.items():
        path = folder / name
        if not path.is_file() or path.read_bytes() != text:
            write_text(path, text.decode("utf-8"))
    return {n: Split(folder / f"{n}.{source}", folder / f"{n}.{target}") for n in SPLITS}


_DEMO = Included(
    _prepare_demo,
    about="English-German sentences of a small grammar, with true word alignments",
    size="24,000 pairs; included, without a download",
    licence="Apache-2.0, like this project",
    citation="none",
)


def _both_sides(file, member, languages):
    """Returns a `Text` for each language; `{}` in `member` stands for the language code."""
    return tuple(Text(file, member.format(language)) for language in languages)


def _of_wmt(folder, name, size, checksum, *copies):
    """Returns a file in a folder of a server of WMT, with folders of copies at Hugging Face."""
    folders = f"https://{folder}", f"http://{folder}", *(f"{_HUGGING_FACE}/{c}" for c in copies)
    return RemoteFile(f"wmt14/{name}", tuple(f"{f}/{name}" for f in folders), size, checksum)


# Sizes and checksums: TensorFlow Datasets (wmt14_translate); of the test set, sacreBLEU's checksum.
_HUGGING_FACE = "https://huggingface.co/datasets/wmt"
_EUROPARL = _of_wmt(
    "www.statmt.org/wmt13",
    "training-parallel-europarl-v7.tgz",
    657_632_379,
    "sha256:0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
    "wmt13/resolve/8e5ec410581dd0ae8039a038c2ae866915e2a47c",
)
_COMMON_CRAWL = _of_wmt(
    "www.statmt.org/wmt13",
    "training-parallel-commoncrawl.tgz",
    918_311_367,
    "sha256:c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
    "wmt13/resolve/8e5ec410581dd0ae8039a038c2ae866915e2a47c",
)
_NEWS_COMMENTARY = _of_wmt(
    "www.statmt.org/wmt14",
    "training-parallel-nc-v9.tgz",
    80_418_416,
    "sha256:cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
    "wmt14-data/resolve/main",
)
_WMT_DEV = _of_wmt(
    "data.statmt.org/wmt19/translation-task",
    "dev.tgz",
    38_654_961,
    "sha256:7a7deccf82ebb05ba508dba5eb21356492224e8f630ec4f992132b029b4b25e7",
)
_WMT14_TEST = _of_wmt(
    "statmt.org/wmt14", "test-full.tgz", None, "md5:a8cd784e006feb32ac6f3d9ec7eb389a"
)


def _wmt14(*languages):
    return Corpus(
        languages,
        train=(
            _both_sides(_EUROPARL, "training/europarl-v7.de-en.{}", languages),
            _both_sides(_COMMON_CRAWL, "commoncrawl.de-en.{}", languages),
            _both_sides(_NEWS_COMMENTARY, "training/news-commentary-v9.de-en.{}", languages),
        ),
        valid=(_both_sides(_WMT_DEV, "dev/newstest2013.{}", languages),),
        test=(
            (
                Text(_WMT14_TEST, f"test-full/newstest2014-deen-src.{languages[0]}.sgm"),
                Text(_WMT14_TEST, f"test-full/newstest2014-deen-ref.{languages[1]}.sgm"),
            ),
        ),
        about="Europarl v7, Common Crawl, News Commentary v9; newstest2013; newstest2014 in full",
        size="4,520,620 pairs before cleaning, 3,000 and 3,003; 1.7 GB to download",
        licence="free for research; for other use, ask the owners of the parts",
        citation="Bojar et al. 2014, Findings of the 2014 Workshop on Statistical Machine "
        "Translation; Koehn 2005, Europarl",
    )


def _of_github(folder, name, path, table):
    """Returns {name of a file: `Text`} of a public repository of GitHub at one commit.

    `folder` is on this machine; `path` starts with the commit, and {} stands in it for the name of
    a file. Each line of `table` has a name, such as train.en, and its bytes and SHA-256 sum.
    """
    texts = {}
    for line in table.strip().split("\n"):
        file, size, checksum = line.split()
        addresses = (
            f"https://raw.githubusercontent.com/{name}/{path.format(file)}",
            f"https://github.com/{name}/raw/{path.format(file)}",
        )
        local = f"{folder}/{Path(path.format(file)).name}"
        texts[file] = Text(RemoteFile(local, addresses, int(size), f"sha256:{checksum}"))
    return texts


def _of_table(texts, names, languages):
    """Returns the parts of a `Corpus` of the texts of `_of_github`, by the names of its splits."""
    pairs = (tuple(texts[f"{name}.{language}"] for language in languages) for name in names)
    return dict(zip(SPLITS, ((pair,) for pair in pairs), strict=True))


_MULTI30K = _of_github(
    "multi30k",
    "multi30k/dataset",
    "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/{}.gz",
    """
train.en 568929 d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f
train.de 637044 726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6
train.fr 604242 622e75069e9f4c577425c4f277116ce66e63a2401c0a2312d90073cb12379a3c
train.cs 593827 a65adb8b32e3bc664f21ecba7a6e7f6950fd1f405e135f7c312faabdb6255077
val.en 21650 14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28
val.de 24681 f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a
val.fr 23001 ca3106f1a72390591d25f6c45cb4cd39dec4cd3f123e099748a3ce5256c160e9
val.cs 22096 b63226e05c4bd5dd6a42897d74b86a1b9d2c31498252c572b1ea7f7996927fcc
test_2016_flickr.en 21077 611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9
test_2016_flickr.de 22890 9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8
test_2016_flickr.fr 22310 6d326e188d259fb1d04ac19eae3af956559b3a0b93d7635e56c90987c40c8b90
test_2016_flickr.cs 22572 200a4a74cc9560f051924abb9803be008d1908d77f747e9141aeb86dfd2797f1
""",
)


def _multi30k(*languages):
    return Corpus(
        languages,
        **_of_table(_MULTI30K, ("train", "val", "test_2016_flickr"), languages),
        about="captions of photographs; test_2016_flickr to test",
        size="29,000 pairs, 1,014 and 1,000; 1.3 MB to download",
        licence="for research and education, not for commercial use",
        citation="Elliott et al. 2016, Multi30K (English, German); Elliott et al. 2017, Findings "
        "of the Second Shared Task on Multimodal Machine Translation (French); Barrault et al. "
        "2018, Findings of the Third (Czech)",
        filters=False,
    )


_EUROPARL10K = _of_github(
    "europarl10k",
    "FranxYao/nlu-cw2",
    "52db38523e20011adc6e7b437791ee275aca8b89/europarl_raw/{}",
    """
train.de 699038 cc0b321afa9fb73469508cd5a39448bcbcfb516d32b0a0c1cc098bfbdc6f5a68
train.en 640205 363eff78ed47654f743d7f01b07f3ce01817201f2e5e385082426483fc9a5c7d
val.de 35673 d21dccb5683c8307a7cccbdccdfbf08589c6a59ade410bef5fc4ac53b2e74044
val.en 33049 451140bba92b8c39dfa26b5a85f66d7aaa152e889706afb4d3ff2bfc712a889b
test.de 35903 9b38cbd368d63e6d946296c83e28a4120c687feb266800d0e976096183dd49d9
test.en 32736 b60041b89c1ec35a0cf6aeacf94151b3e5937dbbccb8d2b333e7386f5e5829f4
""",
)


def _europarl10k(*languages):
    return Corpus(
        languages,
        **_of_table(_EUROPARL10K, ("train", "val", "test"), languages),
        about="a sample of Europarl, lower-cased and tokenised, of a coursework",
        size="10,000 pairs, 500 and 500; 1.5 MB to download",
        licence="the repository names none; Europarl is free to use, as far as its makers know",
        citation="Koehn 2005, Europarl; the coursework NLU+ of the University of Edinburgh",
        filters=False,
    )


# Size and checksum come from TensorFlow Datasets (ted_hrlr_translate).
_TED_ADDRESS = "http://www.phontron.com/data/qi18naacl-dataset.tar.gz"
_TED = RemoteFile(
    "ted/qi18naacl-dataset.tar.gz",
    (_TED_ADDRESS, f"https://web.archive.org/web/20240301220426if_/{_TED_ADDRESS}"),
    131_005_909,
    "sha256:216a86c3df4d4f522856fe9b920ff5be6b394d769cc88974ae8f9f5546953bbc",
)


def _ted(*languages):
    return Corpus(
        languages,
        train=(_both_sides(_TED, "datasets/pt_to_en/{}.train", languages),),
        valid=(_both_sides(_TED, "datasets/pt_to_en/{}.dev", languages),),
        test=(_both_sides(_TED, "datasets/pt_to_en/{}.test", languages),),
        about="talks of TED, lower-cased and tokenised",
        size="about 52,000 pairs, 1,200 and 1,800; 131 MB to download",
        licence="CC BY-NC-ND 4.0, like the talks",
        citation="Qi et al. 2018, When and Why Are Pre-Trained Word Embeddings Useful for Neural "
        "Machine Translation?",
        filters=False,
    )


# The mirror that nearly all papers use; the organisers' server is gone. No checksum is published,
# so only HTTPS vouches for the file; its size is from public logs of downloads.
_IWSLT14 = RemoteFile(
    "iwslt14/de-en.tgz",
    ("https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz",),
    19_982_877,
)
_IWSLT14_TESTS = ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")


def _iwslt14(*languages):
    return Corpus(
        languages,
        train=(_both_sides(_IWSLT14, "de-en/train.tags.de-en.{}", languages),),
        valid=(),
        test=tuple(
            _both_sides(_IWSLT14, f"de-en/IWSLT14.{name}.de-en.{{}}.xml", languages)
            for name in _IWSLT14_TESTS
        ),
        about="talks of TED; every 23rd training pair to validate, and five development and test "
        "sets together, as in most papers",
        size="174,443 pairs, of which 7,584 to validate, and 6,750; 20 MB to download",
        licence="CC BY-NC-ND 4.0, like the talks",
        citation="Cettolo et al. 2014, Report on the 11th IWSLT Evaluation Campaign",
        filters=False,
        valid_every=23,
    )


# The file of the translation tutorials of keras.io and tensorflow.org: English, tab, Spanish.
_ANKI = RemoteFile(
    "anki/spa-eng.zip",
    ("http://storage.googleapis.com/download.tensorflow.org/data/spa-eng.zip",),
    2_767_131,
    "sha256:f80e581ae291aa34dd3aba7bd98b5e9505234da4318e2f3295df70a1520c7f61",
)


def _anki(source, target, honest=False):
    """Returns the pairs split at random; if `honest`, no English side is in two splits."""

    def prepare(folder, downloads):
        with zipfile.ZipFile(*downloads.fetch([_ANKI])) as archive:
            lines = archive.read("spa-eng/spa.txt").decode("utf-8").strip("\n").split("\n")
        groups, splits = {}, {name: [] for name in ("valid", "test", "train")}
        for number, (en, es) in enumerate(line.split("\t") for line in lines):
            groups.setdefault(en if honest else number, []).append({"en": en, "es": es})
        shuffled = random.Random(1).sample(list(groups.values()), len(groups))
        held_out = len(lines) * 15 // 100
        for group in shuffled:
            open_splits = (name for name, pairs in splits.items() if len(pairs) < held_out)
            splits[next(open_splits, "train")] += group
        texts = {
            f"{name}.{language}": "".join(f"{pair[language]}\n" for pair in pairs).encode()
            for name, pairs in splits.items()
            for language in (source, target)
        }
        return _written(folder, texts, source, target)

    how = "no English side is in two splits" if honest else "split at random, as in tutorials"
    return Included(
        prepare,
        about=f"short sentences of Tatoeba; {how}",
        size="118,964 pairs, of which 15% to validate and 15% to test; 2.8 MB to download",
        licence="CC BY 2.0 (France)",
        citation="tatoeba.org; manythings.org/anki (the selection of pairs)",
    )


_LANGUAGES = ("en", "de", "fr", "cs")

DATASETS = {
    "demo": _DEMO,
    "wmt14_en_de": _wmt14("en", "de"),
    "wmt14_de_en": _wmt14("de", "en"),
    **{f"multi30k_{s}_{t}": _multi30k(s, t) for s in _LANGUAGES for t in _LANGUAGES if s != t},
    "europarl10k_de_en": _europarl10k("de", "en"),
    "europarl10k_en_de": _europarl10k("en", "de"),
    "iwslt14_de_en": _iwslt14("de", "en"),
    "iwslt14_en_de": _iwslt14("en", "de"),
    "ted_pt_en": _ted("pt", "en"),
    "ted_en_pt": _ted("en", "pt"),
    **{f"anki_{s}_{t}": _anki(s, t) for s, t in (("es", "en"), ("en", "es"))},
    **{f"anki_{s}_{t}_honest": _anki(s, t, True) for s, t in (("es", "en"), ("en", "es"))},
}


def prepare(name: str, data_dir: FilePath, **how: Any) -> dict[str, Split]:
    """Makes the files of a corpus of `DATASETS` in `data_dir/name`: "train", "valid" and "test".

    Downloads are kept in `data_dir/downloads`. `how` has further fields of `Downloads`, such as
    `offline` and `mirror`. Raises UserError: unknown corpus, or its files cannot be made.
    """
    if name not in DATASETS:
        raise UserError(
            f"unknown dataset {name!r}; expected one of {', '.join(DATASETS)}, or your own files "
            "in --train_source and --train_target"
        )
    downloads = Downloads(Path(data_dir, "downloads"), **how)
    return DATASETS[name].prepare(Path(data_dir, name), downloads)


def listing() -> list[str]:
    """Describes every named corpus: contents, size, licence and citation."""

    def facts(name):
        d = DATASETS[name]
        return d.about, f"size: {d.size}", f"licence: {d.licence}", f"cite: {d.citation}"

    lines = []
    for described, names in itertools.groupby(DATASETS, facts):
        lines += [", ".join(names), *(f"    {fact}" for fact in described)]
    return lines
