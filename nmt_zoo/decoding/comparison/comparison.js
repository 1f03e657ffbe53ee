/* Orders and filters the sentences of a comparison; nmt_zoo/decoding/comparison/page.py makes the page. */
"use strict";
(() => {
  const list = document.getElementById("sentences");
  const form = document.getElementById("choices");
  const sentences = [...list.children].map((element, number) => ({
    element,
    number,
    scores: element.dataset.scores.split(" ").map(Number),
  }));

  function arrange() {
    const { first, second, order, least } = form.elements;
    const difference = ({ scores }) => scores[first.value] - scores[second.value];
    const keys = {
      file: () => 0,
      first: (sentence) => -difference(sentence),
      second: difference,
      most: (sentence) => -Math.abs(difference(sentence)),
      worst: ({ scores }) => Math.max(...scores),
    };
    const key = keys[order.value];
    const shown = sentences
      .filter((sentence) => Math.abs(difference(sentence)) >= Number(least.value))
      .sort((one, other) => key(one) - key(other) || one.number - other.number);
    const fragment = document.createDocumentFragment();
    for (const { element } of shown) {
      fragment.append(element);
    }
    list.replaceChildren(fragment);
    document.getElementById("count").textContent =
      `${shown.length} of ${sentences.length} sentences`;
  }

  form.addEventListener("input", arrange); // While a number is typed.
  form.addEventListener("change", arrange);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  arrange();
})();
