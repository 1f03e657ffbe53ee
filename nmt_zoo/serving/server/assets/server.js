/*
 * The page of serve.py: translates a text; on demand, shows alternatives and attention of a line.
 *
 * It asks its own server alone. All text enters the page as text nodes. `Explorer` and
 * `ExplorerNumbers` are defined by the scripts of nmt_zoo/decoding/explorer.
 */
"use strict";

(() => {
  const { UNSURE, foreign, make, percent, visible } = ExplorerNumbers;
  const page = Object.fromEntries([...document.querySelectorAll("[id]")].map((e) => [e.id, e]));
  const { clipboard } = window.navigator; // Missing if the address is neither https nor local.
  const NO_CHARACTERS = /\ufffd+/g; // A model of bytes may write some that are none.
  let source = ""; // The text whose translation is shown.

  function sentence(text) {
    return text[0].toUpperCase() + text.slice(1) + ".";
  }

  /** Returns the answer of the server, or `{error: a sentence for people}`. */
  async function ask(address, request) {
    try {
      const response = await fetch(address, { method: "POST", body: JSON.stringify(request) });
      const answer = await response.json();
      return answer.error ? { error: sentence(answer.error.replace(/^text\[0\]: /, "")) } : answer;
    } catch {
      return { error: "The server does not answer. Is it still running?" };
    }
  }

  /** Asks the server; shows its answer in an area, grey meanwhile, unless it is asked again. */
  async function update(area, status, message, question, show) {
    area.question = question;
    area.setAttribute("aria-busy", "true");
    status.classList.remove("error");
    status.textContent = message;
    const answer = await ask(...question);
    if (area.question !== question) {
      return;
    }
    area.setAttribute("aria-busy", "false");
    area.hidden = "error" in answer;
    status.classList.toggle("error", area.hidden);
    status.textContent = answer.error ?? "";
    if (!area.hidden) {
      show(answer);
    }
  }

  /** Returns the parts of a text, with those words marked of which the model is unsure. */
  function shaded(text, confidence) {
    const sure = [...(confidence ?? [])];
    return text.split(/(\s+)/).map((part) => {
      const share = /\S/.test(part) ? sure.shift() : 1;
      const shown = part.replace(NO_CHARACTERS, "").split("\n").map(visible).join("\n");
      return share < UNSURE ? make("mark", { title: `${percent(share)} sure` }, shown) : shown;
    });
  }

  function translate(event) {
    event.preventDefault();
    const text = page.text.value;
    const question = [page.form.action, { signature_name: "confidence", instances: [text] }];
    update(page.result, page.status, "Translating …", question, ({ predictions: [best], warnings = [] }) => {
      const lines = best.translation.replace(NO_CHARACTERS, "").split("\n");
      source = text;
      page.translation.replaceChildren(...shaded(best.translation, best.word_confidence));
      page.legend.hidden = best.confidence === null;
      page.sure.textContent = percent(best.confidence);
      page.unsure.textContent = percent(UNSURE);
      page.copy.value = lines.join("\n");
      page.score.textContent = best.score.toFixed(2);
      const forPrograms = / \(see --\w+\)|: 1 of 1 \(line 1\)$/g;
      const about = warnings.map((warning) => sentence(warning.replace(forPrograms, "")));
      if (best.translation.includes("\ufffd")) {
        about.push("Characters that cannot be shown are left out.");
      }
      page.warnings.replaceChildren(...about.map((warning) => make("li", {}, visible(warning))));
      const named = (line, i) => make("option", { value: i }, `${i + 1}: ${visible(line)}`);
      page.line.replaceChildren(...lines.map(named));
      page.which.hidden = lines.length < 2;
      look();
    });
  }

  /** Shows alternatives and attention of the chosen line, if they are asked for. */
  function look() {
    if (!page.more.open) {
      return;
    }
    const line = Number(page.line.value);
    const question = ["page", { text: source, line }];
    update(page.shown, page.progress, "Looking into the model …", question, ({ model }) => {
      const rows = model.translations.map(({ text, score }) =>
        make("li", {}, foreign(text.replace(NO_CHARACTERS, "")), ` (score ${score.toFixed(2)})`),
      );
      page.alternatives.replaceChildren(...rows);
      Explorer.show(page.explorer, { models: [{ ...model, name: "Attention" }] });
    });
  }

  page.form.addEventListener("submit", translate);
  page.text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      page.form.requestSubmit();
    }
  });
  page.example.hidden = !page.example.value;
  page.example.addEventListener("click", () => {
    page.text.value = page.example.value;
    page.form.requestSubmit();
  });
  page.copy.hidden = !clipboard;
  page.copy.addEventListener("click", async () => {
    await clipboard.writeText(page.copy.value);
    page.status.textContent = "Copied.";
  });
  page.line.addEventListener("change", look);
  page.more.addEventListener("toggle", look);
})();
