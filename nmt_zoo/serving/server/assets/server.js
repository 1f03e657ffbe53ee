/*
 * The page of serve.py: translates a sentence, and shows the translations and the attention.
 *
 * It asks its own server alone. All text enters the page as text nodes. `Explorer` is defined by
 * nmt_zoo/decoding/explorer/explorer.js.
 */
"use strict";

(() => {
  const ids = ["form", "text", "status", "warnings", "explorer"];
  const [form, text, status, warnings, explorer] = ids.map((id) => document.getElementById(id));
  let latest = 0; // Number of the last request; answers to earlier ones are dropped.

  /** Returns the answer of the server; throws an Error with the server's reason. */
  async function ask(request) {
    let response;
    try {
      response = await fetch("page", { method: "POST", body: JSON.stringify(request) });
    } catch {
      throw new Error("the server does not answer");
    }
    const answer = await response.json();
    if (!response.ok) {
      throw new Error(answer.error);
    }
    return answer;
  }

  function show(message, isError = false) {
    status.textContent = message;
    status.classList.toggle("error", isError);
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const number = ++latest;
    show("translating …");
    try {
      const answer = await ask({ text: text.value });
      if (number === latest) {
        const about = answer.warnings.map((warning) => warning.replace(/: 1 of 1.*$/, ""));
        warnings.textContent = about.join("; ");
        Explorer.show(explorer, { models: [answer.model] });
        show("");
      }
    } catch (error) {
      if (number === latest) {
        warnings.textContent = "";
        explorer.replaceChildren();
        show(error.message, true);
      }
    }
  });
})();
