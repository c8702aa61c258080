// Stop, continue, retry: each asked twice, and only where the server allows it.

import { h, put } from "./dom.js";
import { postJson } from "./net.js";
import { t } from "./words.js";

const WORDS = { stop: "Stop", continue: "Continue", retry: "Retry what failed" };

/** The buttons for what can be done with a run now. */
export function actionButtons(run) {
  const isIdle = run.state === "stopped";
  const possible = [
    ["stop", run.state === "running"],
    ["continue", isIdle && ["extraction", "training"].includes(run.kind)],
    [
      "retry",
      run.kind === "extraction" &&
        run.state !== "running" &&
        Boolean(run.frames_failed || run.clips_failed),
    ],
  ];
  return possible
    .filter(([, can]) => can)
    .map(([name]) =>
      h(
        "button",
        {
          type: "button",
          class: name === "stop" ? "danger" : "",
          id: `action-${name}`,
          data: { focus: `action-${name}` },
          on: { click: () => ask(run, name) },
        },
        t(WORDS[name]),
      ),
    );
}

function ask(run, name) {
  const text = h("p", {});
  const buttons = h("div", { class: "chips" });
  const box = h(
    "dialog",
    { class: "card ask" },
    h("h2", {}, t(WORDS[name])),
    h("p", { class: "name" }, run.name),
    text,
    buttons,
  );
  const cancel = () =>
    h("button", { type: "button", on: { click: () => box.close() } }, t("cancel"));
  const yes = (label, action) =>
    h("button", { type: "button", class: "primary", on: { click: action } }, label);
  const fail = (error) => {
    text.textContent = error.message;
    text.className = "reason";
    put(buttons, cancel());
  };
  box.addEventListener("close", () => box.remove());
  addEventListener("hashchange", () => box.close(), { once: true });
  text.textContent = t("Do you want this?");
  put(
    buttons,
    yes(t("yes"), async () => {
      try {
        const { confirm } = await postJson(`/api/runs/${run.key}/actions`, { action: name });
        text.textContent = t("Really? It changes what runs on the server's machine.");
        put(
          buttons,
          yes(t("yes, do it"), async () => {
            put(buttons, h("span", { class: "quiet" }, t("one moment …")));
            try {
              const { done } = await postJson(`/api/runs/${run.key}/actions`, {
                action: name,
                confirm,
              });
              text.textContent = done;
              put(
                buttons,
                h("button", { type: "button", on: { click: () => box.close() } }, t("close")),
              );
            } catch (error) {
              fail(error);
            }
          }),
          cancel(),
        );
      } catch (error) {
        fail(error);
      }
    }),
    cancel(),
  );
  document.body.append(box);
  box.showModal();
}
