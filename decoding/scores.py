"""Scores of translations against references."""

from data_pipeline.files import UserError


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


def corpus_scores(outputs, references, **bleu_options):
    """Computes BLEU and chrF with sacreBLEU.

    Args:
        outputs: list of str.
        references: list of str, one for each output.
        **bleu_options: of `sacrebleu.metrics.BLEU`, such as `lowercase` and `tokenize`.

    Returns:
        {"bleu": score, "chrf": score, "bleu_signature": str, "chrf_signature": str}, the scores
        being sacreBLEU's own objects.
    """
    from sacrebleu.metrics import BLEU, CHRF

    # The caller chose the tokenisation, so the warning that the text looks tokenised is noise.
    bleu, chrf = BLEU(force=True, **bleu_options), CHRF()
    return {
        "bleu": bleu.corpus_score(outputs, [references]),
        "chrf": chrf.corpus_score(outputs, [references]),
        "bleu_signature": str(bleu.get_signature()),
        "chrf_signature": str(chrf.get_signature()),
    }
