"""Scores of translations against references.

Both are compared in one form (`data_pipeline.text_form`), and a blank reference line is no
reference: a line without any is not scored.
"""

import collections
import itertools
import math
import os
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from nmt_zoo.common.errors import UserError
from nmt_zoo.configuration.options import AUTO
from nmt_zoo.data_pipeline.text_form import is_blank, looks_tokenised, normalised, script_of

METRICS = ("bleu", "chrf", "ter")
USUAL = "13a"  # The tokenisation of BLEU for scripts with spaces between words.
ZERO = 0.005  # A BLEU below this is printed as 0.00.
_SHARE = 0.25  # Least share of the letters that makes a script the one of a text.
_HAN = ("CJK", "IDEOGRAPHIC", "BOPOMOFO")
_KANA = ("HIRAGANA", "KATAKANA")
_WITHOUT_SPACES = ("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN", "JAVANESE", "BALINESE", "TAI")
_NO_SPACES = ", which has no spaces between words"
_ASIAN = ("Chinese", "Japanese")  # TER counts their characters.
_TOKENIZERS = {  # Language -> tokenisation, another if it is missing, and the package it needs.
    "Chinese": ("zh", "", ""),
    "Japanese": ("ja-mecab", "char", "sacrebleu[ja]"),
    "Korean": ("ko-mecab", USUAL, "sacrebleu[ko]"),
}


def check_metrics(names: Sequence[str]) -> None:
    """Raises `UserError` unless the names are some of `METRICS`, each once."""
    if not names or len({*names} & {*METRICS}) < len(names):
        found = ",".join(names) or "nothing"
        raise UserError(f"--metrics: expected some of {','.join(METRICS)}, found {found}")


def check_bleu_tokenizer(name: str) -> None:
    """Raises `UserError` if sacreBLEU lacks a tokenisation, or a package or file for it."""
    from sacrebleu.metrics import BLEU

    if name == AUTO:
        return
    if name not in BLEU.TOKENIZERS:
        raise UserError(f"--tokenize={name}: expected one of {', '.join((AUTO, *BLEU.TOKENIZERS))}")
    if reason := _why_missing(name):
        raise UserError(f"--tokenize={name}: not available ({reason})")


def _why_missing(name):
    """Returns the reason why a tokenisation cannot be used, or ""."""
    from sacrebleu.metrics import BLEU

    try:
        BLEU(tokenize=name)
    # A package, a file to download, or another dictionary than sacreBLEU's.
    except (RuntimeError, ImportError, OSError, AssertionError) as error:
        return " ".join(str(error).split()) or type(error).__name__
    return ""


def bleu_tokenizer(references: Sequence[Sequence[str]]) -> tuple[str, str]:
    """Chooses the tokenisation of BLEU for the script of the references; downloads nothing.

    Returns (name, a line of text with the reason; empty if it is the usual one, as usual).
    """
    language = _language(references)
    best, otherwise, package = _TOKENIZERS.get(language, ("char", "", ""))
    if not language:
        return USUAL, ""
    if language not in _TOKENIZERS and _has_flores200():
        best = "flores200"
    name, why = best, ""
    if otherwise and _why_missing(best):
        name, why = otherwise, f"; {best} needs `pip install '{package}'`"
    return name, f"BLEU with --tokenize={name}, because the references are {language}{why}"


def _language(references):
    """Returns the language of the references if it has a tokenisation of its own, else ""."""
    scripts, text = collections.Counter(), itertools.chain.from_iterable(references)
    for character, count in collections.Counter("".join(filter(None, text))).items():
        if character.isalpha():
            scripts[script_of(character)] += count
    letters = scripts.total()

    def count_of(names):
        return sum(scripts[name] for name in names)

    han, kana = count_of(_HAN), count_of(_KANA)
    if han + kana > _SHARE * letters:
        # Chinese text has a few kana, in names.
        return "Chinese" if kana < 0.2 * (han + kana) else "Japanese"
    if scripts["HANGUL"] > _SHARE * letters:
        return "Korean"
    alone = (name for name in _WITHOUT_SPACES if scripts[name] > _SHARE * letters)
    return next((f"{name.title()}{_NO_SPACES}" for name in alone), "")


def _has_flores200():
    from sacrebleu.utils import SACREBLEU_DIR

    path = os.path.join(SACREBLEU_DIR, "models", "flores200sacrebleuspm")
    return os.path.exists(path) and not _why_missing("flores200")


def remarks(
    references: Sequence[Sequence[str]],
    outputs: Sequence[str] = (),
    metrics: Sequence[str] = ("bleu",),
    is_usual: bool = True,
) -> list[str]:
    """Describes what scores leave out or change, and how they compare.

    `is_usual` tells whether BLEU's tokenisation is the usual one: only then it says that a text
    looks tokenised.
    """
    lines, warnings = list(itertools.chain(*references)), []
    if blank := sum(map(is_blank, lines)):
        warnings.append(f"{blank:,} of {len(lines):,} reference lines are blank and are not scored")
    for what, text in (("reference lines", lines), ("translations", outputs)):
        if changed := sum(not unicodedata.is_normalized("NFC", line) for line in text):
            warnings.append(
                f"{changed:,} of {len(text):,} {what} are not in Unicode normal form C (NFC); "
                "they are scored in it"
            )
    sides = {"references": lines, "translations": outputs}
    tokenised = [name for name, text in sides.items() if is_usual and looks_tokenised(text)]
    if tokenised and "bleu" in metrics:
        warnings.append(
            f"the {' and '.join(tokenised)} look tokenised (lines end in ' .'): BLEU of tokens is "
            "not comparable with published figures; detokenise both, or give --tokenize=none"
        )
    language = _language(references) if "ter" in metrics else ""
    if language in _ASIAN:
        warnings.append(f"TER of characters (asian_support), because the references are {language}")
    elif _NO_SPACES in language:
        warnings.append(f"TER counts words between spaces, not those of {language}; compare chrF")
    if "bleu" in metrics and _is_list_of_terms(references):
        warnings.append(
            "fewer than half of the reference lines have four words, whose sequences BLEU counts: "
            "of short lines it says nothing; compare chrF"
        )
    return warnings


def _is_list_of_terms(references):
    """Returns whether BLEU has hardly any sequences of four words to count."""
    spaced = not (language := _language(references)) or language == "Korean"
    lines = [*filter(None, map(normalised, itertools.chain.from_iterable(references)))]
    return sum(len(line.split() if spaced else line) >= 4 for line in lines) < len(lines) / 2


def leading(metrics: Sequence[str], references: Sequence[Sequence[str]]) -> list[str]:
    """Returns the metrics in the order of their weight: of a list of terms, chrF comes first."""
    is_short = {*metrics} >= {"bleu", "chrf"} and _is_list_of_terms(references)
    return sorted(metrics, key=lambda name: is_short and name != "chrf")


def corpus_scores(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str] = ("bleu",),
    **bleu_options: Any,
) -> dict[str, Any]:
    """Returns sacreBLEU scores of a corpus: {"bleu": score, "bleu_signature": str, ...}.

    The scores are sacreBLEU's own objects. `references` are one or more translations of the corpus,
    with a line for each output; `metrics` are names from `METRICS`; `bleu_options` are of
    `sacrebleu.metrics.BLEU`, such as `lowercase` and `tokenize`.
    Raises UserError if all reference lines are blank.
    """
    (scored,), compared = _comparable([outputs], references)
    scores = {}
    for name, metric in _metrics(metrics, bleu_options, compared).items():
        scores[name] = metric.corpus_score(scored, compared)
        scores[f"{name}_signature"] = str(metric.get_signature())
    return scores


def _comparable(texts, references):
    """Returns texts and references in one form, None for blank ones; drops lines without any."""
    references = [[normalised(line) or None for line in reference] for reference in references]
    scored = [any(line) for line in zip(*references, strict=True)]
    if not any(scored):
        raise UserError(
            "all reference lines are blank, so there is nothing to score; give the translation of "
            "at least one line"
        )
    texts = [[normalised(line) for line in itertools.compress(text, scored)] for text in texts]
    return texts, [list(itertools.compress(reference, scored)) for reference in references]


def score_lines(scores: dict[str, Any], metrics: Sequence[str]) -> list[str]:
    """Formats what `corpus_scores` returns as lines of text, one for each metric."""
    return [scores[name].format(signature=scores[f"{name}_signature"]) for name in metrics]


def score_entries(scores: dict[str, Any], metrics: Sequence[str]) -> dict[str, Any]:
    """Returns what `corpus_scores` returns as entries of a JSON object, rounded to two digits."""
    entries = {}
    for name in metrics:
        entries[name] = round(scores[name].score, 2)
        entries[f"{name}_signature"] = scores[f"{name}_signature"]
    return entries


def p_values(
    outputs: Sequence[str],
    others: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    **bleu_options: Any,
) -> list[float]:
    """Returns a p-value for each of `others`: does its BLEU differ? By resampling; Koehn 2004."""
    _, results = _resampled([outputs, *others], references, ["bleu"], bleu_options)
    return [float(result.p_value) for result in results["BLEU"][1:]]


class SystemScore(NamedTuple):
    """The score of one of several systems, by one metric."""

    score: float
    interval: float  # Half the width of the 95% confidence interval, by resampling.
    p_value: float | None  # Does the score differ from the best system's? None: it is the best.


def system_scores(
    outputs: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    metrics: Sequence[str],
    **bleu_options: Any,
) -> tuple[int, dict[str, tuple[str, list[SystemScore]]]]:
    """Scores several translations of the same lines, and tests them against the best by resampling.

    Arguments are as in `corpus_scores`. Returns (number of the system that is best by the first
    metric, {metric: (signature, a `SystemScore` for each system)}).
    """
    first = metrics[0]
    sign = -1 if first == "ter" else 1  # Of errors, fewer are better.
    scores = [corpus_scores(text, references, [first], **bleu_options)[first] for text in outputs]
    # Of equal scores, the text decides, so that the order of the systems does not matter.
    best = max(range(len(outputs)), key=lambda n: (sign * scores[n].score, list(outputs[n])))
    order = [best, *(n for n in range(len(outputs)) if n != best)]
    texts = [outputs[n] for n in order]
    signatures, results = _resampled(texts, references, metrics, bleu_options)
    scored = {}
    for metric, (name, signature) in zip(metrics, signatures.items(), strict=True):
        of_system = dict(zip(order, results[name], strict=True))
        scored[metric] = (
            f"{name}|{signature}",
            [
                SystemScore(float(result.score), float(result.ci), result.p_value)
                for _, result in sorted(of_system.items())
            ],
        )
    return best, scored


def sentence_chrf(outputs: Sequence[str], reference: Sequence[str]) -> list[float]:
    """Returns the chrF of each line against its reference, from 0 to 100."""
    from sacrebleu.metrics import CHRF

    metric, pairs = CHRF(), zip(outputs, reference, strict=True)
    return [
        metric.sentence_score(normalised(line), [normalised(other)]).score for line, other in pairs
    ]


def word_splitter(tokenize: str) -> Callable[[str], list[str]]:
    """Returns the function that splits a line into words as BLEU counts them.

    `tokenize` is the name of one of sacreBLEU's tokenisations.
    """
    from sacrebleu.metrics import BLEU

    tokenizer = BLEU(tokenize=tokenize, force=True).tokenizer
    return lambda line: tokenizer(normalised(line)).split()


def _resampled(texts, references, metrics, bleu_options) -> tuple[dict[str, Any], dict[str, Any]]:
    """Compares texts with the first; signatures and results by name of the metric."""
    from sacrebleu.significance import PairedTest

    texts, references = _comparable(texts, references)
    named = [(str(number), text) for number, text in enumerate(texts)]
    made = _metrics(metrics, bleu_options, references)
    results: dict[str, Any]
    signatures, results = PairedTest(named, made, references, test_type="bs")()
    for name in signatures:
        for other in results[name][1:]:
            if math.isclose(other.score, results[name][0].score):
                other.p_value = 1.0  # sacreBLEU would count resamples that differ by 0 as chance.
    return signatures, results


def _metrics(names, bleu_options, references):
    from sacrebleu import metrics

    is_asian = "ter" in names and _language(references) in _ASIAN
    # `remarks` says once what sacreBLEU would say in each call.
    made = {
        "bleu": lambda: metrics.BLEU(force=True, **bleu_options),
        "chrf": metrics.CHRF,
        "ter": lambda: metrics.TER(normalized=is_asian, asian_support=is_asian),
    }
    return {name: made[name]() for name in names}
