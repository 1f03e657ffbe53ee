"""Runs a pretrained model in PyTorch, with Hugging Face's `transformers`; for pretrained.py.

    python transformers_system.py FOLDER LINES REFERENCES OUTPUT SOURCE_LANGUAGE TARGET_LANGUAGE

writes OUTPUT.json: ids of all lines, texts of a greedy and a beam search, and seconds; and
OUTPUT.npz: logits of the first lines. `<unk>` and padding are never written, as in our search.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
import transformers

NUM_LOGITS, MOST_TOKENS = 12, 60


def main(folder, lines, references, output, source, target, translated):
    """Runs the model; `translated` is the number of lines to translate."""
    languages = {"src_lang": source, "tgt_lang": target} if source else {}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, use_fast=False, **languages)
    began = time.monotonic()
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    found = {"load_seconds": time.monotonic() - began, "version": transformers.__version__}
    lines, references = (Path(p).read_text().split("\n")[:-1] for p in (lines, references))
    if target and not source:
        lines = [f">>{target}<< {line}" if line.strip() else line for line in lines]
    found["ids"] = [tokenizer(line)["input_ids"] for line in lines]
    with torch.no_grad():
        inputs = tokenizer(lines[:NUM_LOGITS], return_tensors="pt", padding=True)
        labels = tokenizer(text_target=references[:NUM_LOGITS], return_tensors="pt", padding=True)
        labels = labels["input_ids"]
        start = torch.full_like(labels[:, :1], model.config.decoder_start_token_id)
        decoder_ids = torch.cat([start, labels[:, :-1]], 1)
        logits = model(**inputs, decoder_input_ids=decoder_ids).logits
        np.savez(f"{output}.npz", logits=logits.numpy(), labels=labels.numpy())
        never = [[model.config.pad_token_id], [tokenizer.unk_token_id]]
        how = {"bad_words_ids": never, "max_new_tokens": MOST_TOKENS, "do_sample": False}
        if source:
            how["forced_bos_token_id"] = tokenizer.convert_tokens_to_ids(
                tokenizer.get_lang_token(target) if hasattr(tokenizer, "get_lang_token") else target
            )
        for name, beam, threads in (
            ("greedy", 1, 1),
            ("greedy", 1, 2),
            ("beam", 4, 1),
            ("beam", 4, 2),
        ):
            torch.set_num_threads(threads)
            texts, finished, began = [], [], time.monotonic()
            for line in lines[:translated]:
                one = tokenizer([line], return_tensors="pt")
                ids = model.generate(
                    **one, num_beams=beam, length_penalty=1.0, early_stopping=True, **how
                )[0]
                finished.append(len(ids) <= MOST_TOKENS)
                if source:
                    ids = [i for i in ids.tolist() if i != how["forced_bos_token_id"]]
                texts.append(tokenizer.decode(ids, skip_special_tokens=True))
            seconds = time.monotonic() - began
            seconds = min(
                seconds, found.get(name, {}).get("seconds", seconds)
            )  # The faster counts.
            found[name] = {"texts": texts, "finished": finished, "seconds": seconds}
    Path(f"{output}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:7], int(sys.argv[7]))
