// The first page: every run below the folders, how far it is, and what is wrong with it.

import { h, put } from "./dom.js";
import { poll } from "./net.js";
import { duration, moment, number, percent, t } from "./words.js";
import { bar, failure, state } from "./pieces.js";
import { site } from "./app.js";

const KINDS = ["extraction", "prepared", "training", "sweep"];
const chosen = { kind: "", search: "" };

export function showHome({ main, signal, crumbs }) {
  crumbs();
  const tiles = h("div", { class: "tiles" });
  const filters = h("div", { class: "filters" });
  const list = h("div", { class: "runs", id: "runs" });
  const note = h("p", { class: "note", hidden: true });
  const marked = h("div", { class: "actions" });
  let last = null;
  const search = h("input", {
    "type": "search",
    "placeholder": t("search runs"),
    "aria-label": t("search runs"),
    "value": chosen.search,
    "on": {
      input: () => {
        chosen.search = search.value;
        render(last);
      },
    },
  });
  put(
    main,
    h(
      "div",
      { class: "head" },
      h("h1", {}, t("Runs")),
      h("p", { class: "quiet path" }, site.folders.join("  ·  ")),
    ),
    tiles,
    h("div", { class: "toolbar" }, filters, search),
    note,
    list,
    marked,
  );

  function render(answer) {
    if (!answer) return;
    last = answer;
    const runs = answer.runs;
    note.hidden = !answer.note;
    note.textContent = answer.note ? t(answer.note) : "";
    const count = (test) => runs.filter(test).length;
    const running = count((run) => run.state === "running");
    const lost = count(
      (run) => run.state === "broken" || run.frames_failed || run.clips_failed || run.failed,
    );
    put(
      tiles,
      [
        [running, t("running"), running ? "running" : ""],
        [count((run) => run.kind === "extraction"), t("extractions"), ""],
        [count((run) => run.kind === "training"), t("trainings"), ""],
        [lost, t("with failures"), lost ? "bad" : ""],
      ].map(([value, word, mood]) =>
        h("div", { class: `tile ${mood}` }, h("b", {}, number(value)), h("span", {}, word)),
      ),
    );
    put(
      filters,
      ["", ...KINDS].map((kind) =>
        h(
          "button",
          {
            "type": "button",
            "class": "chip",
            "aria-pressed": String(chosen.kind === kind),
            "data": { focus: `kind-${kind}` },
            "on": {
              click: () => {
                chosen.kind = kind;
                render(last);
              },
            },
          },
          kind ? t(`${kind}s`.replace("prepareds", "prepared")) : t("all"),
          h("i", {}, number(kind ? count((run) => run.kind === kind) : runs.length)),
        ),
      ),
    );
    // Trainings of a sweep are on its page.
    const sweeps = runs.filter((run) => run.kind === "sweep").map((run) => `${run.folder}/`);
    const isOfSweep = (run) =>
      run.kind === "training" && sweeps.some((folder) => run.folder.startsWith(folder));
    const shown = runs
      .filter(
        (run) =>
          (chosen.kind ? run.kind === chosen.kind : chosen.search || !isOfSweep(run)) &&
          run.name.toLowerCase().includes(chosen.search.toLowerCase()),
      )
      .sort(byMoment);
    put(list, shown.length ? shown.map(row) : empty(answer));
  }

  poll("/api/runs", 1, render, (error) => put(list, failure(error)), signal);
}

function byMoment(one, other) {
  const rank = (run) => (run.state === "running" ? 0 : 1);
  return (
    rank(one) - rank(other) ||
    String(other.created_at || "").localeCompare(String(one.created_at || "")) ||
    one.name.localeCompare(other.name)
  );
}

function empty(answer) {
  if (!answer.is_complete) return h("p", { class: "quiet" }, t("looking for runs …"));
  if (answer.runs.length) return h("p", { class: "quiet" }, t("nothing matches"));
  return h(
    "div",
    { class: "empty" },
    h("h2", {}, t("No runs here yet")),
    h("p", {}, t("Start one in another window; it shows here by itself:")),
    h("pre", {}, "posemill extract SOURCE --out runs/first"),
  );
}

function row(run) {
  return h(
    "a",
    { class: `run ${run.state}`, href: `#/run/${run.key}`, data: { focus: run.key } },
    h(
      "div",
      { class: "who" },
      h("span", { class: "name" }, run.name),
      h(
        "span",
        { class: "quiet" },
        [
          t(run.kind),
          run.what && run.what !== "extract" ? t(run.what) : "",
          run.engine,
          run.skeleton,
        ]
          .filter(Boolean)
          .join(" · "),
      ),
    ),
    h(
      "div",
      { class: "how" },
      run.state === "broken" ? h("span", { class: "reason" }, run.reason) : progress(run),
    ),
    h(
      "div",
      { class: "stand" },
      state(run.state),
      h(
        "span",
        { class: "quiet" },
        run.state === "running" ? left(run) : moment(run.finished_at || run.created_at),
      ),
    ),
  );
}

function left(run) {
  return run.seconds_left ? t("{0} left", duration(run.seconds_left)) : "";
}

function progress(run) {
  const units = { extraction: t("frames"), training: t("steps"), sweep: t("trainings") };
  if (run.kind === "prepared") {
    const size = `${number(run.splits.reduce((sum, each) => sum + each.num_bytes, 0) / 1e6, 1)} MB`;
    const content =
      run.clips === null
        ? run.splits.map((each) => each.split).join(", ")
        : t("{0:clip|clips}, {1:frame|frames}", number(run.clips), number(run.total));
    return h("span", { class: "quiet" }, `${content}  ·  ${size}`);
  }
  const words = [`${number(run.done)} / ${number(run.total)} ${units[run.kind]}`];
  if (run.total && run.done < run.total) words.push(percent(run.done / run.total));
  const isTraining = run.kind === "training";
  if (run.rate)
    words.push(
      t(isTraining ? "{0} samples/s" : "{0} frames/s", number(run.rate, isTraining ? 0 : 1)),
    );
  if (run.best !== null && run.best !== undefined)
    words.push(`${run.score} ${number(run.best, 3)}`);
  const failed = [];
  if (run.frames_failed) failed.push(t("{0:frame|frames} failed", number(run.frames_failed)));
  if (run.clips_failed) failed.push(t("{0:clip|clips} failed", number(run.clips_failed)));
  if (run.failed) failed.push(t("{0} failed", number(run.failed)));
  return [
    bar(run.done, run.total, run.frames_failed),
    h(
      "span",
      { class: "quiet" },
      words.join("  ·  "),
      failed.length ? h("em", { class: "bad" }, `  ${failed.join(", ")}`) : "",
    ),
  ];
}
