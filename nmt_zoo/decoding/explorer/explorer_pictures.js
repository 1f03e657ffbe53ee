/*
 * The parts of the page of explorer.js: matrix, small pictures, numbers, and rows of words.
 */
"use strict";

// eslint-disable-next-line no-unused-vars
const ExplorerPictures = (() => {
  const { filled, foreign, goldOf, make, makeSvg, weightsOf } = ExplorerNumbers;
  const THUMBNAIL = [59, 130, 208]; // Visible on white and on black.
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
  function drawMatrix(model, choice, table, scale, onCell) {
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
        const opacity = Math.min(weight / scale, 1).toFixed(3);
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
    const caption = make("caption", {}, "Rows look, columns are looked at.");
    return make("table", {}, caption, make("thead", {}, head), make("tbody", {}, ...body));
  }

  // A row of words, which is used by pointer and by keyboard

  /**
   * Makes a row of words, which is wrapped like text.
   *
   * Args:
   *   title: heading.
   *   labels: the words.
   *   on: {hover(place or null), choose(place or null), toggle(place): chooses it or no longer,
   *     leave(): moves to the other row}.
   */
  function makeWords(title, labels, on) {
    const id = `explorer-words-${++listCount}`;
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
    function mark(place, shares) {
      active = place;
      items.forEach((item, i) => {
        item.setAttribute("aria-selected", String(i === place));
        item.style.setProperty("--share", shares === null ? 0 : Math.min(shares[i], 1));
      });
      if (place === null) {
        list.removeAttribute("aria-activedescendant");
      } else {
        list.setAttribute("aria-activedescendant", items[place].id);
      }
    }
    return { row, list, mark };
  }

  return { drawMatrix, drawThumbnail, makeNumbers, makeWords };
})();
