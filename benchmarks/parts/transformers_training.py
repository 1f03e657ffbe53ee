"""Trains a small OPUS-MT model in PyTorch, with Hugging Face's `transformers`; for tuning.py.

    python transformers_training.py SOURCE TARGET PAIRS MINUTES FOLDER

learns from the first PAIRS lines of the files SOURCE and TARGET, and writes FOLDER in the hub's
form: config.json, model.safetensors, vocab.json, source.spm and target.spm. Needs the packages
torch, transformers, sentencepiece and sacremoses.
"""

import collections
import json
import random
import sys
import time
from pathlib import Path

import sentencepiece
import torch
import transformers

PIECES, TOKENS, WARM_UP, RATE = 3000, 1200, 600, 1.5e-3
SIZES = {
    f"{side}_{name}": value
    for side in ("encoder", "decoder")
    for name, value in (("layers", 3), ("attention_heads", 4), ("ffn_dim", 768))
}


def make_tokenizer(lines, folder):
    """Writes the files of the tokenizer; pieces of both sides share one vocabulary."""
    counts = collections.Counter()
    for side, some in zip(("source", "target"), lines, strict=True):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(some),
            model_prefix=str(folder / side),
            vocab_size=PIECES,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        (folder / f"{side}.model").rename(folder / f"{side}.spm")
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / f"{side}.spm"))
        for line in some:
            counts.update(pieces.encode(line, out_type=str))
    entries = ["</s>", "<unk>", *(piece for piece, _ in counts.most_common()), "<pad>"]
    vocabulary = {entry: number for number, entry in enumerate(entries)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False))
    files = [str(folder / name) for name in ("source.spm", "target.spm", "vocab.json")]
    return transformers.MarianTokenizer(*files, source_lang="en", target_lang="de")


def make_batches(pairs, draw):
    """Yields lists of pairs of ids, of similar length, in a new order each time."""
    ordered = sorted(pairs, key=lambda pair: (len(pair[1]), draw.random()))
    found, batch = [], []
    for pair in ordered:
        if batch and (len(batch) + 1) * max(map(len, (*pair, *batch[-1]))) > TOKENS:
            found.append(batch)
            batch = []
        batch.append(pair)
    found.append(batch)
    draw.shuffle(found)
    return found


def padded(rows, pad):
    """Returns rows of ids as one tensor."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad] * (longest - len(row))] for row in rows])


def main(source, target, num_pairs, minutes, folder):
    """Trains the model and writes the folder."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    draw = random.Random(1)
    lines = [Path(path).read_text().split("\n")[:num_pairs] for path in (source, target)]
    tokenizer = make_tokenizer(lines, folder)
    pad = tokenizer.pad_token_id
    config = transformers.MarianConfig(
        vocab_size=len(tokenizer),
        d_model=192,
        pad_token_id=pad,
        decoder_start_token_id=pad,
        eos_token_id=0,
        forced_eos_token_id=0,
        activation_function="swish",
        scale_embedding=True,
        static_position_embeddings=True,
        max_position_embeddings=256,
        dropout=0.2,
        bad_words_ids=[[pad]],
        **SIZES,
    )
    model = transformers.MarianMTModel(config)
    encoded = tokenizer(lines[0])["input_ids"], tokenizer(text_target=lines[1])["input_ids"]
    pairs = list(zip(*encoded, strict=True))
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98))
    began, step, share = time.monotonic(), 0, 0.0
    while share < 1:
        for batch in make_batches(pairs, draw):
            share = (time.monotonic() - began) / (60 * minutes)
            if share >= 1:
                break
            step += 1
            rate = RATE * min(step / WARM_UP, 1 - share)
            for group in optimizer.param_groups:
                group["lr"] = rate
            sources, labels = (padded(rows, pad) for rows in zip(*batch, strict=True))
            start = torch.full_like(labels[:, :1], pad)
            logits = model(
                input_ids=sources,
                attention_mask=(sources != pad).long(),
                decoder_input_ids=torch.cat([start, labels[:, :-1]], 1),
            ).logits
            loss = torch.nn.functional.cross_entropy(
                logits.flatten(0, 1), labels.flatten(), ignore_index=pad, label_smoothing=0.1
            )
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            if step % 100 == 0:
                print(f"step {step}, loss {loss:.3f}, {share:.0%}", flush=True)
    model.eval()
    model.save_pretrained(folder)
    print(f"trained {step} updates in {minutes} minutes")


if __name__ == "__main__":
    main(*sys.argv[1:3], int(sys.argv[3]), float(sys.argv[4]), sys.argv[5])
