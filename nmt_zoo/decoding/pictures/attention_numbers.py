"""Writes attention as numbers: .npz for NumPy, .json for everything else."""

import json
import os
from collections.abc import Mapping, Sequence

import numpy as np

from nmt_zoo.common.files import atomic_path
from nmt_zoo.decoding.alignment.links import GoldAlignment

ENDINGS = (".npz", ".json")


def save_numbers(
    maps: Mapping[str, np.ndarray],
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    path: str | os.PathLike,
    *,
    model: str,
    gold: GoldAlignment | None = None,
) -> None:
    """Writes every map of a sentence pair, its tokens and the name of the model, atomically.

    Entries of the file:
        model: name of the model.
        source_tokens, target_tokens: with `</s>`.
        decoder_input_tokens: `<s>` and all target tokens but the last, which are the columns of the
            decoder's self-attention.
        maps by name, such as `decoder/0/cross` `[H, T, S]` float32; in a .json within `maps`.
        gold_sure, gold_possible: links `[links, 2]` of a source and a target position, counted
            from 0, if there are gold links; possible links include the sure links. Gold links are
            of words, so visualize_attention.py then writes words and the maps between them.

    `maps` are name -> `[H, rows, columns]`; `path` ends in .npz or .json.

    Raises UserError: the file cannot be written.

    Example:
        >>> save_numbers({"decoder/0/cross": np.ones([1, 2, 1])}, ["</s>"], ["a", "</s>"], "a.npz",
        ...              model="x")
        >>> np.load("a.npz")["decoder/0/cross"].shape
        (1, 2, 1)
    """
    maps = {name: np.asarray(weights, np.float32) for name, weights in maps.items()}
    facts = {
        "model": model,
        "source_tokens": list(source_tokens),
        "target_tokens": list(target_tokens),
        "decoder_input_tokens": ["<s>", *target_tokens[:-1]],
    }
    if gold is not None:
        facts["gold_sure"] = sorted(map(list, gold.sure))
        facts["gold_possible"] = sorted(map(list, gold.possible))
    with atomic_path(path) as temporary:
        if os.fspath(path).lower().endswith(".npz"):
            links = {k: np.reshape(v, [-1, 2]).astype(int) for k, v in facts.items() if "gold" in k}
            texts = {k: np.array(v) for k, v in facts.items() if k not in links}
            with open(temporary, "wb") as file:  # To a name, NumPy may add an ending.
                np.savez_compressed(file, **texts, **links, **maps)
        else:
            # The shortest decimals that give the same float32 again.
            shown = {name: w.astype(str).astype(float).tolist() for name, w in maps.items()}
            text = json.dumps({**facts, "maps": shown}, ensure_ascii=False)
            temporary.write_text(text + "\n", encoding="utf-8")
