"""Converts a pretrained model by CTranslate2's own converter, and times it; for pretrained.py.

python ctranslate2_system.py FOLDER LINES OUTPUT SOURCE_LANGUAGE TARGET_LANGUAGE COUNT
"""

import json
import sys
import time
from pathlib import Path

import transformers


def main(folder, lines, output, source, target, count):
    """Writes OUTPUT.json: seconds of a greedy and a beam search of each line by itself."""
    import ctranslate2

    languages = {"src_lang": source, "tgt_lang": target} if source else {}
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, use_fast=False, **languages)
    ctranslate2.converters.TransformersConverter(folder).convert(output, force=True)
    lines = Path(lines).read_text().split("\n")[: int(count)]
    if target and not source:
        lines = [f">>{target}<< {line}" for line in lines]
    pieces = [tokenizer.convert_ids_to_tokens(tokenizer(line)["input_ids"]) for line in lines]
    sign = None
    if source:
        own = hasattr(tokenizer, "get_lang_token")
        sign = [[tokenizer.get_lang_token(target) if own else target]]
    found = {}
    for threads in (1, 2):  # The faster counts.
        translator = ctranslate2.Translator(output, intra_threads=threads, inter_threads=1)
        for name, beam in (("greedy", 1), ("beam", 4)):
            how = {"beam_size": beam, "max_decoding_length": 60, "disable_unk": True}
            began = time.monotonic()
            for one in pieces:
                translator.translate_batch([one], target_prefix=sign, **how)
            seconds = round(time.monotonic() - began, 2)
            found[name] = min(seconds, found.get(name, seconds))
    Path(f"{output}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
