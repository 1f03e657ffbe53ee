"""A trained model in Python: translations, scores, alignments, pictures and exports."""

import dataclasses
import difflib
import functools
import html
import os
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from nmt_zoo.command_line import translate
from nmt_zoo.command_line.calls import call
from nmt_zoo.common.errors import UserError, texts_of
from nmt_zoo.common.files import FilePath
from nmt_zoo.common.parallel import num_cores
from nmt_zoo.configuration.options import AUTO
from nmt_zoo.decoding.alignment.aligner import Aligner
from nmt_zoo.decoding.explorer.page import explorer_page, model_data
from nmt_zoo.decoding.explorer.sentence import maps_of
from nmt_zoo.decoding.pictures.attention_pictures import save_attention
from nmt_zoo.decoding.pictures.figures import save_curves
from nmt_zoo.decoding.scoring import Scorer
from nmt_zoo.decoding.search.requests import FILES, OPTIONS
from nmt_zoo.decoding.text.line_warnings import LineWarnings
from nmt_zoo.decoding.text.training_text import TrainingText
from nmt_zoo.model_directory.combined_models import load_models
from nmt_zoo.model_directory.directory import model_directories
from nmt_zoo.model_directory.metrics import read_records


class Translations(list):
    """Translations, a list of str; a notebook shows the first of them as a table.

    `sources` are the lines that were translated; `scores` are the log-probabilities of the
    translations, each divided by its length penalty.
    """

    def __init__(self, hypotheses: list[Any], sources: list[str]):
        super().__init__(translation.text for translation in hypotheses)
        self.sources = sources
        self.scores = [translation.score for translation in hypotheses]

    def _repr_html_(self) -> str:
        look = 'dir="auto" style="text-align: start; white-space: pre-line"'
        rows = [("source", "translation", "score")]
        rows += zip(self.sources, self, (f"{score:.2f}" for score in self.scores), strict=True)
        lines = ["".join(f"<td {look}>{html.escape(x)}</td>" for x in row) for row in rows]
        lines[0] = lines[0].replace("td", "th")
        table = "".join(f"<tr>{line}</tr>" for line in lines[:21])  # With the head.
        more = len(self) - 20
        return f"<table>{table}</table>" + f"<p>... {more:,} more</p>" * (more > 0)


@dataclasses.dataclass(eq=False, repr=False)
class Attention:
    """The attention between a sentence and its translation; a notebook shows it as a page.

    `maps` has a name such as "decoder/0/cross" -> `[H, T, S]` float32, as `attention_maps`; the S
    `source_tokens` and T `target_tokens` are pieces with `</s>`; `texts` is (source, translation);
    `model` names the model in titles; `alignment` is as of `Drawing`.
    """

    maps: dict[str, np.ndarray]
    source_tokens: list[str]
    target_tokens: list[str]
    texts: tuple[str, str]
    model: str
    alignment: tuple[int, int | str] | None = None

    def save(self, path: str | os.PathLike, **drawing: Any) -> None:
        """Draws a picture, .png, .svg or .pdf.

        `drawing` has attributes of `decoding.pictures.attention_pictures.Drawing`. Default: the
        attention from translation to source by which `TrainedModel.align` links words.
        Raises UserError: no such kind, layer, head or file ending, or the file cannot be written.
        """
        tokens = self.source_tokens, self.target_tokens
        usual = {"name": self.model, "texts": self.texts, "alignment": self.alignment}
        save_attention(self.maps, *tokens, path, **usual | drawing)

    def __repr__(self) -> str:
        return f"<attention of {self.model}: {self.texts[1]!r} to {self.texts[0]!r}>"

    def _repr_html_(self) -> str:
        tokens = self.source_tokens, self.target_tokens
        data = model_data(self.model, self.texts, tokens, self.maps, self.alignment)
        page = html.escape(explorer_page({"models": [data]}, self.texts[0]))
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 40rem; border: 0"></iframe>'


class TrainedModel:
    """A trained model, read from its directory when it is first used.

    `model_dir` may name several directories, separated by commas.
    Raises UserError: no run was begun there.
    """

    def __init__(self, model_dir: FilePath, languages: tuple[str, str], precision: str):
        self.model_dir = os.fspath(model_dir)
        self._languages, self._precision = languages, precision
        (option,) = (o for o in translate.Arguments.flags() if o.name == "precision")
        if not option.takes(precision):
            raise UserError(f"precision: {option.refusal(repr(precision)[:60])}")
        threads = tf.config.threading.get_intra_op_parallelism_threads()
        if precision in ("int8", AUTO) and 0 < threads < num_cores():
            why = f"all searches share the {threads} thread(s) with which TensorFlow has started"
            warnings.warn(f"precision={precision}: {why}; a new process has more", stacklevel=3)
        self._made = {}
        self._directories = model_directories(self.model_dir)
        for directory in self._directories:
            directory.config()
        self._training_text = TrainingText.read(self._directories[0].training_text_path)

    @functools.cached_property
    def _loaded(self) -> tuple[Any, Any, dict[str, Any]]:
        return load_models(self._directories, self._precision, languages=self._languages)

    @property
    def keras_model(self) -> Any:
        """The `TranslationModel`, ids in, tensors out."""
        return self._loaded[0]

    @property
    def tokenizer(self) -> Any:
        """The `Tokenizer`, which makes ids of text."""
        return self._loaded[1]

    @property
    def config(self) -> dict[str, Any]:
        """The configuration, as config.json has it, and the `length_penalty` of searches."""
        return self._loaded[2]

    def translate(
        self, lines: str | Sequence[str], *, beam_size: int | None = None, **options: Any
    ) -> Translations:
        """Translates lines, or one sentence, as translate.py does, with its warnings.

        A text of several lines is a document for a model that reads the sentences before a line.
        `beam_size` is the number of hypotheses that the search keeps; 1 is greedy search, None 4.
        `options` are flags of translate.py, such as `length_penalty` or `split_sentences`.
        Raises UserError: an option that does not fit the model, or a line that it cannot translate.
        """
        (lines,) = texts_of(lines=lines)
        translator = self._once(self._translator, beam_size=beam_size, **options)
        if not translator.options.unknowns:
            translator.check_known(lines, "the lines")
        translator.check_constraints(len(lines))
        hypotheses = [best for best, *_ in translator.translate(lines)]
        for number, best in enumerate(hypotheses, start=1):
            if best.problem:
                raise UserError(f"line {number} cannot be translated: {best.problem}")
        noted = LineWarnings(
            self._training_text,
            translator.in_sentences,
            max_input_tokens=translator.options.max_input_tokens,
            max_length=self.config["options"]["max_length"],
        )
        ids = translator.tokenizer.source.encode(lines)
        noted.add([translator.divided(line)[-1] for line in lines], ids, zip(hypotheses))
        for warning in noted:
            warnings.warn(warning, stacklevel=2)
        return Translations(hypotheses, lines)

    def _translator(self, **options):
        options = {name: value for name, value in options.items() if value is not None}
        every = [*translate.Arguments.flags(), *OPTIONS]
        known = {option.name: option for option in every if option.name in translate.OF_SEARCHES}
        for name, value in options.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1) or known
                raise UserError(f"{name}: there is no such argument; is it {' or '.join(near)}?")
            if not known[name].takes(value):
                raise UserError(f"{name}: {known[name].refusal(repr(value)[:60])}")
        usual = {"length_penalty": self.config["length_penalty"], "compile": "never"}
        usual |= {"model_dir": self.model_dir, "given": frozenset(options)}
        more = {o.name: options.pop(o.name) for o in OPTIONS if o.name in options}
        flags = translate.Arguments(**{**usual, **options}, options=more)
        translate.check_flags(flags)
        models = translate.Models(*self._loaded, self._directories)
        return translate.make_translator(flags, models, {}, self._training_text)

    def _once(self, make, *args, **options):
        """Makes something with options once, because its graph takes seconds to make."""
        key = make, repr(sorted(options.items()))
        if key not in self._made or {*FILES} & {*options}:  # Files may have changed.
            self._made[key] = make(*args, **options)
        return self._made[key]

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """Returns the natural log-probability of each translation, with `</s>`.

        Raises UserError: the numbers of lines differ, or a pair cannot be scored.
        """
        sides = texts_of(sources=sources, targets=targets)
        scorer = self._once(Scorer, self.keras_model, self.tokenizer, name=self._name)
        pairs = scorer.score(*sides)
        for number, scored in enumerate(pairs, start=1):
            if scored.problem:
                raise UserError(f"line {number} cannot be scored: {scored.problem}")
        return [scored.log_prob for scored in pairs]

    def align(
        self, sources: Sequence[str], targets: Sequence[str], **options: Any
    ) -> list[list[tuple[int, int]]]:
        """Links the words of lines, which white space separates, with those of their translations.

        Returns for every pair the sorted list of (source position, target position), counted from
        0. `options`: `layer` and `head` of the attention (see `Aligner`), `threshold` (see
        `Aligner.links`).
        Raises UserError: the numbers of lines differ, or the model cannot align.
        """
        sides = texts_of(sources=sources, targets=targets)
        threshold = options.pop("threshold", None)
        parts = self.keras_model, self.tokenizer
        aligner = self._once(Aligner, *parts, name=self._name, **options)
        return aligner.links(*sides, threshold=threshold)

    def attention(self, source: str, target: str | None = None) -> Attention:
        """Returns the attention between a sentence and its translation, to show or to save.

        If `target` is None, the model translates the sentence.
        Raises UserError: the model has no attention, or cannot translate the sentence.
        """
        target = self.translate([source])[0] if target is None else target
        texts = source, target
        sides = self.tokenizer[1:]
        ids = [side.encode(*texts_of(text=[x]))[0] for side, x in zip(sides, texts, strict=True)]
        maps = maps_of(self.keras_model, *ids)
        if not maps:
            raise UserError(f"{self._name} has no attention, so there is nothing to draw")
        tokens = [side.pieces(row) for side, row in zip(sides, ids, strict=True)]
        name = f"{self.config['model']} of {self.model_dir}"
        return Attention(maps, *tokens, texts, name, self.keras_model.alignment)

    def draw_curves(self, path: str | os.PathLike) -> None:
        """Draws log-perplexity and BLEU by the updates of training, .png, .svg or .pdf.

        Dotted lines are of training text, others of validation text.
        Raises UserError: the file has another ending, or cannot be written.
        """
        save_curves({str(d.path): read_records(d.metrics_path) for d in self._directories}, path)

    def _repr_png_(self) -> bytes | None:
        if not self._directories[0].metrics_path.exists():
            return None
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "curves.png"
            self.draw_curves(path)
            return path.read_bytes()

    def export(self, export_dir: str | os.PathLike, **options: Any) -> None:
        """Exports the model as export.py does, with a check that it translates alike.

        `export_dir` is the folder of all exported versions of this model; `options` has any flags
        of export.py, such as `format="ctranslate2"`.
        Raises UserError: the export cannot be written, or translates otherwise.
        """
        languages = dict(zip(("source_language", "target_language"), self._languages, strict=True))
        options = {"model_dir": self.model_dir, "export_dir": export_dir, **languages, **options}
        call("export", **options)

    @property
    def _name(self) -> str:
        return f"the model in {self.model_dir}"

    def __repr__(self) -> str:
        presets = "+".join(directory.config()["model"] for directory in self._directories)
        return f"<{presets} of {self.model_dir}>"  # Nothing is loaded, so a language model, too.
