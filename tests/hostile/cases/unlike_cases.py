"""Texts unlike the training text, and scores of texts in different forms: said, or right."""

import unicodedata

from tests.hostile.case import Case, Refused, Works
from tests.hostile.inputs import files
from tests.hostile.prepared import quick
from tests.tiny import WORDS, pairs

_PLAIN = "one dog"
_SPACES = ("\t", "\u00a0", "\u202f", "\u2009", "\u3000", "  ", "\u2028", "\x0b", "\x85")
_HIDDEN = ("\u200b", "\u00ad", "\ufeff", "\u2060")
_BLANK = ("\u00a0", "\t", "\u200b", "\u3000\ufeff", "\u00ad \u2060", "\u2007\u2009")


def cases():
    """Yields `Case`s."""
    yield from _forms()
    yield from _lines()
    yield from _references()
    yield from _test_sets()
    yield from _links()
    yield from _training()


def _translate(group, name, expected, *flags, text=_PLAIN, prepare=None):
    arguments = ("--model_dir=../models/bpe", "--beam_size=1", *flags)
    data = f"{text}\n".encode()
    return Case(group, name, "translate", arguments, expected, prepare=prepare, stdin=data)


def _lines_of(outcome):
    return outcome.out.split("\n")[:-1]


def _alike(outcome):
    """All lines of output are the same, and say something."""
    found = set(_lines_of(outcome))
    return "" if len(found) == 1 and "" not in found else f"different lines: {found}"


def _forms():
    group = "one form of a text"
    spaces = "\n".join([_PLAIN, *(_PLAIN.replace(" ", space) for space in _SPACES)])
    for sign in ("\u2028", "\x85", "\x0b"):  # No line feeds, though Python may split at them.
        assert sign in spaces
    yield _translate(group, "ten kinds of white space", Works(_alike), text=spaces)
    hidden = "\n".join([_PLAIN, *(f"o{sign}ne dog{sign}" for sign in _HIDDEN)])
    yield _translate(group, "characters that show nothing", Works(_alike), text=hidden)
    composed = "one café dog\n" + unicodedata.normalize("NFD", "one café dog")
    yield _translate(group, "composed and decomposed letters", Works(_alike), text=composed)
    blank = Works(lambda outcome: "" if not outcome.out.strip("\n") else f"{outcome.out!r}")
    for number, text in enumerate(_BLANK):
        yield _translate(group, f"blank line {number}", blank, text=text)
    words = "\n".join(f"{s}\t{t}" for s, t in pairs(60)) + "\n\u00a0\teins\n"
    dropped = Works(lambda o: "" if "1 with an empty side" in o.out else o.out[:300])
    flags = quick("transformer_tiny", *_own("train.tsv"), corpus=())
    yield Case(group, "blank source", "train", flags, dropped, prepare=files({"train.tsv": words}))


def _own(name, valid="../models/valid"):
    return (
        *(f"--train_source={name}", f"--train_target={name}"),
        *(f"--valid_source={valid}.source", f"--valid_target={valid}.target"),
    )


def _lines():
    group = "lines unlike the training text"
    for name, text, says in (
        ("another script", "собака бежит быстро\nодна кошка", "another script"),
        ("Chinese", "一只狗在跑。", "another script|never saw|knows"),
        ("capitals", "ONE DOG RUNS\nTWO CAT SEES HOUSE", "capital"),
        ("first letters", "One Dog Runs\nTwo Cat Sees House", "capital"),
        ("letters never seen", "one dög runs\ntwo ĉat runs", "never saw|capital|characters"),
        ("several sentences", "one dog runs. Two cat runs. Big house sees.", "several sentences"),
    ):
        yield _translate(group, name, Works(says=f"(?i){says}"), text=text)
    for name, text, part in (
        ("emoji", "one dog runs 😀", "😀"),
        ("check mark", "✓ one dog runs", "✓"),
        ("an e-mail address", "one dog a.b@example.org", "a.b@example.org"),
        ("curly quotes", "“one dog”", "“"),
        ("a private character", "one dog \ue123", "\ue123"),
    ):
        kept = Works(lambda o, part=part: "" if part in o.out + o.err else f"lost: {o.out!r}")
        yield _translate(group, name, kept, "--keep=technical", text=text)
    yield _translate(group, "--keep is no pattern", Refused("--keep"), "--keep=(")


def _references():
    group = "references in another form"
    flags = ("--output=out", "--reference=ref", "--save_scores=scores.json")
    for name, text, expected in (
        ("some blank", "eins\n\n\u200b\n", Works(says="2 of 3 .*blank")),
        ("all blank", "\n\u00a0\n\n", Refused("blank")),
        ("decomposed", unicodedata.normalize("NFD", "läuft\ngroß\nläuft\n"), Works(says="ref")),
        ("Chinese", "狗在跑。\n一只猫。\n房子。\n", Works(says="zh")),
        ("Thai", "หมาวิ่ง\nแมว\nบ้าน\n", Works(says="char|flores")),
    ):
        prepare = files({"ref": text})
        yield _translate(group, name, expected, *flags, text="one\ntwo\ndog", prepare=prepare)
    text = "one\ntwo\ndog"
    wrong = Refused("--tokenize")
    prepare = files({"ref": "eins\nzwei\nHund\n"})
    yield _translate(
        group, "no tokenisation", wrong, *flags, "--tokenize=x", text=text, prepare=prepare
    )


def _wmt(kind, *texts):
    segments = "".join(f'<seg id="{i}">{text}</seg>' for i, text in enumerate(texts, 1))
    return (
        f'<dataset id="t"><doc id="d"><{kind} lang="x"><p>{segments}</p></{kind}></doc></dataset>'
    )


def _test_sets():
    group = "test sets by their content"
    flags = ("--input=in", "--output=out", "--reference=ref")

    def has(count):
        def check(outcome):
            lines = (outcome.folder / "out").read_text().split("\n")[:-1]
            return "" if len(lines) == count and "seg" not in "".join(lines) else f"{lines}"

        return Works(check)

    source, reference = _wmt("src", "one dog", "two cat"), _wmt("ref", "eins Hund", "zwei Katze")
    iwslt = source.replace("<dataset", "<mteval><srcset").replace(
        "</dataset>", "</srcset></mteval>"
    )
    for name, contents, expected in (
        ("XML", {"in": source, "ref": reference}, has(2)),
        ("XML and plain", {"in": source, "ref": "eins Hund\nzwei Katze\n"}, has(2)),
        (
            "IWSLT",
            {"in": iwslt.replace('<src lang="x">', "").replace("</src>", ""), "ref": reference},
            has(2),
        ),
        ("a segment is missing", {"in": source, "ref": _wmt("ref", "eins")}, Refused("segment")),
        (
            "a page of HTML",
            {"in": "<html>\n<body>x</body>\n</html>\n", "ref": "x\n"},
            Refused("markup"),
        ),
        ("a line that begins so", {"in": "<b> one dog\n", "ref": "eins\n"}, has(1)),
    ):
        yield _translate(group, name, expected, *flags, prepare=files(contents))


def _links():
    group = "gold links by their content"
    sides = {"a": "one dog\ntwo cat\n", "b": "eins Hund\nzwei Katze\n"}
    arguments = ("--source=a", "--target=b", "--model=ibm1", "--gold=gold", "--alignments=out")
    for name, gold, expected in (
        ("NAACL 2003", "0001 1 1 S\n0001 2 2 P\n0002 1 1\n", Works()),
        ("NULL", "1 0 1 S\n1 1 1 S\n", Works(says="NULL")),
        ("two forms", "1 1 1 S\n0-0 1-1\n", Refused("line 2")),
        ("a sentence too many", "1 1 1\n3 1 1\n", Refused("line 2")),
        ("a word too many", "1 1 1\n2 3 1\n", Refused("line 2")),
        ("neither form", "a b c\nd\n", Refused("line 1")),
    ):
        prepare = files({**sides, "gold": gold})
        yield Case(group, name, "align", arguments, expected, prepare=prepare)


def _training():
    group = "faults of a user's own text"
    text = pairs(60)
    tsv = ["\t".join(pair) for pair in text]
    same = [f"{line}\t{line}" for line, _ in text[:40]]

    def says(what):
        return Works(lambda o: "" if what in o.out + o.err else f"silent: {(o.out + o.err)[-600:]}")

    for name, lines, expected in (
        ("a header", ["1\t2", *tsv], says("look like names of columns")),
        ("a header of languages", ["en\tde", *tsv], says("look like names of columns")),
        ("repeated pairs", [*tsv, *tsv], says("repeat an earlier one")),
        ("not translated", [*tsv, *same], says("the same text on both sides")),
        ("validation from training", tsv, says("are in the training text, too")),
    ):
        valid = files(
            {
                "train.tsv": "\n".join(lines) + "\n",
                "v.source": "".join(f"{source}\n" for source, _ in text[:5]),
                "v.target": "".join(f"{target}\n" for _, target in text[:5]),
            }
        )
        flags = quick("transformer_tiny", *_own("train.tsv", "v"), corpus=())
        yield Case(group, name, "train", flags, expected, prepare=valid)
    alone = quick("transformer_tiny", "--train_source=train.tsv", corpus=())
    prepare = files({"train.tsv": "\n".join(tsv) + "\n"})
    both = Refused("both sides|--train_target")
    yield Case(group, "a .tsv for one side", "train", alone, both, prepare=prepare)
    blank = files({"v.source": "one dog\n", "v.target": "\u00a0\n"})
    flags = (*quick("transformer_tiny"), "--valid_source=v.source", "--valid_target=v.target")
    refused = Refused("blank|empty", ("data",))
    yield Case(group, "a blank validation text", "train", flags, refused, prepare=blank)
    assert all(word in WORDS for word in _PLAIN.split())
