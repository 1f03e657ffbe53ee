/*
 * Shows attention between the tokens of a sentence and of its translation.
 *
 *     Explorer.show(element, data);
 *
 * `data` is one JSON object; decoding/explorer/page.py makes it:
 *
 *     {
 *       "models": [MODEL, ...],    one, or several to compare
 *       "choice": {"kind": "cross", "layer": 1, "head": "mean", "merge": true}
 *                                  what is shown first; each entry may be missing; layers and heads
 *                                  are counted from 1, "mean" is the mean of all
 *     }
 *     MODEL        {"name": str, "source": SIDE, "target": SIDE, "maps": {name: MAP},
 *                   "gold": GOLD, "translations": [TRANSLATION, ...]}; the last two may be missing
 *     SIDE         {"text": str, "tokens": [str], "words": [str], "wordOf": [int]}: the tokens and
 *                  the words, both with "</s>"; wordOf is the word of each token, from 0
 *     name         "encoder/0/self", "decoder/0/self", "decoder/0/cross" (layers from 0), "alignment"
 *     MAP          {"shape": [heads, rows, columns], "weights": base64 of one byte for each weight};
 *                  byte b is the weight (b / 255)^2. Rows attend, columns are attended to; those of
 *                  a decoder/i/self are "<s>" and all target tokens but the last
 *     GOLD         {"sure": [[source word, target word], ...], "possible": the same}
 *     TRANSLATION  {"text": str, "score": number or null, "logProb": number, "finished": bool,
 *                   "given": bool, "shown": bool, "steps": [STEP, ...]}
 *     STEP         {"token": str, "logProb": number, "best": [[str, number], ...]}: the token of this
 *                  step, and the most probable tokens there with their log-probabilities
 *
 * All text enters the page as text nodes and attributes, never as markup.
 */
"use strict";

const Explorer = (() => {
  const KINDS = {
    cross: { map: /^decoder\/(\d+)\/cross$/, label: "cross: translation to source" },
    encoder: { map: /^encoder\/(\d+)\/self$/, label: "encoder: source to source" },
    decoder: { map: /^decoder\/(\d+)\/self$/, label: "decoder: translation to its beginning" },
    alignment: { map: /^(alignment)$/, label: "alignment: translation to source" },
  };
  const SVG = "http://www.w3.org/2000/svg";
  const ROW_HEIGHT = 24; // Of a word in the lists; explorer.css has the same.
  const LINES_WIDTH = 180;
  const THUMBNAIL = [59, 130, 208]; // Visible on white and on black.
  const MOST_NAMED = 6; // Words named in a reading.
  // Control characters, and those that change the direction of what follows.
  // eslint-disable-next-line no-control-regex
  const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufff9-\ufffb]/g;
  let viewCount = 0;

  // Small helpers

  /** Returns text in which control characters are visible as \uXXXX. */
  function visible(text) {
    return text.replace(
      CONTROLS,
      (found) => "\\u" + found.charCodeAt(0).toString(16).padStart(4, "0"),
    );
  }

  /** Makes an element with attributes; strings among the children become text. */
  function make(name, attributes = {}, ...children) {
    return filled(document.createElement(name), attributes, children);
  }

  function makeSvg(name, attributes = {}, ...children) {
    return filled(document.createElementNS(SVG, name), attributes, children);
  }

  function filled(element, attributes, children) {
    for (const [key, value] of Object.entries(attributes)) {
      element.setAttribute(key, value);
    }
    element.append(...children);
    return element;
  }

  /** Makes an element for text of any direction, which does not affect its surroundings. */
  function foreign(text) {
    return make("bdi", {}, visible(text));
  }

  /** Makes a labelled control. */
  function labelled(label, control) {
    return make("label", {}, make("span", {}, label), control);
  }

  function makeSelect(options, chosen) {
    const select = make("select");
    for (const [value, label] of options) {
      select.append(make("option", { value }, label));
    }
    select.value = chosen;
    return select;
  }

  function percent(logProb) {
    return (100 * Math.exp(logProb)).toFixed(1) + "%";
  }

  function decoded(base64) {
    return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0));
  }

  // Attention as numbers

  /** Returns the layers of each kind: kind -> [[number of the layer from 1, MAP], ...]. */
  function layersOf(maps) {
    const kinds = {};
    for (const [kind, { map }] of Object.entries(KINDS)) {
      const found = Object.keys(maps).filter((name) => map.test(name));
      const layers = found.map((name) => [(Number(map.exec(name)[1]) || 0) + 1, maps[name]]);
      if (layers.length) {
        kinds[kind] = layers.sort((a, b) => a[0] - b[0]);
      }
    }
    return kinds;
  }

  /** Returns the weights of one head, or their mean over heads, as numbers, row by row. */
  function weightsOf(map, head) {
    map.bytes ??= decoded(map.weights);
    const [heads, rows, columns] = map.shape;
    const size = rows * columns;
    const chosen = head === "mean" ? [...Array(heads).keys()] : [head - 1];
    const weights = new Float64Array(size);
    for (const number of chosen) {
      for (let i = 0; i < size; i++) {
        weights[i] += (map.bytes[number * size + i] / 255) ** 2 / chosen.length;
      }
    }
    return weights;
  }

  /** Returns rows and columns, each {name, tokens, words, wordOf}, of a kind of map. */
  function sidesOf(model, kind) {
    const source = { ...model.source, name: "source" };
    const target = { ...model.target, name: "translation" };
    if (kind === "encoder") {
      return [source, source];
    }
    if (kind === "decoder") {
      const wordOf = [0, ...target.wordOf.slice(0, -1).map((word) => word + 1)];
      const words = ["<s>", ...target.words].slice(0, wordOf.at(-1) + 1);
      const tokens = ["<s>", ...target.tokens.slice(0, -1)];
      return [target, { name: "translation", tokens, words, wordOf }];
    }
    return [target, source];
  }

  /**
   * Merges tokens to words. The weight of a word that is attended to is the sum over its tokens;
   * the weight of a word that attends is the mean over its tokens.
   */
  function merged(weights, rows, columns) {
    const [height, width] = [rows.words.length, columns.words.length];
    const counts = new Float64Array(height);
    rows.wordOf.forEach((word) => counts[word]++);
    const result = new Float64Array(height * width);
    rows.wordOf.forEach((row, i) => {
      columns.wordOf.forEach((column, j) => {
        result[row * width + column] += weights[i * columns.tokens.length + j] / counts[row];
      });
    });
    return result;
  }

  /**
   * Returns what a choice shows: {rows, columns: {name, labels, wordOf}, weights, largest}.
   */
  function tableOf(model, layers, choice) {
    const chosen = layers[choice.kind].filter(
      ([number]) => choice.layer === "mean" || number === choice.layer,
    );
    const [rows, columns] = sidesOf(model, choice.kind);
    let weights = new Float64Array(rows.tokens.length * columns.tokens.length);
    for (const [, map] of chosen) {
      weightsOf(map, choice.head).forEach((weight, i) => (weights[i] += weight / chosen.length));
    }
    if (choice.merge) {
      weights = merged(weights, rows, columns);
    }
    const labelsOf = (side) => ({
      name: side.name,
      labels: (choice.merge ? side.words : side.tokens).map(visible),
      wordOf: choice.merge ? side.words.map((_, i) => i) : side.wordOf,
    });
    const largest = weights.reduce((a, b) => Math.max(a, b), 0);
    return { rows: labelsOf(rows), columns: labelsOf(columns), weights, largest };
  }

  /** Returns "sure", "possible" or "" for a cell of a table. */
  function goldOf(model, kind, table, row, column) {
    if (!model.gold || kind === "encoder" || kind === "decoder") {
      return "";
    }
    const link = [table.columns.wordOf[column], table.rows.wordOf[row]];
    const isIn = (links) => links.some(([i, j]) => i === link[0] && j === link[1]);
    return isIn(model.gold.sure) ? "sure" : isIn(model.gold.possible) ? "possible" : "";
  }

  /** Returns the weights of a row or column, the largest first: [[place, weight], ...]. */
  function ranked(table, side, place) {
    const width = table.columns.labels.length;
    const others = side === "rows" ? table.columns.labels : table.rows.labels;
    return others
      .map((_, i) => [i, table.weights[side === "rows" ? place * width + i : i * width + place]])
      .sort((a, b) => b[1] - a[1]);
  }

  /** Returns in words where a token looks, or what looks at it. */
  function reading(table, side, place) {
    const [own, others] =
      side === "rows" ? [table.rows, table.columns] : [table.columns, table.rows];
    const named = ranked(table, side, place)
      .filter(([, weight]) => weight >= 0.005)
      .slice(0, MOST_NAMED);
    const verb = side === "rows" ? "looks at" : "is looked at by";
    const parts = [foreign(own.labels[place]), ` ${verb} `];
    named.forEach(([i, weight], n) => {
      parts.push(n ? ", " : "", foreign(others.labels[i]), ` ${weight.toFixed(2)}`);
    });
    return named.length ? parts : [foreign(own.labels[place]), ` ${verb} nothing in particular`];
  }

  // Pictures

  let measuring;

  function textWidth(text) {
    measuring ??= document.createElement("canvas").getContext("2d");
    measuring.font = "13px system-ui, sans-serif";
    return measuring.measureText(text).width;
  }

  /** Shortens long tokens, which have their full text in the lists. */
  function short(label) {
    const characters = [...label];
    return characters.length > 24 ? characters.slice(0, 23).join("") + "…" : label;
  }

  /** Returns the matrix as an SVG; `onCell(row, column)` is called with the cell pointed at. */
  function drawMatrix(model, choice, table, onCell) {
    const [rows, columns] = [table.rows.labels.map(short), table.columns.labels.map(short)];
    const size = Math.max(rows.length, columns.length) > 40 ? 15 : 22;
    const left = Math.ceil(Math.max(...rows.map(textWidth))) + 8;
    const slanted = Math.ceil(Math.max(...columns.map(textWidth)) * Math.SQRT1_2) + 14;
    const [width, height] = [columns.length * size, rows.length * size];
    const svg = makeSvg("svg", {
      role: "img",
      width: left + width + slanted,
      height: slanted + height + 2,
      viewBox: `0 0 ${left + width + slanted} ${slanted + height + 2}`,
      "aria-label":
        `Matrix of ${rows.length} rows, which look, and ${columns.length} columns, which are ` +
        "looked at; the table under Numbers has its weights",
    });
    rows.forEach((label, i) => {
      const place = { x: left - 6, y: slanted + (i + 0.5) * size, class: "row", "data-place": i };
      svg.append(makeSvg("text", place, label));
    });
    columns.forEach((label, i) => {
      const at = `translate(${left + (i + 0.5) * size} ${slanted - 6}) rotate(-45)`;
      svg.append(makeSvg("text", { transform: at, class: "column", "data-place": i }, label));
    });
    svg.append(makeSvg("rect", { x: left, y: slanted, width, height, class: "frame" }));
    const golden = [];
    table.weights.forEach((weight, cell) => {
      const [row, column] = [Math.floor(cell / columns.length), cell % columns.length];
      const box = {
        x: left + column * size,
        y: slanted + row * size,
        width: size,
        height: size,
      };
      if (weight > 0.001) {
        const opacity = Math.min(weight / (table.largest || 1), 1).toFixed(3);
        svg.append(makeSvg("rect", { ...box, class: "cell", "fill-opacity": opacity }));
      }
      const gold = goldOf(model, choice.kind, table, row, column);
      if (gold) {
        const inside = { x: box.x + 1.5, y: box.y + 1.5, width: size - 3, height: size - 3 };
        golden.push(makeSvg("rect", { ...inside, class: `gold ${gold}` }));
      }
    });
    const mark = makeSvg("rect", { class: "mark", x: 0, y: 0, width: 0, height: 0 });
    svg.append(...golden, mark);
    svg.addEventListener("mousemove", (event) => {
      const { left: x, top: y } = svg.getBoundingClientRect();
      const row = Math.floor((event.clientY - y - slanted) / size);
      const column = Math.floor((event.clientX - x - left) / size);
      const isInside = row >= 0 && row < rows.length && column >= 0 && column < columns.length;
      onCell(isInside ? row : null, isInside ? column : null);
    });
    svg.addEventListener("mouseleave", () => onCell(null, null));

    /** Frames a row, a column, a cell, or nothing. */
    function point(row, column) {
      const [x, across] = column === null ? [0, columns.length] : [column, 1];
      const [y, down] = row === null ? [0, rows.length] : [row, 1];
      const isShown = row !== null || column !== null;
      filled(
        mark,
        {
          x: left + x * size,
          y: slanted + y * size,
          width: isShown ? across * size : 0,
          height: isShown ? down * size : 0,
        },
        [],
      );
    }
    return { svg, point };
  }

  /** Returns the lines between both lists as an SVG. */
  function drawLines(model, choice, table) {
    const [rows, columns] = [table.rows.labels.length, table.columns.labels.length];
    const height = Math.max(rows, columns) * ROW_HEIGHT;
    const svg = makeSvg("svg", {
      width: LINES_WIDTH,
      height,
      viewBox: `0 0 ${LINES_WIDTH} ${height}`,
      "aria-hidden": "true",
    });
    const lines = [];
    table.weights.forEach((weight, cell) => {
      const [row, column] = [Math.floor(cell / columns), cell % columns];
      const gold = goldOf(model, choice.kind, table, row, column);
      const ends = {
        x1: 0,
        y1: (column + 0.5) * ROW_HEIGHT,
        x2: LINES_WIDTH,
        y2: (row + 0.5) * ROW_HEIGHT,
      };
      if (weight >= 0.02) {
        const look = {
          class: "line",
          "stroke-opacity": Math.min(weight / (table.largest || 1), 1).toFixed(3),
          "stroke-width": (1 + 3 * weight).toFixed(2),
        };
        lines.push({ row, column, line: makeSvg("line", { ...ends, ...look }) });
      }
      if (gold) {
        lines.push({ row, column, line: makeSvg("line", { ...ends, class: `gold ${gold}` }) });
      }
    });
    svg.append(...lines.map(({ line }) => line));

    /** Leaves only the lines of a row, of a column, or of both; null, null: all lines. */
    function point(row, column) {
      for (const each of lines) {
        const isAway =
          (row !== null && each.row !== row) || (column !== null && each.column !== column);
        each.line.classList.toggle("away", isAway);
      }
    }
    return { svg, point };
  }

  /** Draws one head as a small picture. */
  function drawThumbnail(map, head) {
    const [, rows, columns] = map.shape;
    const canvas = make("canvas", { width: columns, height: rows, "aria-hidden": "true" });
    const context = canvas.getContext("2d");
    const image = context.createImageData(columns, rows);
    weightsOf(map, head).forEach((weight, i) => {
      image.data.set([...THUMBNAIL, Math.round(255 * Math.min(weight * 1.5, 1))], 4 * i);
    });
    context.putImageData(image, 0, 0);
    return canvas;
  }

  /** Makes the table of all weights. */
  function makeNumbers(table) {
    const head = make("tr", {}, make("td"));
    table.columns.labels.forEach((label) => {
      head.append(make("th", { scope: "col" }, foreign(label)));
    });
    const width = table.columns.labels.length;
    const body = table.rows.labels.map((label, row) => {
      const line = make("tr", {}, make("th", { scope: "row" }, foreign(label)));
      for (let column = 0; column < width; column++) {
        line.append(make("td", {}, table.weights[row * width + column].toFixed(2)));
      }
      return line;
    });
    const caption = make("caption", {}, "Rows look, columns are looked at.");
    return make("table", {}, caption, make("thead", {}, head), make("tbody", {}, ...body));
  }

  // A list of words, which is used by pointer and by keyboard

  /**
   * Makes a list of words.
   *
   * Args:
   *   title: heading.
   *   labels: the words.
   *   on: {hover(place or null), choose(place or null), toggle(place): chooses it or no longer,
   *     leave(): moves to the other list}.
   */
  function makeWords(title, labels, on) {
    const id = `explorer-words-${++viewCount}`;
    const items = labels.map((label, i) =>
      make(
        "li",
        { role: "option", id: `${id}-${i}`, "aria-selected": "false", title: label },
        foreign(short(label)),
      ),
    );
    const list = make(
      "ul",
      { role: "listbox", tabindex: "0", "aria-label": `${title}; arrow keys choose a word` },
      ...items,
    );
    let active = null;
    list.addEventListener("keydown", (event) => {
      const last = labels.length - 1;
      const next = {
        ArrowDown: active === null ? 0 : Math.min(active + 1, last),
        ArrowUp: active === null ? last : Math.max(active - 1, 0),
        Home: 0,
        End: last,
        Escape: null,
      };
      if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
        on.leave();
      } else if (event.key in next) {
        on.choose(next[event.key]);
      } else {
        return;
      }
      event.preventDefault();
    });
    items.forEach((item, i) => {
      item.addEventListener("mouseenter", () => on.hover(i));
      item.addEventListener("mouseleave", () => on.hover(null));
      item.addEventListener("click", () => on.toggle(i));
    });
    const column = make("div", { class: "words" }, make("h3", {}, title), list);

    /** Marks the word chosen and, by weight, the words that it looks at. */
    function mark(place, weights) {
      active = place;
      items.forEach((item, i) => {
        item.setAttribute("aria-selected", String(i === place));
        item.classList.toggle("seen", weights !== null && weights[i] >= 0.1);
      });
      if (place === null) {
        list.removeAttribute("aria-activedescendant");
      } else {
        list.setAttribute("aria-activedescendant", items[place].id);
      }
    }
    return { column, list, mark };
  }

  // The choices of the beam search

  /** Makes the part in which translations are followed token by token. */
  function makeBeam(translations, onStep) {
    const longest = Math.max(...translations.map(({ steps }) => steps.length));
    const slider = make("input", { type: "range", min: 1, max: longest, value: 1 });
    const back = make("button", { type: "button" }, "previous");
    const forward = make("button", { type: "button" }, "next");
    const where = make("output", {});
    const body = make("tbody");
    const heading = (text) => make("th", { scope: "col" }, text);
    const headings = [
      "number",
      "translation",
      "probability",
      "most probable tokens here",
      "log-probability so far",
      "score",
    ];
    const table = make(
      "table",
      {},
      make("caption", {}, "A translation a row; the token of this step stands out, later ones are faint."),
      make("thead", {}, make("tr", {}, ...headings.map(heading))),
      body,
    );

    function showStep() {
      const step = Number(slider.value) - 1;
      where.textContent = `token ${step + 1} of ${longest}`;
      slider.setAttribute("aria-valuetext", where.textContent);
      back.disabled = step === 0;
      forward.disabled = step === longest - 1;
      body.replaceChildren(...translations.map((each, i) => beamRow(each, i, step)));
      onStep(step);
    }
    const move = (by) => {
      slider.value = Number(slider.value) + by;
      showStep();
    };
    slider.addEventListener("input", showStep);
    back.addEventListener("click", () => move(-1));
    forward.addEventListener("click", () => move(1));
    const controls = make("div", { class: "choices" }, labelled("step", slider), back, forward, where);
    const scrolled = make(
      "div",
      { class: "scrolled", tabindex: "0", role: "group", "aria-label": "table of translations" },
      table,
    );
    const section = make("section", { class: "beam" });
    section.append(make("h3", {}, "Translations, token by token"), controls, scrolled);
    return { section, showStep };
  }

  function beamRow(translation, number, step) {
    const { steps } = translation;
    const name = translation.given ? "given" : String(number + 1);
    const look = (i) => (i === step ? "token here" : i < step ? "token" : "token later");
    const tokens = steps.map(({ token }, i) =>
      make(i === step ? "strong" : "span", { class: look(i) }, foreign(token)),
    );
    const here = steps[step];
    const best = (here?.best ?? []).map(([token, logProb]) =>
      make("span", { class: "token" }, foreign(token), ` ${percent(logProb)}`),
    );
    const sum = steps.slice(0, step + 1).reduce((total, { logProb }) => total + logProb, 0);
    return make(
      "tr",
      translation.shown ? { class: "shown" } : {},
      make("th", { scope: "row" }, translation.shown ? `${name}, drawn above` : name),
      make("td", {}, ...tokens),
      make("td", {}, here ? percent(here.logProb) : "ended"),
      make("td", {}, ...best),
      make("td", {}, sum.toFixed(2)),
      make("td", {}, translation.score?.toFixed(2) ?? ""),
    );
  }

  // One model

  /** Returns a choice that the model has, as near as possible to the one asked for. */
  function validChoice(layers, asked) {
    const kinds = Object.keys(layers);
    const usual = kinds.includes("alignment") ? "alignment" : kinds[0];
    const kind = kinds.includes(asked.kind) ? asked.kind : usual;
    const numbers = layers[kind].map(([number]) => number);
    const layer = numbers.includes(asked.layer) ? asked.layer : numbers.at(-1);
    const heads = layers[kind][0][1].shape[0];
    const head = asked.head >= 1 && asked.head <= heads ? asked.head : "mean";
    const merge = Boolean(asked.merge);
    return { kind, layer: asked.layer === "mean" ? "mean" : layer, head, merge };
  }

  class View {
    constructor(model, choice) {
      this.model = model;
      this.layers = layersOf(model.maps);
      this.element = make("section", { class: "view" });
      this.mirrored = () => {};
      this.element.append(make("h2", {}, foreign(model.name)), this.makeTexts());
      if (!Object.keys(this.layers).length) {
        this.element.append(make("p", {}, "This model has no attention to show."));
      } else {
        this.choice = validChoice(this.layers, choice);
        this.controls = make("div", { class: "choices" });
        this.status = make("p", { class: "reading", role: "status" });
        this.pictures = make("div", { class: "pictures" });
        this.overview = make("div", { class: "overview" });
        this.numbers = make("details", { class: "numbers" });
        this.numbers.addEventListener("toggle", () => this.fillNumbers());
        this.element.append(this.controls, this.status, this.pictures, this.overview, this.numbers);
        this.drawAll();
      }
      if (model.translations?.length) {
        this.beam = makeBeam(model.translations, (step) => this.chooseToken(step));
        this.element.append(this.beam.section);
        this.beam.showStep();
        this.choose(null, null);
      }
    }

    makeTexts() {
      const { source, target } = this.model;
      const list = make("dl", { class: "texts" });
      list.append(make("dt", {}, "source"), make("dd", {}, foreign(source.text)));
      list.append(make("dt", {}, "translation"), make("dd", {}, foreign(target.text)));
      return list;
    }

    /** Draws everything anew: after the kind has changed. */
    drawAll() {
      this.choice = validChoice(this.layers, this.choice);
      this.drawControls();
      this.drawOverview();
      this.draw();
    }

    drawControls() {
      const { kind, layer, head, merge } = this.choice;
      const numbers = this.layers[kind].map(([number]) => String(number));
      const heads = this.layers[kind][0][1].shape[0];
      const all = (count, what) => (count > 1 ? [["mean", `mean of ${count} ${what}`]] : []);
      const same = (values) => values.map((value) => [value, value]);
      const selects = {
        kind: makeSelect(
          Object.keys(this.layers).map((name) => [name, KINDS[name].label]),
          kind,
        ),
        layer: makeSelect([...same(numbers), ...all(numbers.length, "layers")], layer),
        head: makeSelect(
          [...all(heads, "heads"), ...same([...Array(heads).keys()].map((i) => String(i + 1)))],
          heads > 1 ? head : "1",
        ),
      };
      const read = (value) => (/^\d+$/.test(value) ? Number(value) : value);
      for (const [name, select] of Object.entries(selects)) {
        select.name = name;
        select.disabled = select.length < 2;
        select.addEventListener("change", () => {
          this.choice[name] = read(select.value);
          if (name === "kind") {
            this.drawAll();
            this.controls.querySelector("select").focus();
          } else {
            this.draw();
          }
        });
      }
      const box = make("input", { type: "checkbox", name: "merge" });
      box.checked = merge;
      box.addEventListener("change", () => {
        this.choice.merge = box.checked;
        this.draw();
      });
      this.controls.replaceChildren(
        ...Object.entries(selects).map(([name, select]) => labelled(name, select)),
        labelled("merge subwords to words", box),
      );
    }

    /** Draws all heads in small, by which a head can be chosen. */
    drawOverview() {
      const layers = this.layers[this.choice.kind];
      const heads = layers[0][1].shape[0];
      this.thumbnails = [];
      this.overview.replaceChildren();
      if (layers.length * heads < 2) {
        return;
      }
      const grid = make("div", { role: "radiogroup", "aria-label": "all layers and heads" });
      for (const [layer, map] of layers) {
        const line = make("div", { class: "layer" }, make("span", {}, `layer ${layer}`));
        for (let head = 1; head <= heads; head++) {
          const button = make(
            "button",
            { type: "button", role: "radio", "aria-label": `layer ${layer}, head ${head}` },
            drawThumbnail(map, head),
          );
          button.addEventListener("click", () => this.chooseHead(layer, head));
          this.thumbnails.push({ layer, head, button });
          line.append(button);
        }
        grid.append(line);
      }
      grid.addEventListener("keydown", (event) => this.moveInOverview(event, heads));
      this.overview.append(make("h3", {}, "All heads"), grid);
    }

    moveInOverview(event, heads) {
      const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: heads, ArrowUp: -heads }[event.key];
      const now = this.thumbnails.findIndex(({ button }) => button === document.activeElement);
      const next = this.thumbnails[now + by];
      if (by && next) {
        event.preventDefault();
        this.chooseHead(next.layer, next.head);
        next.button.focus();
      }
    }

    chooseHead(layer, head) {
      Object.assign(this.choice, { layer, head });
      this.drawControls();
      this.draw();
    }

    /** Draws the matrix and the lines of the choice. */
    draw() {
      const { model, choice } = this;
      const table = tableOf(model, this.layers, choice);
      this.table = table;
      this.chosen = { row: null, column: null };
      this.matrix = drawMatrix(model, choice, table, (row, column) => this.point(row, column));
      this.lines = drawLines(model, choice, table);
      const isSelf = choice.kind === "encoder" || choice.kind === "decoder";
      const title = (side, does) => (isSelf ? `${side.name}, ${does}` : side.name);
      this.lists = {
        columns: makeWords(title(table.columns, "looked at"), table.columns.labels, {
          hover: (place) => this.point(null, place),
          choose: (place) => this.choose(null, place),
          toggle: (place) => this.choose(null, place === this.chosen.column ? null : place),
          leave: () => this.lists.rows.list.focus(),
        }),
        rows: makeWords(title(table.rows, "looking"), table.rows.labels, {
          hover: (place) => this.point(place, null),
          choose: (place) => this.choose(place, null),
          toggle: (place) => this.choose(place === this.chosen.row ? null : place, null),
          leave: () => this.lists.columns.list.focus(),
        }),
      };
      const between = make("div", { class: "between" }, this.lines.svg);
      const { columns, rows } = this.lists;
      const largest = `Full colour is a weight of ${table.largest.toFixed(2)}.`;
      this.pictures.replaceChildren(
        make("div", { class: "lines" }, columns.column, between, rows.column),
        make(
          "figure",
          { class: "matrix" },
          make(
            "div",
            { class: "scrolled", tabindex: "0", role: "group", "aria-label": "matrix" },
            this.matrix.svg,
          ),
          make("figcaption", {}, "Rows look, columns are looked at. ", largest, this.goldKey()),
        ),
      );
      for (const { layer, head, button } of this.thumbnails) {
        const isChosen = layer === choice.layer && head === choice.head;
        button.setAttribute("aria-checked", String(isChosen));
        button.tabIndex = isChosen ? 0 : -1;
      }
      if (this.thumbnails.length && !this.thumbnails.some(({ button }) => button.tabIndex === 0)) {
        this.thumbnails[0].button.tabIndex = 0;
      }
      this.fillNumbers();
      this.point(null, null);
    }

    goldKey() {
      return this.model.gold
        ? " Frames and lines of another colour: correct links; dashed: possible ones."
        : "";
    }

    fillNumbers() {
      const summary = make("summary", {}, "Numbers");
      const parts = this.numbers.open ? [makeNumbers(this.table)] : [];
      const old = this.numbers.querySelector("summary") ?? summary;
      const region = { class: "scrolled", tabindex: "0", role: "group", "aria-label": "numbers" };
      this.numbers.replaceChildren(old, ...parts.map((table) => make("div", region, table)));
    }

    /** Keeps a word chosen, until another one is. */
    choose(row, column) {
      if (!this.table) {
        return;
      }
      this.chosen = { row, column };
      this.point(null, null);
      this.mirrored(this, this.wordChosen());
    }

    /** Returns the number of the chosen word if it is one of the source, else null. */
    wordChosen() {
      const { rows, columns } = this.table;
      const { row, column } = this.chosen;
      if (row !== null) {
        return rows.name === "source" ? rows.wordOf[row] : null;
      }
      return column !== null && columns.name === "source" ? columns.wordOf[column] : null;
    }

    /** Chooses a word of the source, as another view has done. */
    mirror(word) {
      if (this.table && this.table.columns.name === "source") {
        const column = word === null ? -1 : this.table.columns.wordOf.indexOf(word);
        this.chosen = { row: null, column: column < 0 ? null : column };
        this.point(null, null);
      }
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
      const { table } = this;
      const width = table.columns.labels.length;
      const rowWeights =
        row === null ? null : table.columns.labels.map((_, i) => table.weights[row * width + i]);
      const columnWeights =
        column === null ? null : table.rows.labels.map((_, i) => table.weights[i * width + column]);
      this.lists.rows.mark(row, columnWeights);
      this.lists.columns.mark(column, rowWeights);
      this.matrix.point(row, column);
      this.lines.point(row, column);
      this.status.replaceChildren(...this.readingOf(row, column));
    }

    readingOf(row, column) {
      const { table } = this;
      if (row !== null && column !== null) {
        const weight = table.weights[row * table.columns.labels.length + column];
        const [looking, seen] = [table.rows.labels[row], table.columns.labels[column]];
        return [foreign(looking), " looks at ", foreign(seen), ` ${weight.toFixed(2)}`];
      }
      if (row !== null) {
        return reading(table, "rows", row);
      }
      if (column !== null) {
        return reading(table, "columns", column);
      }
      return ["Point at a word, or choose one with the arrow keys, to see where it looks."];
    }
  }

  /** Shows data, see above, in an element, in place of what it contained. */
  function show(element, data) {
    const first = { merge: Boolean(data.models[0].gold), ...data.choice };
    const views = data.models.map((model) => new View(model, first));
    const sameText = views.every(({ model }) => model.source.text === views[0].model.source.text);
    for (const view of views) {
      view.mirrored = (origin, word) => {
        views.filter((each) => each !== origin && sameText).forEach((each) => each.mirror(word));
      };
    }
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
