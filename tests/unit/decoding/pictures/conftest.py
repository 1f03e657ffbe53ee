"""Checks that all kinds of pictures share."""

import pytest

# How the files of each format begin.
MAGIC = {".png": b"\x89PNG\r\n\x1a\n", ".svg": b"<?xml", ".pdf": b"%PDF-"}


@pytest.fixture
def drawn(monkeypatch):
    """A function that calls `draw()`; returns (the figure, [(text, its box)], the renderer).

    It checks that all texts lie in the figure.
    """
    pytest.importorskip("matplotlib")
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.text import Text

    original, figures = Figure.savefig, []

    def keep(figure, *args, **options):
        original(figure, *args, **options)
        figure.dpi = options["dpi"]
        figures.append(figure)

    def check(draw):
        monkeypatch.setattr(Figure, "savefig", keep)
        draw()
        (figure,) = figures
        renderer = FigureCanvasAgg(figure).get_renderer()
        texts = [text for text in figure.findobj(Text) if text.get_text() and text.get_visible()]
        boxes = [(text, text.get_window_extent(renderer)) for text in texts]
        for text, box in boxes:
            assert min(box.x0, box.y0) >= 0, text
            assert box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1, text
        return figure, boxes, renderer

    return check
