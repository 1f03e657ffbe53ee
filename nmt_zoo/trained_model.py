"""A trained model in Python: translations, scores, alignments, pictures and exports."""

import dataclasses
import functools
import html
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nmt_zoo.common.errors import UserError
from nmt_zoo.data_pipeline.text_form import split_words
from nmt_zoo.decoding.alignment.aligner import Aligner
from nmt_zoo.decoding.explorer.sentence import maps_of
from nmt_zoo.decoding.pictures.attention_pictures import save_attention
from nmt_zoo.decoding.scoring import Scorer
from nmt_zoo.decoding.search.requests import usual_options
from nmt_zoo.decoding.text.training_text import TrainingText
from nmt_zoo.decoding.translator import Translator
from nmt_zoo.model_directory.combined_models import load_models
from nmt_zoo.model_directory.directory import model_directories


class Translations(list):
    """Translations, a list of str; a notebook shows them as a table.

    There, a word of a translation shows the source words that it is linked with under the mouse.
    `sources` are the lines that were translated; `scores` are the log-probabilities of the
    translations, each divided by its length penalty.
    """

    def __init__(self, hypotheses: list[Any], sources: list[str], model: "TrainedModel"):
        super().__init__(translation.text for translation in hypotheses)
        self.sources = sources
        self.scores = [translation.score for translation in hypotheses]
        self._model = model

    def _repr_html_(self) -> str:
        links = [[] for _ in self]
        if self._model.keras_model.has_alignment:
            links = self._model.align(self.sources, self)
        rows = zip(self.sources, self, links, strict=True)
        return f"<table>{''.join(_row(*row) for row in rows)}</table>"


def _row(source: str, target: str, links: list[tuple[int, int]]) -> str:
    words, spans = split_words(source), []
    for number, word in enumerate(split_words(target)):
        linked = " ".join(words[i] for i, j in links if j == number)
        spans.append(f'<span title="{html.escape(linked)}">{html.escape(word)}</span>')
    return f"<tr><td>{html.escape(source)}</td><td>{' '.join(spans)}</td></tr>"


@dataclasses.dataclass(eq=False, repr=False)
class Attention:
    """The attention between a sentence and its translation; a notebook shows it as a picture.

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
        try:
            tokens = self.source_tokens, self.target_tokens
            usual = {"name": self.model, "texts": self.texts, "alignment": self.alignment}
            save_attention(self.maps, *tokens, path, **usual | drawing)
        except ValueError as error:
            raise UserError(str(error)) from None

    def _repr_png_(self) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "attention.png"
            self.save(path, advises=False)
            return path.read_bytes()


class TrainedModel:
    """A trained model, read from its directory when it is first used.

    `model_dir` may name several directories, separated by commas.
    Raises UserError: no run was begun there.
    """

    def __init__(self, model_dir: str | os.PathLike, languages: tuple[str, str] = ("", "")):
        self.model_dir = os.fspath(model_dir)
        self._languages = languages
        self._made = {}
        self._directories = model_directories(self.model_dir)
        for directory in self._directories:
            directory.config()

    @functools.cached_property
    def _loaded(self) -> tuple[Any, Any, dict[str, Any]]:
        return load_models(self._directories, languages=self._languages)

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
        self, lines: str | Sequence[str], *, beam_size: int = 4, **options: Any
    ) -> Translations:
        """Translates lines, or one sentence, as translate.py does.

        A text of several lines is a document for a model that reads the sentences before a line.
        `beam_size` is the number of hypotheses that the search keeps; 1 is greedy search. `options`
        has further arguments of `decoding.translator.Translator`, such as `length_penalty`.
        Raises UserError: an option that does not fit the model, or a line that it cannot translate.
        """
        lines = [lines] if isinstance(lines, str) else list(lines)
        translator = self._once(self._translator, beam_size=beam_size, **options)
        translator.check_known(lines, "the lines")
        hypotheses = [best for best, *_ in translator.translate(lines)]
        for number, best in enumerate(hypotheses, start=1):
            if best.problem:
                raise UserError(f"line {number} cannot be translated: {best.problem}")
        return Translations(hypotheses, lines, self)

    def _translator(self, **options):
        text = TrainingText.read(self._directories[0].training_text_path)
        options = {**usual_options(self._directories, self._loaded, text), **options}
        return Translator.of(self.keras_model, self.tokenizer, **options)

    def _once(self, make, *args, **options):
        """Makes something with options once, because its graph takes seconds to make."""
        key = make, repr(sorted(options.items()))
        if key not in self._made:
            self._made[key] = make(*args, **options)
        return self._made[key]

    def score(self, sources: Sequence[str], targets: Sequence[str]) -> list[float]:
        """Returns the natural log-probability of each translation, with `</s>`.

        Raises UserError: the numbers of lines differ, or a pair cannot be scored.
        """
        _check_pairs(sources, targets)
        scorer = self._once(Scorer, self.keras_model, self.tokenizer, name=self._name)
        pairs = scorer.score(list(sources), list(targets))
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
        _check_pairs(sources, targets)
        threshold = options.pop("threshold", None)
        parts = self.keras_model, self.tokenizer
        aligner = self._once(Aligner, *parts, name=self._name, **options)
        return aligner.links(list(sources), list(targets), threshold=threshold)

    def attention(self, source: str, target: str | None = None) -> Attention:
        """Returns the attention between a sentence and its translation, to show or to save.

        If `target` is None, the model translates the sentence.
        Raises UserError: the model has no attention, or cannot translate the sentence.
        """
        target = self.translate(source)[0] if target is None else target
        texts = source, target
        sides = self.tokenizer[1:]
        ids = [side.encode([text])[0] for side, text in zip(sides, texts, strict=True)]
        maps = maps_of(self.keras_model, *ids)
        if not maps:
            raise UserError(f"{self._name} has no attention, so there is nothing to draw")
        tokens = [side.pieces(row) for side, row in zip(sides, ids, strict=True)]
        name = f"{self.config['model']} of {self.model_dir}"
        return Attention(maps, *tokens, texts, name, self.keras_model.alignment)

    def export(self, export_dir: str | os.PathLike, **options: Any) -> None:
        """Exports the model as export.py does, with a check that it translates alike.

        `export_dir` is the folder of all exported versions of this model; `options` has any flags
        of export.py, such as `format="ctranslate2"`.
        Raises UserError: the export cannot be written, or translates otherwise.
        """
        from nmt_zoo.command_line.calls import call

        languages = dict(zip(("source_language", "target_language"), self._languages, strict=True))
        options = {"model_dir": self.model_dir, "export_dir": export_dir, **languages, **options}
        call("export", **options)

    @property
    def _name(self) -> str:
        return f"the model in {self.model_dir}"

    def __repr__(self) -> str:
        presets = "+".join(directory.config()["model"] for directory in self._directories)
        return f"<{presets} of {self.model_dir}>"  # Nothing is loaded, so a language model, too.


def _check_pairs(sources: Sequence[str], targets: Sequence[str]) -> None:
    """Raises `UserError` unless there is a translation of every line."""
    if len(sources) != len(targets):
        raise UserError(
            f"expected a translation of every line, found {len(sources):,} source lines and "
            f"{len(targets):,} target lines"
        )
