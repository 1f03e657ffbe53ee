"""The engines that `decode.py` compares, and the settings of each that may be the fastest.

Each engine is made in a process of its own, after its threads are set, and imports its framework
there. It is a function `work(lines, beam_size, batch_size)`, which returns the ids of each
translation and the seconds of each call. It includes tokenization and sorting by length.
"""

import os
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.parts.side_by_side import Candidate, resident_memory
from nmt_zoo.decoding.search.terms import ALWAYS, NEVER

LENGTH_PENALTY = 0.6
SEED = 1


class Source(NamedTuple):
    """Where an engine finds its model.

    Attributes:
        name: preset.
        directory: model directory; "" for random weights.
        converted: folder with the weights for the other engine, and a folder of the tokenizer.
        kind: kind of the tokenizer.
    """

    name: str
    directory: str
    converted: str
    kind: str


# Settings of ours that are tried: kind -> list of (name, threads inside an operation, batches at a
# time, variables of the environment, number format, when searches are compiled); 0 for all threads.
# translate.py has the first, and compiles searches of one or two sentences if that pays.
NO_ONEDNN = {"TF_ENABLE_ONEDNN_OPTS": "0"}
OURS = {
    "ours": [
        ("a batch for each thread", 1, 0, NO_ONEDNN, "float32", NEVER),
        ("all threads in an operation", 0, 1, NO_ONEDNN, "float32", NEVER),
        ("all threads in an operation, oneDNN", 0, 1, {}, "float32", NEVER),
        ("compiled, a batch for each thread", 1, 0, NO_ONEDNN, "float32", ALWAYS),
        ("compiled, all threads in an operation", 0, 1, NO_ONEDNN, "float32", ALWAYS),
    ],
    "ours bfloat16": [
        ("a batch for each thread", 1, 0, {}, "bfloat16", NEVER),
        ("all threads in an operation", 0, 1, {}, "bfloat16", NEVER),
    ],
}


def our_engines(source, pieces, threads):
    """Returns {(kind, name): `Candidate`} of all settings of ours."""
    found = {}
    for kind, settings in OURS.items():
        for name, inside, batches, environment, dtype, compiles in settings:
            several = (inside or threads, threads)
            arguments = (source, pieces, dtype, batches or threads, environment, compiles)
            found[kind, name] = Candidate(name, several, ours, *arguments)
    return found


def ours(source, pieces, dtype, num_threads, environment, compiles):
    """Makes `work` of `decoding.translator`; compiled programs are ready before it is timed."""
    os.environ.update(environment)
    model, tokenizer = load_ours(source, pieces, dtype)
    from nmt_zoo.decoding.translator import Translator

    translators = {}

    def work(lines, beam_size, batch_size):
        if (beam_size, batch_size) not in translators:
            search = {"beam_size": beam_size, "length_penalty": LENGTH_PENALTY}
            search |= {"batch_size": batch_size, "num_threads": num_threads, "compiles": compiles}
            translators[beam_size, batch_size] = Translator(model, tokenizer, **search)
            if compiles == ALWAYS and batch_size == 1:
                prepare(translators[beam_size, batch_size])
        translate = translators[beam_size, batch_size].translate
        return timed(lambda some: [best[0].ids for best in translate(some)], lines, batch_size == 1)

    return work


def prepare(translator):
    """Compiles the programs for a single sentence; prints their sizes, seconds and memory."""
    from nmt_zoo.decoding.search.compiled import WIDTHS, Size

    for width in WIDTHS:
        began, before = time.perf_counter(), resident_memory()
        translator._searcher._programs.run(Size(1, width), [], 1)
        print(
            f"  compiled for {width} source tokens, beam {translator.options.beam_size}: "
            f"{time.perf_counter() - began:.1f} s, {(resident_memory() - before) / 1e6:.0f} MB",
            flush=True,
        )


def load_ours(source, pieces, dtype="float32"):
    """Starts TensorFlow and returns (model, tokenizer); `dtype` is the model's number format."""
    from nmt_zoo.common import process

    process.start()  # Before anything imports TensorFlow.

    # isort: split

    import keras

    from nmt_zoo import models
    from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
    from nmt_zoo.data_pipeline.tokenization.vocabularies import SPECIALS, WordVocabulary
    from nmt_zoo.model_directory.directory import ModelDirectory

    process.start_tensorflow()
    if source.directory:
        return ModelDirectory(source.directory).load(dtype=dtype)[:2]
    keras.utils.set_random_seed(SEED)
    exact = models.create(source.name, pieces, pieces)
    never_end(exact)
    model = models.create(source.name, pieces, pieces, dtype=dtype)
    for weight, value in zip(model.weights, exact.weights, strict=True):
        weight.assign(value)
    model.precompute()
    words = WordVocabulary([*SPECIALS, *(f"w{i}" for i in range(len(SPECIALS), pieces))])
    return model, Tokenizer("word", words, words)


def never_end(model):
    """Changes weights so that the logit of EOS is very low, whatever the input is.

    The first number of the decoder's output becomes 1. The output weights of EOS have a large
    negative number in its place, those of all other words 0.
    """
    from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID

    norm = model.decoder.norm or model.decoder.layers[-1].around_feed_forward.norm
    for weight, first in ((norm.gamma, 0.0), (norm.beta, 1.0)):
        weight.assign([first, *np.array(weight)[1:]])
    embeddings = np.array(model.target_embedding.embeddings)
    embeddings[:, 0] = 0.0
    embeddings[EOS_ID, 0] = -1e4
    model.target_embedding.embeddings.assign(embeddings)


def ctranslate2_engine(source, compute_type, inter_threads, intra_threads):
    """Makes `work` of CTranslate2, which sorts the lines and makes the batches itself."""
    import ctranslate2

    from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer

    tokenizer = Tokenizer.load(source.kind, Path(source.converted, "tokenizer"))
    pieces = tokenizer.target.pieces(range(len(tokenizer.target)))
    ids_of = {piece: i for i, piece in enumerate(pieces)}
    engine = ctranslate2.Translator(
        source.converted,
        compute_type=compute_type,
        inter_threads=inter_threads,
        intra_threads=intra_threads,
    )

    def work(lines, beam_size, batch_size):
        def translate(some):
            ids = tokenizer.source.encode(some)
            found = engine.translate_batch(
                [tokenizer.source.pieces(each) for each in ids],
                max_batch_size=batch_size,
                beam_size=beam_size,
                length_penalty=LENGTH_PENALTY,
                max_input_length=0,
                min_decoding_length=0,
                max_decoding_length=2 * max(map(len, ids)) + 20,
                return_end_token=True,
            )
            ids = [[ids_of[piece] for piece in each.hypotheses[0]] for each in found]
            return decoded(tokenizer, ids)

        return timed(translate, lines, batch_size == 1)

    return work


def timed(translate, lines, one_by_one):
    """Translates lines, in one call or in one for each; returns (ids, seconds of each call)."""
    found, seconds = [], []
    for some in [[line] for line in lines] if one_by_one else [lines]:
        began = time.perf_counter()
        found += translate(some)
        seconds.append(time.perf_counter() - began)
    return found, seconds


def decoded(tokenizer, ids):
    """Returns the ids after decoding them, which is part of the work of each engine."""
    for each in ids:
        tokenizer.target.decode(each)
    return ids
