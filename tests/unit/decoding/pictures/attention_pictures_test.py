"""Tests of pictures of attention: content, legibility, and the files written."""

import itertools
import re
import struct
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from nmt_zoo.common.errors import UserError
from nmt_zoo.decoding.pictures import figures
from nmt_zoo.decoding.pictures.attention_pictures import save_attention
from tests.unit.decoding.pictures.conftest import MAGIC

font_manager = pytest.importorskip("matplotlib.font_manager")

SOURCE = ["▁Das", "▁Rechts", "schutz", "versicherung", "▁kostet", "▁5", "$_a$", "</s>"]
TARGET = ["▁The", "▁legal", "▁insurance", "▁costs", "▁$5", "&<x>", "</s>"]
ALL = {"layer": "all", "head": "all"}
SET = {"alignment": (2, 1)}


def random_map(num_heads, num_rows, num_columns):
    weights = np.random.default_rng(num_rows).random((num_heads, num_rows, num_columns)) ** 8
    return (weights / weights.sum(-1, keepdims=True)).astype(np.float32)


def one_map(num_rows=7, num_columns=8):
    return {"decoder/0/cross": random_map(1, num_rows, num_columns)}


def transformer_maps(num_layers=2, num_heads=3, source=SOURCE, target=TARGET):
    maps = {}
    for i in range(num_layers):
        maps[f"encoder/{i}/self"] = random_map(num_heads, len(source), len(source))
        maps[f"decoder/{i}/self"] = random_map(num_heads, len(target), len(target))
        maps[f"decoder/{i}/cross"] = random_map(num_heads, len(target), len(source))
    return maps


@pytest.fixture
def only_dejavu(monkeypatch):
    """Hides all fonts but matplotlib's own; returns the list of system fonts, to add to."""
    manager, system = font_manager.fontManager, []
    only = [font for font in manager.ttflist if font.name == "DejaVu Sans"]
    monkeypatch.setattr(manager, "ttflist", only)
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: system)
    return system


def png_size(path):
    return struct.unpack(">II", path.read_bytes()[16:24])


def svg_texts(path):
    texts = ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")
    return [text.text for text in texts]


def draw_svg(tmp_path, maps, source=SOURCE, target=TARGET, **options):
    save_attention(maps, source, target, tmp_path / "a.svg", **options)
    return svg_texts(tmp_path / "a.svg")


@pytest.mark.parametrize("ending", MAGIC)
def test_the_same_input_gives_the_same_bytes(tmp_path, ending):
    one, other = (tmp_path / f"{name}{ending}" for name in "ab")
    for path in (one, other):
        save_attention(transformer_maps(), SOURCE, TARGET, path, name="Twice")
    assert one.read_bytes() == other.read_bytes() and one.read_bytes().startswith(MAGIC[ending])


def test_every_token_is_written_on_every_panel(tmp_path):
    texts = draw_svg(tmp_path, transformer_maps(num_layers=2, num_heads=2), **ALL)
    for token in {*SOURCE, *TARGET}:
        assert texts.count(token.replace("▁", "_")) == 4 * (
            (token in SOURCE) + (token in TARGET)
        ), token


def test_both_sentences_are_written_below_the_title(tmp_path):
    """As they stand, but for control characters and those that reorder text."""
    texts = ("Das\tHaus\x00.", "A $5_0 \u202dhouse.")
    texts = draw_svg(tmp_path, transformer_maps(), name="a model & $6", texts=texts)
    title = "a model & $6: cross-attention, layer 1, mean of 3 heads"
    lines = [title, r"source: Das Haus\x00.", r"translation: A $5_0 \u202dhouse."]
    assert [text for text in texts if text in lines] == lines


@pytest.mark.parametrize(
    ("options", "panels", "title"),
    [
        (ALL, "11 12 21 22", "cross-attention, layers 1 to 2, heads 1 to 2"),
        ({"layer": 2, "head": "all"}, "21 22", "cross-attention, layer 2, heads 1 to 2"),
        ({"layer": "all", "head": 2}, "12 22", "cross-attention, layers 1 to 2, head 2"),
        ({"layer": 1, "head": 2}, "", "cross-attention, layer 1, head 2"),
        ({"layer": 2, "head": "mean"}, "", "cross-attention, layer 2, mean of 2 heads"),
        ({}, "", "cross-attention, layer 1, mean of 2 heads"),
        (SET, "", "cross-attention, layer 2, head 1"),
        ({**SET, "layer": 1}, "", "cross-attention, layer 1, mean of 2 heads"),
        ({"kind": "encoder", **SET}, "", "self-attention of the encoder, layer 1, mean of 2 heads"),
        ({"kind": "decoder"}, "", "self-attention of the decoder, layer 1, mean of 2 heads"),
    ],
)
def test_a_layer_or_a_head_can_be_chosen_and_the_title_names_it(tmp_path, options, panels, title):
    maps = transformer_maps(num_layers=2, num_heads=2)
    texts = draw_svg(tmp_path, maps, name="m of x", **options)
    names = [re.sub("layer |head |, |ean of 2 heads", "", text) for text in texts[:-1] if text]
    assert [name for name in names if re.fullmatch(r"\d[\dm]", name)] == panels.split()
    assert f"m of x: {title}" in " ".join(map(str, texts))  # Long titles are wrapped.


def test_a_model_of_one_map_has_no_names_of_panels(tmp_path):
    texts = draw_svg(tmp_path, {"decoder/1/cross": random_map(1, 7, 8)}, name="m")
    assert "m: attention to the source" in texts
    assert not any(text.startswith(("layer", "head", "mean")) for text in texts)


def test_maps_without_attention_are_named_for_what_they_are(tmp_path):
    maps = {"links": random_map(1, 7, 8), "phrases": random_map(1, 7, 8)}
    texts = draw_svg(tmp_path, maps, layer="all", name="m")
    assert {"m: links and phrases", "links", "phrases", "source"} <= {*texts}
    assert "m: links" in draw_svg(tmp_path, maps, name="m")


def test_darker_is_more_weight_in_grey_print_too():
    """The luminance of the colours falls evenly enough that ten weights can be told apart."""
    luminance = figures.colour_map()(np.linspace(0, 1, 11))[:, :3] @ [0.2126, 0.7152, 0.0722]
    assert luminance[0] == pytest.approx(1) and (np.diff(luminance) < -0.025).all()


def test_mean_draws_the_mean_of_the_heads(tmp_path):
    maps = transformer_maps(num_layers=1, num_heads=3)
    mean = {"decoder/0/cross": maps["decoder/0/cross"].mean(axis=0, keepdims=True)}
    images = []
    for drawn in (mean, maps):
        save_attention(drawn, SOURCE, TARGET, tmp_path / "a.svg")
        images.append(re.search(r"base64,([^\"]+)", (tmp_path / "a.svg").read_text())[1])
    assert images[0] == images[1]


@pytest.mark.parametrize("kind", ["encoder", "decoder"])
def test_self_attention_has_one_text_on_both_sides(tmp_path, kind):
    """The decoder's columns are shifted right. Merged pictures show words."""
    rows = SOURCE if kind == "encoder" else TARGET
    columns = SOURCE if kind == "encoder" else ["<s>", *TARGET[:-1]]
    texts = draw_svg(tmp_path, transformer_maps(1, 1), kind=kind)
    shown = [token.replace("▁", "_") for token in (*columns, *rows)]
    assert texts[: len(columns)] + texts[len(columns) + 1 :][: len(rows)] == shown
    texts = draw_svg(tmp_path, transformer_maps(), kind=kind, merge_subwords=True)
    assert not any(text.startswith("_") for text in texts)
    assert ("Rechtsschutzversicherung" in texts) == (kind == "encoder")


CROSS = {f"decoder/{i}/cross": random_map(3, 7, 8) for i in range(2)}
SHAPES = [(3, 8, 7), (3, 7, 9), (7, 8), (1, 3, 7, 8), (0, 7, 8)]


@pytest.mark.parametrize(
    ("maps", "options", "message"),
    [
        (CROSS, {"kind": "self"}, "no self attention, only: cross"),
        ({}, {}, "no attention"),
        *((CROSS, {"layer": n}, f"no layer {n}; layers: 1, 2") for n in (0, 3)),
        *((CROSS, {"head": n}, f"no head {n!r}; heads: 1, 2, 3, or 'mean'") for n in (0, 4, "max")),
        *(
            ({"decoder/0/cross": np.zeros(shape)}, {}, re.escape(str(shape)) + ".*7, 8")
            for shape in SHAPES
        ),
        *(
            ({"decoder/0/cross": np.full((1, 7, 8), bad)}, {}, "between 0 and 1")
            for bad in (np.nan, -0.5, 2.0)
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_with_what_there_is(tmp_path, maps, options, message):
    with pytest.raises((UserError, ValueError), match=message):
        draw_svg(tmp_path, maps, **options)


def test_settings_of_matplotlib_are_neither_used_nor_changed(tmp_path):
    import matplotlib

    maps = one_map()
    save_attention(maps, SOURCE, TARGET, tmp_path / "a.svg")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "xtick.labelsize": 3}):
        before = dict(matplotlib.rcParams)
        save_attention(maps, SOURCE, TARGET, tmp_path / "b.svg")
        assert dict(matplotlib.rcParams) == before
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


LEGIBLE = {
    "one token": (2, 3, ["a"], ["b"]),
    "pieces": (1, 2, SOURCE * 3, TARGET * 3),
    "long last word": (1, 2, ["a", "Rechtsschutzversicherungsgesellschaften"], ["a"] * 3),
    "endless word": (1, 2, ["x" * 500], ["y" * 500]),
    "wide characters": (1, 2, ["日本語" * 9, "。"], ["漢字かな", "</s>"]),
}


@pytest.mark.parametrize("case", LEGIBLE)
@pytest.mark.usefixtures("only_dejavu")
@pytest.mark.filterwarnings("ignore:Glyph")
def test_labels_are_large_enough_and_neither_cut_off_nor_overlapping(tmp_path, drawn, case):
    num_layers, num_heads, source, target = LEGIBLE[case]
    maps = transformer_maps(num_layers, num_heads, source, target)
    title = {"name": "a name that is rather longer than some of the pictures below it are wide"}
    figure, texts, renderer = drawn(
        lambda: save_attention(maps, source, target, tmp_path / "a.png", **title, **ALL)
    )
    assert all(text.get_fontsize() >= 8 for text, _ in texts)
    assert len(figure.axes) == num_layers * num_heads + 1
    boxes = [axes.get_tightbbox(renderer) for axes in figure.axes]
    assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
    (title_text,) = figure.texts
    bottom = title_text.get_window_extent(renderer).y0
    assert all(box.y1 <= bottom for box in boxes)
    for axes in figure.axes:
        if axes.get_ylabel() == "weight":
            continue
        tops = [label.get_window_extent(renderer).y1 for label in axes.get_xticklabels()]
        name = axes.get_title("left")
        for text in axes.findobj(type(title_text)):
            if name and text.get_text() == name:
                assert max(tops) <= text.get_window_extent(renderer).y0
        assert [axes.get_xlabel(), axes.get_ylabel()] == ["source (attended to)", "translation"]
        heights = [label.get_window_extent(renderer) for label in axes.get_yticklabels()]
        assert all(a.y0 >= b.y1 - 1 for a, b in itertools.pairwise(heights))
        # Slanted labels are sqrt(1/2) of a cell apart; a line of text is 1.15 font sizes high.
        cell = axes.bbox.width / len(axes.get_xticks()) * 72 / figure.dpi
        assert cell * 0.5**0.5 >= 1.15 * axes.get_xticklabels()[0].get_fontsize()


def square_font(path, family, characters):
    """Writes a font in which every character is a black square."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen

    pen = TTGlyphPen(None)
    for i, corner in enumerate([(0, 0), (0, 900), (900, 900), (900, 0)]):
        pen.lineTo(corner) if i else pen.moveTo(corner)
    pen.closePath()
    names = [".notdef", *(f"uni{ord(character):04X}" for character in characters)]
    builder = FontBuilder(1000, isTTF=True)
    builder.setupGlyphOrder(names)
    builder.setupCharacterMap(dict(zip(map(ord, characters), names[1:], strict=True)))
    builder.setupGlyf(dict.fromkeys(names, pen.glyph()))
    builder.setupHorizontalMetrics(dict.fromkeys(names, (1000, 0)))
    builder.setupHorizontalHeader(ascent=900, descent=0)
    builder.setupOS2(usWeightClass=400)
    style = {"styleName": "Regular", "psName": family.replace(" ", "")}
    builder.setupNameTable({"familyName": family, **style})
    builder.setupPost()
    builder.save(path)


def test_a_character_is_drawn_by_any_font_that_has_it(tmp_path, only_dejavu, capfd):
    """This holds also for a font installed after matplotlib has made its list of fonts."""
    tokens = ["a漢", "字b"]
    maps = one_map(2, 2)
    save_attention(maps, tokens, tokens, tmp_path / "boxes.png")
    assert "no installed font has: 漢字; install" in capfd.readouterr().err
    square_font(tmp_path / "squares.ttf", "Square Han", "漢字")
    only_dejavu.append(str(tmp_path / "squares.ttf"))
    for ending in MAGIC:
        save_attention(maps, tokens, tokens, tmp_path / f"drawn{ending}")
    assert capfd.readouterr().err == ""
    boxes, drawn = (tmp_path / f"{name}.png" for name in ("boxes", "drawn"))
    assert boxes.read_bytes() != drawn.read_bytes()
    fonts = re.findall(rb"/FontName /\w+\+(\S+)", (tmp_path / "drawn.pdf").read_bytes())
    assert set(fonts) == {b"DejaVuSans", b"SquareHan"}
    assert "'DejaVu Sans', 'Square Han', sans-serif" in (tmp_path / "drawn.svg").read_text("utf-8")


def test_one_line_names_the_fonts_of_characters_that_no_font_has(tmp_path, only_dejavu, capfd):
    tokens = ["日本語", "本", "नमस्ते", "é", "🤖", "\u3000"]
    maps = one_map(6, 6)
    # An .svg holds the text itself, so nothing is printed.
    assert "日本語" in draw_svg(tmp_path, maps, tokens, tokens)
    assert capfd.readouterr().err == ""
    for _ in range(2):
        save_attention(maps, tokens, tokens, tmp_path / "a.png", dpi=72)
    (line,) = capfd.readouterr().err.splitlines()
    assert "no installed font has: 日本語नमस्ते🤖; install" in line and "write an .svg" in line


def test_control_characters_are_spelled_out(tmp_path):
    texts = draw_svg(tmp_path, one_map(2, 2), ["a\x0b", "\ud800"], ["\u202eb", "\uffff"])
    assert {r"a\x0b", r"\ud800", r"\u202eb", r"\uffff"} <= {*texts}


HAS_SHAPING = hasattr(pytest.importorskip("matplotlib.ft2font"), "__libraqm_version__")


def test_a_matplotlib_that_cannot_order_text_says_so_once(tmp_path, monkeypatch, capfd):
    from matplotlib import ft2font

    if HAS_SHAPING:
        monkeypatch.delattr(ft2font, "__libraqm_version__")
    maps = one_map(2, 2)
    for tokens in (["a", "b"], ["שלום", "b"], ["b", "שלום"]):
        save_attention(maps, tokens, tokens, tmp_path / "a.png")
    (line,) = capfd.readouterr().err.splitlines()
    assert "right-to-left text" in line and "install 3.11" in line
    assert "שלום" in draw_svg(tmp_path, maps, tokens, tokens)


def test_a_png_that_would_be_huge_is_drawn_coarser_as_long_as_it_is_legible(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "_MAX_PIXELS", 200_000)
    maps = one_map()
    save_attention(maps, SOURCE, TARGET, tmp_path / "a.png", dpi=300)
    width, height = png_size(tmp_path / "a.png")
    assert 150_000 < width * height <= 200_000
    monkeypatch.setattr(figures, "_MAX_PIXELS", 10_000)
    with pytest.raises(UserError, match="too large"):
        save_attention(maps, SOURCE, TARGET, tmp_path / "b.png")
    assert not (tmp_path / "b.png").exists()
    save_attention(maps, SOURCE, TARGET, tmp_path / "a.pdf")
