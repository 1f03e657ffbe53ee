"""Small corpora and models on which scripts and trainer run in seconds."""

import random

import numpy as np
import tensorflow as tf

from nmt_zoo import models
from nmt_zoo.configuration.resolver import options_of
from nmt_zoo.data_pipeline.pipeline import dataset_of, plan_batches
from nmt_zoo.data_pipeline.tokenization.vocabularies import EOS_ID, PAD_ID
from nmt_zoo.decoding.search.beam_search import make_search
from nmt_zoo.decoding.search.processors import bar
from nmt_zoo.decoding.search.rules import DecodingRule
from nmt_zoo.decoding.search.types import SearchOptions
from nmt_zoo.model_directory.directory import ModelDirectory, model_arrays, write_archive
from nmt_zoo.training.ways.catalogue import ways_of

WORDS = {
    "one": "eins",
    "two": "zwei",
    "three": "drei",
    "dog": "Hund",
    "cat": "Katze",
    "house": "Haus",
    "sees": "sieht",
    "runs": "läuft",
    "big": "groß",
    "small": "klein",
}

# Settings of a Transformer that trains in seconds rather than minutes.
SMALL = {
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
    "width": 16,
    "num_heads": 2,
    "ffn_width": 32,
}
SMALL_FLAGS = [
    "--model=transformer_tiny",
    *(f"--set={name}={value}" for name, value in SMALL.items()),
]

# Settings of the same size for any preset; settings that a preset does not have are left out.
SMALL_ANYWHERE = {
    **SMALL,
    "embedding_width": 8,
    "encoder_units": 8,
    "decoder_units": 16,
    "rank": 8,
}
# Preset -> settings that keep it valid, or different from all other presets, at that size.
SMALL_PRESETS = {
    "lstm_seq2seq": {"encoder_units": 16},
    "lm_sep": {"encoder_units": 16},
    "lstm_luong_deep": {"num_encoder_layers": 2, "num_decoder_layers": 2},
}


def small_settings(preset):
    """Returns the settings that make a preset small."""
    small = {**SMALL_ANYWHERE, **SMALL_PRESETS.get(preset, {})}
    valid = models.preset_settings(preset)
    small = {name: value for name, value in small.items() if name in valid}
    return {n: v for n, v in small.items() if not models.why_unread(preset, n, small)}


def small_flags(preset):
    """Returns the flags of train.py that make a preset small."""
    flags = [f"--set={name}={value}" for name, value in small_settings(preset).items()]
    return [f"--model={preset}", *flags]


def rate_flags(preset):
    """Returns the flags with which a small model learns quickly by gradient, if it learns so."""
    by_gradient = ways_of(preset)[0] == "gradient"
    return ["--learning_rate=0.03", "--warmup_steps=1"] if by_gradient else []


def pairs(count, seed=1):
    """Draws (English, German) sentences of 1 to 7 words, translated word by word."""
    rng = random.Random(seed)
    sources = [rng.choices(list(WORDS), k=rng.randint(1, 7)) for _ in range(count)]
    return [(" ".join(s), " ".join(WORDS[word] for word in s)) for s in sources]


def corpus_flags(folder, train=200, valid=20):
    """Writes a corpus into a folder; returns the flags of train.py that name it."""
    flags = []
    for split, count, seed in (("train", train, 1), ("valid", valid, 2)):
        for side, texts in zip(
            ("source", "target"), zip(*pairs(count, seed), strict=True), strict=True
        ):
            path = folder / f"{split}.{side}"
            path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
            flags.append(f"--{split}_{side}={path}")
    return flags


def save_model(path, preset, settings, tokenizer, change=lambda model: None):
    """Makes a model directory without training."""
    directory = ModelDirectory(path)
    sizes = [len(tokenizer.source), len(tokenizer.target)]
    config = {"model": preset, "settings": settings, "tokenizer": tokenizer.kind}
    options = dict(options_of(preset, "files", {}))
    directory.start({**config, "vocab_sizes": sizes, "options": options}, tokenizer)
    model = models.create(preset, *sizes, **settings)
    change(model)
    write_archive(directory.best_path, model_arrays(model), {"step": 2})
    for step, nll in ((1, 3.0), (2, 2.0)):
        record = {"step": step, "seconds": 1.0, "kind": "train", "nll": nll}
        directory.append_metrics(record)


class Echo(models.TranslationModel):
    """A model that needs no training: it repeats its source, with `</s>`.

    Attributes:
        hypotheses: counts the hypotheses that the model was asked to extend.
    """

    def __init__(self, vocab_size, **kwargs):
        super().__init__(vocab_size, vocab_size, **kwargs)
        self.hypotheses = tf.Variable(0)
        self.built = True

    def encode(self, source_ids, training=False):
        return {"source_ids": source_ids}

    def initial_state(self, context):
        return {}

    def decode_step(self, token_ids, step, state, context):
        self.hypotheses.assign_add(tf.size(token_ids))
        source_ids = context["source_ids"]
        here = tf.range(tf.shape(source_ids)[1]) == step
        wanted = tf.reduce_max(tf.where(here, source_ids, PAD_ID), axis=1)
        num_beams = tf.size(token_ids) // tf.size(wanted)
        logits = tf.one_hot(tf.repeat(wanted, num_beams), self.target_vocab_size, on_value=50.0)
        return models.StepOutput(logits, {}, tf.zeros([tf.size(token_ids), 1]))


class Greedy(Echo):
    """An `Echo` that runs out of memory at a sentence that begins with `token`.

    It says so itself: TensorFlow would wait ten seconds for memory that never comes.
    """

    def __init__(self, vocab_size, token):
        super().__init__(vocab_size)
        self.token = token

    def encode(self, source_ids, training=False):
        def allocate(is_much):
            if is_much.any():
                raise MemoryError  # TensorFlow makes a ResourceExhaustedError of it.
            return np.int32(0)

        nothing = tf.numpy_function(allocate, [source_ids[:, 0] == self.token], tf.int32)
        return {"source_ids": source_ids + tf.reshape(nothing, [])}


def traced_search(
    model, limit, beam_size=3, alpha=0.6, *, emit_unknowns=False, forbidden=None, each=False
):
    """Returns beam search in a graph, a function of source ids `[B, S]` that returns arrays.

    Its second argument is `n_best`, by default the beam, or `SentenceOptions` with `each`. The id
    `forbidden`, if there is one, is never emitted.
    """

    class WithoutForbidden(DecodingRule):
        def change(self, scores, ids):
            return bar(scores, tf.range(scores.shape[1]) == forbidden)

    options = SearchOptions(beam_size, alpha, emit_unknowns)
    options = options._replace(max_length_factor=0.0, max_length_extra=limit)
    if forbidden is not None:
        options = options._replace(rules=(WithoutForbidden(None),))
    search = make_search(model, options, each_sentence=each)
    return lambda ids, n_best=beam_size: tf.nest.map_structure(
        lambda tensor: tensor.numpy(), search(ids, n_best)
    )


class Markov(models.Searchable):
    """A model of random weights: the next token depends on the last one, the step and the source.

    Each sentence has weights of its own, so that a batch searches many models at once. Attention
    depends on the last token.
    """

    VOCAB = 7

    def __init__(self, seed, **kwargs):
        super().__init__(self.VOCAB, self.VOCAB, **kwargs)
        self.logits = np.random.default_rng(seed).normal(size=(1000, 8, 7, 7)).astype("float32")
        self.built = True

    def encode(self, source_ids, training=False):
        return {"model": source_ids[:, 0]}

    def initial_state(self, context):
        return {}

    def decode_step(self, token_ids, step, state, context):
        models_of = tf.repeat(
            context["model"], tf.size(token_ids) // tf.maximum(tf.size(context["model"]), 1)
        )
        places = tf.stack([models_of, tf.fill(tf.shape(models_of), step % 8), token_ids], axis=1)
        logits = tf.gather_nd(2 * self.logits, places)
        return models.StepOutput(logits, {}, tf.zeros([tf.size(token_ids), 1]))


def batches(corpus, batching, *, first_batch=0, **which):
    """Returns the batches of an epoch; `which` holds `seed` and `epoch`, as for `plan_batches`."""
    return dataset_of(corpus, plan_batches(corpus, batching, **which), first_batch)


def echo_batch(lengths):
    """Makes source ids `[B, S]` int32, from 4 to 7, of sentences of these lengths with `</s>`."""
    ids = np.full((len(lengths), max(lengths)), PAD_ID, np.int32)
    for row, length in zip(ids, lengths, strict=True):
        row[:length] = [*np.arange(length - 1) % 4 + 4, EOS_ID]
    return ids
