"""One beam search for every model; greedy search is a beam of 1.

Each step extends the K live hypotheses of a sentence by every token and looks at the 2K best
extensions. Among the first K of these, the extensions that end in EOS join the finished set.
The K best extensions that do not end in EOS are the next live hypotheses. With a beam of 1,
every step takes the arg max. A sentence is done when one of these is true:

* K hypotheses are finished, and the best of them scores at least what the most probable live
  hypothesis would score if it became half as long again without losing any probability;
* no live hypothesis can become one of the `n_best`, however long it becomes;
* its length limit is reached.

The first rule is a guess, but a good one: up to a length penalty of 1, no hypothesis of the beam of
a trained model was found to end with a better score later. For a model whose scores may rise, it is
the only one besides the limit. A sentence that is done leaves the batch, so that later steps
compute only the sentences that remain.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from nmt_zoo.data_pipeline.tokenization.vocabularies import PAD_ID
from nmt_zoo.decoding.search.compiled import ProgramsInGraph
from nmt_zoo.decoding.search.extension import Setup, extend, ranked, start
from nmt_zoo.decoding.search.groups import search_in_groups
from nmt_zoo.decoding.search.processors import (
    Processor,
    at_least,
    bar_repeated_ngrams,
    begin_with,
    drawn,
)
from nmt_zoo.decoding.search.required import RequiredPhrases
from nmt_zoo.decoding.search.shortlist import Shortlisted
from nmt_zoo.decoding.search.types import Hypotheses, SearchOptions, SentenceOptions
from nmt_zoo.models.base import Searchable

# Inputs of a graph that belong to its sentences, besides their ids.
_INPUTS = {
    "prefix": tf.TensorSpec([None, None], tf.int32),  # [B, P], how a translation begins; padded.
    "required": tf.TensorSpec([None, None, None], tf.int32),  # [B, R, L], phrases; padded.
    "noise": tf.TensorSpec([None, None], tf.int32),  # [B, T], random 32 bits for each draw.
}
_EACH_SENTENCE = SentenceOptions(
    beam_size=tf.TensorSpec([None], tf.int32),
    length_penalty=tf.TensorSpec([None], tf.float32),
    n_best=tf.TensorSpec([None], tf.int32),
)


def make_search(
    model: Searchable,
    options: SearchOptions,
    inputs: Sequence[str] = (),
    joints: tuple[np.ndarray, np.ndarray] | None = None,
    *,
    each_sentence: bool = False,
) -> Callable[..., Hypotheses]:
    """Returns the search as a graph: `([B, S] int32 source ids, n_best) -> Hypotheses`.

    A batch may mix sentences of very different lengths. `n_best`, int32 scalar, is from 1 to K;
    with `each_sentence`, `SentenceOptions` take its place. Only the first `n_best` hypotheses of a
    sentence are certain; the others may be missing. `inputs` names further inputs, of `_INPUTS`; a
    dict of them is then the graph's third argument. `joints` are `phrases.word_joints`, needed if
    phrases are required. Of a model in 8 bits, programs of XLA search, which know no such inputs.
    """
    programs = ProgramsInGraph(model, options) if model.is_quantised else None
    signature: list[Any] = [
        tf.TensorSpec([None, None], tf.int32, name="source_ids"),
        _EACH_SENTENCE if each_sentence else tf.TensorSpec([], tf.int32, name="n_best"),
    ]
    if inputs:
        signature.append({name: _INPUTS[name] for name in inputs})

    # AutoGraph has nothing to convert here, and would take a second to find that out.
    @tf.function(input_signature=signature, autograph=False)
    def search(source_ids, n_best, inputs=None):
        lengths = tf.reduce_sum(tf.cast(source_ids != PAD_ID, tf.int32), axis=1)
        limits, inputs, batch_size = options.max_length(lengths), inputs or {}, tf.size(lengths)
        phrases = [inputs[name] for name in ("prefix", "required") if name in inputs]
        if phrases:
            wanted_ids = tf.concat([tf.reshape(ids, [batch_size, -1]) for ids in phrases], axis=1)
            limits += tf.math.count_nonzero(wanted_ids - PAD_ID, axis=1, dtype=tf.int32)
            inputs = {**inputs, "wanted_ids": wanted_ids}
        if not each_sentence:
            n_best = SentenceOptions.of(options, n_best, batch_size)
        most = None
        of_group = functools.partial(beam_search, model, options, n_best, inputs, joints)
        if programs:
            most, of_group = programs.most_sentences, functools.partial(programs, n_best)
        return search_in_groups(of_group, source_ids, limits, options.beam_size, most)

    return search


def beam_search(
    model: Searchable,
    options: SearchOptions,
    wanted: SentenceOptions,
    inputs: dict[str, tf.Tensor],
    joints: tuple[np.ndarray, np.ndarray] | None,
    source_ids: tf.Tensor,
    limits: tf.Tensor,
    rows: tf.Tensor,
) -> Hypotheses:
    """Finds probable translations of some sentences of a batch, as described above.

    Args:
        wanted: of the whole batch.
        inputs: of the whole batch; also `wanted_ids`, `[B, P]` int32, padded, tokens that the
            model has to consider.
        joints: as of `make_search`.
        source_ids: `[A, S]` int32, padded.
        limits: `[A]` int32, at least 1, most tokens including EOS.
        rows: `[A]` int32, the places of the sentences in the batch.
    Returns:
        `Hypotheses` with T = the largest limit.
    """
    wanted, inputs = tf.nest.map_structure(lambda leaf: tf.gather(leaf, rows), (wanted, inputs))
    rules = _rules(options, source_ids, limits, inputs, joints)
    searched: Any = model
    if options.shortlist is not None:
        width = 2 * options.beam_size + len(options.never)
        searched = Shortlisted(model, options.shortlist, source_ids, width)
        rules["columns"] = searched.tokens
    setup = Setup(searched, options, **rules)
    if "wanted_ids" in inputs:
        context = searched.encode_to_score(source_ids, inputs["wanted_ids"])
    else:
        context = searched.encode(source_ids)
    length = tf.maximum(tf.reduce_max(limits), 1)  # The maximum of an empty batch is -2^31.
    unfinished, state = start(setup, context, limits, length, wanted)
    # Two loops, because TensorFlow's executor of small graphs cannot run a conditional in a loop.
    *_, results = tf.while_loop(
        lambda step, unfinished, *_: tf.size(unfinished.row) > 0,
        functools.partial(_extend_until_some_leave, setup),
        (tf.constant(0), unfinished, state, unfinished.hypotheses),
        shape_invariants=(
            *(tf.TensorShape([]), _with_any_rows(unfinished), _of_any_size(state)),
            _with_any_rows(unfinished.hypotheses),
        ),
    )
    return ranked(setup, unfinished, results)


def _rules(options, source_ids, limits, inputs, joints) -> dict[str, Any]:
    """Returns the processors and followers of a batch, the strictest last: none undoes a prefix."""
    processors: list[Processor] = []
    followers: dict[str, Any] = {}
    if options.min_length_factor:
        lengths = tf.reduce_sum(tf.cast(source_ids != PAD_ID, tf.int32), axis=1)
        least = tf.cast(options.min_length_factor * tf.cast(lengths, tf.float32), tf.int32)
        processors.append(at_least(tf.minimum(least, limits)))
    if size := options.no_repeat_ngram:
        processors.append(lambda scores, p: bar_repeated_ngrams(scores, p.ids, size))
    if "required" in inputs:
        followers["required"] = RequiredPhrases(inputs["required"], limits, joints)
        processors.append(followers["required"])
    if options.banned is not None:
        followers["banned"] = options.banned
        processors.append(options.banned)
    processors += [rule.process for rule in options.rules]
    if "prefix" in inputs:
        processors.append(begin_with(inputs["prefix"]))
    if options.sample:
        how = {name: getattr(options, name) for name in ("temperature", "top_k", "top_p")}
        processors.append(drawn(inputs["noise"], **how))
    return {"processors": processors, "followers": followers}


def _extend_until_some_leave(setup, step, unfinished, state, results):
    """Extends the same sentences step by step, then moves those that are done to the results."""

    def all_stay(step, hypotheses, state, must_leave, certain):
        num_done = tf.math.count_nonzero(must_leave | certain, dtype=tf.int32)
        # Removing sentences pays if they are many.
        return ~tf.reduce_any(must_leave) & (8 * num_done < tf.size(certain))

    hypotheses, rows = unfinished.hypotheses, unfinished.row
    none_leave = tf.zeros_like(rows, tf.bool), tf.zeros_like(rows, tf.bool)
    step, hypotheses, state, must_leave, certain = tf.while_loop(
        all_stay,
        functools.partial(extend, setup, unfinished),
        (step, hypotheses, state, *none_leave),
        shape_invariants=(
            *(tf.TensorShape([]), _with_any_rows(hypotheses), _of_any_size(state)),
            *_with_any_rows(none_leave),
        ),
    )
    leaves = must_leave | certain
    gone, staying = (tf.where(flags)[:, 0] for flags in (leaves, ~leaves))
    places = tf.gather(rows, gone)[:, None]
    results = tf.nest.map_structure(
        lambda batch, leaf: tf.tensor_scatter_nd_update(batch, places, tf.gather(leaf, gone)),
        results,
        hypotheses,
    )
    unfinished = unfinished._replace(hypotheses=hypotheses)
    unfinished = tf.nest.map_structure(lambda leaf: tf.gather(leaf, staying), unfinished)
    of_state = tf.where(tf.repeat(~leaves, setup.num_live))[:, 0]
    state = tf.nest.map_structure(lambda leaf: tf.gather(leaf, of_state), state)
    return step, unfinished, state, results


def _with_any_rows(variables):
    """Returns shapes of loop variables of which only the number of rows changes."""
    return tf.nest.map_structure(lambda leaf: tf.TensorShape([None, *leaf.shape[1:]]), variables)


def _of_any_size(variables):
    """Returns shapes of loop variables of which all axes may change, as those of a state do."""
    return tf.nest.map_structure(lambda leaf: tf.TensorShape([None] * leaf.shape.rank), variables)
