/*
 * The page of serve.py: translates a sentence, lists other translations, and shows the attention
 * between the sentence and the translation that is chosen.
 *
 * It asks its own server alone. All text enters the page as text nodes. `Explorer` is defined by
 * nmt_zoo/decoding/explorer/explorer.js.
 */
"use strict";

(() => {
  const DEFAULT = -1; // Stands for the default in inputs of the signature "translate".
  const { model, nBest } = document.body.dataset;
  const [form, text, status, warnings, result, translations, attention, explorer] = [
    "form",
    "text",
    "status",
    "warnings",
    "result",
    "translations",
    "attention",
    "explorer",
  ].map((id) => document.getElementById(id));
  let latest = 0; // Number of the last request; answers to earlier ones are dropped.

  /** Returns the answer of the server; throws an Error with the server's reason. */
  async function ask(path, request) {
    let response;
    try {
      response = await fetch(path, { method: "POST", body: JSON.stringify(request) });
    } catch {
      throw new Error("the server does not answer");
    }
    const answer = await response.json();
    if (!response.ok) {
      throw new Error(answer.error);
    }
    return answer;
  }

  /** Returns [[[translation, score], ...], warnings], the best translation first. */
  async function translate(source) {
    const options = { beam_size: DEFAULT, length_penalty: DEFAULT, n_best: Number(nBest) };
    const answer = await ask(`v1/models/${encodeURIComponent(model)}:predict`, {
      signature_name: "translate",
      instances: [{ text: source, ...options }],
    });
    const [{ translation, score }] = answer.predictions;
    const best = translation.map((translated, i) => [translated, score[i]]);
    const about = (answer.warnings ?? []).map((warning) => warning.replace(/: 1 of 1.*$/, ""));
    return [best, about];
  }

  function show(message, isError = false) {
    status.textContent = message;
    status.classList.toggle("error", isError);
  }

  function makeRow(source, translation, score) {
    const button = document.createElement("button");
    button.type = "button";
    button.dir = "auto";
    button.setAttribute("aria-pressed", "false");
    const label = document.createElement("bdi");
    label.textContent = translation || "(empty)";
    button.append(label);
    button.addEventListener("click", () => choose(button, source, translation));
    const row = document.createElement("tr");
    const cells = [document.createElement("td"), document.createElement("td")];
    cells[0].append(button);
    cells[1].textContent = score.toFixed(3);
    row.append(...cells);
    return row;
  }

  /** Shows the attention between the sentence and one of its translations. */
  async function choose(button, source, translation) {
    const number = ++latest;
    for (const other of translations.querySelectorAll("button")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    try {
      const data = await ask("attention", { source, target: translation });
      if (number === latest) {
        attention.hidden = !Object.keys(data.maps).length;
        Explorer.show(explorer, { models: [data] });
        show("");
      }
    } catch (error) {
      if (number === latest) {
        attention.hidden = true;
        show(`no attention: ${error.message}`, true);
      }
    }
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const source = text.value;
    const number = ++latest;
    show("translating …");
    try {
      const [best, about] = await translate(source);
      if (number !== latest) {
        return;
      }
      warnings.textContent = about.join("; ");
      translations.replaceChildren(...best.map((row) => makeRow(source, ...row)));
      result.hidden = false;
      await choose(translations.querySelector("button"), source, best[0][0]);
    } catch (error) {
      if (number === latest) {
        result.hidden = true;
        attention.hidden = true;
        warnings.textContent = "";
        show(error.message, true);
      }
    }
  });
})();
