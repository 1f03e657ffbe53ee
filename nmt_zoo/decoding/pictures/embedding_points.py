"""Places source and target words in one plane, by embeddings that share one space."""

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.tokenization.tokenizers import Tokenizer
from nmt_zoo.data_pipeline.tokenization.vocabularies import SPECIALS
from nmt_zoo.decoding.pictures.projections import principal_components, tsne
from nmt_zoo.models.base import TranslationModel
from nmt_zoo.models.word_attention import WordAttention

PROJECTIONS = {"pca": principal_components, "tsne": tsne}


def embedding_points(
    model: TranslationModel,
    tokenizer: Tokenizer,
    *,
    projection: str = "pca",
    num_words: int = 60,
    centred: bool = True,
    name: str = "the model",
) -> dict[str, tuple[list[str], np.ndarray]]:
    """Projects the embeddings of the most frequent words of both languages into one plane.

    In `softmax(U V_f)` a target word e is probable given a source word f if U_e and V_f point in
    the same direction. So each vector is divided by its length. Before that, if `centred`, the mean
    of the drawn words is subtracted on each side: a vector added to all U_e changes no probability,
    and a vector added to all V_f changes only how frequent target words are.

    The tokenizer is of kind "word"; `projection` is "pca" or "tsne"; `num_words` are drawn of each
    side; `name` is the model's in errors. Returns {"source": (words, their points `[n, 2]`),
    "target": likewise}, for `decoding.pictures.points.save_points`.
    Raises UserError: the model or tokenizer is of another kind, or there are too few words.
    """
    if not isinstance(model, WordAttention):
        raise UserError(
            f"{name}: its source and target words are not embedded in one space; use a model of "
            "ibm1_factored, attention_ibm1 or attention_ibm2"
        )
    if tokenizer.kind != "word":
        raise UserError(
            f"{name}: trained with --tokenizer={tokenizer.kind}, whose pieces are not sorted by "
            "frequency; expected a model with --tokenizer=word"
        )
    embeddings = (model.source_embedding.embeddings, model.output_layer.kernel)
    source, target = (np.asarray(x, np.float64) for x in embeddings)
    vectors, words = [], []
    for vocabulary, table in ((tokenizer.source, source), (tokenizer.target, target.T)):
        chosen = slice(len(SPECIALS), len(SPECIALS) + num_words)  # Sorted by frequency.
        directions = table[chosen] - (table[chosen].mean(axis=0) if centred else 0)
        directions /= np.maximum(np.linalg.norm(directions, axis=1, keepdims=True), 1e-12)
        vectors.append(directions)
        words.append(vocabulary.words[chosen])  # pyright: ignore[reportAttributeAccessIssue]
    if len(words[0]) + len(words[1]) < 4:
        raise UserError(f"{name}: fewer than 4 words in both vocabularies; nothing to draw")
    points = PROJECTIONS[projection](np.concatenate(vectors))
    ends = (words[0], points[: len(words[0])]), (words[1], points[len(words[0]) :])
    return dict(zip(("source", "target"), ends, strict=True))
