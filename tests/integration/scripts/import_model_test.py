"""Tests of import_model.py: public pretrained models in five forms, and damaged or hostile ones."""

import json
import pickle
import shutil
import sys
import types

import numpy as np
import pytest
import safetensors.numpy
import sentencepiece
import tensorflow as tf

import nmt_zoo
from nmt_zoo.common.errors import UserError
from nmt_zoo.decoding.search.types import padded
from nmt_zoo.decoding.translator import Translator
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.model_directory.pretrained.hugging_face import read_tensors
from nmt_zoo.model_directory.pretrained.importing import import_model
from nmt_zoo.models.base import shift_right
from nmt_zoo.serving.ctranslate2.engine import CTranslate2Export
from tests.pretrained import (
    CODES,
    LINES,
    OTHER,
    logits,
    make_folder,
    write_marian,
)
from tests.running import EAGERLY, assert_same_arrays, run_script
from tests.unit.data_pipeline.web import serving

pytestmark = EAGERLY
KINDS = ("marian", "tags", "m2m", "nllb", "mbart")
ODD = ["", "the dog", "ß e ä", "x" * 30, "der the ein", "🙂 dog", " a  b "]


def languages(kind):
    signs = CODES.get(kind)
    if signs is None:
        return ("", "deu") if kind == "tags" else ("", "")
    return tuple(signs.format(code).strip("_") for code in ("en", "de"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """By kind: (folder, config, tensors, imported model directory)."""
    found = {}
    for kind in KINDS:
        path = tmp_path_factory.mktemp(kind)
        config, tensors = make_folder(path / "hub", kind)
        import_model(path / "hub", path / "run", origin=kind, languages=languages(kind))
        found[kind] = path / "hub", config, tensors, path / "run"
    return found


def flat(sides):
    return [i for side in sides for ids in side for i in ids]


def their_ids(folder, config, line, language, side):
    """Encodes a line as the toolkits do: pieces by SentencePiece, ids by the vocabulary."""
    is_marian = config["model_type"] == "marian"
    name = f"{side}.spm" if is_marian else "sentencepiece.bpe.model"
    processor = sentencepiece.SentencePieceProcessor(model_file=str(folder / name))
    pieces = processor.encode(line, out_type=str)
    unknown = 1 if is_marian else 3
    if (folder / "vocab.json").exists():
        vocabulary = json.loads((folder / "vocab.json").read_text())
        ids = [vocabulary.get(piece, unknown) for piece in pieces]
    else:
        ids = [i + 1 if i else unknown for i in processor.encode(line)]
    if not ids:
        return [config["eos_token_id"]]
    signs = {}
    if is_marian:
        signs = {">>deu<<"[2:5]: vocabulary.get(">>deu<<")} if side == "source" else {}
    else:
        added = json.loads((folder / "tokenizer_config.json").read_text())["added_tokens_decoder"]
        signs = {about["content"].strip("_"): int(i) for i, about in added.items()}
    sign = signs.get(language)
    return [*([] if sign is None else [sign]), *ids, config["eos_token_id"]]


@pytest.mark.parametrize("kind", KINDS)
def test_ids_and_logits_are_those_of_the_toolkit(made, kind):
    folder, config, tensors, run = made[kind]
    model, tokenizer, about = ModelDirectory(run).load()
    assert about["imported"]["license"] == "cc-by-4.0"
    assert about["imported"]["files"]["config.json"]
    source, target = languages(kind)
    theirs, ours, known = [], [], model.target_vocab_size
    for lines, side, language, vocabulary in (
        (LINES[::37] + ODD, "source", target if kind == "tags" else source, tokenizer.source),
        (OTHER[::13] + ODD, "target", "" if kind == "tags" else target, tokenizer.target),
    ):
        ids = [their_ids(folder, config, line, language, side) for line in lines]
        theirs.append(ids)
        ours.append(vocabulary.encode(lines))
        pieces = [*map(len, ours[-1])]
        assert pieces == [*map(len, ids)]
        assert known >= max(map(max, ours[-1]))
    assert not {0, 2, 3} & {*tokenizer.source.encode(["a </s> <s> <pad> b"])[0][:-1]}
    numbers = tokenizer.source.word_numbers(["the dog"])[0]
    assert (numbers[0] == -1) == (kind in CODES or kind == "tags") and numbers[-1] == 2
    # Our ids stand for theirs, each for one, except those of pieces that they do not know.
    unknown = 1 if config["model_type"] == "marian" else 3
    back = {}
    for mine, other in zip(flat(ours), flat(theirs), strict=True):
        assert back.setdefault(mine, other) == other
    assert len({*back.values()} - {unknown}) == len({i for i in back if back[i] != unknown})

    rows = [k for k, ids in enumerate(theirs[0]) if len(ids) > 1][:6]
    targets = [k for k, ids in enumerate(theirs[1]) if len(ids) > 1][:6]
    batch = padded([ours[1][k] for k in targets])
    found = model(
        {
            "source_ids": tf.constant(padded([ours[0][k] for k in rows])),
            "target_in_ids": shift_right(tf.constant(batch), 2),
        }
    ).numpy()
    for row, (s, t) in enumerate(zip(rows, targets, strict=True)):
        start = [config["decoder_start_token_id"], *theirs[1][t][:-1]]
        expected = logits(config, tensors, theirs[0][s], start)
        columns = [i for i in back if back[i] != unknown]
        np.testing.assert_allclose(
            found[row, : len(start)][:, columns],
            expected[:, [back[i] for i in columns]],
            atol=1e-4,
        )
        assert found[row, : len(start), 2].max() < expected.min() - 5  # <s> is never written.


def test_a_model_may_have_a_vocabulary_for_each_side(made, tmp_path):
    folder, config, tensors, _ = made["marian"]
    shutil.copytree(folder, tmp_path / "hub")
    shutil.copy(folder / "vocab.json", tmp_path / "hub" / "target_vocab.json")
    config = {**config, "share_encoder_decoder_embeddings": False}
    (tmp_path / "hub" / "config.json").write_text(json.dumps(config))
    table = tensors["model.shared.weight"]
    tensors = {name: x for name, x in tensors.items() if name != "model.shared.weight"}
    tensors |= {"model.encoder.embed_tokens.weight": table, "lm_head.weight": 0.5 * table}
    tensors["model.decoder.embed_tokens.weight"] = 0.5 * table
    safetensors.numpy.save_file(tensors, tmp_path / "hub" / "model.safetensors")
    import_model(tmp_path / "hub", tmp_path / "run", origin="x")
    model, tokenizer, _ = ModelDirectory(tmp_path / "run").load()
    vocabulary = json.loads((folder / "vocab.json").read_text())
    lines = "the dog", "ein Hund"
    ids = [v.encode([line])[0] for v, line in zip(tokenizer[1:], lines, strict=True)]
    theirs = [
        [vocabulary.get(piece, 1) for piece in v.pieces(one)]
        for v, one in zip(tokenizer[1:], ids, strict=True)
    ]
    inputs = {"source_ids": ids[0], "target_in_ids": [2, *ids[1][:-1]]}
    found = model({name: tf.constant([one]) for name, one in inputs.items()}).numpy()[0]
    start = config["decoder_start_token_id"]
    expected = logits(config, tensors, theirs[0], [start, *theirs[1][:-1]])
    np.testing.assert_allclose(found[:, ids[1]], expected[:, theirs[1]], atol=1e-4)


def test_the_search_begins_with_the_language(made):
    *_, run = made["m2m"]
    model, tokenizer, _ = ModelDirectory(run).load()
    translator = Translator.of(model, tokenizer, beam_size=2, max_length_extra=4)
    first, empty, last = (
        best for best, *_ in translator.translate(["the dog runs .", "", "big house"])
    )
    language = tokenizer.target.language_token
    assert language is not None and first.ids[0] == last.ids[0] == language
    assert CODES["m2m"].format("de") not in first.text and empty.text == ""


def test_a_tag_in_a_text_takes_the_place_of_the_language_that_is_asked_for(made):
    *_, run = made["tags"]
    tokenizer = ModelDirectory(run).tokenizer(("", "fra"))
    asked, own = tokenizer.source.encode(["the dog", ">>deu<< the dog"])
    assert asked[1:] == own[1:] and asked[0] != own[0]
    assert tokenizer.source.pieces([asked[0], own[0]]) == ["▁>>fra<<", "▁>>deu<<"]


def test_languages_are_listed_where_one_is_missing_or_unknown(made, tmp_path):
    folder, *_ = made["m2m"]
    import_model(folder, tmp_path / "run", origin="m2m")
    text = tmp_path / "text"
    text.write_text("the dog\n")
    flags = [f"--model_dir={tmp_path / 'run'}", f"--input={text}", "--engine=tensorflow"]
    flags.append("--max_length_factor=1")  # Its weights are random, so no translation ends.
    done = run_script("translate", flags, refusal="--source_language: none is given, here or when")
    assert "de, en, fr" in done.err
    flags += ["--source_language=en", "--target_language=xx"]
    done = run_script("translate", flags, refusal="--target_language: 'xx' is none of them")
    done = run_script("translate", [*flags[:-1], "--target_language=fr"])
    assert done.out.count("\n") == 1
    *_, plain = made["marian"]
    run_script("translate", [f"--model_dir={plain}", *flags[1:]], refusal="one pair of languages")


def test_ctranslate2_translates_alike(made, tmp_path):
    pytest.importorskip("ctranslate2")
    (tmp_path / "text").write_text("the dog runs .\nbig house\nsees\n")
    flags = [f"--model_dir={made['m2m'][-1]}", f"--input={tmp_path / 'text'}", "--beam_size=1"]
    flags += ["--max_input_tokens=40", "--max_length_factor=1"]
    one, two = (
        run_script("translate", [*flags, f"--engine={engine}"])
        for engine in ("tensorflow", "ctranslate2")
    )
    assert one.out == two.out and one.out.count("\n") == 3


def test_an_export_keeps_the_language_that_it_was_made_for(made, tmp_path):
    pytest.importorskip("ctranslate2")
    *_, run = made["m2m"]
    languages = ModelDirectory(run).config()["languages"]
    other = next(name for name in languages["signs"] if name != languages["target"])
    (tmp_path / "text").write_text("sees\n")
    options = {"format": "ctranslate2", "check_input": tmp_path / "text"}
    nmt_zoo.load(run, target_language=other).export(tmp_path / "x", **options)
    _, exported, _ = CTranslate2Export(tmp_path / "x").load()
    expected = ModelDirectory(run).tokenizer(("", other)).target.language_token
    assert exported.target.language_token == expected
    assert expected != ModelDirectory(run).tokenizer().target.language_token


@pytest.fixture(scope="module")
def own_form(made):
    """The folder of the model "marian" in Marian's own form."""
    folder, config, tensors, _ = made["marian"]
    write_marian(folder.with_name("marian"), config, tensors)
    return folder.with_name("marian")


def test_marians_own_form_gives_the_model_of_the_hub(made, own_form, tmp_path):
    *_, run = made["marian"]
    import_model(own_form, tmp_path / "run", origin="marian")
    one, two = (ModelDirectory(path).read_best()[0] for path in (run, tmp_path / "run"))
    assert one.keys() == two.keys()
    masked = len(one["model/output_bias"]) - 1
    for name, array in one.items():
        if name == "model/output_bias":  # Padding is never written; on the hub, its bias says so.
            assert np.flatnonzero(array != two[name]).tolist() in ([0], [], [0, masked])
        else:
            np.testing.assert_array_equal(array, two[name])
    ids = [ModelDirectory(p).tokenizer().source.encode(LINES[:5]) for p in (run, tmp_path / "run")]
    assert ids[0] == ids[1]


def test_marians_own_form_is_read_as_ctranslate2_reads_it(own_form, tmp_path):
    converters = pytest.importorskip("ctranslate2.converters")
    package = pytest.importorskip("ctranslate2")
    vocabularies = [str(own_form / "v.yml")] * 2
    converter = converters.MarianConverter(str(own_form / "m.npz"), vocabularies)
    converter.convert(str(tmp_path / "converted"))
    import_model(own_form, tmp_path / "run", origin="marian")
    model, tokenizer, _ = ModelDirectory(tmp_path / "run").load()
    lines = ["dog runs .", "big cat sees"]
    pieces = [tokenizer.source.pieces(ids[:-1]) for ids in tokenizer.source.encode(lines)]
    theirs = package.Translator(str(tmp_path / "converted")).translate_batch(
        pieces, beam_size=1, min_decoding_length=0, max_decoding_length=12, disable_unk=True
    )
    translator = Translator.of(
        model, tokenizer, beam_size=1, max_length_factor=0.0, max_length_extra=12
    )
    found = [some[0].ids for some in translator.translate(lines)]
    ours = [[p for p in tokenizer.target.pieces(ids) if p != "</s>"] for ids in found]
    assert ours == [result.hypotheses[0] for result in theirs]


def test_files_of_pytorch_are_read_by_pytorch_without_running_anything(tmp_path, monkeypatch):
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(pickle.dumps({}))
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UserError, match=r"pip install torch.*safetensors"):
        read_tensors(path)

    def load(file, map_location, weights_only):
        assert file == path and map_location == "cpu" and weights_only
        numbers = np.arange(3, dtype=np.float16)
        tensor = types.SimpleNamespace(numpy=lambda: numbers.astype(np.float32))
        tensor.detach = tensor.float = lambda: tensor
        return {"w": tensor}

    monkeypatch.setitem(sys.modules, "torch", types.SimpleNamespace(load=load))
    assert read_tensors(path)["w"].tolist() == [0, 1, 2]


def rewrite(name, change):
    """Returns a fault: a JSON file with a change."""

    def fault(folder):
        found = json.loads((folder / name).read_text())
        change(found)
        (folder / name).write_text(json.dumps(found))

    return fault


def config(**changes):
    return rewrite("config.json", lambda found: found.update(changes))


def cut(name, count):
    def fault(folder):
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[:count])

    return fault


def without_tensor(folder):
    path = folder / "model.safetensors"
    tensors = safetensors.numpy.load_file(path)
    del tensors[NORM]
    safetensors.numpy.save_file(tensors, path)


def other_spm(folder):
    from tests.pretrained import train_spm

    train_spm(folder / "source.spm", ["квк ёжз цчш щъы ьэю яфх", "мно прс туф хцч шщъ"] * 20)


def index_outside(folder):
    (folder / "model.safetensors").unlink()
    index = {"weight_map": {"w": "../../secret.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


NORM = "model.decoder.layers.1.fc1.bias"
FAULTS = {
    "no config": (lambda f: (f / "config.json").unlink(), "config.json"),
    "config cut": (cut("config.json", 40), "config.json: damaged"),
    "config a list": (lambda f: (f / "config.json").write_text("[]"), "expected an object"),
    "another kind": (config(model_type="t5"), "'t5'"),
    "activation": (
        config(activation_function="gelu_new"),
        "activation_function is 'gelu_new'",
    ),
    "no width": (rewrite("config.json", lambda c: c.pop("d_model")), "d_model is None"),
    "wide": (config(d_model=32), "has the shape"),
    "heads": (
        config(decoder_attention_heads=4),
        "encoder and decoder are 2 and 4",
    ),
    "huge": (config(vocab_size=2**31 - 1), "vocab_size is"),
    "larger": (config(vocab_size=5000), "has the shape"),
    "deep": (config(encoder_layers=3), "no tensor"),
    "shallow": (config(encoder_layers=1), "no known model"),
    "pad is end": (config(pad_token_id=0), "different ids"),
    "rate": (config(dropout="much"), "dropout is 'much'"),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "no weights"),
    "weights cut": (cut("model.safetensors", 5000), "model.safetensors: damaged"),
    "weights empty": (cut("model.safetensors", 0), "model.safetensors: damaged"),
    "no tensor": (without_tensor, f"no tensor {NORM}"),
    "vocabulary cut": (cut("vocab.json", 100), "vocab.json: damaged"),
    "an id twice": (rewrite("vocab.json", lambda v: v.update({"▁zz": 5})), "different ids"),
    "an id too large": (rewrite("vocab.json", lambda v: v.update({"▁zz": 9999})), "9999"),
    "no unknown": (rewrite("vocab.json", lambda v: v.pop("<unk>")), "no entry '<unk>'"),
    "not pieces": (lambda f: (f / "source.spm").write_text("x"), "not a SentencePiece model"),
    "of another model": (other_spm, "belongs to another model"),
    "no pieces": (lambda f: (f / "source.spm").unlink(), "subword-nmt"),
    "a way out": (index_outside, "in the same folder"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_damaged_and_hostile_folders_are_refused_in_one_line(made, tmp_path, name):
    fault, reason = FAULTS[name]
    shutil.copytree(made["marian"][0], tmp_path / "hub")
    fault(tmp_path / "hub")
    with pytest.raises(UserError) as caught:
        import_model(tmp_path / "hub", tmp_path / "run", origin="x")
    assert reason in str(caught.value) and "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["hub"]


def test_a_model_is_downloaded_by_its_name_once(made, tmp_path, monkeypatch):
    folder, *_, expected = made["marian"]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with serving() as server:
        files = [{"rfilename": p.name, "size": p.stat().st_size} for p in folder.iterdir()]
        about = json.dumps({"sha": "abcdef0123", "siblings": files}).encode()
        server.files["/api/models/o/m?blobs=true"] = about
        for path in folder.iterdir():
            server.files[f"/o/m/resolve/abcdef0123/{path.name}"] = path.read_bytes()
        mirror = f"--mirror={server.url}"
        done = run_script("import_model", ["--model=o/m", "--model_dir=run", mirror])
        assert "2 + 2 layers of 16" in done.out and "licence: cc-by-4.0" in done.out
        run_script("import_model", ["--model=o/n", "--model_dir=r2", mirror], refusal="404")
    done = run_script("import_model", ["--model=o/m", "--model_dir=r3", "--offline"])
    assert_same_arrays(expected / "best.npz", "r3/best.npz")
    flags = ["--model=o/m", "--model_dir=run", "--offline"]
    run_script("import_model", flags, refusal="another run has just begun here")
    run_script("import_model", ["--model=../x", "--model_dir=r4"], refusal="no such folder")
