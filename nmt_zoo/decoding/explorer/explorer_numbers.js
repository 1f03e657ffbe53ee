/*
 * The numbers of explorer.js, which documents their data, and small helpers to make elements.
 */
"use strict";

// eslint-disable-next-line no-unused-vars
const ExplorerNumbers = (() => {
  // Kinds of attention. Other maps, such as "alignment", are links of the translation to the source.
  const KINDS = {
    cross: "cross-attention",
    encoder: "self-attention of the encoder",
    decoder: "masked self-attention of the decoder",
  };
  const SVG = "http://www.w3.org/2000/svg";
  const MOST_NAMED = 6; // Words named in a reading.
  const UNSURE = 0.5; // Words with a smaller probability are marked.
  // Control characters, and those that change the direction of what follows.
  // eslint-disable-next-line no-control-regex
  const CONTROLS = /[\u0000-\u001f\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufff9-\ufffb]/g;

  // Small helpers

  /** Returns text with control characters as \uXXXX; "▁" of subwords, a heavy block, is a thin "_". */
  function visible(text) {
    return text.replaceAll("▁", "_").replace(
      CONTROLS,
      (control) => "\\u" + control.charCodeAt(0).toString(16).padStart(4, "0"),
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

  function percent(share) {
    return `${Math.round(100 * share)}%`;
  }

  function makeSelect(options, chosen) {
    const select = make("select");
    for (const [value, label] of options) {
      select.append(make("option", { value }, label));
    }
    select.value = chosen;
    return select;
  }

  // Attention as numbers

  /** Returns the layers of each kind: kind -> [[number of the layer from 1, MAP], ...]. */
  function layersOf(maps) {
    const kinds = { cross: [], encoder: [], decoder: [] };
    const names = Object.keys(maps).filter((name) => !/^\d/.test(name)); // Not of an ensemble's members.
    for (const name of names) {
      const [kind, layer, what] = name.split("/");
      (kinds[what === "cross" ? what : kind] ??= []).push([Number(layer ?? 0) + 1, maps[name]]);
    }
    return Object.fromEntries(Object.entries(kinds).filter(([, layers]) => layers.length));
  }

  /** Returns the weights of one head, or their mean over heads, as numbers, row by row. */
  function weightsOf(map, head) {
    map.bytes ??= Uint8Array.from(atob(map.weights), (character) => character.charCodeAt(0));
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
    const target = { ...model.target, name: "translation", sure: model.confidence };
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

  /** Returns how sure the model is of the words of a side: the products of their tokens. */
  function sureOfWords({ words, wordOf, sure }) {
    return words.map((_, word) => sure.reduce((all, x, i) => (wordOf[i] === word ? all * x : all), 1));
  }

  /**
   * Returns what a choice shows: {rows, columns: {name, labels, titles, verb, sure}, weights}; `sure`
   * are probabilities of the labels, or undefined, and titles say them.
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
    const isAttention = choice.kind in KINDS;
    const labelsOf = (side, usual) => {
      const labels = (choice.merge ? side.words : side.tokens).map(visible);
      const sure = choice.merge && side.sure ? sureOfWords(side) : side.sure;
      const titles = labels.map((label, i) => (sure ? `${label} (${percent(sure[i])} sure)` : label));
      return { verb: isAttention ? usual : "is linked to", name: side.name, labels, sure, titles };
    };
    const [does, gets] = ["attends to", "is attended to by"];
    return { rows: labelsOf(rows, does), columns: labelsOf(columns, gets), weights };
  }

  /** Returns the weight of full colour: one for all tables shown, so that they can be compared. */
  function scaleOf(tables) {
    const largest = Math.max(...tables.map(({ weights }) => weights.reduce((a, b) => Math.max(a, b), 0)));
    // At least 0.3, so that attention to all tokens alike is faint.
    return [0.3, 0.5].find((step) => largest <= step) ?? 1;
  }

  /** Returns the weights of a row or column. */
  function lineOf(table, side, position) {
    const width = table.columns.labels.length;
    return side === "rows"
      ? table.columns.labels.map((_, i) => table.weights[position * width + i])
      : table.rows.labels.map((_, i) => table.weights[i * width + position]);
  }

  /** Returns in words what a row attends to, what attends to a column, or the weight of a cell. */
  function reading(table, row, column) {
    const { rows, columns } = table;
    const [side, own, others, position] =
      row === null ? ["columns", columns, rows, column] : ["rows", rows, columns, row];
    const isShown = ([i, weight]) => (row === null || column === null ? weight >= 0.005 : i === column);
    const named = lineOf(table, side, position)
      .map((weight, i) => [i, weight])
      .filter(isShown)
      .sort((a, b) => b[1] - a[1])
      .slice(0, MOST_NAMED);
    const parts = [foreign(own.titles[position]), ` ${own.verb} `];
    named.forEach(([i, weight], n) => {
      parts.push(n ? ", " : "", foreign(others.labels[i]), ` ${weight.toFixed(2)}`);
    });
    return named.length ? parts : [...parts, "nothing in particular"];
  }

  return {
    KINDS,
    UNSURE,
    filled,
    foreign,
    labelled,
    layersOf,
    lineOf,
    make,
    makeSelect,
    makeSvg,
    percent,
    reading,
    scaleOf,
    tableOf,
    visible,
    weightsOf,
  };
})();
