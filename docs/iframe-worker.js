/* A worker for pages that are read from files, which browsers forbid there: its script runs in a frame. */
"use strict";
if (window.location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.srcdoc = "<body></body>";
      this.ready = new Promise((resolve) => {
        this.frame.addEventListener("load", () => {
          const { contentDocument, contentWindow } = this.frame;
          contentWindow.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
          const script = contentDocument.createElement("script");
          script.src = address;
          script.addEventListener("load", () => resolve(contentWindow));
          contentDocument.body.append(script);
        });
      });
      document.body.append(this.frame);
    }

    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new inside.MessageEvent("message", { data })));
    }
  };
}
