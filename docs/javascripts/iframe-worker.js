// Browsers start no Worker of a page that lies on a disk: there the search runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.inside = frame.contentWindow;
      this.inside.postMessage = (data) =>
        this.dispatchEvent(new MessageEvent("message", { data }));
      const script = this.inside.document.createElement("script");
      script.src = url;
      this.isReady = new Promise((resolve) => (script.onload = resolve));
      this.inside.document.body.append(script);
    }

    postMessage(data) {
      this.isReady.then(() =>
        this.inside.dispatchEvent(new MessageEvent("message", { data })),
      );
    }
  };
}
