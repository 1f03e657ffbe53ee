"""Small corpora in the layout of the published corpora, on a server on this machine."""

import gzip
import hashlib
import io
import tarfile

_EUROPARL, _NEWS = "training/europarl-v7.de-en", "training/news-commentary-v9.de-en"
# Segments of the test set; the German file has another order of documents.
_SEGMENTS = {
    "en": [("d1", 1, "Q&amp;A"), ("d1", 2, "two\n lines"), ("d2", 1, "One")],
    "de": [("d2", 1, "Eins"), ("d1", 1, "F &amp; A"), ("d1", 2, "zwei Zeilen")],
}


def _sgml(language, kind):
    docs = [
        f'<doc docid="{doc}" genre="news"><p>\n<seg id="{seg}">{text}</seg>\n</p></doc>'
        for doc, seg, text in _SEGMENTS[language]
    ]
    return f'<{kind} setid="newstest2014">\n' + "\n".join(docs) + f"\n</{kind}>\n"


WMT14 = {
    f"{_EUROPARL}.en": "Resumption\u2028of the session\n\nI declare\r\n(Applause)\n",
    f"{_EUROPARL}.de": "Wiederaufnahme\nleer\nIch erkläre\n(Beifall)\n",
    "commoncrawl.de-en.en": "Tom &amp; Jerry\n(Applause)\nthe same\n",
    "commoncrawl.de-en.de": "Tom und\xa0Jerry\n(Beifall)\nthe same\n",
    f"{_NEWS}.en": "one\rline\nno\n",
    f"{_NEWS}.de": f"eine Zeile\n{'Das ist keine Übersetzung. ' * 9}\n",
    "dev/newstest2013.en": "One\n\nThree\n",
    "dev/newstest2013.de": "Eins\nzwei\nDrei\n",
    **{
        f"test-full/newstest2014-deen-{kind}.{language}.sgm": _sgml(language, f"{kind}set")
        for kind in ("src", "ref")
        for language in ("en", "de")
    },
}
_TALKS = {
    "de": "<url>u</url>\n<keywords>k</keywords>\n<title>Ein: Titel</title>\n"
    "<description>TED Talk Subtitles</description>\n<translator href='t'>T</translator>\n"
    " Danke. \nNun\n<talkid>2</talkid>\n< 3\n",
    "en": "<url>v</url>\n<keywords>l</keywords>\n<title>A: title</title>\n"
    "<description>TED Talk Subtitles</description>\nThanks.\n Now\n<talkid>2</talkid>\n< 3 \n",
}
IWSLT14 = {
    **{f"de-en/train.tags.de-en.{language}": text for language, text in _TALKS.items()},
    **{
        f"de-en/IWSLT14.{name}.de-en.{language}.xml": '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<mteval>\n<doc docid="{i}" genre="lectures">\n<title>no segment</title>\n'
        f'<seg id="1"> {language} {name} &amp; 1 </seg>\n<seg id="2"> 2 </seg>\n</doc>\n</mteval>\n'
        for i, name in enumerate(
            ("TED.dev2010", "TEDX.dev2012", "TED.tst2010", "TED.tst2011", "TED.tst2012")
        )
        for language in ("de", "en")
    },
}
WMT14_MADE = {
    "train.en": "Resumption of the session\nI declare\n(Applause)\nTom & Jerry\none line\n",
    "train.de": "Wiederaufnahme\nIch erkläre\n(Beifall)\nTom und Jerry\neine Zeile\n",
    "valid.en": "One\n\nThree\n",
    "valid.de": "Eins\nzwei\nDrei\n",
}


def publish(corpus, texts, server):
    """Serves the files of a corpus with other text in them.

    Args:
        corpus: `Corpus`.
        texts: {name of a member of an archive, or path of a file that is not an archive: str}.
        server: `Server`.

    Returns:
        The `Corpus` with addresses, sizes and checksums of the new files.
    """
    new = {}
    for file in corpus.files():
        if file.path in texts:
            data = texts[file.path].encode()
            data = gzip.compress(data) if file.path.endswith(".gz") else data
        else:  # For simplicity, every archive contains all members.
            data = gzip.compress(tar({"../../climbed.out": "evil", **texts}), mtime=0)
        server.files[f"/{file.path}"] = data
        kind = (file.checksum or "sha256").partition(":")[0]
        new[file] = file._replace(
            addresses=(f"{server.url}/{file.path}",),
            size=file.size and len(data),
            checksum=f"{kind}:{hashlib.new(kind, data).hexdigest()}",
        )

    def moved(pairs):
        return tuple(tuple(t._replace(file=new[t.file]) for t in pair) for pair in pairs)

    return corpus._replace(
        train=moved(corpus.train), valid=moved(corpus.valid), test=moved(corpus.test)
    )


def tar(members, links=()):
    """Makes an archive of members {name: text or bytes} and of links {name: target}."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, text in members.items():
            data = text.encode() if isinstance(text, str) else text
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
        for name in links:
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, links[name]
            archive.addfile(info)
    return buffer.getvalue()
