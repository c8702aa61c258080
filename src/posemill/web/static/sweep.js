// A sweep: its trainings as a table, on parallel axes, and as a scatter of any two columns.

import { copyButton, h, put, s, tip } from "./dom.js";
import { number, t } from "./words.js";
import { section, state } from "./pieces.js";
import { ticks } from "./charts.js";

const HIDDEN = new Set(["key", "state", "reason", "epoch", "step"]);
const WIDTH = 1000;

export function renderSweep(run, page) {
  const rows = run.trainings;
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter(
    (name) => !HIDDEN.has(name),
  );
  const numeric = columns.filter(
    (name) =>
      rows.some((row) => typeof row[name] === "number") &&
      rows.every(
        (row) => row[name] === undefined || row[name] === null || typeof row[name] === "number",
      ),
  );
  const isScore = (name) => /^best_|_(accuracy|wer|top\d|loss)$/.test(name);
  const score =
    numeric.find((name) => name.startsWith("best_")) || numeric.find(isScore) || numeric.at(-1);
  const varied = columns.filter(
    (name) => name !== "job" && new Set(rows.map((row) => JSON.stringify(row[name]))).size > 1,
  );
  const isLow = /wer|loss/.test(score || "");
  return [
    h(
      "div",
      { class: "tiles" },
      ["done", "running", "failed", "waiting"]
        .map((name) => [
          rows.filter((row) => row.state === name).length,
          t(name),
          name === "failed" ? "bad" : "",
        ])
        .map(([value, word, mood]) =>
          h(
            "div",
            { class: `tile ${value ? mood : ""}` },
            h("b", {}, number(value)),
            h("span", {}, word),
          ),
        ),
    ),
    score && varied.length > 1
      ? section(
          t("Parallel axes"),
          parallel(
            rows,
            varied
              .filter((name) => name !== score)
              .slice(0, 7)
              .concat(score),
            score,
            isLow,
          ),
        )
      : null,
    numeric.length > 1 ? section(t("Scatter"), scatter(rows, numeric, score, page)) : null,
    section(t("Trainings"), sortable(rows, ["job", ...varied], page, score, isLow)),
    run.command
      ? section(
          t("Next"),
          h(
            "div",
            { class: "command" },
            h("pre", { tabindex: 0 }, run.command),
            copyButton(run.command, t("copy"), t("copied")),
          ),
        )
      : null,
  ];
}

const open = (row) => {
  if (row.key) location.hash = `#/run/${row.key}`;
};
const say = (row, names) => names.map((name) => `${name} ${text(row[name])}`).join("   ");
const text = (value) =>
  typeof value === "number"
    ? String(Number(value.toPrecision(5)))
    : value === undefined || value === null
      ? "–"
      : String(value);

/** A colour from bad (grey-violet) to good (green) for a share of 0 to 1. */
const grade = (share) => `hsl(${250 - 100 * share} ${35 + 35 * share}% ${55 - 5 * share}%)`;

function rank(rows, name, isLow) {
  const known = rows.map((row) => row[name]).filter((value) => typeof value === "number");
  const [low, high] = [Math.min(...known), Math.max(...known)];
  return (value) => {
    const share = high > low ? (value - low) / (high - low) : 0.5;
    return isLow ? 1 - share : share;
  };
}

function parallel(rows, names, score, isLow) {
  const height = 280;
  const place = rank(rows, score, isLow);
  const x = (index) => 60 + ((WIDTH - 120) * index) / Math.max(1, names.length - 1);
  const axes = names.map((name) => axis(rows, name));
  const lines = rows
    .filter((row) => typeof row[score] === "number")
    .sort((one, other) => place(one[score]) - place(other[score]))
    .map((row) => {
      const points = names
        .map((name, index) => [x(index), axes[index].place(row[name])])
        .filter(([, y]) => Number.isFinite(y));
      return s("path", {
        d: points.map(([px, py], index) => `${index ? "L" : "M"}${px} ${py}`).join(""),
        stroke: grade(place(row[score])),
        class: "thread",
        fill: "none",
        on: {
          click: () => open(row),
          pointermove: (event) => tip(say(row, names), event.clientX, event.clientY),
          pointerleave: () => tip(null),
        },
      });
    });
  function axis(all, name) {
    const values = all
      .map((row) => row[name])
      .filter((value) => value !== undefined && value !== null);
    const [top, bottom] = [40, height - 20];
    if (values.every((value) => typeof value === "number")) {
      const isLog = Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 50;
      const of = isLog ? Math.log10 : (value) => value;
      const [low, high] = [of(Math.min(...values)), of(Math.max(...values))];
      const at = (value) =>
        typeof value === "number"
          ? high > low
            ? bottom - ((bottom - top) * (of(value) - low)) / (high - low)
            : (top + bottom) / 2
          : NaN;
      const marks = isLog
        ? [...new Set(values)].slice(0, 6)
        : [...new Set(values)].length <= 6
          ? [...new Set(values)]
          : ticks(low, high, 4);
      return { place: at, marks: marks.map((value) => [at(value), text(value)]) };
    }
    const kinds = [...new Set(values.map(String))].sort();
    const at = (value) =>
      value === undefined || value === null
        ? NaN
        : kinds.length > 1
          ? bottom - ((bottom - top) * kinds.indexOf(String(value))) / (kinds.length - 1)
          : (top + bottom) / 2;
    return { place: at, marks: kinds.slice(0, 12).map((value) => [at(value), value]) };
  }
  return h(
    "div",
    { class: "scroll" },
    s(
      "svg",
      { class: "parallel", id: "parallel", viewBox: `0 0 ${WIDTH} ${height}` },
      lines,
      names.map((name, index) =>
        s(
          "g",
          {},
          s("line", { x1: x(index), x2: x(index), y1: 40, y2: height - 20 }),
          s("text", { "x": x(index), "y": 20, "text-anchor": "middle", "class": "axisname" }, name),
          apart(axes[index].marks).map(([y, mark]) =>
            s("text", { x: x(index) + 6, y: y + 4 }, mark),
          ),
        ),
      ),
    ),
  );
}

/** Marks that do not lie on one another. */
function apart(marks) {
  const kept = [];
  for (const mark of [...marks].sort((one, other) => one[0] - other[0])) {
    if (!kept.length || mark[0] - kept.at(-1)[0] >= 14) kept.push(mark);
  }
  return kept;
}

function scatter(rows, numeric, score, page) {
  const kept = (page.memory.scatter = page.memory.scatter || {
    x: numeric.find((name) => name !== score) || score,
    y: score,
  });
  const picture = h("div", { class: "scroll" });
  const select = (axis) =>
    h(
      "select",
      {
        "aria-label": axis,
        "on": {
          change: (event) => {
            kept[axis] = event.target.value;
            draw();
          },
        },
      },
      numeric.map((name) => h("option", { value: name, selected: kept[axis] === name }, name)),
    );
  function draw() {
    const points = rows.filter(
      (row) => typeof row[kept.x] === "number" && typeof row[kept.y] === "number",
    );
    if (!points.length) {
      put(picture, h("p", { class: "quiet" }, t("nothing yet")));
      return;
    }
    const scale = (name, from, to) => {
      const values = points.map((row) => row[name]);
      const isLog = Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 50;
      const of = isLog ? Math.log10 : (value) => value;
      const [low, high] = [of(Math.min(...values)), of(Math.max(...values))];
      const at = (value) =>
        high > low ? from + ((to - from) * (of(value) - low)) / (high - low) : (from + to) / 2;
      const marks = isLog ? [...new Set(values)].slice(0, 6) : ticks(low, high, 5);
      return { at, marks };
    };
    const [x, y] = [scale(kept.x, 60, WIDTH - 30), scale(kept.y, 250, 20)];
    put(
      picture,
      s(
        "svg",
        { class: "parallel", id: "scatter", viewBox: `0 0 ${WIDTH} 290` },
        y.marks.map((mark) => [
          s("line", { x1: 55, x2: WIDTH - 20, y1: y.at(mark), y2: y.at(mark) }),
          s("text", { "x": 48, "y": y.at(mark) + 4, "text-anchor": "end" }, text(mark)),
        ]),
        x.marks.map((mark) =>
          s("text", { "x": x.at(mark), "y": 278, "text-anchor": "middle" }, text(mark)),
        ),
        points.map((row) =>
          s("circle", {
            cx: x.at(row[kept.x]),
            cy: y.at(row[kept.y]),
            r: 6,
            class: "dotpoint",
            on: {
              click: () => open(row),
              pointermove: (event) =>
                tip(say(row, ["job", kept.x, kept.y]), event.clientX, event.clientY),
              pointerleave: () => tip(null),
            },
          }),
        ),
      ),
    );
  }
  draw();
  return [
    h(
      "div",
      { class: "toolbar wrap bare" },
      h("label", { class: "field" }, h("span", {}, "y"), select("y")),
      h("label", { class: "field" }, h("span", {}, "x"), select("x")),
    ),
    picture,
  ];
}

function sortable(rows, names, page, score, isLow) {
  const { memory } = page;
  memory.sort = memory.sort || (score ? [score, isLow ? 1 : -1] : ["job", 1]);
  const box = h("div", { class: "scroll" });
  const place = score ? rank(rows, score, isLow) : null;
  function draw() {
    const [by, way] = memory.sort;
    const value = (row) => row[by];
    const sorted = [...rows].sort((one, other) => {
      const [a, b] = [value(one), value(other)];
      if (a === undefined || a === null) return 1;
      if (b === undefined || b === null) return -1;
      return (
        way *
        (typeof a === "number" && typeof b === "number"
          ? a - b
          : String(a).localeCompare(String(b)))
      );
    });
    put(
      box,
      h(
        "table",
        { id: "trainings" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", {}, t("state")),
            names.map((name) =>
              h(
                "th",
                {
                  "class": rows.some((row) => typeof row[name] === "number") ? "number" : "",
                  "aria-sort": name === by ? (way > 0 ? "ascending" : "descending") : "none",
                },
                h(
                  "button",
                  {
                    type: "button",
                    class: "plain sort",
                    data: { focus: `sort-${name}` },
                    on: {
                      click: () => {
                        memory.sort = [name, name === by ? -way : -1];
                        draw();
                      },
                    },
                  },
                  name,
                  name === by ? (way > 0 ? " ↑" : " ↓") : "",
                ),
              ),
            ),
          ),
        ),
        h(
          "tbody",
          {},
          sorted.map((row) =>
            h(
              "tr",
              {},
              h(
                "td",
                {},
                state(row.state),
                row.reason ? h("div", { class: "reason" }, row.reason) : null,
              ),
              names.map((name) =>
                h(
                  "td",
                  { class: typeof row[name] === "number" ? "number" : "" },
                  name === "job" && row.key
                    ? h("a", { href: `#/run/${row.key}` }, row.job)
                    : name === score && typeof row[name] === "number"
                      ? h(
                          "b",
                          { class: "graded", style: { "border-color": grade(place(row[name])) } },
                          text(row[name]),
                        )
                      : text(row[name]),
                ),
              ),
            ),
          ),
        ),
      ),
    );
  }
  draw();
  return box;
}
