/*
 * The page of serve.py: translates a sentence, lists other translations, and shows the attention
 * between the sentence and the translation that is chosen.
 *
 * It asks the REST API of the server alone. All text enters the page as text nodes. `Explorer` is
 * defined by nmt_zoo/decoding/explorer/explorer.js.
 */
"use strict";

(() => {
  const NUM_TRANSLATIONS = 4;
  const DEFAULT = -1; // Stands for the default in inputs of the signature "translate".
  const model = document.body.dataset.model;
  const address = `v1/models/${encodeURIComponent(model)}`;
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

  // Requests

  /** Returns the answer of the server; throws an Error with the server's reason. */
  async function ask(path, request) {
    const how = request && { method: "POST", body: JSON.stringify(request) };
    let response;
    try {
      response = await fetch(address + path, how);
    } catch {
      throw new Error("the server does not answer");
    }
    const answer = await response.json();
    if (!response.ok) {
      throw new Error(answer.error);
    }
    return answer;
  }

  /** Calls a signature for one row; returns [its outputs for that row, warnings about it]. */
  async function call(signature_name, inputs) {
    const answer = await ask(":predict", { signature_name, instances: [inputs] });
    return [answer.predictions[0], answer.warnings ?? []];
  }

  let known = null;

  /** Returns the names of the model's signatures. */
  async function signatures() {
    known ??= Object.keys((await ask("/metadata")).metadata.signature_def.signature_def);
    return known;
  }

  /** Returns [[[translation, score], ...], warnings], the best translation first. */
  async function translate(source) {
    if ((await signatures()).includes("translate")) {
      // A model that was exported with a narrower beam refuses as many.
      for (let n_best = NUM_TRANSLATIONS; n_best; n_best--) {
        const options = { beam_size: DEFAULT, length_penalty: DEFAULT, n_best };
        try {
          const [found, about] = await call("translate", { text: source, ...options });
          // Several sentences have one translation, in parts: the server gives it by default.
          if (about.some((each) => each.startsWith("lines of several sentences"))) {
            break;
          }
          const best = found.translation.slice(0, found.count);
          return [best.map((each, i) => [each, found.score[i]]), about];
        } catch (error) {
          if (n_best === 1 || !error.message.includes("n_best")) {
            throw error;
          }
        }
      }
    }
    const [{ translation, score }, about] = await call("serving_default", { text: source });
    return [[[translation, score]], about];
  }

  /** Returns the MODEL of explorer.js for a pair, or null if the model gives no attention. */
  async function attentionOf(source, target) {
    for (const name of ["attention_maps", "attention"].filter((each) => known.includes(each))) {
      let found = {};
      try {
        [found] = await call(name, { source, target });
      } catch (error) {
        if (name === "attention") {
          throw error;
        } // All maps may be too many numbers where one is not.
      }
      const { source_tokens, target_tokens, attention: one, ...maps } = found;
      if (one) {
        maps.alignment = [one]; // One head.
      }
      // The maps of an ensemble have names of their own; its alignment is the mean of its models'.
      if (Object.keys(ExplorerNumbers.layersOf(maps)).length) {
        const shown = Object.entries(maps).map(([key, heads]) => [key, packed(heads)]);
        return {
          name: model,
          source: side(source, source_tokens),
          target: side(target, target_tokens),
          maps: Object.fromEntries(shown),
        };
      }
    }
    return null;
  }

  // Data of explorer.js

  /** Returns a MAP: weights [H, T, S] as bytes, of which small weights have more values. */
  function packed(heads) {
    const shape = [heads.length, heads[0].length, heads[0][0].length];
    const bytes = heads.flat(2).map((weight) => {
      return String.fromCharCode(Math.round(255 * Math.sqrt(Math.min(Math.max(weight, 0), 1))));
    });
    return { shape, weights: btoa(bytes.join("")) };
  }

  /** Returns a SIDE: the tokens, and the words that they are pieces of. */
  function side(line, tokens) {
    return { text: line, tokens, ...ExplorerNumbers.wordsOf(tokens) };
  }

  // The page

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
    for (const each of translations.querySelectorAll("button")) {
      each.setAttribute("aria-pressed", String(each === button));
    }
    try {
      const found = await attentionOf(source, translation);
      if (number === latest) {
        attention.hidden = !found;
        if (found) {
          Explorer.show(explorer, { models: [found] });
        }
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
      const [found, about] = await translate(source);
      if (number !== latest) {
        return;
      }
      warnings.textContent = about.map((each) => each.replace(/: 1 of 1.*$/, "")).join("; ");
      translations.replaceChildren(...found.map((each) => makeRow(source, ...each)));
      result.hidden = false;
      await choose(translations.querySelector("button"), source, found[0][0]);
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
