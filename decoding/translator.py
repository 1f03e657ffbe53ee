"""Strings to strings: tokenizer, batches by length, beam search, detokenizer."""

from contextlib import nullcontext
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from data_pipeline.files import UserError
from data_pipeline.progress import Progress
from data_pipeline.tokenizers import BOS_ID, EOS_ID, PAD_ID, UNK_ID
from decoding.beam_search import beam_search


class Translation(NamedTuple):
    """One translation of one line.

    Attributes:
        text: the detokenised line.
        score: log-probability divided by the length penalty.
        log_prob: natural log-probability of its tokens with `</s>`.
        finished: False if it was cut at its length limit.
        ids: its tokens with `</s>`.
    """

    text: str
    score: float
    log_prob: float
    finished: bool
    ids: list


# Longest line that is translated, in tokens with `</s>`, as `--max_length` counts. No sentence is
# as long: training leaves out all beyond 256 tokens unless told otherwise, the longest sentences of
# newspapers and parliaments have some 300, and of a longer line models translate the beginning
# only. Attention takes memory with the square of the length: at 1,024 tokens some 100 MB for most
# models, at 40,000 tokens tens of GB.
MAX_INPUT_TOKENS = 1024
_MAX_TOKENS = 8192  # Of a batch: a few very long lines must not exhaust the memory.
EMPTY = Translation("", 0.0, 0.0, True, [EOS_ID])


def make_search(model, *, beam_size, length_penalty, emit_unknowns=False):
    """The search as a graph: `[B, S]` int32 source ids -> `Hypotheses`.

    A translation may be twice as long as its source, plus 20 tokens. UNK is in it only with
    `emit_unknowns`.
    """

    # Without AutoGraph, which has nothing to convert here, and takes a second to find that out.
    @tf.function(
        input_signature=[tf.TensorSpec([None, None], tf.int32, name="source_ids")], autograph=False
    )
    def search(source_ids):
        lengths = tf.reduce_sum(tf.cast(source_ids != PAD_ID, tf.int32), axis=1)
        return beam_search(
            model,
            source_ids,
            beam_size=beam_size,
            max_target_length=2 * lengths + 20,
            length_penalty=length_penalty,
            bos_id=BOS_ID,
            eos_id=EOS_ID,
            pad_id=PAD_ID,
            forbidden_ids=() if emit_unknowns else (UNK_ID,),
        )

    return search


class Translator:
    """Translates lines with a model and its tokenizer.

    Args:
        model: `TranslationModel`.
        tokenizer: the `Tokenizer` it was trained with.
        beam_size: hypotheses followed at a time; 1 is greedy search.
        length_penalty: alpha of Wu et al. 2016; larger prefers longer translations.
        batch_size: sentences translated at once.
        unknowns: `decoding.unknowns.UnknownReplacer`: the search may then emit UNK, and this says
            what is written for it; None: UNK is never emitted.

    Example:
        translator = Translator(model, tokenizer, beam_size=4)
        translator.translate(["A dog runs."])[0][0].text
    """

    def __init__(
        self,
        model,
        tokenizer,
        *,
        beam_size=4,
        length_penalty=0.6,
        batch_size=32,
        unknowns=None,
    ):
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.beam_size = beam_size
        self.unknowns = unknowns
        self._search = make_search(
            model,
            beam_size=beam_size,
            length_penalty=length_penalty,
            emit_unknowns=unknowns is not None,
        )

    def check_known(self, lines, name):
        """Raises `UserError` at a line that has words, none of them in the vocabulary."""
        for number, ids in enumerate(self.tokenizer.source.encode(lines), start=1):
            if len(ids) > 1 and all(i == UNK_ID for i in ids[:-1]):
                raise UserError(
                    f"{name}, line {number}: no token of it is known to the model: "
                    f"{lines[number - 1][:60]!r}; check language and tokenisation, or remove it"
                )

    def translate(self, lines, n_best=1, description=None):
        """Translates every line; an empty line stays empty.

        Args:
            lines: list of str.
            n_best: translations for each line, at most `beam_size`.
            description: name of the progress bar, or None for no bar.

        Returns:
            For every line, in order, a list of `n_best` `Translation`, the best first; fewer where
            the model has no more (one for an empty line).
        """
        source = self.tokenizer.source.encode(lines)
        lengths = np.array([len(ids) for ids in source], np.int32)
        results = [[EMPTY]] * len(lines)
        # The longest first: if memory is short, it shows at once.
        order = [i for i in np.argsort(-lengths, kind="stable") if lengths[i] > 1]
        bar = Progress(description, len(order), "lines") if description else nullcontext()
        with bar as progress:
            while order:
                count = max(1, min(self.batch_size, _MAX_TOKENS // lengths[order[0]]))
                rows, order = order[:count], order[count:]
                found = self._search(padded([source[i] for i in rows]))
                found = tf.nest.map_structure(lambda t: t.numpy(), found)
                for row, i in enumerate(rows):
                    real = np.flatnonzero(found.log_probs[row] > -1e8)[:n_best]
                    results[i] = self._translations(lines[i], found, row, real)
                if progress:
                    progress.update(len(rows))
        return results

    def _translations(self, line, found, row, places):
        """The hypotheses at some places of a row of `Hypotheses`, written out."""
        target_ids = [_until_end(found.ids[row, k].tolist()) for k in places]
        if self.unknowns:
            texts = self.unknowns.texts(line, target_ids)
        else:
            texts = [self.tokenizer.target.decode(ids) for ids in target_ids]
        return [
            Translation(
                text,
                float(found.scores[row, k]),
                float(found.log_probs[row, k]),
                bool(found.finished[row, k]),
                ids,
            )
            for k, text, ids in zip(places, texts, target_ids, strict=True)
        ]


def _until_end(ids):
    """Ids with their EOS, or without padding where they were cut short."""
    return ids[: ids.index(EOS_ID) + 1] if EOS_ID in ids else [i for i in ids if i != PAD_ID]


def padded(sentences):
    """Lists of ids to one `[B, S]` int32 array."""
    ids = np.full((len(sentences), max(map(len, sentences))), PAD_ID, np.int32)
    for row, sentence in zip(ids, sentences, strict=True):
        row[: len(sentence)] = sentence
    return ids
