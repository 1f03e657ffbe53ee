"""Copy, reverse and sort: a Transformer must learn each to 98% of whole sequences."""

import random

import pytest

from nmt_zoo import models
from nmt_zoo.data_pipeline.batching import Batching
from nmt_zoo.data_pipeline.encoding import encode_pairs
from nmt_zoo.data_pipeline.tokenization.tokenizers import train_tokenizer
from nmt_zoo.decoding.translator import Translator
from nmt_zoo.training.ways.gradient.adam import adam
from nmt_zoo.training.ways.gradient.gradient import Gradient
from tests.tiny import batches

TASKS = {
    "copy": list,
    "reverse": lambda words: words[::-1],
    "sort": sorted,
}


def examples(task, count, seed):
    rng = random.Random(seed)
    rows = [rng.choices("abcdefghijklmnop", k=rng.randint(2, 10)) for _ in range(count)]
    return [" ".join(row) for row in rows], [" ".join(TASKS[task](row)) for row in rows]


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_learns(task, tmp_path):
    source, target = examples(task, 20_000, seed=1)
    tokenizer = train_tokenizer("word", source, target)
    corpus = encode_pairs(source, target, tokenizer, tmp_path).corpus
    model = models.create(
        "transformer_tiny",
        len(tokenizer.source),
        len(tokenizer.target),
        num_encoder_layers=2,
        num_decoder_layers=2,
        width=64,
        dropout=0.0,
        tie_embeddings="target",
    )
    update = Gradient(model, adam(learning_rate=2e-3, warmup_steps=300))
    for epoch in range(15):
        for batch in batches(corpus, Batching(1024), seed=1, epoch=epoch):
            update.step(batch)
    source, target = examples(task, 500, seed=2)
    outputs = [
        best[0].text for best in Translator.of(model, tokenizer, beam_size=1).translate(source)
    ]
    right = sum(a == b for a, b in zip(outputs, target, strict=True))
    assert right >= 0.98 * len(target), f"{right} of {len(target)}"
