"""The search in programs that XLA compiles, each for one size.

A step of a small model is hundreds of small operations, and TensorFlow needs more time to start
them than to compute them. XLA makes one program of many steps, but its tensors have fixed sizes. So
sentences, source tokens and steps are padded to one of a few sizes. When the steps of a program are
used up, or the sentences that are left fit a smaller one, another program goes on. `beam_search`
describes the search, and both find the same.
"""

import bisect
from typing import Any, NamedTuple

import tensorflow as tf

from nmt_zoo.decoding.search.extension import Active, Beam, empty_beam, extend, make_rules, ranked
from nmt_zoo.decoding.search.largest import compiled_top_k
from nmt_zoo.decoding.search.terms import (
    EachSentence,
    Hypotheses,
    SearchOptions,
    SpecialIds,
    length_normaliser,
)
from nmt_zoo.models.base import Searchable

# The sizes of programs: sentences, tokens of a source, and steps.
ROWS = (1, 4, 16, 32)
WIDTHS = (16, 32, 64, 128)
ROOMS = (32, 64, 128, 276)  # The last is enough for sources of 128 tokens.


class Size(NamedTuple):
    """The size of the largest program that a batch needs."""

    rows: int
    width: int
    room: int

    def programs(self) -> list["Size"]:
        """Returns the sizes of all programs that the batch may need."""
        return [
            Size(rows, self.width, room)
            for room in ROOMS[: ROOMS.index(self.room) + 1]
            for rows in ROWS[ROWS.index(self.rows) :: -1]
        ]


def size_for(num_sentences: int, width: int, limit: int) -> Size | None:
    """Returns the size for a batch: its sentences, its most source tokens, its longest limit.

    None: no program is that large.
    """
    sizes = (min(num_sentences, ROWS[-1]), ROWS), (width, WIDTHS), (limit, ROOMS)
    if any(number > all_[-1] for number, all_ in sizes):
        return None
    return Size(*(all_[bisect.bisect_left(all_, number)] for number, all_ in sizes))


class _Running(NamedTuple):
    """A search between two programs, of A sentences, some of which may be done or padding."""

    step: tf.Tensor  # Scalar, length of the live hypotheses.
    row: tf.Tensor  # [A] int32, the row of each sentence in the batch.
    limit: tf.Tensor  # [A] int32.
    each: Any  # `EachSentence` of the sentences, or ().
    context: Any  # The model's, leaves [A, ...].
    hypotheses: Beam
    state: Any  # The model's, leaves [A * L, ...].
    done: tf.Tensor  # [A] bool.


class CompiledSearch:
    """A search like `beam_search.beam_search`, compiled by XLA.

    `model.can_compile`; no option of the search changes the scores of tokens or groups the beam.
    """

    def __init__(self, model: Searchable, options: SearchOptions, special_ids: SpecialIds) -> None:
        self.model = model
        self.options = options
        self.special_ids = special_ids
        # Traced once for all sizes; XLA compiles each size when it first occurs.
        compiled = tf.function(jit_compile=True, autograph=False, reduce_retracing=True)
        self._begin = compiled(self._begun)
        self._go_on = compiled(self._gone_on)

    def __call__(
        self, source_ids: tf.Tensor, limits: tf.Tensor, n_best: tf.Tensor | EachSentence
    ) -> Hypotheses:
        """Searches at most `ROWS[-1]` sentences, in a graph; arguments as `beam_search`."""
        count, length = tf.shape(source_ids)[0], tf.maximum(tf.reduce_max(limits), 1)
        rows, most = _at_least(count, ROWS), _at_least(length, ROOMS)
        width, pad = _at_least(tf.shape(source_ids)[1], WIDTHS), self.special_ids.pad
        limits = _grown(limits, 0, rows)
        each = ()
        if isinstance(n_best, EachSentence):
            n_best = each = EachSentence(*(_grown(values, 0, rows, 1) for values in n_best))
        rules = self._rules(n_best)
        source_ids = _grown(_grown(source_ids, 0, rows, pad), 1, width, pad)
        context, hypotheses, state = self._begin(source_ids)
        running = _Running(
            *(tf.constant(0), tf.range(rows), limits, each, context),
            *(hypotheses, state, limits == 0),
        )

        def some_left(running, _):
            return ~tf.reduce_all(running.done)

        def next_program(running, results):
            asked = tf.constant(0) if each else n_best
            running = self._go_on(running, asked, _below(tf.size(running.row), ROWS))
            found = _with_room(running.hypotheses, most, pad)
            results = tf.nest.map_structure(
                lambda all_, new: tf.tensor_scatter_nd_update(all_, running.row[:, None], new),
                results,
                found,
            )
            return self._for_next(running), results

        results = empty_beam(rows, most, rules)
        shapes = _shapes(running), _shapes_of_beam(results)
        _, results = tf.while_loop(
            some_left, next_program, (running, results), shape_invariants=shapes
        )
        found = ranked(results, limits, rules)
        return Hypotheses(found.ids[:count, :, :length], *(leaf[:count] for leaf in found[1:]))

    def prepare(self, size: Size) -> None:
        """Compiles the program of a size, if it is not yet, and that which begins a search."""
        source_ids = tf.fill([size.rows, size.width], self.special_ids.pad)
        context, hypotheses, state = self._begin(source_ids)
        none = tf.zeros([size.rows], tf.int32)
        running = _Running(
            *(tf.constant(0), none, none, (), context),
            _with_room(hypotheses, size.room, self.special_ids.pad),
            *(self.model.with_room(state, size.room), tf.ones([size.rows], tf.bool)),
        )
        self._go_on(running, tf.constant(1), tf.constant(0))

    def _rules(self, n_best):
        return make_rules(self.model, self.options, self.special_ids, n_best, top_k=compiled_top_k)

    def _begun(self, source_ids):
        """Returns the first (context, hypotheses, state)."""
        rules, rows = self._rules(1), tf.shape(source_ids)[0]
        context = self.model.encode(source_ids)
        state = tf.nest.map_structure(
            lambda leaf: tf.repeat(leaf, rules.num_live, axis=0), self.model.initial_state(context)
        )
        state = self.model.with_room(state, ROOMS[0])
        return context, empty_beam(rows, ROOMS[0], rules), state

    def _gone_on(self, running, n_best, fewer):
        """Extends hypotheses until their room is used up or `fewer` sentences are left."""
        rules = self._rules(running.each or n_best)
        best_possible = length_normaliser(running.limit, rules.length_penalty)
        active = Active(
            *(running.row, running.limit, best_possible, running.each),
            *(running.hypotheses, running.context),
        )
        room = tf.shape(running.hypotheses.live_ids)[2]

        def goes_on(step, hypotheses, state, done):
            return (step < room) & (tf.math.count_nonzero(~done, dtype=tf.int32) > fewer)

        def extended(step, hypotheses, state, done):
            new, state, must_leave, certain = extend(
                self.model, rules, active, step, hypotheses, state
            )
            new = tf.nest.map_structure(
                lambda old, new: tf.where(
                    tf.reshape(done, [-1, *[1] * (new.shape.rank - 1)]), old, new
                ),
                hypotheses,
                new,
            )
            return step + 1, new, state, done | must_leave | certain

        names = "step", "hypotheses", "state", "done"
        shapes = _shapes(running)
        found = tf.while_loop(
            goes_on,
            extended,
            [getattr(running, name) for name in names],
            shape_invariants=[getattr(shapes, name) for name in names],
        )
        return running._replace(**dict(zip(names, found, strict=True)))

    def _for_next(self, running):
        """Leaves out sentences that are done, if the others fit a smaller program; makes room."""
        left = tf.math.count_nonzero(~running.done, dtype=tf.int32)
        order = tf.argsort(tf.cast(running.done, tf.int32), stable=True)
        staying = order[: _at_least(left, ROWS)]
        live = running.hypotheses.last_ids.shape[1]
        of_state = tf.reshape(staying[:, None] * live + tf.range(live), [-1])
        room = _at_least(running.step + 1, ROOMS)

        def gather(variables, rows):
            return tf.nest.map_structure(lambda leaf: tf.gather(leaf, rows), variables)

        names = "row", "limit", "each", "context", "hypotheses", "done"
        found = {name: gather(getattr(running, name), staying) for name in names}
        state = gather(running.state, of_state)
        found["hypotheses"] = _with_room(found["hypotheses"], room, self.special_ids.pad)
        return running._replace(state=self.model.with_room(state, room), **found)


def _shapes(running):
    """Returns the shapes of a loop's variables: of any size, but for the beam."""
    shapes = tf.nest.map_structure(lambda leaf: tf.TensorShape([None] * leaf.shape.rank), running)
    return shapes._replace(hypotheses=_shapes_of_beam(running.hypotheses))


def _shapes_of_beam(hypotheses):
    return tf.nest.map_structure(
        lambda leaf: tf.TensorShape([None, leaf.shape[1], *[None] * (leaf.shape.rank - 2)]),
        hypotheses,
    )


def _at_least(number, sizes):
    """Returns the smallest of the sizes that is at least a number, or the largest of all."""
    place = tf.searchsorted(tf.constant(sizes), [number])[0]
    return tf.gather(tf.constant(sizes), tf.minimum(place, len(sizes) - 1))


def _below(number, sizes):
    """Returns the largest of the sizes below a number; 0 if there is none."""
    return tf.gather(tf.constant((0, *sizes)), tf.searchsorted(tf.constant(sizes), [number])[0])


def _grown(values, axis, size, value=0):
    """Appends equal values, so that an axis has `size` entries."""
    sizes = [[0, 0] for _ in values.shape]
    sizes[axis][1] = size - tf.shape(values)[axis]
    return tf.pad(values, sizes, constant_values=tf.cast(value, values.dtype))


def _with_room(hypotheses, room, pad):
    """Returns a `Beam` with room for longer hypotheses."""
    live_ids, done_ids = (
        _grown(ids, 2, room, pad) for ids in (hypotheses.live_ids, hypotheses.done_ids)
    )
    return hypotheses._replace(live_ids=live_ids, done_ids=done_ids)
