"""Trains `nn.Transformer` for rivals.py, and translates with it.

PyTorch has no beam search, and `nn.Transformer` keeps no keys and values from one step to the next.
So this search, which is ours, reads every prefix anew; finished sentences leave the batch.
"""

import random
import sys
from pathlib import Path

import torch
from common import task
from torch.nn.utils.rnn import pad_sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from benchmarks.parts.torch_networks import BOS_ID, EOS_ID, PAD_ID, TorchUpdate, TransformerModel


def padded(rows):
    return pad_sequence([torch.tensor(row) for row in rows], True, PAD_ID)


def batches(pairs, max_tokens, draw):
    """Makes the batches of an epoch: sentences of like lengths together, batches in any order."""
    found = [[]]
    for pair in sorted(pairs, key=lambda pair: (max(map(len, pair)), draw.random())):
        if (len(found[-1]) + 1) * max(map(len, pair)) > max_tokens:
            found.append([])
        found[-1].append(pair)
    return draw.sample(found, len(found))


def train(task, model, pairs):
    """Trains until the time is up; returns the number of updates."""
    names = ("learning_rate", "warmup_steps", "label_smoothing", "clip_norm")
    update = TorchUpdate(model, **{name: task[name] for name in names})
    draw, updates = random.Random(task["seed"]), 0
    while True:
        for batch in batches(pairs, task["max_tokens_per_batch"], draw):
            source, target = (padded(side) for side in zip(*batch, strict=True))
            float(update.step(source, target)[0])
            updates += 1
            task.count(updates, int((target != PAD_ID).sum()))
            if task.seconds_left() < 0:
                return updates


@torch.inference_mode()
def search(model, source, beam, alpha):
    """Returns the best target ids of each row of `source` `[B, S]`, without `</s>`."""
    best, ended = [(-1e9, [])] * len(source), [0] * len(source)
    rows, hidden = torch.arange(len(source)), source == PAD_ID
    memory = model.transformer.encoder(model._embed(source), src_key_padding_mask=hidden)
    ids = torch.full((len(rows), beam, 1), BOS_ID)
    scores = torch.tensor([0.0] + [-1e9] * (beam - 1)).repeat(len(rows), 1)
    for length in range(1, 100):
        texts = rows.repeat_interleave(beam)
        mask = torch.ones(length, length, dtype=torch.bool).triu(1)
        x = model._embed(ids.flatten(0, 1)), memory[texts], mask
        x = model.transformer.decoder(*x, None, None, hidden[texts], tgt_is_causal=True)[:, -1]
        log_probs = (x @ model.embedding.weight.T).log_softmax(-1).view(len(rows), beam, -1)
        scores, places = (scores[:, :, None] + log_probs).flatten(1).topk(2 * beam)
        words, every = places % log_probs.shape[-1], torch.arange(len(rows))[:, None]
        ids = torch.cat([ids[every, places // log_probs.shape[-1]], words[:, :, None]], 2)
        for place, k in (words[:, :beam] == EOS_ID).nonzero().tolist():
            ended[rows[place]] += 1
            found = float(scores[place, k]) / ((5 + length) / 6) ** alpha, ids[place, k].tolist()
            best[rows[place]] = max(best[rows[place]], found)
        going = (words == EOS_ID).int().sort(stable=True).indices[:, :beam]
        kept = torch.tensor([ended[row] < beam for row in rows])
        rows, ids, scores = rows[kept], ids[every, going][kept], scores[every, going][kept]
        if not len(rows):
            break
    return [ids[1:-1] for _, ids in best]


def main(task):
    torch.set_num_threads(task["threads"])
    torch.set_flush_denormal(True)
    torch.manual_seed(task["seed"])
    words = (task.texts / "pieces.txt").read_text("utf-8").split("\n")[:-1]
    ids_of = {word: i for i, word in enumerate(words, EOS_ID + 1)}

    def encode(lines):
        return [[*map(ids_of.get, line), EOS_ID] for line in lines]

    pairs = zip(*(encode(task.pieces(f"train.{x}")) for x in ("src", "trg")), strict=True)
    model = TransformerModel(len(words) + 4, task["network"])
    updates = train(task, model, list(pairs))
    model.eval()

    def translate(lines, size):
        parts = (padded(encode(lines[i : i + size])) for i in range(0, len(lines), size))
        found = (search(model, part, task["beam"], task["length_penalty"]) for part in parts)
        return [[words[i - 4] for i in ids if i > EOS_ID] for part in found for ids in part]

    task.finish(task.decode(translate), {"network": task["network"]}, updates)


if __name__ == "__main__":
    main(task())
