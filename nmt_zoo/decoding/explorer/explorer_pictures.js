/*
 * The parts of the page of explorer.js: matrix, small pictures, numbers, rows of words, and the
 * translations of a search.
 */
"use strict";

// eslint-disable-next-line no-unused-vars
const ExplorerPictures = (() => {
  const { UNSURE, filled, foreign, labelled, make, makeSvg, weightsOf } = ExplorerNumbers;
  const THUMBNAIL = [59, 130, 208]; // Visible on white and on black.
  // What the style sheet gives to an SVG, as its own attributes.
  const LOOK = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "font-family"];
  LOOK.push("font-size", "text-anchor", "dominant-baseline");
  const STEP = ["probability", "most probable tokens here", "log-probability so far"]; // Headings.
  let listCount = 0;

  // Pictures

  let measuring;

  function textWidth(text) {
    measuring ??= document.createElement("canvas").getContext("2d");
    measuring.font = "13px system-ui, sans-serif";
    return measuring.measureText(text).width;
  }

  /** Shortens long tokens, which have their full text in the rows of words. */
  function short(label) {
    const characters = [...label];
    return characters.length > 24 ? characters.slice(0, 23).join("") + "…" : label;
  }

  /**
   * Returns the matrix as an SVG; a weight of `scale` has full colour, and `onCell(row, column)` is
   * called with the cell pointed at.
   */
  function drawMatrix(table, scale, onCell) {
    const [rows, columns] = [table.rows.labels.map(short), table.columns.labels.map(short)];
    const size = Math.max(rows.length, columns.length) > 30 ? 16 : 22; // At 60°, labels are 14 apart.
    const left = Math.ceil(Math.max(...rows.map(textWidth))) + 8;
    const longest = Math.ceil(Math.max(...columns.map(textWidth)));
    const slanted = Math.ceil(longest * Math.sin(Math.PI / 3)) + 14;
    const [width, height] = [columns.length * size, rows.length * size];
    const whole = [left + width + Math.ceil(longest / 2) + 8, slanted + height + 2];
    const svg = makeSvg("svg", {
      role: "img",
      width: whole[0],
      height: whole[1],
      viewBox: `0 0 ${whole.join(" ")}`,
      "aria-label":
        `Matrix of ${rows.length} rows and ${columns.length} columns. ${captionOf(table)} ` +
        "The table under Numbers has its weights.",
    });
    rows.forEach((label, i) => {
      const start = { x: left - 6, y: slanted + (i + 0.5) * size, class: "row" };
      svg.append(makeSvg("text", start, label));
    });
    columns.forEach((label, i) => {
      const at = `translate(${left + (i + 0.5) * size} ${slanted - 6}) rotate(-60)`;
      svg.append(makeSvg("text", { transform: at, class: "column" }, label));
    });
    svg.append(makeSvg("rect", { x: left, y: slanted, width, height, class: "frame" }));
    table.weights.forEach((weight, cell) => {
      const [row, column] = [Math.floor(cell / columns.length), cell % columns.length];
      const box = {
        x: left + column * size,
        y: slanted + row * size,
        width: size,
        height: size,
      };
      if (weight > 0.001) {
        const opacity = Math.min(weight / scale, 1).toFixed(3);
        svg.append(makeSvg("rect", { ...box, class: "cell", "fill-opacity": opacity }));
      }
    });
    const mark = makeSvg("rect", { class: "mark", x: 0, y: 0, width: 0, height: 0 });
    svg.append(mark);
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
      const shown = row !== null || column !== null ? size : 0;
      const box = { x: left + x * size, y: slanted + y * size };
      filled(mark, { ...box, width: across * shown, height: down * shown }, []);
    }
    return { svg, point };
  }

  /** Returns lines between two columns of words as an SVG; arguments and `point` as of `drawMatrix`. */
  function drawLines(table, scale) {
    const [from, to] = [table.columns, table.rows].map(({ labels }) => labels.map(short));
    const [left, right] = [from, to].map((words) => Math.ceil(Math.max(...words.map(textWidth))) + 8);
    const [width, height] = [left + 120 + right, 22 * Math.max(from.length, to.length)];
    const name = `Lines between the same words. ${captionOf(table)}`;
    const svg = makeSvg("svg", { role: "img", width, height, "aria-label": name });
    const y = (i) => 22 * i + 11;
    from.forEach((word, i) => svg.append(makeSvg("text", { x: left - 6, y: y(i), class: "row" }, word)));
    to.forEach((word, i) => svg.append(makeSvg("text", { x: left + 126, y: y(i) }, word)));
    const lines = Array.from(table.weights, (weight, cell) => {
      const [row, column] = [Math.floor(cell / from.length), cell % from.length];
      const look = { class: "link", "stroke-opacity": Math.min(weight / scale, 1).toFixed(3) };
      return makeSvg("line", { x1: left, y1: y(column), x2: left + 120, y2: y(row), ...look });
    });
    svg.append(...lines.filter((_, cell) => table.weights[cell] > 0.02));
    const point = (row, column) =>
      lines.forEach((line, cell) => {
        const isOther = row !== null && row !== Math.floor(cell / from.length);
        line.style.display = isOther || (column ?? cell % from.length) !== cell % from.length ? "none" : "";
      });
    return { svg, point };
  }

  /** Says what the rows of a table do with its columns. */
  function captionOf({ rows }) {
    return `A row ${rows.verb} the columns.`;
  }

  /** Returns the address of an SVG of this page by itself, as it looks on a light page. */
  function addressOf(svg) {
    const copy = svg.cloneNode(true);
    svg.style.colorScheme = "light";
    [...svg.querySelectorAll("*")].forEach((part, i) => {
      const style = window.getComputedStyle(part);
      const look = LOOK.map((name) => [name, style.getPropertyValue(name)]);
      filled(copy.querySelectorAll("*")[i], Object.fromEntries(look), []);
    });
    svg.style.colorScheme = "";
    return `data:image/svg+xml,${encodeURIComponent(new window.XMLSerializer().serializeToString(copy))}`;
  }

  /** Draws one head as a small picture. */
  function drawThumbnail(map, head) {
    const [, rows, columns] = map.shape;
    const canvas = make("canvas", { width: columns, height: rows, "aria-hidden": "true" });
    const context = canvas.getContext("2d");
    const image = context.createImageData(columns, rows);
    weightsOf(map, head).forEach((weight, i) => {
      image.data.set([...THUMBNAIL, Math.round(255 * weight)], 4 * i);
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
    const caption = make("caption", {}, captionOf(table));
    return make("table", {}, caption, make("thead", {}, head), make("tbody", {}, ...body));
  }

  // A row of words, which is used by pointer and by keyboard

  /**
   * Makes a row of words, which is wrapped like text.
   *
   * Args:
   *   title: heading.
   *   side: {labels: the words, titles, sure: how sure the model is of each, or undefined}.
   *   on: {hover(position or null), choose(position or null), toggle(position): chooses it or no longer,
   *     leave(): moves to the other row}.
   */
  function makeWords(title, { labels, titles, sure }, on) {
    const id = `explorer-words-${++listCount}`;
    const items = labels.map((label, i) =>
      make(
        "li",
        { role: "option", id: `${id}-${i}`, "aria-selected": "false", title: titles[i] },
        foreign(short(label)),
      ),
    );
    items.forEach((item, i) => item.classList.toggle("unsure", sure?.[i] < UNSURE));
    const list = make(
      "ul",
      { role: "listbox", tabindex: "0", "aria-label": `${title}; arrow keys choose a word` },
      ...items,
    );
    let active = null;
    list.addEventListener("keydown", (event) => {
      const last = labels.length - 1;
      const next = {
        ArrowRight: active === null ? 0 : Math.min(active + 1, last),
        ArrowLeft: active === null ? last : Math.max(active - 1, 0),
        Home: 0,
        End: last,
        Escape: null,
      };
      if (event.key === "ArrowUp" || event.key === "ArrowDown") {
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
    const row = make("div", { class: "words" }, make("h3", {}, title), list);

    /** Marks the word chosen; shades the words by the shares of full colour that it gives them. */
    function mark(position, shares) {
      active = position;
      items.forEach((item, i) => {
        item.setAttribute("aria-selected", String(i === position));
        item.style.setProperty("--share", shares === null ? 0 : Math.min(shares[i], 1));
      });
      if (position === null) {
        list.removeAttribute("aria-activedescendant");
      } else {
        list.setAttribute("aria-activedescendant", items[position].id);
      }
    }
    return { row, list, mark };
  }

  // The translations of a search, token by token

  function percent(logProb) {
    return (100 * Math.exp(logProb)).toFixed(1) + "%";
  }

  /** Makes the part in which translations are followed token by token. */
  function makeBeam(translations, onStep) {
    const longest = Math.max(...translations.map(({ steps }) => steps.length));
    const slider = make("input", { type: "range", min: 1, max: longest, value: 1 });
    const back = make("button", { type: "button" }, "previous");
    const forward = make("button", { type: "button" }, "next");
    const where = make("output", {});
    const body = make("tbody");
    const heading = (text) => make("th", { scope: "col" }, text);
    const haveTokens = translations.some(({ steps }) => steps.some(({ best }) => best.length));
    const headings = ["number", "translation", ...(haveTokens ? STEP : []), "score"];
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
      body.replaceChildren(...translations.map((each, i) => beamRow(each, i, step, headings)));
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

  function beamRow(translation, number, step, headings) {
    const { steps } = translation;
    const name = translation.given ? "given" : String(number + 1);
    const look = (i) => (i === step ? "token here" : i < step ? "token" : "token later");
    const tokens = steps.map(({ token }, i) =>
      make(i === step ? "strong" : "span", { class: look(i) }, foreign(token)),
    );
    const current = steps[step];
    const best = (current?.best ?? []).map(([token, logProb]) =>
      make("span", { class: "token" }, foreign(token), ` ${percent(logProb)}`),
    );
    const sum = steps.slice(0, step + 1).reduce((total, { logProb }) => total + logProb, 0);
    const cells = {
      translation: tokens,
      [STEP[0]]: [current ? percent(current.logProb) : "ended"],
      [STEP[1]]: best,
      [STEP[2]]: [sum.toFixed(2)],
      score: [translation.score?.toFixed(2) ?? ""],
    };
    return make(
      "tr",
      translation.shown ? { class: "shown" } : {},
      make("th", { scope: "row" }, translation.shown ? `${name}, shown above` : name),
      ...headings.slice(1).map((heading) => make("td", { "data-heading": heading }, ...cells[heading])),
    );
  }

  return { addressOf, captionOf, drawLines, drawMatrix, drawThumbnail, makeBeam, makeNumbers, makeWords };
})();
