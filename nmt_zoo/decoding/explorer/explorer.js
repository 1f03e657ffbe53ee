/*
 * Shows attention between the tokens of a sentence and of its translation.
 *
 *     Explorer.show(element, data);
 *
 * `data` is one JSON object; nmt_zoo/decoding/explorer/page.py makes it:
 *
 *     {
 *       "models": [MODEL, ...],    one, or several to compare
 *       "choice": {"kind": "cross", "layer": 1, "head": "mean", "merge": true}
 *                                  what is shown first; each entry may be missing; layers and heads
 *                                  are counted from 1, "mean" is the mean of all
 *     }
 *     MODEL        {"name": str, "source": SIDE, "target": SIDE, "maps": {name: MAP},
 *                   "translations": [TRANSLATION, ...], "choice": as above, where that says nothing,
 *                   "confidence": [probability of each target token]}; the last three may be missing
 *     SIDE         {"text": str, "tokens": [str], "words": [str], "wordOf": [int]}: the tokens and
 *                  the words, both with "</s>"; wordOf is the word of each token, from 0
 *     name         "encoder/0/self", "decoder/0/self", "decoder/0/cross" (layers from 0); links of the
 *                  translation to the source have another name, such as "alignment"
 *     MAP          {"shape": [heads, rows, columns], "weights": base64 of one byte for each weight};
 *                  byte b is the weight (b / 255)^2. Rows attend, columns are attended to; those of
 *                  a decoder/i/self are "<s>" and all target tokens but the last
 *     TRANSLATION  {"text": str, "score": number or null, "logProb": number, "finished": bool,
 *                   "given": bool, "shown": bool, "steps": [STEP, ...]}; without any "best", tokens
 *                   have no probabilities
 *     STEP         {"token": str, "logProb": number, "best": [[str, number], ...]}: the token of this
 *                  step, and the most probable tokens there with their log-probabilities
 *
 * All text enters the page as text nodes and attributes, never as markup. The scripts
 * explorer_numbers.js and explorer_pictures.js must come before this one.
 */
"use strict";
const Explorer = (() => {
  const { KINDS, UNSURE, foreign, labelled, layersOf, lineOf, make, makeSelect, percent } = ExplorerNumbers;
  const { reading, scaleOf, tableOf } = ExplorerNumbers;
  const { addressOf, captionOf, drawLines, drawMatrix, drawThumbnail, makeBeam, makeNumbers, makeWords } =
    ExplorerPictures;

  const LEGEND = ` Underlined: the model is less than ${percent(UNSURE)} sure.`;
  const HELP = "Point at a word, or choose one with the arrow keys, to see what it attends to.";

  /** Returns a choice that the model has, as near as possible to the one wanted. */
  function validChoice(layers, wanted) {
    const kinds = Object.keys(layers);
    const kind = kinds.includes(wanted.kind) ? wanted.kind : kinds[0];
    const numbers = layers[kind].map(([number]) => number);
    const isMean = wanted.layer === "mean" && numbers.length > 1;
    const usual = numbers.at(-2) ?? numbers[0];
    const layer = isMean || numbers.includes(wanted.layer) ? wanted.layer : usual;
    const heads = layers[kind][0][1].shape[0];
    const head = wanted.head >= 1 && wanted.head <= heads ? wanted.head : "mean";
    const merge = Boolean(wanted.merge);
    return { kind, layer, head, merge };
  }

  class View {
    constructor(model, choice) {
      this.model = model;
      this.layers = layersOf(model.maps);
      this.element = make("section", { class: "view" });
      this.changed = () => {}; // Called after another choice; draws at least this view.
      this.element.append(make("h2", {}, foreign(model.name)), this.makeTexts());
      if (!Object.keys(this.layers).length) {
        this.element.append(make("p", {}, "This model has no attention to show."));
      } else {
        this.choice = validChoice(this.layers, choice);
        this.controls = make("div", { class: "choices" });
        this.status = make("p", { class: "reading", role: "status" });
        this.pictures = make("div", { class: "pictures" });
        this.overview = make("div", { class: "overview" });
        const region = { class: "scrolled", tabindex: "0", role: "group", "aria-label": "numbers" };
        const summary = make("summary", {}, "Numbers");
        this.numbers = make("details", { class: "numbers" }, summary, make("div", region));
        this.numbers.addEventListener("toggle", () => this.fillNumbers());
        this.words = make("div", { class: "sentences" });
        this.lines = make("details", { class: "scrolled" });
        this.pictures.append(make("figure", { class: "matrix" }), this.overview);
        this.element.append(this.controls, this.words, this.status, this.pictures, this.lines);
        this.element.append(this.numbers);
        this.take(this.choice);
      }
      if (model.translations?.length) {
        this.beam = makeBeam(model.translations, (step) => this.chooseToken(step));
        this.element.append(this.beam.section);
      }
    }

    makeTexts() {
      const { source, target } = this.model;
      const list = make("dl", { class: "texts" });
      list.append(make("dt", {}, "source"), make("dd", {}, foreign(source.text)));
      list.append(make("dt", {}, "translation"), make("dd", {}, foreign(target.text)));
      return list;
    }

    /** Takes a choice, as far as the model has it, without drawing its weights. */
    take(choice) {
      if (this.choice) {
        this.choice = validChoice(this.layers, choice);
        this.table = tableOf(this.model, this.layers, this.choice);
        this.drawControls();
        this.drawOverview();
      }
    }

    drawControls() {
      const { kind, layer, head, merge } = this.choice;
      const numbers = this.layers[kind].map(([number]) => String(number));
      const heads = this.layers[kind][0][1].shape[0];
      const all = (count, what) => (count > 1 ? [["mean", `mean of ${count} ${what}`]] : []);
      const same = (values) => values.map((value) => [value, value]);
      const selects = {
        kind: makeSelect(
          Object.keys(this.layers).map((name) => [name, KINDS[name] ?? name]),
          kind,
        ),
        layer: makeSelect([...same(numbers), ...all(numbers.length, "layers")], layer),
        head: makeSelect(
          [...all(heads, "heads"), ...same([...Array(heads).keys()].map((i) => String(i + 1)))],
          heads > 1 ? head : "1",
        ),
      };
      const read = (value) => (/^\d+$/.test(value) ? Number(value) : value);
      const box = make("input", { type: "checkbox" });
      box.checked = merge;
      for (const [name, control] of Object.entries({ ...selects, merge: box })) {
        control.name = name;
        control.disabled = control.length < 2; // Of one option.
        control.addEventListener("change", () => {
          const value = control === box ? box.checked : read(control.value);
          this.changed({ ...this.choice, [name]: value });
          this.controls.querySelector(`[name=${name}]`).focus();
        });
      }
      this.controls.replaceChildren(
        ...Object.entries(selects).map(([name, select]) => labelled(name, select)),
        labelled("merge subwords to words", box),
      );
    }

    /** Draws all heads in small, by which a pointer can choose one; keys have the lists above. */
    drawOverview() {
      const layers = this.layers[this.choice.kind];
      const heads = layers[0][1].shape[0];
      this.thumbnails = [];
      this.overview.replaceChildren();
      if (layers.length * heads < 2) {
        return;
      }
      this.overview.append(make("h3", {}, "All heads"));
      for (const [layer, map] of layers) {
        const line = make("div", { class: "layer" }, make("span", {}, `layer ${layer}`));
        for (let head = 1; head <= heads; head++) {
          const look = { type: "button", tabindex: "-1", "aria-label": `layer ${layer}, head ${head}` };
          const button = make("button", look, drawThumbnail(map, head));
          button.addEventListener("click", () => this.changed({ ...this.choice, layer, head }));
          this.thumbnails.push({ layer, head, button });
          line.append(button);
        }
        this.overview.append(line);
      }
    }

    /** Draws the weights of the choice, with full colour for a weight of `scale`. */
    draw(scale) {
      const { choice, table } = this;
      this.scale = scale;
      this.chosen = { row: null, column: null };
      this.matrix = drawMatrix(table, scale, (row, column) => this.point(row, column));
      const makeList = (side, name, other, cellOf) =>
        makeWords(`${side.name} ${side.verb} …`, side, {
          hover: (position) => this.point(...cellOf(position)),
          choose: (position) => this.choose(...cellOf(position)),
          toggle: (position) => this.choose(...cellOf(position === this.chosen[name] ? null : position)),
          leave: () => this.lists[other].list.focus(),
        });
      this.lists = {
        columns: makeList(table.columns, "column", "rows", (column) => [null, column]),
        rows: makeList(table.rows, "row", "columns", (row) => [row, null]),
      };
      this.words.replaceChildren(this.lists.columns.row, this.lists.rows.row);
      const region = { class: "scrolled", tabindex: "0", role: "group", "aria-label": "matrix" };
      const bar = ["weight 0", make("span", { class: "bar" }), String(scale)];
      const save = make("a", { href: "#", download: "attention.svg" }, "Save the picture");
      save.addEventListener("click", () => (save.href = addressOf(this.matrix.svg)));
      this.pictures.querySelector("figure").replaceChildren(
        make("div", region, this.matrix.svg),
        make("p", { class: "scale" }, ...bar),
        make("figcaption", {}, captionOf(table), " ", save),
      );
      this.between = drawLines(table, scale);
      this.lines.replaceChildren(make("summary", {}, "Lines between words"), this.between.svg);
      for (const { layer, head, button } of this.thumbnails) {
        const isChosen = layer === choice.layer && head === choice.head;
        button.setAttribute("aria-pressed", String(isChosen));
      }
      this.fillNumbers();
      this.point(null, null);
    }

    fillNumbers() {
      const shown = this.numbers.open ? [makeNumbers(this.table)] : []; // Large tables take time.
      this.numbers.lastChild.replaceChildren(...shown);
    }

    /** Keeps a word chosen, until another one is. */
    choose(row, column) {
      this.chosen = { row, column };
      this.point(null, null);
    }

    /** Chooses a token of the translation, as the steps of the search go by. */
    chooseToken(step) {
      const isHere = step < this.model.target.tokens.length;
      if (isHere && this.table?.rows.name === "translation") {
        this.choose(this.choice.merge ? this.model.target.wordOf[step] : step, null);
      }
    }

    /** Points at a row, a column or a cell; with neither, at what was chosen before. */
    point(row, column) {
      if (row === null && column === null) {
        ({ row, column } = this.chosen);
      }
      const shares = (side, i) =>
        i === null ? null : lineOf(this.table, side, i).map((weight) => weight / this.scale);
      this.lists.rows.mark(row, shares("columns", column));
      this.lists.columns.mark(column, shares("rows", row));
      this.matrix.point(row, column);
      this.between.point(row, column);
      const isChosen = row !== null || column !== null;
      const help = this.table.rows.sure ? HELP + LEGEND : HELP;
      this.status.replaceChildren(...(isChosen ? reading(this.table, row, column) : [help]));
    }
  }

  /** Shows data, see above, in an element, in place of what it contained. */
  function show(element, data) {
    const first = { merge: true, ...data.choice };
    const views = data.models.map((model) => new View(model, { ...model.choice, ...first }));
    const drawn = views.filter(({ table }) => table);
    const drawAll = () => {
      const scale = scaleOf(drawn.map(({ table }) => table));
      drawn.forEach((view) => view.draw(scale));
    };
    for (const view of views) {
      // A choice is one for all views, as far as their models have it.
      view.changed = (choice) => {
        views.forEach((other) => other.take(choice));
        drawAll();
      };
    }
    drawAll();
    views.forEach((view) => view.beam?.showStep());
    drawn.forEach((view) => view.choose(null, null));
    const className = views.length > 1 ? "explorer several" : "explorer";
    element.replaceChildren(make("div", { class: className }, ...views.map((view) => view.element)));
  }

  return { show };
})();

/* A page that contains its data shows it at once. */
if (document.getElementById("explorer-data")) {
  Explorer.show(
    document.getElementById("explorer"),
    JSON.parse(document.getElementById("explorer-data").textContent),
  );
}
