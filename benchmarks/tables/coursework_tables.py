"""Makes the tables of docs/coursework.md, of benchmarks/coursework.py, beside the report's."""

import math

from benchmarks.tables.markdown import markdown, read

SCORE_COLUMNS = (
    *("model", "parameters", "BLEU", "valid perplexity, last epoch", "best epoch"),
    *("training loss, last epoch", "epochs", "why different"),
)
# Tables 1, 2, 3 and 5 of the report: BLEU, perplexity on validation text, final training loss.
PUBLISHED = {
    "lstm_luong": (10.91, 27.0, 2.142),
    "lstm_luong_deep": (9.97, 29.0, 2.326),
    "lstm_lexical": (12.68, 24.1, 1.836),
    "transformer_coursework": (11.03, 43.7, 1.364),
}
# In short; docs/coursework.md explains them.
WHY = {
    **dict.fromkeys(("lstm_luong", "lstm_luong_deep", "lstm_lexical"), "embeddings, 25 words"),
    "transformer_coursework": "padding",
    "transformer_cured": "not in the report",
}
EXAMPLE_NAMES = ("lstm_luong", "lstm_lexical", "transformer_coursework")


def _beside(value, published, digits):
    return f"{value:.{digits}f}" + (f" ({published:.{digits}f})" if published else "")


def score_table():
    """Makes a row for each run; the report's figures are in parentheses."""
    rows = []
    for name, found in read("studies/coursework")["runs"].items():
        bleu, perplexity, loss = PUBLISHED.get(name, (None, None, None))
        valid, train = found["loss"]["valid"], found["loss"]["train"]
        best = min(range(len(valid)), key=valid.__getitem__)
        rows.append(
            (
                f"`{name}`",
                f"{found['parameters'] / 1e6:.2f} M",
                _beside(found["bleu"], bleu, 2),
                _beside(math.exp(valid[-1]), perplexity, 1),
                f"{math.exp(valid[best]):.1f}, epoch {best + 1}",
                _beside(train[-1], loss, 3),
                f"{len(valid)}",
                WHY[name],
            )
        )
    return markdown([SCORE_COLUMNS, *rows])


def words_output():
    """Shows the word counts of the training text as train.py --dry_run prints them."""
    return ["```", *read("studies/coursework")["words"], "```"]


def example_table():
    """Makes rows of source, reference and translations for the sentences of tables 4 and 6."""
    record = read("studies/coursework")
    names = [name for name in EXAMPLE_NAMES if name in record["runs"]]
    rows = []
    for number, (source, reference) in record["lines"].items():
        rows += [(number, "source", source), ("", "reference", reference)]
        rows += [("", f"`{n}`", record["runs"][n]["examples"][number]) for n in names]
    return markdown([("line", "", "sentence"), *rows])
