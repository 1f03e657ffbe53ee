"""What comparisons of speed have in common: a corpus, and candidates that take turns.

Every candidate lives in a process of its own and works at the same batches. One works at a time,
and the turns are short: what else the machine does then hits all of them alike. A ratio is that of
one round, its spread that over the rounds.
"""

import multiprocessing
import os
import statistics
import time
from pathlib import Path


def read_corpus(source, target, data_dir, max_length, **tokenizer):
    """The training text as `pipeline` has it.

    Args:
        source: text, a sentence a line; "": the demo corpus.
        target: its translation.
        data_dir: where the demo corpus is kept.
        max_length: the longest sentence, in tokens with `</s>`.
        **tokenizer: `kind` and more of `data_pipeline.tokenization.tokenizers.train_tokenizer`.

    Returns:
        `(EncodedCorpus, [source vocabulary size, target vocabulary size])`.

    Raises:
        UserError: one of the two texts without the other, or one that cannot be read.
    """
    from data_pipeline import datasets, pipeline
    from data_pipeline.files import UserError
    from data_pipeline.tokenization import tokenizers

    if bool(source) != bool(target):
        raise UserError("--source and --target go together")
    split = (
        datasets.Split(source, target) if source else datasets.prepare("demo", data_dir)["train"]
    )
    lines = datasets.read_split(split)
    kind = tokenizer.pop("kind")
    vocabularies = tokenizers.train_tokenizer(kind, *lines, **tokenizer)
    vocabularies = (vocabularies.source, vocabularies.target)
    corpus = pipeline.EncodedCorpus(*map(pipeline.encode_lines, vocabularies, lines))
    corpus, _ = pipeline.filter_pairs(corpus, max_length=max_length, max_length_ratio=9.0)
    return corpus, [len(vocabulary) for vocabulary in vocabularies]


class Candidate:
    """A process that takes turns, and what it has told of them.

    Args:
        name: of the candidate.
        threads: `(threads inside an operation, operations at a time)`, for TensorFlow.
        make: function of `arguments`, called in the process, that returns `work(first, count)`;
            it imports its own framework only, which has its threads set by then.

    Attributes:
        wall, cpu: seconds, one of each turn.
        results: what `work` returned after each turn.
        peak_memory: bytes of the process up to now.
    """

    def __init__(self, name, threads, make, *arguments):
        self.name, self.threads = name, threads
        self.wall, self.cpu, self.results, self.peak_memory = [], [], [], 0
        # TensorFlow reads these once, when it is imported.
        os.environ["TF_NUM_INTRAOP_THREADS"], os.environ["TF_NUM_INTEROP_THREADS"] = map(
            str, threads
        )
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        context.Process(target=_worker, args=(other, make, arguments), daemon=True).start()
        other.close()  # So that the end of the process is noticed.

    def turn(self, first, count):
        """Works at `count` items from number `first` on; returns (wall, CPU seconds, result)."""
        self.connection.send((first, count))
        *found, self.peak_memory = self.connection.recv()
        return found

    def rates(self, amounts, clock="wall"):
        """Amount of work a second in each turn."""
        return [n / seconds for n, seconds in zip(amounts, getattr(self, clock), strict=True)]

    def dismiss(self):
        """Ends the process."""
        self.connection.send(None)


def _worker(connection, make, arguments):
    work = make(*arguments)
    for first, count in iter(connection.recv, None):
        wall, cpu = time.perf_counter(), time.process_time()
        result = work(first, count)
        seconds = time.perf_counter() - wall, time.process_time() - cpu
        connection.send((*seconds, result, _peak_memory()))


def _peak_memory():
    # Not `ru_maxrss`, in which a process inherits the size of the one that started it.
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def take_turns(candidates, starts, count):
    """Every candidate works at `count` items from each of `starts` on, in rounds."""
    for number, start in enumerate(starts):
        # Every other round in the opposite order.
        for each in candidates[:: -1 if number % 2 else 1]:
            told = each.turn(start, count)
            for kept, one in zip((each.wall, each.cpu, each.results), told, strict=True):
                kept.append(one)
    for each in candidates:
        each.dismiss()


def record(candidate, tokens):
    """The figures of a candidate; `tokens` of each turn."""
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
    """Ratio of the rates of two candidates: median, least and largest of all rounds."""
    pairs = zip(getattr(theirs, clock), getattr(ours, clock), strict=True)
    return spread([their_seconds / our_seconds for their_seconds, our_seconds in pairs])


def spread(ratios):
    """Median, least and largest."""
    return {"median": statistics.median(ratios), "least": min(ratios), "largest": max(ratios)}
