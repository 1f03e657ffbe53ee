"""Translates with CTranslate2 and the model that with_zoo.py trained, for rivals.py."""

from pathlib import Path

import ctranslate2  # noqa: TID253
from common import task


def main(task):
    found, kind, threads = {}, task["compute_type"], task["threads"]
    folder = max(Path(task["exports"]).iterdir(), key=lambda path: int(path.name))
    how = {"beam_size": task["beam"], "length_penalty": task["length_penalty"]}
    for several in (1, threads):  # One translator of all threads, and one for each thread.
        about = {"inter_threads": several, "intra_threads": threads // several}
        engine = ctranslate2.Translator(str(folder), compute_type=kind, **about)

        def translate(lines, size, engine=engine):
            lines = [[*line, "</s>"] for line in lines]
            done = engine.translate_batch(lines, max_batch_size=size, **how)
            return [one.hypotheses[0] for one in done]

        found[several] = task.decode(translate)
    best = max(found, key=lambda several: max(found[several].values()))
    settings = {"compute_type": kind, "inter_threads": best, "by_inter_threads": found}
    task.finish(found[best], settings)


if __name__ == "__main__":
    main(task())
