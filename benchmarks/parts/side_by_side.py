"""Shared code for comparisons of speed: a corpus, and candidates that take turns.

Every candidate runs in its own process and works on the same batches. Only one works at a time, and
turns are short, so that other load on the machine affects all candidates alike. Ratios are computed
for each round; reports give their median and their spread over the rounds.
"""

import multiprocessing
import os
import statistics
import time
from pathlib import Path

from nmt_zoo.common.errors import UserError


def read_corpus(source, target, data_dir, max_length, **tokenizer):
    """Reads, tokenizes and encodes the training text.

    Args:
        source: path of the text, a sentence a line; "": the demo corpus.
        target: path of its translation.
        data_dir: folder where the demo corpus is kept.
        max_length: the longest sentence, in tokens including `</s>`.
        **tokenizer: `kind` and other arguments of
            `data_pipeline.tokenization.tokenizers.train_tokenizer`.

    Returns:
        `(EncodedCorpus, [source vocabulary size, target vocabulary size])`.

    Raises:
        UserError: one of the two texts without the other, or one that cannot be read.
    """
    import numpy as np

    from nmt_zoo.data_pipeline import datasets
    from nmt_zoo.data_pipeline.encoded import EncodedCorpus, PairFilter
    from nmt_zoo.data_pipeline.encoding import encode_lines
    from nmt_zoo.data_pipeline.tokenization import tokenizers

    if bool(source) != bool(target):
        raise UserError("--source and --target go together")
    split = (
        datasets.Split(source, target) if source else datasets.prepare("demo", data_dir)["train"]
    )
    lines = datasets.read_split(split)
    kind = tokenizer.pop("kind")
    vocabularies = tokenizers.train_tokenizer(kind, *lines, **tokenizer)
    vocabularies = (vocabularies.source, vocabularies.target)
    corpus = EncodedCorpus(*map(encode_lines, vocabularies, lines))
    kept, _ = PairFilter(max_length, 9.0)(*(side.lengths for side in corpus))
    corpus = EncodedCorpus(*(side.take(np.flatnonzero(kept)) for side in corpus))
    return corpus, [len(vocabulary) for vocabulary in vocabularies]


class Candidate:
    """A process that takes turns, and its measurements.

    Args:
        name: name of the candidate.
        threads: `(threads inside an operation, operations at a time)`, for TensorFlow.
        make: function of `arguments` that returns `work`, a function of the task of a turn. It is
            called in the new process, after the threads are set, and may import only its own
            framework.

    Attributes:
        wall, cpu: seconds of each turn.
        results: result of `work` in each turn.
        peak_memory: peak memory of the process so far, in bytes.
    """

    def __init__(self, name, threads, make, *arguments):
        self.name, self.threads = name, threads
        self.wall, self.cpu, self.results, self.peak_memory = [], [], [], 0
        # TensorFlow reads these variables once, during its import.
        os.environ["TF_NUM_INTRAOP_THREADS"], os.environ["TF_NUM_INTEROP_THREADS"] = map(
            str, threads
        )
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        context.Process(target=_worker, args=(other, make, arguments), daemon=True).start()
        other.close()  # Otherwise `recv` would wait forever if the process died.

    def turn(self, *task):
        """Calls `work(*task)`, such as (first item, count); returns (wall, CPU seconds, result).

        Raises:
            UserError: the process has ended.
        """
        try:
            self.connection.send(task)
            *found, self.peak_memory = self.connection.recv()
        except (EOFError, OSError):
            raise UserError(f"{self.name}: its process has ended; see its error above") from None
        return found

    def rates(self, amounts, clock="wall"):
        """Returns the amount of work a second in each turn."""
        return [n / seconds for n, seconds in zip(amounts, getattr(self, clock), strict=True)]

    def dismiss(self):
        """Ends the process."""
        self.connection.send(None)


def _worker(connection, make, arguments):
    work = make(*arguments)
    for task in iter(connection.recv, None):
        wall, cpu = time.perf_counter(), time.process_time()
        result = work(*task)
        seconds = time.perf_counter() - wall, time.process_time() - cpu
        connection.send((*seconds, result, _peak_memory()))


def _peak_memory():
    # `ru_maxrss` would include the size of the parent process, which a new process inherits.
    return _memory("VmHWM:")


def resident_memory():
    """Returns the memory of this process, in bytes."""
    return _memory("VmRSS:")


def _memory(name):
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition(name)[2].split()[0]) * 1024


def take_turns(candidates, starts, count):
    """Runs rounds in which every candidate works on `count` items from one of `starts`."""
    for number, start in enumerate(starts):
        # Every second round runs in the opposite order.
        for each in candidates[:: -1 if number % 2 else 1]:
            told = each.turn(start, count)
            for kept, one in zip((each.wall, each.cpu, each.results), told, strict=True):
                kept.append(one)
    for each in candidates:
        each.dismiss()


def record(candidate, tokens):
    """Returns the figures of a candidate; `tokens` is a list with the tokens of each turn."""
    return {
        "threads": candidate.threads,
        "tokens_per_second": statistics.median(candidate.rates(tokens)),
        "tokens_per_cpu_second": statistics.median(candidate.rates(tokens, "cpu")),
        "wall_seconds": candidate.wall,
        "cpu_seconds": candidate.cpu,
        "peak_memory_bytes": candidate.peak_memory,
        "last_loss": candidate.results[-1],
    }


def ratio(ours, theirs, clock="wall"):
    """Returns the ratio of the rates of two candidates: median, least and largest of all rounds."""
    pairs = zip(getattr(theirs, clock), getattr(ours, clock), strict=True)
    return spread([their_seconds / our_seconds for their_seconds, our_seconds in pairs])


def spread(ratios):
    """Returns median, least and largest of a list of ratios."""
    return {"median": statistics.median(ratios), "least": min(ratios), "largest": max(ratios)}
