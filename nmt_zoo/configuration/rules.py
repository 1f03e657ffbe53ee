"""Which options of a script need or exclude others: one table for scripts, reference and tests.

A condition is the name of an option, `name=value|value`, or `name>number`. As the `option` of a
rule, a name holds if the user gave it a value, 0 included; as one of `needs`, if it has a value
that is not 0, false or empty, be it the default; as one of `excludes`, if the user gave such a
value. The other conditions hold by the value alone. An empty `option` always holds.

Checks that are no rules compare numbers, or look at a model, a text or files:
`decoding.search.requests.check_requests`, `training.ways.catalogue.check_options`, `check` of each
`WayOfTraining`, `training.opening`, and `check_flags` of the scripts.
"""

import re
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import OPTIONS


class Rule(NamedTuple):
    """What an option needs or excludes."""

    option: str  # condition under which the rule counts
    needs: tuple[str, ...] = ()  # conditions of which one must hold; none: no need
    excludes: tuple[str, ...] = ()  # conditions of which none may hold
    reason: str = ""  # why, or what to do


def _each(names, needs=(), excludes=(), reason=""):
    return tuple(Rule(name, needs, excludes, reason) for name in names)


_TRAIN = (
    *(
        Rule(option.name, (f"{option.only_with[0]}={'|'.join(option.only_with[1])}",))
        for option in OPTIONS
        if option.only_with
    ),
    Rule("new_vocabulary=True", ("init_from",)),
    Rule(
        "target_languages",
        (),
        ("vocab_file", "init_from", "teacher"),
        "a vocabulary that exists has no pieces for their tags",
    ),
    Rule("new_vocabulary=True", (), ("teacher",), "the vocabulary of the teacher is used"),
    Rule("guide_weight", ("guide",)),
    Rule("teacher_weight", ("teacher",)),
    Rule("smoothing_over=words", ("label_smoothing",)),
    Rule("smoothing_over=words", (), ("teacher", "r_drop"), "they compare whole distributions"),
    Rule("num_pieces", (), ("vocab_file",), "the file has its pieces already"),
    Rule("keep_best_by=bleu", ("bleu_lines",)),
    Rule(
        "jit_compile=True",
        ("pad_to_bucket",),
        (),
        "XLA takes many seconds to compile an update for each new shape of a batch",
    ),
    Rule("leave_one_out=True", ("alpha",), (), "a word pair that occurs once would be impossible"),
    Rule(
        "update=em",
        (),
        ("corpus_weights", "temperature>1"),
        "an iteration takes every pair exactly once",
    ),
    Rule("reverse_model_dir", (), ("average_checkpoints>1",)),
    Rule("num_replicas", ("distribution=mirrored",)),
    Rule("distribution=tpu", ("pad_to_bucket",), (), "a TPU has static shapes"),
    Rule("list_settings", ("model",)),
)
_WORDS = ("prefix", "required", "banned")
# What --score and --rank, which do not translate, have no use for.
_OF_TRANSLATING = (
    *("beam_size", "n_best", "min_length_factor", "max_length_factor", "no_repeat_ngram"),
    *("divide_by_length", "word_reward"),
    *("coverage_penalty", *_WORDS, "keep", "sample", "temperature", "top_k"),
    *("top_p", "seed", "mbr", "shortlist", "replace_unknowns", "lexicon", "split_sentences"),
    *("long_lines", "tag", "export_dir", "reference", "metrics", "baseline", "lowercase"),
    *("tokenize", "save_scores", "format=scores", "engine=ctranslate2", "compile"),
)
_TRANSLATE = (
    Rule("", ("model_dir", "channel_model", "export_dir"), (), "the model that translates"),
    Rule("model_dir", (), ("channel_model", "export_dir")),
    Rule("channel_model", ("language_model",)),
    Rule("channel_model", (), ("coverage_penalty",), "a noisy channel has no attention"),
    Rule("channel_model", (), ("sample",), "its steps have no probabilities to draw by"),
    Rule("language_model_weight", ("language_model",)),
    *_each(
        ("export_dir", "engine=ctranslate2"),
        (),
        (
            *("channel_model", "language_model", "replace_unknowns", "prefix", "required"),
            *("shortlist", "coverage_penalty", "precision=bfloat16", "compile"),
            *("divide_by_length", "word_reward"),
        ),
        "CTranslate2 cannot use it",
    ),
    Rule("engine=tensorflow", (), ("export_dir",), "it is for CTranslate2"),
    Rule("language_model", (), ("precision=bfloat16",)),
    Rule("lexicon", ("replace_unknowns",)),
    Rule("replace_unknowns", (), (*_WORDS, "keep"), "it changes words"),
    *_each(("temperature", "top_k", "top_p", "seed"), ("sample",)),
    Rule(
        "sample",
        (),
        (
            "word_reward",
            "divide_by_length",
            "beam_size",
            "coverage_penalty",
            "required",
        ),
        "it is for beam search",
    ),
    Rule("long_lines=split", (), ("prefix", "required"), "it is for whole lines"),
    Rule("split_sentences=always", (), ("prefix", "required"), "it is for whole lines"),
    Rule(
        "split_sentences=always",
        (),
        ("n_best>1",),
        "a line has one translation, joined from those of its sentences",
    ),
    Rule("tag", (), ("format=scores|jsonl", "n_best>1"), "it is for plain translations"),
    *_each(("score", "rank"), ("input",), (), "the text that was translated"),
    Rule("score", (), ("rank", *_OF_TRANSLATING), "nothing is translated"),
    Rule("rank", (), ("format=scores|jsonl", *_OF_TRANSLATING), "nothing is translated"),
    *_each(("save_scores", "tokenize", "lowercase", "metrics", "baseline"), ("reference",)),
    *_each(("lowercase", "tokenize"), ("metrics=bleu",)),
)
_ALIGN = (
    Rule("", ("alignments", "gold", "lexicon"), (), "the output"),
    Rule("", ("source", "from_alignments"), (), "the text to align, with its --target"),
    *_each(("target", "lexicon"), ("source",)),
    Rule("save_scores", ("gold",)),
    Rule(
        "from_alignments",
        (),
        ("model_dir", "reverse_model_dir", "layer", "head", "model", "iterations"),
        "links replace models",
    ),
    Rule("from_alignments", (), ("threshold", "symmetrise=agree"), "links have no weights"),
    *_each(
        ("model_dir", "reverse_model_dir", "from_alignments"),
        (),
        ("model", "iterations", "symmetrise=forward|reverse"),
        "it is for training",
    ),
    *_each(("layer", "head"), ("model_dir", "reverse_model_dir")),
    Rule("head=auto", (), ("layer",), "it chooses the layer, too"),
)
_COMPARE = (
    Rule("", ("source",), (), "the text that was translated"),
    Rule("", ("reference",), (), "its human translation"),
    Rule("", ("outputs",), (), "the translations to compare"),
    Rule("train_source", ("train_target",)),
)
_EXPORT = (
    Rule("", ("model_dir",), (), "the directory of the trained model"),
    Rule("", ("export_dir",), (), "the folder of all exported versions"),
    Rule("quantization", ("format=ctranslate2",)),
    *_each(("beam_size", "max_beam_size", "license", "compile"), ("format=savedmodel",)),
)
_SERVE = (
    Rule("", ("model_dir", "export_dir"), (), "the model to serve"),
    Rule("model_dir", (), ("export_dir",)),
    *_each(
        ("beam_size", "length_penalty", "max_input_tokens", "compile"),
        ("model_dir",),
        (),
        "export.py sets it for --export_dir",
    ),
)
_VISUALIZE = (
    Rule("", ("source", "input", "architecture"), (), "what to draw"),
    Rule("architecture", (), ("model_dir",), "it takes the directory, too"),
    Rule(
        "architecture",
        (),
        (
            *("source_language", "target_language", "source", "target", "input", "target_input"),
            *("attention", "layer", "head", "merge_subwords", "heads"),
        ),
        "it draws no text",
    ),
    Rule("set", ("architecture",)),
    Rule("source", (), ("input", "heads")),
    Rule("target_input", ("input",)),
    *_each(("target", "gold_links"), ("source",)),
    Rule("gold_links", ("target",)),
    Rule("gold_links", ("attention=cross",)),
    *_each(("gold", "links_from", "save_scores"), ("heads",)),
    Rule("heads", ("target_input",)),
    Rule("heads", (), ("output", "attention", "layer", "head", "merge_subwords")),
    Rule("links_from", (), ("gold",)),
    Rule("attention=tree", (), ("input", "layer", "head", "merge_subwords")),
)
RULES = {
    "train": _TRAIN,
    "translate": _TRANSLATE,
    "align": _ALIGN,
    "compare": _COMPARE,
    "export": _EXPORT,
    "serve": _SERVE,
    "visualize_attention": _VISUALIZE,
}


def check(script: str, values: Mapping[str, Any], given: Collection[str]) -> None:
    """Raises `UserError` if options break a rule of a script, a key of `RULES`.

    Options missing from `values` have no value; `given` names those that the user gave.
    """
    for rule in RULES[script]:
        check_rule(rule, values, given)


def check_rule(rule: Rule, values: Mapping[str, Any], given: Collection[str]) -> None:
    """Raises `UserError` if options break a rule; arguments as for `check`."""
    if not _counts(rule.option, values, given):
        return
    found = [each for each in rule.excludes if _is_excluded(each, values, given)]
    reason = f": {rule.reason}" if rule.reason else ""
    if found:
        raise UserError(
            f"{_shown(rule.option, values)} cannot be combined with {_shown(found[0], values)}"
            f"{reason}; leave out one of them"
        )
    if rule.needs and not any(_holds(each, values) for each in rule.needs):
        wanted = " or ".join(map(in_words, rule.needs))
        text = f"{_shown(rule.option, values)} needs {wanted}" if rule.option else f"give {wanted}"
        name, equals, _ = rule.needs[0].partition("=")
        instead = f", found {_shown(rule.needs[0], values).lstrip('-')}" if equals else ""
        raise UserError(f"{text}{instead if values.get(name) else ''}{reason}")


def in_words(condition: str) -> str:
    """Returns a condition as text: "--name", "--name=value or value" or "--name above number"."""
    return f"--{condition}".replace("|", " or ").replace(">", " above ")


def _counts(option, values, given):
    """Returns whether a condition holds as the `option` of a rule."""
    if not option.isidentifier():
        return not option or _holds(option, values)
    value = values.get(option)
    return option in given and (bool(value) or type(value) in (int, float))


def _is_excluded(condition, values, given):
    return _holds(condition, values) and (condition in given or not condition.isidentifier())


def _holds(condition, values):
    name, operator, expected = re.fullmatch(r"(\w+)([=>]?)(.*)", condition).groups()
    value = values.get(name)
    if operator == ">":
        return value is not None and value > float(expected)
    if operator == "=":
        found = value if isinstance(value, list) else [value]
        return any(str(each) in expected.split("|") for each in found)
    return bool(value)


def _shown(condition, values):
    """Returns the flag of a condition, as a user would give it."""
    name = re.match(r"\w*", condition)[0]
    value = values.get(name)
    if name == condition or value is True:
        return f"--{name}"
    return f"--{name}={','.join(value) if isinstance(value, list) else value}"
