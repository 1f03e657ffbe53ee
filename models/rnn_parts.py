"""The description of recurrent models, from which a picture of their architecture is drawn."""

from typing import Any

from nmt_zoo.models.architecture import (
    Architecture,
    Counter,
    Part,
    softmax,
    source_words,
    target_words,
)
from nmt_zoo.models.layers import layer_parts


def recurrent_architecture(model: Any, count: Counter) -> Architecture:
    """Describes a `RecurrentTranslationModel`; `count` as of `Searchable.architecture`."""
    source = tuple(_source_parts(model, count))
    start = _start_part(model, count)
    ends = [part.title for part in source[-len(model.encoder_layers) :]]
    target = _target_parts(model, count, source[-1].title, _start_titles(model, start, ends))
    return Architecture((*source, *start), tuple(target))


def _source_parts(model, count):
    order = ("read from its end, then </s>",) if model.reverse_source else ()
    yield source_words(*order, *["<s> before it"] * model.settings["source_start"])
    yield layer_parts.embedding("Source embedding", model.source_embedding, count, "S")
    if model.convolution is not None:
        width, size = model.settings["convolution_width"], model.settings["embedding_width"]
        line = f"over {width} words: [S, {size}]"
        yield Part("Convolution", "feed-forward", (line,), count(model.convolution))
    for index, layer in enumerate(model.encoder_layers, 1):
        number = f" {index}" if len(model.encoder_layers) > 1 else ""
        yield layer_parts.recurrent(layer, f" encoder{number}", "S", count)


def _start_part(model, count):
    """Describes the projection of the encoder's last state; empty if there is none."""
    if not model.start_projections:
        return ()
    units, memory = model.settings["decoder_units"], model.memory_width
    with_tanh = model.settings["initial_state"] == "projected_tanh"
    line = f"{'tanh(W h + b)' if with_tanh else 'W h'}: {memory} → {units}"
    lines = ("of the encoder's last state", line)
    parameters = count(*model.start_projections)
    return (Part("First state of decoder", "feed-forward", lines, parameters),)


def _start_titles(model, start, ends):
    """Returns, for each layer of the decoder, the titles of the parts that its first state reads.

    `ends` are the titles of the encoder's layers.
    """
    num_layers = len(model.decoder.stack)
    if model.settings["initial_state"] != "final":
        return [tuple(part.title for part in start)] * num_layers
    # As `RecurrentTranslationModel._start` pairs them, from the top layers down.
    first = len(ends) - num_layers
    return [(ends[max(first + index, 0)],) for index in range(num_layers)]


def _target_parts(model, count, memory, starts):
    decoder, settings = model.decoder, model.settings
    yield target_words()
    yield layer_parts.embedding("Target embedding", model.target_embedding, count, "T")
    attention = tuple(_attention_parts(model, count, memory))
    if settings["attend_before"]:
        yield attention[0]
    number = len(decoder.stack)
    for index, layer in enumerate(decoder.stack, 1):
        lines = ("x: word and context c",) * (index == 1 and settings["attend_before"])
        links = {"reads": starts[index - 1]}
        title = f" decoder {index}" if number > 1 else " decoder"
        if settings["attend_before"] and index == number:
            links["next_step"] = (attention[0].title, layer_parts.recurrent_title(layer, title))
        yield layer_parts.recurrent(layer, title, "T", count, *lines, **links)
    yield from attention[1 if settings["attend_before"] else 0 :]
    yield from _lexical_parts(model, count)
    more = ("+ the lexical logits",) if model.lexical_output is not None else ()
    yield layer_parts.output(model.output_layer, count, *more)
    yield softmax()


def _attention_parts(model, count, memory):
    """Describes the attention and how its result and the state are joined."""
    decoder, settings = model.decoder, model.settings
    if decoder.attention is None:
        return
    query = "h of the step before" if settings["attend_before"] else "h from below"
    lines = f"{query}: [T, {decoder.units}]", f"m of encoder: [S, {model.memory_width}]"
    lines += ("the word goes on with c",) if settings["attend_before"] else ()
    title = f"Attention, {settings['score'].replace('_', ' ')}"
    parts = decoder.attention, count, *lines
    yield layer_parts.source_attention(title, *parts, reads=(memory,))
    equation = "o = c + h" if decoder.combination is None else "o = tanh(W [c; h])"
    number = " 1" if len(decoder.stack) > 1 else ""
    first = layer_parts.recurrent_title(decoder.stack[0], f" decoder{number}")
    fed = settings["input_feeding"]
    lines = (f"{equation}: [T, {decoder.units}]", *["input feeding: read at t + 1"] * fed)
    # The state, around the attention; or the context, around all cells.
    skip = len(decoder.stack) if settings["attend_before"] else 1
    links = {"next_step": (first,) * fed, "skip": skip}
    parameters = count(decoder.combination)
    yield Part("Context and state", "feed-forward", lines, parameters, **links)


def _lexical_parts(model, count):
    if model.lexical_hidden is None:
        return
    lines = "f = tanh(Σ a f_s), weights a", "tanh(W f) + f, then W': [T, V]"
    parameters = count(model.lexical_hidden, model.lexical_output)
    reads = {"reads": ("Source embedding",)}
    yield Part("Lexical translation", "feed-forward", lines, parameters, **reads)
