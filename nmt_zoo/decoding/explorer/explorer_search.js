/*
 * The part of the page of explorer.js that follows the translations of a search, token by token.
 */
"use strict";

// eslint-disable-next-line no-unused-vars
const ExplorerSearch = (() => {
  const { foreign, labelled, make, percent } = ExplorerNumbers;

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

  return { makeBeam };
})();
