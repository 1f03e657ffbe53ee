"""Scores of translations against references."""

from data_pipeline.files import UserError

METRICS = ("bleu", "chrf", "ter")


def check_bleu_tokenizer(name):
    """Raises `UserError` if sacreBLEU lacks a tokenisation, or a package or file for it."""
    from sacrebleu.metrics import BLEU

    if name not in BLEU.TOKENIZERS:
        raise UserError(f"--tokenize={name}: expected one of {', '.join(BLEU.TOKENIZERS)}")
    try:
        BLEU(tokenize=name)
    except (RuntimeError, ImportError, OSError) as error:  # A package, or a file to download.
        reason = " ".join(str(error).split())
        raise UserError(f"--tokenize={name}: not available ({reason})") from None


def corpus_scores(outputs, references, metrics=("bleu",), **bleu_options):
    """Computes scores of a corpus with sacreBLEU.

    Args:
        outputs: list of str.
        references: one or more translations of the corpus, each a list of str, one for each output.
        metrics: names from `METRICS`.
        **bleu_options: of `sacrebleu.metrics.BLEU`, such as `lowercase` and `tokenize`.

    Returns:
        {"bleu": score, "bleu_signature": str, ...}, the scores being sacreBLEU's own objects.
    """
    found = {}
    for name, metric in _metrics(metrics, bleu_options).items():
        found[name] = metric.corpus_score(outputs, references)
        found[f"{name}_signature"] = str(metric.get_signature())
    return found


def score_lines(scores, metrics):
    """Formats what `corpus_scores` returns as lines of text, one for each metric."""
    return [scores[name].format(signature=scores[f"{name}_signature"]) for name in metrics]


def score_entries(scores, metrics):
    """Returns what `corpus_scores` returns as entries of a JSON object, rounded to two digits."""
    entries = {}
    for name in metrics:
        entries[name] = round(scores[name].score, 2)
        entries[f"{name}_signature"] = scores[f"{name}_signature"]
    return entries


def paired_bootstrap(outputs, baseline, references, metrics=("bleu",), **bleu_options):
    """Tests by resampling whether outputs score otherwise than a baseline; Koehn 2004.

    Args:
        outputs: list of str.
        baseline: list of str, other translations of the same lines.
        references: as `corpus_scores`.
        metrics: as `corpus_scores`.
        **bleu_options: as `corpus_scores`.

    Returns:
        A line of text for each metric: signature, both scores, p-value.
    """
    signatures, found = _resampled([baseline, outputs], references, metrics, bleu_options)
    return [
        f"{name}|{signature} = {found[name][1].score:.2f}, baseline {found[name][0].score:.2f}, "
        f"p = {found[name][1].p_value:.4f}"
        for name, signature in signatures.items()
    ]


def p_values(outputs, others, references):
    """Tests by resampling whether others have another BLEU than outputs; Koehn 2004.

    Args:
        outputs: list of str.
        others: list of lists of str, other translations of the same lines.
        references: as `corpus_scores`.

    Returns:
        A list of p-values, one for each of `others`.
    """
    _, found = _resampled([outputs, *others], references, ["bleu"], {})
    return [result.p_value for result in found["BLEU"][1:]]


def _resampled(texts, references, metrics, bleu_options):
    """Compares texts with the first; signatures and results by name of the metric."""
    from sacrebleu.significance import PairedTest

    named = [(str(number), text) for number, text in enumerate(texts)]
    return PairedTest(named, _metrics(metrics, bleu_options), references, test_type="bs")()


def _metrics(names, bleu_options):
    from sacrebleu import metrics

    # The caller chose the tokenisation, so the warning that the text looks tokenised is noise.
    made = {
        "bleu": lambda: metrics.BLEU(force=True, **bleu_options),
        "chrf": metrics.CHRF,
        "ter": metrics.TER,
    }
    return {name: made[name]() for name in names}
