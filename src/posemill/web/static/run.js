// The page of a run: by what it is.

import { h, put } from "./dom.js";
import { poll } from "./net.js";
import { number, percent, partName, t } from "./words.js";
import { facts, failure, section, state, table } from "./pieces.js";
import { actionButtons } from "./actions.js";
import { site } from "./app.js";
import { renderExtraction } from "./extraction.js";
import { renderSweep } from "./sweep.js";
import { renderTraining } from "./training.js";

const RENDER = {
  extraction: renderExtraction,
  prepared: renderPrepared,
  training: renderTraining,
  sweep: renderSweep,
};

export function showRun(page) {
  const { main, key, signal, crumbs } = page;
  const memory = {}; // what was folded out stays so when new numbers come
  let last = null;
  const again = () => show(last);
  function show(run) {
    last = run;
    crumbs([run.name]);
    if (run.state === "broken") put(main, title(run), failure(new Error(run.reason)));
    else put(main, title(run), RENDER[run.kind](run, { ...page, memory, again }));
  }
  poll(
    `/api/runs/${encodeURIComponent(key)}`,
    1.5,
    show,
    (error) => {
      crumbs();
      put(main, failure(error));
    },
    signal,
  );
}

function title(run) {
  return h(
    "div",
    { class: "head" },
    h("h1", {}, run.name, " ", state(run.state)),
    h("p", { class: "quiet path" }, run.folder),
    run.state !== "broken" && ["extraction", "prepared"].includes(run.kind)
      ? h(
          "p",
          { class: "links" },
          h(
            "a",
            { class: "button primary", href: `#/clips/${run.key}`, data: { focus: "clips" } },
            t("Look at the clips"),
          ),
          site.allow_actions ? actionButtons(run) : null,
        )
      : site.allow_actions
        ? h("p", { class: "links" }, actionButtons(run))
        : null,
  );
}

function renderPrepared(run) {
  const parts = [...new Set(run.splits.flatMap((split) => Object.keys(split.parts || {})))];
  return [
    section(
      t("Splits"),
      table(
        [
          [t("split"), (split) => h("b", {}, split.split)],
          [t("clips"), (split) => number(split.num_clips), "number"],
          [t("frames"), (split) => number(split.num_frames), "number"],
          [t("size"), (split) => `${number(split.num_bytes / 1e6, 1)} MB`, "number"],
          ...parts.map((part) => [
            t("{0} missing", partName(part)),
            (split) => percent(split.parts?.[part]?.missing_rate),
            "number",
          ]),
        ],
        run.splits,
      ),
    ),
    run.splits[0]?.options
      ? section(t("How it was made"), h("dl", { class: "facts" }, facts(run.splits[0].options)))
      : null,
  ];
}
