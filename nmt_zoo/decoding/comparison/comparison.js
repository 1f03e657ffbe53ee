/* Orders, searches and pages the sentences of a comparison; page.py, beside it, makes them. */
"use strict";
(() => {
  const list = document.getElementById("sentences");
  const form = document.getElementById("choices");
  const more = document.getElementById("more");
  const PAGE = 50; // Sentences.
  let shown = [];
  const sentences = [...list.children].map((element, number) => ({
    element,
    number,
    scores: element.dataset.scores.split(" ").map(Number),
  }));

  function arrange() {
    const { first, second, order, words } = form.elements;
    const difference = ({ scores }) => scores[first.value] - scores[second.value];
    const keys = {
      file: () => 0,
      first: (sentence) => -difference(sentence),
      second: difference,
      most: (sentence) => -Math.abs(difference(sentence)),
      worst: ({ scores }) => Math.max(...scores),
    };
    const key = keys[order.value];
    const wanted = words.value.toLowerCase();
    shown = sentences
      .filter(({ element }) => element.textContent.toLowerCase().includes(wanted))
      .sort((one, other) => key(one) - key(other) || one.number - other.number);
    list.replaceChildren();
    showMore();
    document.getElementById("count").textContent =
      `${shown.length} of ${sentences.length} sentences`;
  }

  function showMore() {
    const count = list.children.length;
    list.append(...shown.slice(count, count + PAGE).map(({ element }) => element));
    more.hidden = list.children.length === shown.length;
  }

  more.addEventListener("click", showMore);
  form.addEventListener("input", arrange); // While one types.
  form.addEventListener("change", arrange);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  arrange();
})();
