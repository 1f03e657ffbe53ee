"""Training of both directions of an alignment model at once, so that they agree.

`agreement` has the mathematics. The forward direction is the run, with checkpoints, metrics and
validation; the reverse model has a directory of its own, which is whole but for those.
"""

import os

from data_pipeline.files import UserError
from data_pipeline.pipeline import EncodedCorpus
from model_directory.directory import ModelDirectory, model_arrays, write_archive
from training.expectation_maximisation.agreement import Directions, agreeing_step
from training.expectation_maximisation.em_update import THREADS, EMTrainer, EMUpdate, prepare
from training.expectation_maximisation.word_pairs import index_word_pairs


class AgreementUpdate(EMUpdate):
    """Steps of `agreement.agreeing_step`, whose estimates two `AlignmentModel`s are given.

    Args:
        model: `AlignmentModel` from source to target, prepared.
        directions: `Directions` of the training corpus.
        reverse_model: `AlignmentModel` from target to source, prepared.
        **options: as `EMUpdate`.
    """

    def __init__(self, model, directions, reverse_model, **options):
        super().__init__(model, directions.forward, **options)
        self.reverse = EMUpdate(reverse_model, directions.reverse, **options)

    def variables(self):
        """name -> variable of all that an iteration changes, in both directions."""
        reverse = {f"reverse/{name}": v for name, v in self.reverse.variables().items()}
        return {**super().variables(), **reverse}

    def step(self, directions):
        """Makes one iteration.

        Args:
            directions: the `Directions`.

        Returns:
            As `EMUpdate.step`, of the forward direction, and `reverse_log_likelihood`.
        """
        updates = self, self.reverse
        both = list(zip(updates, directions, strict=True))
        before = [update.estimate(words) for update, words in both]
        estimates, log_likelihoods = agreeing_step(
            directions, before, alpha=self.alpha, threads=THREADS
        )
        for (update, words), estimate in zip(both, estimates, strict=True):
            update.take(estimate, words)
        forward, reverse = log_likelihoods
        nll = -forward, self.num_tokens
        return {
            "loss": nll,
            "nll": nll,
            "log_likelihood": (forward, 1),
            "reverse_log_likelihood": (reverse, 1),
        }


class AgreementTrainer(EMTrainer):
    """The loop, which keeps the reverse model of the best iteration beside the forward one.

    Args:
        *args: as `Trainer`; the corpus is `Directions`.
        reverse: `ModelDirectory` of the reverse model, started.
        **options: as `Trainer`.
    """

    def __init__(self, *args, reverse, **options):
        super().__init__(*args, **options)
        self.reverse = reverse

    def run(self):
        """As `Trainer.run`."""
        signal_number = super().run()
        if not signal_number and self.reverse.best_state() is None:  # Gone since an earlier run.
            self._keep_reverse()
        return signal_number

    def _keep_best(self, arrays, evaluation, **more):
        self._keep_reverse()
        super()._keep_best(arrays, evaluation, **more)

    def _keep_reverse(self):
        arrays = model_arrays(self.update.reverse.model)
        write_archive(self.reverse.best_path, arrays, {"step": self.state["step"]})


def reverse_directory(directory, config):
    """The directory that the reverse model of a run goes to.

    Args:
        directory: `ModelDirectory` of the run.
        config: what will be its configuration.

    Returns:
        `ModelDirectory`, or None if the run trains one direction.

    Raises:
        UserError: options that do not go together, or a directory that holds something else.
    """
    options = config["options"]
    path = options["reverse_model_dir"]
    if not path:
        return None
    if options["update"] != "em":
        raise UserError(
            f"--reverse_model_dir: {config['model']} --update={options['update']} trains one "
            "direction; both need --update=em and ibm1, ibm2 or hmm_alignment"
        )
    if options["average_checkpoints"] != 1:
        raise UserError(
            "--reverse_model_dir goes without averages; leave out --average_checkpoints="
            f"{options['average_checkpoints']}"
        )
    if os.path.realpath(path) == os.path.realpath(directory.path):
        raise UserError(f"--reverse_model_dir={path} is --model_dir; name another")
    reverse = ModelDirectory(path)
    if not reverse.exists():
        reverse.check_free()
        return reverse
    found, expected = reverse.config(), _reverse_config(directory, config)
    compared = ["reverse_of", "training_text"]
    compared += ["validation_text"] if "validation_text" in found else []  # Earlier versions.
    if any(found.get(name) != expected[name] for name in compared):
        raise UserError(
            f"{path}: holds another model than the reverse one of {directory.path} and its text; "
            "name another --reverse_model_dir"
        )
    return reverse


def open_reverse(reverse, directory, tokenizer, corpus, words):
    """Starts the reverse direction of a run, or opens it again.

    Args:
        reverse: from `reverse_directory`.
        directory: `ModelDirectory` of the run, started.
        tokenizer: its `Tokenizer`.
        corpus: `EncodedCorpus`.
        words: its `WordPairs`.

    Returns:
        (`Directions`, reverse model, prepared).
    """
    corpus = EncodedCorpus(corpus.target, corpus.source)
    directions = Directions(words, index_word_pairs(corpus))
    if not reverse.exists():
        config = _reverse_config(directory, directory.config())
        config["vocab_sizes"] = config["vocab_sizes"][::-1]
        reverse.start(config, tokenizer._replace(source=tokenizer.target, target=tokenizer.source))
    model = reverse.new_model()
    prepare(model, corpus, directions.reverse)
    return directions, model


def _reverse_config(directory, config):
    """The word pairs are as many as those of the run, for they are the same."""
    options = {**config["options"], "reverse_model_dir": ""}
    return {**config, "options": options, "reverse_of": str(directory.path)}
