"""Pictures of source and target words in one plane, placed by their embeddings."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import SPECIALS
from nmt_zoo.decoding.pictures import figures
from nmt_zoo.models.base import TranslationModel

_FONT_SIZE, _MARKERS = 8, "os"


def embedding_points(
    model: TranslationModel,
    tokenizer: Tokenizer,
    *,
    num_words: int = 60,
    centred: bool = True,
    name: str = "the model",
) -> dict[str, tuple[list[str], np.ndarray]]:
    """Projects the embeddings of the most frequent words of both languages into one plane.

    In `softmax(U V_f)` a target word e is probable given a source word f if U_e and V_f point in
    the same direction. So each vector is divided by its length. Before that, if `centred`, the mean
    of the drawn words is subtracted on each side: a vector added to all U_e changes no probability,
    and a vector added to all V_f changes only how frequent target words are.

    The tokenizer is of kind "word"; `num_words` are drawn of each side; `name` is the model's in
    errors. Near vectors get near points by t-SNE (van der Maaten and Hinton 2008) of scikit-learn,
    an optional package. Returns {"source": (words, their points `[n, 2]`), "target": likewise}.
    Raises UserError: the model or tokenizer is of another kind, there are too few words, or
    scikit-learn is not installed.
    """
    try:
        from sklearn.manifold import TSNE  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise UserError("a picture of words needs scikit-learn: pip install scikit-learn") from None
    if not model.words_share_space:
        raise UserError(
            f"{name}: its source and target words are not embedded in one space; use a model of "
            "ibm1_factored, attention_ibm1 or attention_ibm2"
        )
    if tokenizer.kind != "word":
        raise UserError(
            f"{name}: trained with --tokenizer={tokenizer.kind}, whose pieces are not sorted by "
            "frequency; expected a model with --tokenizer=word"
        )
    vectors, words = [], []
    tables = model.source_embedding.embeddings, np.transpose(model.output_layer.kernel)
    for vocabulary, table in zip(tokenizer[1:], tables, strict=True):
        frequent = slice(len(SPECIALS), len(SPECIALS) + num_words)  # Sorted by frequency.
        directions = np.asarray(table, np.float64)[frequent]
        directions -= directions.mean(axis=0) * centred
        directions /= np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-12)
        vectors.append(directions)
        words.append(vocabulary.words[frequent])  # pyright: ignore[reportAttributeAccessIssue]
    if len(words[0]) + len(words[1]) < 4:
        raise UserError(f"{name}: fewer than 4 words in both vocabularies; nothing to draw")
    perplexity = min(30.0, (len(words[0]) + len(words[1]) - 1) / 3)
    plane = TSNE(perplexity=perplexity, init="pca", random_state=0)
    points = plane.fit_transform(np.concatenate(vectors))
    return {
        "source": (words[0], points[: len(words[0])]),
        "target": (words[1], points[len(words[0]) :]),
    }


def save_points(
    groups: Mapping[str, tuple[Sequence[str], np.ndarray]], path: str | os.PathLike
) -> None:
    """Draws groups of labelled points, each group in its colour, with one scale for both axes.

    The labels are placed by adjustText, an optional package, so that they overlap as little as
    possible. The picture grows with the number of points. `groups` are name -> (n labels, their
    points `[n, 2]`); `path` ends in .png, .svg or .pdf.
    Raises ValueError: the file ending is unknown.
    Raises UserError: the file cannot be written, or adjustText is not installed.
    """
    from matplotlib.figure import Figure

    try:
        from adjustText import adjust_text  # pyright: ignore[reportMissingImports]
    except ImportError:
        raise UserError("a picture of words needs adjustText: pip install adjustText") from None
    ending = figures.check_path(path)
    labels = [figures.shorten(label) for words, _ in groups.values() for label in words]
    with figures.style([*labels, *groups], ending):
        side = float(np.clip(0.9 * np.sqrt(len(labels)), 2.5, 16)) + 1
        figure = Figure(figsize=(side, side), layout="constrained")
        axes = figure.add_subplot(xticks=[], yticks=[], aspect="equal", adjustable="datalim")
        axes.spines[:].set_visible(False)
        texts: list[Any] = []
        for name, colour, marker in zip(groups, figures.LINE_COLOURS, _MARKERS, strict=False):
            words, points = groups[name]
            look = {"color": colour, "label": figures.printable(name)}
            axes.plot(*points.T, linestyle="", marker=marker, markersize=4, **look)
            for word, point in zip(words, points, strict=True):
                label = figures.shorten(word)
                texts.append(axes.text(*point, label, color=colour, fontsize=_FONT_SIZE))
        axes.margins(0.15)
        figure.legend(loc="outside upper left", ncols=len(groups), frameon=False, fontsize=10)
        figure.draw_without_rendering()
        line = {"arrowstyle": "-", "color": "#999999", "linewidth": 0.5}
        adjust_text(texts, ax=axes, iter_lim=100, arrowprops=line)
        figures.save(figure, path, dpi=150)
