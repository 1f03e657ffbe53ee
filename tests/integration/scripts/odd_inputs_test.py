"""Odd input to whole scripts: the right result, or one line that names the flag or the file."""

import json
import os
import re
import shlex
import shutil
from pathlib import Path

import pytest

from tests.running import attempt, error_of, train

SOURCE = "one dog\none cat\ntwo dog\nthree cat\nsees one dog\n" * 4
TARGET = "eins Hund\neins Katze\nzwei Hund\ndrei Katze\nsieht eins Hund\n" * 4
TSV = "".join(f"{s}\t{t}\n" for s, t in zip(SOURCE.split(), TARGET.split(), strict=True))
XML = '<dataset id="t"><doc id="d"><src lang="x"><p><seg id="1">one</seg></p></src></doc></dataset>'
FILES = {
    **{"a": SOURCE, "b": TARGET, "a2": SOURCE, "b2": TARGET, "ok.tsv": TSV, "one": "one dog\n"},
    **{"empty": "", "blank": " \n" * 20, "longer": TARGET + "mehr\n", "bom": "\ufeff" + SOURCE},
    **{"crlf": SOURCE.replace("\n", "\r\n"), "long": "one " * 300 + "\n"},
    **{"latin": SOURCE[:-13].encode() + "läuft\n".encode("latin-1"), "bad.tsv": TSV + "no tab\n"},
    **{"xml": XML, "html": "<html>\n<body><p>x</p><p>x</p></body>\n</html>\n", "nul": "one\0dog\n"},
    **{"gold": "1 1 1 S\n", "two": "1 1 1 S\n0-0\n", "many": "99 1 1\n", "words": "a b\n" * 20},
    **{"few": "por qué\npor\nqué\n", "wenige": "why\nfor\nwhat\n"},
}
# Beside them are a folder, a pipe, and the models m (a Transformer) and i (IBM Model 1). "nowhere"
# does not exist. What no text can be read from, whatever the flag: tests/unit/common/files_test.py.
T = "--train_source=a --train_target=b --valid_source=a --valid_target=b"
# One case a line: script and arguments ({T}: a text to train on); after `->`, what the only line of
# error says; after `=>`, what is printed by a script that works. Values of flags: console_test.py.
CASES = r"""
train {T} --train_target=longer -> 20.*21
train {T} --train_source=empty -> empty
train {T} --train_source=blank --train_target=blank -> no word|empty|blank
train {T} --train_source=latin -> latin.*line 20.*UTF-8
train {T} --valid_source=latin -> latin.*line 20.*UTF-8
train {T} --train_source=long --train_target=one -> max_length
train {T} --train_source=nowhere -> nowhere
train {T} --train_source=pipe -> pipe
train {T} --valid_target=nowhere -> nowhere
train {T} --valid_source=/dev/null -> /dev/null
train {T} --train_target=a -> \ba\b
train {T} --train_source=ok.tsv -> ok\.tsv
train {T} --train_source=bad.tsv --train_target=bad.tsv -> bad\.tsv, line \d+.*tab
train {T} --train_source=a,a2 -> comma|source
train {T} --train_source=a,nowhere --train_target=b,b2 -> nowhere
train {T} --train_source=a,a2 --train_target=b,b2 --corpus_weights=nan,1 -> --corpus_weights
train {T} --train_source=a,a2 --train_target=b,b2 --target_languages=x,y -> 1 validation texts
train {T} --train_source=a,a2 --train_target=b,b2 --corpus_weights=1,9 --model=hiero -> --corpus_w
train {T} --model=gpt5 -> gpt5
train {T} --set=width=16 -> width
train {T} --set=width -> --set
train {T} --set== -> --set
train {T} --set=nothing=1 -> nothing
train {T} --model=transformer_tiny --set=width=17 -> width
train {T} --model=transformer_tiny --set=width=99999999 -> memory|width
train {T} --seed= -> --seed
train {T} --model_dir=a -> \ba\b
train {T} --model_dir=/dev/null/run -> /dev/null
train {T} --model_dir=/proc/run -> /proc
train {T} --vocab_file=nowhere -> nowhere
train {T} --vocab_file=a -> \ba\b|vocab_file
train {T} --vocab_file=empty -> empty|vocab_file
train {T} --init_from=nowhere -> nowhere
train {T} --init_from=folder -> folder
train {T} --dataset=demo -> dataset
train --dataset=moon -> moon
train --model=ibm1 --train_source=a -> train_target
train {T} --summary -> --summary|no such model directory
train {T} --model=ibm1 --max_steps=1 => run
train {T} --model=ibm1 --max_steps=1 --update=gradient => run
train --train_source=few --train_target=wenige --model=ibm1 --max_steps=1 => all are for training
train {T} --model=ibm1 --max_steps=1 --train_source=crlf => 20
train {T} --model=ibm1 --max_steps=1 --train_source=bom => 20
train {T} --model=ibm1 --max_steps=1 --train_source=ok.tsv --train_target=ok.tsv => training pairs
train {T} --model=ibm1 --max_steps=1 --train_source=a,a2 --train_target=b,b2 => 40
train {T} --model=ibm1 --dry_run => training pairs
train {T} --num_replicas=2 -> --num_replicas needs --distribution=mirrored
translate --model_dir=m --input=nowhere -> nowhere
translate --model_dir=m --input=folder -> folder
translate --model_dir=m --input=latin -> line 20.*UTF-8
translate --model_dir=m --input=html -> markup
translate --model_dir=m --input=latin --markup=html -> latin, line 20.*UTF-8
translate --model_dir=m --input=gzip --markup=srt -> gzip
translate --model_dir=m --input=empty --markup=html -> empty: no text
translate --model_dir=m --input=a --markup=srt -> no text.*srt
translate --model_dir=m --input=html --markup=html --tag=X -> --tag
translate --model_dir=m --input=html --markup=html --score=a -> --markup
translate --model_dir=m --input=html --markup=html --engine=ctranslate2 => <body>
translate --model_dir=m --input=html --batch_size=1 --markup=html => <body>
translate --model_dir=m --input=a --output=folder -> folder
translate --model_dir=m --input=a --output=a -> \ba\b
translate --model_dir=m --input=a --output=/dev/full -> /dev/full
translate --model_dir=m --input=a --reference=one -> 20.*1|1.*20
translate --model_dir=m --input=a --reference=nowhere -> nowhere
translate --model_dir=m --input=a --reference=blank -> blank
translate --model_dir=m --input=a --reference=latin -> latin.*line 20
translate --model_dir=m --input=a --output=x --reference=x -> x
translate --model_dir=m --input=a --score=one -> 20.*1|1.*20|lines
translate --model_dir=m --input=a --score=nowhere -> nowhere
translate --model_dir=m --input=a --save_scores=x -> --reference
translate --model_dir=m --input=a --glossary=one -> one.*tab
translate --model_dir=m --input=a --reference=a --noise=typo -> typos
translate --model_dir=m --input=a --n_best=9 --beam_size=2 -> --n_best
translate --model_dir=m --input=a --keep=( -> --keep
translate --model_dir=m --input=a --input_column=1 -> --input_column|tab
translate --model_dir=m --input=ok.tsv --input_column=3 -> --input_column|column
translate --model_dir= --input=a -> --model_dir
translate --model_dir=nowhere --input=a -> nowhere
translate --model_dir=folder --input=a -> folder
translate --model_dir=a --input=a -> \ba\b
translate --model_dir=/dev/null --input=a -> /dev/null
translate --model_dir=m,i --input=a -> --tokenizer
translate --model_dir=m, --input=a -> empty
translate --model_dir=m --language_model=i --input=a -> language_model|\bi\b
translate --model_dir=m --shortlist=nowhere --input=a -> nowhere
translate --model_dir=m --lexicon=nowhere --replace_unknowns --input=a -> nowhere
translate --input=a -> --model_dir
translate --model_dir=m --input=a =>
translate --model_dir=m --input=a --sample --seed=2 --tag=XBT => (?m)^XBT .
translate --model_dir=m --input=empty -> empty
translate --model_dir=m --input=blank => blank|empty
translate --model_dir=m --input=nul =>
translate --model_dir=m --input=xml --output=x =>
translate --model_dir=m --input=crlf --beam_size=1 =>
translate --model_dir=i --input=a =>
visualize_attention --model_dir=m -> --source
visualize_attention --model_dir=m --source= -> --source
visualize_attention --model_dir=m --source=one --output=x.exe -> \.exe
visualize_attention --model_dir=m --source=one --output=folder -> folder
visualize_attention --model_dir=m --source=one --output=/dev/full -> /dev/full
visualize_attention --model_dir=m --source=one --output=x.png --layer=99 -> no layer 99
visualize_attention --model_dir=m --source=one --output=x.png --heads=nine -> --heads
visualize_attention --model_dir=nowhere --source=one --output=x.png -> nowhere
visualize_attention --model_dir=m --source=one --output=x.png =>
visualize_attention --model_dir=m --source=😀 --output=x.svg =>
align --source=a --target=one --alignments=x -> 20.*1|1.*20
align --source=nowhere --target=b --alignments=x -> nowhere
align --source=latin --target=b --alignments=x -> latin.*line 20
align --source=a --target=b --model=gpt5 --alignments=x -> gpt5|--model
align --source=a --target=b --model=ibm1 --alignments=folder -> folder
align --source=a --target=b --model=ibm1 --alignments=a -> \ba\b
align --source=a --target=b --symmetrise=union --threshold=0 --alignments=x -> --threshold
align --source=a --target=b --model=ibm1 --gold=nowhere -> nowhere
align --source=a --target=b --model=ibm1 --gold=two -> two, line 2
align --source=a --target=b --model=ibm1 --gold=many -> many, line 1
align --source=a --target=b --model=ibm1 --gold=words -> words, line 1
align --target=b --alignments=x -> --source
align --model_dir=nowhere --source=a --target=b --alignments=x -> nowhere
align --source=a --target=b --model=ibm1 --alignments=x =>
align --source=crlf --target=b --model=ibm1 --alignments=x --gold=gold =>
export --model_dir=m -> --export_dir
export --export_dir=x -> --model_dir
export --model_dir=nowhere --export_dir=x -> nowhere
export --model_dir=m --export_dir=a -> \ba\b
export --model_dir=m --export_dir=/dev/null/x -> /dev/null
export --model_dir=m --export_dir=x --check_input=nowhere -> nowhere
export --model_dir=m --export_dir=x --check_input=latin -> latin.*line 20
serve --port=1 -> --model_dir
serve --model_dir=nowhere -> nowhere
serve --model_dir=folder -> folder
serve --model_dir=m --port=99999 -> --port
"""
# File of a model directory -> contents that are refused by the name of the file; None: no file.
DAMAGED = {
    "config.json": [
        *(None, b"", b"{", b"[]", b"1", b"null", b"[" * 100_000, bytes(1000), b"\xff\xfe{}"),
        *(b'{"format": 1}', b'{"format": ' + b"1" * 10_000 + b"}"),
    ],
    "best.npz": [None, b"", b"weights\n", bytes(range(256)) * 50],
    "tokenizer/shared.model": [None, b"", b"no pieces", bytes(range(256))],
}
# Place in config.json, and values that are refused there.
EDITS = {
    "format": [2, "1"],
    "model": ["gpt5", 7, "../../etc"],
    "settings": [None, []],
    "settings.foo": [1],
    "settings.width": [10**9, "16", -16, 0, 1.5, 17, None, 32],
    "settings.num_encoder_layers": [10**6],
    "settings.num_heads": [0],
    "settings.dropout": ["__import__('os')", float("nan")],
    "code": ["x.py", ["/etc/passwd"], ["i/own.py"]],
    "tokenizer": ["char", None],
    "options": [None],
    "vocab_sizes": [[], [300], ["300", "300"], [-300, -300], [301, 301], [10**12, 10**12]],
    "sizes": [None, [1]],
}


@pytest.fixture(scope="module")
def place(folder, corpus, transformer):
    """A folder with `FILES` and two models."""
    for name, content in FILES.items():
        data = content if isinstance(content, bytes) else content.encode("utf-8")
        (folder / name).write_bytes(data)
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    shutil.copytree(transformer, folder / "m")
    train(folder, "i", *corpus, "--model=ibm1", "--max_steps=1", "--bleu_lines=0")
    return folder


def refused(done, pattern):
    """Checks that a script ended with one short line that begins with `error:` and fits."""
    assert re.search(pattern, error_of(done)), done.err


@pytest.mark.parametrize("case", CASES.strip().split("\n"))
def test_a_script_works_or_refuses_in_one_line(case, place, monkeypatch):
    monkeypatch.chdir(place)
    shutil.rmtree("run", ignore_errors=True)
    script, arguments, works, pattern = re.fullmatch(r"(\w+) (.*?) ([-=])> ?(.*)", case).groups()
    before = {*map(str, Path().rglob("*"))}
    flags = shlex.split(arguments.replace("{T}", T))
    if script == "train" and "--model_dir" not in arguments:
        flags.append("--model_dir=run")
    done = attempt(script, flags)
    made = {*map(str, Path().rglob("*"))} - before
    for name in {name.split("/")[0] for name in made} - {"data", "run"}:
        os.remove(name)
    assert not [name for name in made if ".unfinished-" in name]
    if works == "=":
        assert done.status == 0, done.err
        assert re.search(pattern, done.out + done.err) and "Traceback" not in done.err
    else:
        refused(done, pattern)
        assert {name.split("/")[0] for name in made} <= {"data", "run"}


@pytest.mark.parametrize(
    ("name", "content"), [(name, data) for name, every in DAMAGED.items() for data in every]
)
def test_a_damaged_file_of_a_model_is_named(name, content, place, tmp_path):
    path = shutil.copytree(place / "m", tmp_path / "m") / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    flags = [f"--model_dir={tmp_path / 'm'}", f"--input={place / 'one'}"]
    refused(attempt("translate", flags), re.escape(path.name))


@pytest.mark.parametrize(
    ("keys", "value"), [(keys, value) for keys, every in EDITS.items() for value in every]
)
def test_a_configuration_that_cannot_be_is_named(keys, value, place, tmp_path):
    path = shutil.copytree(place / "m", tmp_path / "m") / "config.json"
    config = inner = json.loads(path.read_text("utf-8"))
    *outer, last = keys.split(".")
    for key in outer:
        inner = inner[key]
    inner[last] = value
    path.write_text(json.dumps(config), encoding="utf-8")
    flags = [f"--model_dir={tmp_path / 'm'}", f"--input={place / 'one'}", "--engine=tensorflow"]
    refused(attempt("translate", flags), r"config\.json|tokenizer")
