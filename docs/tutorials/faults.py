"""Plants quiet faults of translation models one by one, trains, and writes the table of faults.md.

    python -m docs.tutorials.faults

Every fault is a few lines that are replaced while a small model is trained on the included corpus,
or while it translates or is scored. tests/integration/faults_test.py plants the same faults and
checks that the law or the warning that `FAULTS` names finds each of them.
"""

import argparse
import contextlib
import functools
import importlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from benchmarks.tables.cells import with_tables
from nmt_zoo import models
from nmt_zoo.command_line.machine import machine
from nmt_zoo.common.files import write_lines, write_text
from nmt_zoo.data_pipeline import text_checks
from nmt_zoo.data_pipeline.datasets import prepare
from nmt_zoo.data_pipeline.lines import open_split
from nmt_zoo.data_pipeline.tokenization import vocabularies
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.decoding import scores
from nmt_zoo.decoding.search import extension
from nmt_zoo.decoding.text.line_warnings import LineWarnings
from nmt_zoo.decoding.translator import Translator
from nmt_zoo.model_directory.directory import ModelDirectory
from nmt_zoo.models import base, transformer
from nmt_zoo.models.layers import attention, basic, transformer_layers
from nmt_zoo.training.validation.evaluation import Evaluator
from nmt_zoo.training.ways.gradient import gradient, losses, moving_average
from nmt_zoo.training.ways.gradient.adam import Constant, adam

BLEU = importlib.import_module("sacrebleu.metrics").BLEU  # Modules import it where they use it.

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs/results/faults/gallery.json"
PAGE = ROOT / "docs/tutorials/faults.md"
GITHUB = "https://github.com"

# The code that is replaced.

_real = {
    "dropout": basic.Dropout.call,
    "encode": vocabularies.BpeVocabulary.encode,
    "extended": extension._extended,
    "training_arrays": gradient.training_arrays,
    "corpus_score": BLEU.corpus_score,
}


def _not_shifted(target_ids, bos_id):
    return target_ids


def _see_all(length):
    return ops.ones((1, 1, length, length), "bool")


def _causal_in_cross_attention(self, x, memory, source_mask, training=None):
    sees = ops.arange(ops.shape(x)[1])[:, None] >= ops.arange(ops.shape(memory)[1])
    visible = source_mask[:, None, None, :] & sees
    return self.through(
        x,
        lambda y: self.self_attention(y, training=training),
        lambda y: self.cross_attention(y, memory, visible, training=training),
        training=training,
    )


def _smoothed_everywhere(outputs, weights, wanted, taught):
    logits, e = losses.logits_of(outputs, *weights), wanted.label_smoothing
    log_probs = tf.nn.log_softmax(logits)
    nll = -tf.gather(log_probs, wanted.target_ids, batch_dims=2) * wanted.mask
    loss = (1 - e) * nll - e * tf.reduce_mean(log_probs, axis=-1)  # The second part has no mask.
    return tuple(map(tf.reduce_sum, (loss, tf.stop_gradient(nll), wanted.mask)))


def _without_eos(self, lines):
    return [row[:-1] for row in _real["encode"](self, lines)]


def _mean_of_means(totals):
    *gradients, sums = totals
    return [g / 2.0 for g in gradients], sums


@contextlib.contextmanager
def _not_restored(self):
    for weight, average in zip(self.weights, self.averages, strict=True):
        weight.assign(average)
    yield


def _without_optimizer(model, optimizer):
    arrays = _real["training_arrays"](model, optimizer).items()
    return {name: array for name, array in arrays if not name.startswith("optimizer/")}


def _from_the_peak(self, step):
    return self.peak * self._after(ops.maximum(ops.cast(step, "float32") + 1.0, self.warmup_steps))


def _states_stay(*arguments):
    beam, parents = _real["extended"](*arguments)
    return beam, tf.range(tf.size(parents))


def _teacher_forced(self):
    """Takes the best next word after each word of the reference, in place of a translation."""
    sides = self.translator.tokenizer[1:]
    lines = self.source_lines, self.target_lines
    ids = [_padded(side.encode(text)) for side, text in zip(sides, lines, strict=True)]
    inputs = {"source_ids": ids[0], "target_in_ids": models.shift_right(ids[1], 2)}
    best = np.argmax(self.way.model(inputs), axis=-1)
    outputs = [sides[1].decode(row) for row in np.where(ids[1] == 0, 0, best).tolist()]
    return [*zip(*lines, outputs, strict=True)]


# What a user is told.


def _of_text(train, valid):
    """Returns the warnings of train.py about a training text and its validation text."""
    folder = ROOT / "build/faults"
    texts = []
    for name, pairs in (("train", train), ("valid", valid)):
        paths = [folder / f"{name}.{side}" for side in ("en", "de")]
        for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
            write_lines(path, lines)
        texts.append(open_split(paths))
    return [*text_checks.text_warnings(texts[0], {"validation": texts[1]}, own=True)]


def _of_scores(train, valid):
    """Returns the remarks of translate.py --reference about references."""
    return scores.remarks([[target for _, target in valid]])


def _shifted(train, valid):
    sources, targets = zip(*train, strict=True)
    return [*zip(sources, (*targets[1:], targets[0]), strict=True)], valid


def _turned(train, valid):
    return train, [pair[::-1] for pair in valid]


def _leaked(train, valid):
    return valid + train[len(valid) :], valid


def _split(line):
    return re.sub(r"(\w)([^\w\s])", r"\1 \2", re.sub(r"([^\w\s])(\w)", r"\1 \2", line))


def _tokenised(train, valid):
    return train, [(source, _split(target)) for source, target in valid]


class Fault(NamedTuple):
    """A fault, what shows it, and where people met it."""

    title: str
    about: str  # What happens.
    right: str  # Code.
    wrong: str  # The code in its place.
    thread: str  # On GitHub.
    finder: str  # Node of a test, or the beginning of a warning.
    patches: tuple = ()  # (owner, name, replacement) while the fault is planted.
    when: str = "training"  # "text", "training", "translating" or "scoring": first affected.
    change: Callable | None = None  # Of (training pairs, validation pairs).
    says: Callable | None = None  # Returns warnings about these; None: `finder` is a test.
    options: dict[str, Any] = {}  # Of `train`.  # noqa: RUF012


CONTRACT = "tests/integration/models/contract_test.py::test_"
GRADIENT = "tests/integration/training/updates/gradient_test.py::test_"
SEARCH = "tests/integration/decoding/search/beam_search_test.py::test_"
SHIFTS = [(module, "shift_right", _not_shifted) for module in (base, models, gradient, transformer)]

FAULTS = {
    "look_ahead": Fault(
        "No look-ahead mask",
        "Each position sees the word that it has to predict, so the loss falls below what a "
        "sound model can reach. While translating there is nothing to copy.",
        "from_past = causal_mask(T)",
        "from_past = ones((1, 1, T, T))",
        "jadore801120/attention-is-all-you-need-pytorch/issues/19",
        CONTRACT + "future_target_tokens_change_nothing_and_past_ones_do[transformer_tiny]",
        ((attention, "causal_mask", _see_all),),
    ),
    "not_shifted": Fault(
        "Decoder input not shifted",
        "The decoder is given the word that it has to predict and learns to copy it. The loss "
        "goes to almost nothing, which is the only sign.",
        "target_in = [<s>, *target[:-1]]",
        "target_in = target",
        "jadore801120/attention-is-all-you-need-pytorch/issues/123",
        CONTRACT + "the_decoder_is_given_the_start_and_all_words_but_the_last",
        tuple(SHIFTS),
    ),
    "source_padding": Fault(
        "Source padding not masked",
        "Short sentences attend to padding, by an amount that depends on the longest sentence "
        "of the batch. Loss and BLEU hardly change in batches of equal lengths, and the same "
        "line is translated differently in another batch.",
        "source_mask = source_ids != PAD",
        "source_mask = ones_like(source_ids)",
        "huggingface/transformers/pull/47946",
        CONTRACT
        + "extra_columns_and_rows_of_padding_are_finite_and_change_nothing[transformer_tiny]",
        ((transformer, "padding_mask", lambda ids, pad_id: ops.ones_like(ids, "bool")),),
    ),
    "cross_mask": Fault(
        "The decoder's mask in cross-attention",
        "In training, the decoder sees only as much of the source as it has written of the "
        "target; while translating, one word at a time, it sees all. The loss hardly differs, "
        "and the text is bad.",
        "cross(y, memory, source_mask)",
        "cross(y, memory, source_mask & causal)",
        "NVIDIA/TransformerEngine/issues/629",
        CONTRACT + "logits_and_attention_of_steps_are_those_of_the_whole[transformer_tiny]",
        ((transformer_layers.DecoderLayer, "call", _causal_in_cross_attention),),
    ),
    "positions": Fault(
        "The same position for all words",
        "Source and target are bags of words to attention; only the decoder's mask still "
        "counts words. The grammar of the included corpus is so regular that BLEU hardly "
        "shows it.",
        "q, k = rotate(q, positions), rotate(k, positions)",
        "q, k = rotate(q, 0), rotate(k, 0)",
        "cmu-l3/anlp-fall2025-code/issues/1",
        CONTRACT + "every_source_token_counts_and_their_order_where_a_model_knows_of_positions"
        "[transformer_tiny]",
        ((attention, "rotate", lambda x, first=0: x),),
    ),
    "loss_padding": Fault(
        "Padding in the loss (and the accuracy)",
        "The mean is over padding, too, which is easy to predict: loss and perplexity look "
        "better than they are, and so does an accuracy. Batches with more padding train less.",
        "sum(loss * mask) / sum(mask)",
        "mean(loss)",
        "keras-team/keras-io/pull/1997",
        GRADIENT + "padding_changes_no_update",
        (
            (
                losses.Wanted,
                "mask",
                property(lambda self: tf.ones_like(self.target_ids, tf.float32)),
            ),
        ),
    ),
    "smoothed_padding": Fault(
        "Label smoothing over padding",
        "The mask reaches only half of the loss. The model is asked to predict all words "
        "alike where there is only padding, and the loss that is printed grows with the share "
        "of padding.",
        "((1 - e) * nll + e * uniform) * mask",
        "(1 - e) * nll * mask + e * uniform",
        "pytorch/pytorch/issues/73205",
        GRADIENT + "padding_changes_no_update",
        ((gradient, "training_losses", _smoothed_everywhere),),
    ),
    "mean_of_means": Fault(
        "Accumulated batches weigh the same",
        "A batch of short sentences weighs as much as one of long ones, so a word counts more "
        "in a short sentence. Two batches of one update, sorted by length, do so here.",
        "sum(gradients * tokens) / sum(tokens)",
        "mean(gradients)",
        "meta-pytorch/torchtune/pull/1875",
        GRADIENT + "batches_of_one_update_count_as_one_large_batch[tokens]",
        (
            (gradient, "summands", lambda gradients, sums: [*gradients, sums]),
            (gradient, "mean", _mean_of_means),
        ),
        options={"parts": 2},
    ),
    "no_warm_up": Fault(
        "No warm-up",
        "The first updates have the full rate, while Adam knows next to nothing about the "
        "gradients. A small pre-norm model with clipped gradients may forgive it, large "
        "post-norm models do not.",
        "rate = peak * min(step / w, sqrt(w / step))",
        "rate = peak * min(1, sqrt(w / step))",
        "OpenNMT/OpenNMT-py/issues/227",
        "tests/unit/training/updates/schedules_test.py::test_papers_peak_gives_the_papers_equation_3",
        ((Constant, "__call__", _from_the_peak),),
    ),
    "average_stays": Fault(
        "Averaged weights stay after validation",
        "Training goes on from the average instead of its own weights, at every validation; "
        "here every 25 updates. It only seems to be slow.",
        "assign(average); validate(); assign(own)",
        "assign(average); validate()",
        "PKU-YuanGroup/Open-Sora-Plan/issues/186",
        GRADIENT + "a_moving_average_follows_the_weights_and_stands_in_for_them",
        ((moving_average.MovingAverage, "in_place", _not_restored),),
        options={"ema_decay": 0.99, "validate_every": 25},
    ),
    "no_optimizer": Fault(
        "Optimizer not restored",
        "A resumed run has its weights, but neither the moments of Adam nor the place in the "
        "schedule, so that it warms up again. Here four times in 400 updates.",
        "restore(weights); restore(optimizer)",
        "restore(weights)",
        "modernmt/modernmt/issues/321",
        "tests/integration/training/loop_test.py::test_all_state_of_an_update_resumes_exactly",
        ((gradient, "training_arrays", _without_optimizer),),
        options={"resume_every": 100},
    ),
    "shifted_lines": Fault(
        "A line too many in one file",
        "Every source is paired with the target of its neighbour. The loss falls, because the "
        "decoder learns its own language.",
        "pairs = zip(source, target)",
        "pairs = zip(source, target[1:])",
        "IgnatiusEzeani/IGBONLP/issues/2",
        "the training text is shifted in",
        when="text",
        change=_shifted,
        says=_of_text,
    ),
    "swapped_sides": Fault(
        "Sides of the validation text swapped",
        "Training is as always; only the scores of validation mean nothing, and early "
        "stopping and the choice of the best weights with them.",
        "--valid_source=a.en --valid_target=a.de",
        "--valid_source=a.de --valid_target=a.en",
        "keras-team/keras-io/pull/1997",
        "source and target of the validation text are swapped",
        when="text",
        change=_turned,
        says=_of_text,
    ),
    "leaked": Fault(
        "Test lines in the training text",
        "The text that is scored was seen in training. The last column scores other lines "
        "that were not.",
        "train = pairs[200:]",
        "train = pairs",
        "vietai/mTet/issues/5",
        "validation sources are in the training text, too",
        when="text",
        change=_leaked,
        says=_of_text,
    ),
    "no_end": Fault(
        "No end of sentence",
        "The model never learns to stop, and every translation ends at the limit of its "
        "length. The loss hardly differs.",
        "ids = [*encode(line), EOS]",
        "ids = encode(line)",
        "fe1ixxu/ALMA/issues/22",
        "tests/unit/data_pipeline/tokenization/tokenizers_test.py::"
        "test_every_line_ends_in_eos_which_no_text_spells_and_an_empty_one_is_nothing_else[bpe]",
        ((vocabularies.BpeVocabulary, "encode", _without_eos),),
    ),
    "other_ids": Fault(
        "Ids of another vocabulary",
        "A vocabulary that was learnt anew has the same size, but its ids stand for other "
        "pieces. The text is made of words, and nonsense.",
        "tokenizer = load(model_dir)",
        "tokenizer = learn(text_of_today)",
        "mozilla/translations/issues/90",
        "tests/unit/model_directory/configuration_test.py::"
        "test_a_changed_byte_of_a_vocabulary_or_a_second_run_is_noticed",
        ((ModelDirectory, "_check_vocabulary", lambda self, sums: None),),
        when="translating",
    ),
    "dropout": Fault(
        "Dropout while translating",
        "The network that translates is damaged at random, so that two runs give two texts. "
        "BLEU falls, which is easily blamed on something else.",
        "dropout(x, training=False)",
        "dropout(x, training=True)",
        "ipolharvard/ethos-ares/issues/20",
        CONTRACT + "logits_and_attention_of_steps_are_those_of_the_whole[transformer_tiny]",
        (
            (
                basic.Dropout,
                "call",
                lambda self, inputs, training=False: _real["dropout"](self, inputs, training=True),
            ),
        ),
        when="translating",
    ),
    "states_stay": Fault(
        "Beam search leaves its states behind",
        "Hypotheses go on from the states of others. Greedy search is not affected, and a "
        "small beam hardly: only a comparison with the model's own scores shows it.",
        "state = gather(state, parents)",
        "(nothing)",
        "awslabs/sockeye/pull/731",
        SEARCH + "hypotheses_are_distinct_ranked_and_have_the_models_own_scores",
        ((extension, "_extended", _states_stay),),
        when="translating",
    ),
    "no_length": Fault(
        "Beam search without length normalisation",
        "Scores are sums of negative numbers, so that short translations win. Among short "
        "sentences, with a beam of 4, it hardly shows; larger beams make it worse.",
        "score = log_prob / penalty(length)",
        "score = log_prob",
        "tensorflow/nmt/pull/206",
        SEARCH + "equals_brute_force_at_full_width[0.6]",
        ((extension, "length_normaliser", lambda length, *more: tf.ones_like(length, tf.float32)),),
        when="translating",
    ),
    "teacher_forced": Fault(
        "Teacher forcing measured as translation",
        "After each word, the model is told the right one, and never has to live with its own "
        "mistakes. The number is no BLEU of translations: it may be higher or, as here, a "
        "little lower.",
        "output = search(source)",
        "output = argmax(model(source, reference))",
        "keon/seq2seq/issues/8",
        "tests/integration/training/loop_test.py::"
        "test_evaluation_is_the_perplexity_a_token_and_sacrebleu_of_greedy_output",
        ((Evaluator, "_translate", _teacher_forced),),
        when="scoring",
    ),
    "bleu_swapped": Fault(
        "Arguments of BLEU swapped",
        "Precision becomes recall, and the brevity penalty punishes long translations in "
        "place of short ones. The number looks plausible.",
        "bleu(outputs, [references])",
        "bleu(references, [outputs])",
        "bentrevett/pytorch-seq2seq/issues/62",
        "tests/unit/decoding/scores_test.py::test_one_of_several_references_is_enough",
        (
            (
                BLEU,
                "corpus_score",
                lambda self, outputs, references: _real["corpus_score"](
                    self, references[0], [outputs]
                ),
            ),
        ),
        when="scoring",
    ),
    "tokenised": Fault(
        "BLEU of tokens beside BLEU of text",
        "Marks that are split off count as words. One function tokenises both sides here, so "
        "nothing shows; between scores of different tools, it is often more than the "
        "difference of two systems (Post 2018).",
        "bleu(detokenised)",
        "bleu(tokenised)",
        "moses-smt/mosesdecoder/issues/186",
        "the references look tokenised",
        when="scoring",
        change=_tokenised,
        says=_of_scores,
    ),
}


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """Plants a fault of `FAULTS`, or none if the name is "none"."""
    with contextlib.ExitStack() as stack:
        for owner, attribute, replacement in FAULTS[name].patches if name in FAULTS else ():
            stack.enter_context(mock.patch.object(owner, attribute, replacement))
        yield


# The experiment.

SIZES = {"num_encoder_layers": 1, "num_decoder_layers": 1, "width": 64, "num_heads": 4}
SIZES |= {"ffn_width": 128, "positions": "rotary"}
SEEDS = 2, 3  # Of further models without a fault.
PAIRS, VALID, SENTENCES, RATE, WARM_UP = 8000, 200, 128, 1e-2, 100


def pairs(data_dir: str | Path) -> tuple[list, list, list]:
    """Returns pairs of short sentences of the included corpus: (training, validation, test)."""
    splits, parts = prepare("demo", data_dir), []
    for name, count in (("train", PAIRS), ("valid", VALID), ("test", VALID)):
        lines = zip(*open_split(splits[name]), strict=True)
        parts.append([pair for pair in lines if len(pair[0].split()) < 9][:count])
    return tuple(parts)


def _padded(rows):
    length = max(map(len, rows))
    return np.array([[*row, *[0] * (length - len(row))] for row in rows], np.int32)


def _batches(corpus, seed, parts):
    """Yields lists of batches for ever, each a random draw: their lengths differ on purpose."""
    draw = np.random.default_rng(seed)
    while True:
        rows = draw.choice(len(corpus), SENTENCES, replace=False)
        rows = sorted(rows, key=lambda row: len(corpus[row][1]) if parts > 1 else 0)
        yield [
            dict(
                zip(
                    ("source_ids", "target_ids"),
                    (tf.constant(_padded([corpus[row][side] for row in part])) for side in (0, 1)),
                    strict=True,
                )
            )
            for part in (rows[i * SENTENCES // parts :][: SENTENCES // parts] for i in range(parts))
        ]


def train(
    encoded: list,
    size: int,
    steps: int,
    *,
    parts: int = 1,
    ema_decay: float = 0.0,
    validate_every: int = 0,
    resume_every: int = 0,
    seed: int = 1,
) -> tuple[Any, float]:
    """Trains a model on pairs of ids; returns (`Gradient`, mean loss of the last 50 updates)."""
    keras.utils.set_random_seed(seed)
    model = models.create("transformer_tiny", size, size, **SIZES)
    way = gradient.Gradient(
        model, adam(learning_rate=RATE, warmup_steps=WARM_UP), ema_decay=ema_decay
    )
    kept = []
    for step, batches in zip(range(1, steps + 1), _batches(encoded, seed, parts), strict=False):
        loss, tokens = way.step(*batches)["loss"]
        kept = [*kept[-49:], (float(loss), float(tokens))]
        if validate_every and step % validate_every == 0:
            with way.for_validation():
                pass
        if resume_every and step % resume_every == 0:
            restored = {id(variable) for variable in way.variables().values()}
            for variable in way.optimizer.variables:
                if id(variable) not in restored:
                    variable.assign(ops.zeros_like(variable))
    losses_, tokens = zip(*kept, strict=True)
    return way, sum(losses_) / sum(tokens)


class Experiment:
    """Trains, translates and scores with each fault; the model without one serves several."""

    def __init__(self, data_dir: Path, steps: int) -> None:
        self.steps = steps
        *self.pairs, self.test = pairs(data_dir)
        self.tokenizer = self._tokenizer(self.pairs[0])

    def _tokenizer(self, of):
        return train_tokenizer("bpe", *map(list, zip(*of, strict=True)), vocab_size=2000)

    @functools.cached_property
    def sound(self) -> Any:
        """A model that was trained without a fault."""
        return self._train(self.pairs[0])[0]

    def _train(self, of, **options):
        encoded = [*zip(*map(self._encoded, zip(*of, strict=True)), strict=True)]
        return train(encoded, len(self.tokenizer.source), self.steps, **options)

    def run(self, name: str, **options: Any) -> dict[str, Any]:
        """Returns the figures of a fault, or of no fault; `options` are of `train`."""
        keras.utils.set_random_seed(1)
        fault = FAULTS.get(name, Fault(*[""] * 6))
        if fault.when in ("translating", "scoring"):
            _ = self.sound  # Trained before the fault is planted.
        train_pairs, valid = fault.change(*self.pairs) if fault.change else self.pairs
        result: dict[str, Any] = {}
        with planted(name):
            if fault.when in ("text", "training"):
                way, result["loss"] = self._train(train_pairs, **(options or fault.options))
            else:
                way = self.sound
            tokenizer = self.tokenizer
            if name == "other_ids":
                tokenizer = self._tokenizer(self.pairs[0][PAIRS // 2 :])
            translator = Translator.of(way.model, tokenizer, beam_size=4, length_penalty=0.6)
            sources, references = map(list, zip(*valid, strict=True))
            found = [best for best, *_ in translator.translate(list(sources))]
            outputs = [hypothesis.text for hypothesis in found]
            result["perplexity"] = float(np.exp(self._nll(way, tokenizer, valid)))
            shown = [_split(line) for line in outputs] if name == "tokenised" else outputs
            if name == "teacher_forced":
                evaluator = mock.Mock(translator=translator, way=way)
                evaluator.source_lines, evaluator.target_lines = sources, references
                shown = [output for *_, output in _teacher_forced(evaluator)]
            result["bleu"] = _bleu(shown, references)
        if fault.when == "text":  # The model is scored on other, sound text.
            sources_, references = map(list, zip(*self._fair(name), strict=True))
            outputs = [best.text for best, *_ in translator.translate(sources_)]
        elif fault.when == "scoring":
            references = [target for _, target in self.pairs[1]]
        result["bleu_sound"] = _bleu(outputs, references)
        if name not in FAULTS:
            sources_, references = map(list, zip(*self.test, strict=True))
            test = [best.text for best, *_ in translator.translate(sources_)]
            result["bleu_test"] = _bleu(test, references)
        notes = LineWarnings(max_length=256)
        notes.add(sources, self.tokenizer.source.encode(sources), [[best] for best in found])
        result["warnings"] = [*notes]
        return result

    def _fair(self, name):
        return self.test if name == "leaked" else self.pairs[1]

    def _encoded(self, lines):
        return self.tokenizer.source.encode(list(lines))

    def _nll(self, way, tokenizer, valid):
        sides = [_padded(tokenizer.source.encode(list(x))) for x in zip(*valid, strict=True)]
        batch = dict(zip(("source_ids", "target_ids"), map(tf.constant, sides), strict=True))
        return np.divide(*way.evaluate(batch)["nll"])


def _bleu(outputs, references):
    return float(scores.corpus_scores(outputs, [references])["bleu"].score)


# The page.


def _slug(title):
    return re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")


def table() -> list[str]:
    """Returns the lines of the table of faults.md, from gallery.json."""
    rows = [
        "| fault | loss | perplexity | BLEU shown | BLEU |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    figures_of = _figures()
    names = ["none", *(f"seed {seed}" for seed in SEEDS), *FAULTS]
    for name, figures in ((name, figures_of[name]) for name in names):
        title = "**none**" if name == "none" else f"**none**, {name}"
        if name in FAULTS:
            title = f"[{FAULTS[name].title}](#{_slug(FAULTS[name].title)})"
        loss = f"{figures['loss']:.2f}" if "loss" in figures else "–"
        perplexity = f"{figures['perplexity']:.2f}" if "loss" in figures else "–"
        cells = [f"{figures[x]:.1f}" for x in ("bleu", "bleu_sound")]
        rows.append(f"| {' | '.join([title, loss, perplexity, *cells])} |")
    return rows


def sections() -> list[str]:
    """Returns the lines that describe each fault: code, what happens, what finds it, a thread."""
    lines, figures = [], _figures()
    for name, fault in FAULTS.items():
        lines += [f"### {fault.title}", "", "```diff"]
        lines += [f"- {fault.right}", f"+ {fault.wrong}", "```", "", fault.about, ""]
        path, _, test = fault.finder.partition("::")
        finder = f"the warning “… {fault.finder} …”"
        if not fault.says:
            finder = f"`{test}` in [{Path(path).name}](../../{path})"
        lines += [f"* Found by {finder}."]
        if told := [line.rpartition(" (line")[0] for line in figures[name]["warnings"]]:
            lines += [f"* `translate.py` also warns: {'; '.join(told)}."]
        lines += [f"* People met it in [{fault.thread}]({GITHUB}/{fault.thread}).", ""]
    return lines


def _figures():
    return json.loads(RESULTS.read_text(encoding="utf-8"))["faults"]


def page(text: str) -> str:
    """Returns the text of faults.md with the table and the sections of `FAULTS`."""
    return with_tables(text, {"table": table(), "sections": sections()})


def main() -> None:
    """Plants all faults that gallery.json lacks, and writes it and the page."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--data_dir", type=Path, default=ROOT / "data")
    flags = parser.parse_args()
    record: dict[str, Any] = {"command": "python -m docs.tutorials.faults", "seed": 1}
    record |= {"steps": flags.steps, "pairs": PAIRS, "settings": SIZES, "machine": machine()}
    if RESULTS.exists():
        record = json.loads(RESULTS.read_text(encoding="utf-8"))
    found = record.setdefault("faults", {})
    experiment = Experiment(flags.data_dir, record["steps"])
    for name in ["none", *(f"seed {seed}" for seed in SEEDS), *FAULTS]:
        if name not in found:
            options = {"seed": int(name.split()[1])} if name.startswith("seed") else {}
            found[name] = experiment.run(name, **options)
            print(name, found[name], flush=True)
            write_text(RESULTS, json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    write_text(PAGE, page(PAGE.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
