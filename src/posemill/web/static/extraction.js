// An extraction: how far each split is, how fast, who works at what, what failed, how to go on.

import { copyButton, h, put } from "./dom.js";
import { getJson, query } from "./net.js";
import { clockTime, day, duration, number, percent, t } from "./words.js";
import { bar, facts, section, table } from "./pieces.js";
import { lineChart } from "./charts.js";

export function renderExtraction(run, page) {
  return [
    h(
      "div",
      { class: "tiles" },
      tiles(run).map(([value, word, mood]) =>
        h("div", { class: `tile ${mood || ""}` }, h("b", {}, value), h("span", {}, word)),
      ),
    ),
    h(
      "div",
      { class: "columns" },
      section(
        t("Splits"),
        run.splits.length
          ? run.splits.map(split)
          : h("p", { class: "quiet" }, t("nothing was committed yet")),
      ),
      section(t("Speed"), speed(run, page.memory)),
    ),
    run.workers.length ? section(t("Workers"), workers(run.workers)) : null,
    section(t("Failures"), failures(run, page)),
    run.command
      ? section(run.state === "finished" ? t("The command") : t("Continue"), command(run))
      : null,
    fold(
      "log",
      t("Log"),
      page.memory,
      h("pre", { class: "log", tabindex: 0 }, run.log.join("\n") || t("empty")),
    ),
    fold("manifest", t("Manifest"), page.memory, h("dl", { class: "facts" }, facts(run.manifest))),
  ];
}

function tiles(run) {
  const isRunning = run.state === "running";
  return [
    [`${number(run.done)}`, t("of {0:frame|frames}", number(run.total))],
    [run.total ? percent(run.done / run.total, run.done < run.total ? 1 : 0) : "–", t("done")],
    isRunning ? [number(run.rate, 1), t("frames/s"), "running"] : [number(run.clips), t("clips")],
    isRunning
      ? [duration(run.seconds_left), t("left")]
      : [
          day(run.finished_at || run.created_at),
          `${run.finished_at ? t("finished") : t("begun")} ${clockTime(run.finished_at || run.created_at)}`,
        ],
    [number(run.frames_failed), t("frames failed"), run.frames_failed ? "bad" : ""],
    [number(run.clips_failed), t("clips failed"), run.clips_failed ? "bad" : ""],
  ];
}

function split(each) {
  const done = each.frames_out + each.frames_failed + each.in_flight;
  return h(
    "div",
    { class: "split" },
    h(
      "div",
      { class: "line" },
      h("b", {}, each.split),
      h(
        "span",
        { class: "quiet" },
        t("{0} of {1:clip|clips}", number(each.clips_done), number(each.num_clips)),
        "  ·  ",
        t("{0} of {1:frame|frames}", number(done), number(each.frames_known)),
        each.frames_failed
          ? h(
              "em",
              { class: "bad" },
              `  ${t("{0:frame|frames} failed", number(each.frames_failed))}`,
            )
          : "",
        each.clips_failed
          ? h("em", { class: "bad" }, `  ${t("{0:clip|clips} failed", number(each.clips_failed))}`)
          : "",
      ),
    ),
    bar(done, each.frames_known, each.frames_failed),
  );
}

function speed(run, memory) {
  // The log has a point a minute; while the page is open, what it sees comes behind.
  memory.seen = memory.seen || [];
  if (run.state === "running" && run.rate) memory.seen.push([Date.now() / 1000, run.rate]);
  const points = [
    ...run.speeds.map(([at, , rate]) => [Date.parse(at) / 1000, rate]),
    ...memory.seen,
  ].sort((one, other) => one[0] - other[0]);
  const start = points.length ? points[0][0] : 0;
  // What the command said at its end; a point is the speed of the minute before it.
  const mean = run.mean_rate || (points.length === 1 && points[0][1]);
  const words = mean ? h("p", { class: "quiet" }, t("{0} frames/s", number(mean, 1))) : null;
  if (words && points.length < 2) return words;
  const chart = lineChart(
    [
      {
        name: t("frames/s"),
        colour: "var(--right)",
        points: points.map(([at, rate]) => [at - start, rate]),
      },
    ],
    {
      zero: true,
      xText: clock,
      empty: t("no speed is recorded: it took less than ten seconds"),
    },
  );
  return h("div", {}, words, chart);
}

const clock = (seconds) => {
  const minutes = Math.floor(seconds / 60);
  return minutes < 60
    ? `${minutes}:${String(Math.floor(seconds) % 60).padStart(2, "0")}`
    : `${Math.floor(minutes / 60)} h ${minutes % 60}`;
};

function workers(rows) {
  return table(
    [
      [t("task"), (row) => row.task],
      [t("doing"), (row) => t(row.phase || "")],
      [t("split"), (row) => row.split],
      [t("clip"), (row) => row.clip_id],
      [t("frame"), (row) => number(row.frame), "number"],
      [t("in this piece"), (row) => number(row.num_frames), "number"],
    ],
    rows,
  );
}

function failures(run, page) {
  if (!run.reasons.length)
    return h(
      "p",
      { class: "quiet good" },
      run.state === "finished"
        ? t("None: every clip and every frame was read.")
        : t("None so far."),
    );
  page.memory.open = page.memory.open || {};
  return run.reasons.map((reason) => {
    const files = h("div", { class: "files" });
    const box = h(
      "details",
      { class: "reasonbox", open: page.memory.open[reason.reason] },
      h(
        "summary",
        { data: { focus: `why-${reason.reason}` } },
        h("b", {}, reason.shown),
        " ",
        h(
          "span",
          { class: "quiet" },
          t(
            "{0:failure|failures}, {1:frame|frames} lost",
            number(reason.failures),
            number(reason.frames),
          ),
        ),
      ),
      files,
    );
    async function load() {
      page.memory.open[reason.reason] = box.open;
      if (!box.open || files.childElementCount) return;
      const rows = await getJson(
        `/api/runs/${run.key}/failures?${query({ reason: reason.reason })}`,
        page.signal,
      ).catch(() => []);
      put(
        files,
        rows.map((row) =>
          h(
            "div",
            { class: "file" },
            h("code", {}, row.path),
            h(
              "span",
              { class: "quiet" },
              `${row.split} / ${row.clip_id}${row.frame_index === null ? "" : ` · ${t("frame {0}", row.frame_index)}`}`,
            ),
            h("span", { class: "reason" }, row.message),
          ),
        ),
        rows.length < reason.failures
          ? h("p", { class: "quiet" }, t("the first {0}", number(rows.length)))
          : null,
      );
    }
    box.addEventListener("toggle", load);
    if (box.open) load();
    return box;
  });
}

function command(run) {
  const retry =
    run.reasons.length && run.state !== "running" ? `${run.command} --retry-failed` : "";
  return [run.command, retry]
    .filter(Boolean)
    .map((text) =>
      h(
        "div",
        { class: "command" },
        h("pre", { tabindex: 0 }, text),
        copyButton(text, t("copy"), t("copied")),
      ),
    );
}

/** A section that is folded until somebody opens it. */
export function fold(name, title, memory, ...children) {
  const box = h(
    "details",
    { class: "card fold", open: memory[name] },
    h("summary", { data: { focus: name } }, h("h2", {}, title)),
    children,
  );
  box.addEventListener("toggle", () => {
    memory[name] = box.open;
  });
  return box;
}
