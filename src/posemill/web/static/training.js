// A training: curves, learning rate, where the time goes, what was confused, clips behind a cell.

import { copyButton, h, put, s, tip } from "./dom.js";
import { getJson, query } from "./net.js";
import { duration, number, percent, t } from "./words.js";
import { facts, section, table } from "./pieces.js";
import { lineChart } from "./charts.js";
import { fold } from "./extraction.js";

const COLOURS = [
  "var(--right)",
  "var(--left)",
  "#8e44c9",
  "#1f9d68",
  "#c2396b",
  "#8a8a70",
  "#4062c9",
  "#b07a10",
];
const SLICES = {
  data: "#e26a0c",
  transfer: "#c2396b",
  forward: "#188ccc",
  backward: "#4062c9",
  optimizer: "#8e44c9",
  evaluation: "#1f9d68",
  checkpoint: "#8a8a70",
};

export function renderTraining(run, page) {
  page.memory.others = page.memory.others || new Map();
  const result = h("div", { class: "found", id: "found" });
  return [
    h(
      "div",
      { class: "tiles" },
      tiles(run).map(([value, word, mood]) =>
        h("div", { class: `tile ${mood || ""}` }, h("b", {}, value), h("span", {}, word)),
      ),
    ),
    section(t("Curves"), curves(run, page.memory.others), laidOver(run, page)),
    h(
      "div",
      { class: "columns" },
      section(t("Where the time goes"), timing(run)),
      section(t("Classes"), classes(run, page, result)),
    ),
    run.classes.length ? section(t("Confusion"), confusion(run, page, result)) : null,
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
    fold(
      "log",
      t("Log"),
      page.memory,
      h("pre", { class: "log", tabindex: 0 }, run.log.join("\n") || t("empty")),
    ),
    fold(
      "config",
      t("Settings"),
      page.memory,
      h("dl", { class: "facts" }, facts(run.config), facts(run.facts)),
    ),
  ];
}

function tiles(run) {
  const found = Object.entries(run.scores || {}).flatMap(([split, scores]) =>
    Object.entries(scores)
      .filter(([name]) => name !== "loss")
      .map(([name, value]) => [number(value, 3), `${split} ${name}`]),
  );
  const best =
    run.best === null || run.best === undefined
      ? []
      : [[number(run.best, 3), t("best {0}, step {1}", run.score, number(run.best_step))]];
  return [
    [
      run.total ? percent(run.done / run.total) : number(run.done),
      run.total ? t("step {0} of {1}", number(run.done), number(run.total)) : t("steps"),
    ],
    ...(run.epoch
      ? [[`${number(run.epoch)}${run.epochs ? ` / ${number(run.epochs)}` : ""}`, t("epochs")]]
      : []),
    ...(run.state === "running" ? [[duration(run.seconds_left), t("left")]] : []),
    ...(run.rate
      ? [[number(run.rate, 0), t("samples/s"), run.state === "running" ? "running" : ""]]
      : []),
    ...(found.length ? found : best),
  ];
}

function curves(run, others) {
  const all = [[run.name, run.curves], ...others.values()];
  const isOne = all.length === 1;
  const chart = (title, lines, options) =>
    lineChart(lines, { title, xName: t("step"), ...options });
  const names = [...new Set(all.flatMap(([, found]) => Object.keys(found.scores)))];
  const loss = all.flatMap(([name, found], index) => [
    { name: isOne ? t("training") : name, colour: COLOURS[index % 8], points: smooth(found.loss) },
    { name: "", colour: COLOURS[index % 8], points: found.loss, faint: true },
    {
      name: isOne ? t("validation") : "",
      colour: isOne ? COLOURS[1] : COLOURS[index % 8],
      points: found.eval_loss,
      dashed: !isOne,
      dots: true,
    },
  ]);
  const scores = names.flatMap((score, row) =>
    all.map(([name, found], index) => ({
      name: isOne ? score : `${name} ${names.length > 1 ? score : ""}`,
      colour: COLOURS[(isOne ? row : index) % 8],
      dashed: !isOne && row > 0,
      points: found.scores[score] || [],
      dots: true,
    })),
  );
  const single = (what) =>
    all.map(([name, found], index) => ({
      name: isOne ? "" : name,
      colour: COLOURS[index % 8],
      points: found[what],
    }));
  return h(
    "div",
    { class: "charts", id: "curves" },
    chart(t("loss"), loss, { empty: t("no step yet") }),
    chart(t("scores on validation"), scores, {
      zero: true,
      most: names.some((name) => /acc/.test(name)) ? 1 : undefined,
      legend: true,
      empty: t("not evaluated yet"),
    }),
    chart(t("learning rate"), single("lr"), { zero: true }),
    chart(t("samples/s"), single("speed"), { zero: true }),
  );
}

/** The mean around each point, over about a twentieth of them. */
function smooth(points) {
  const half = Math.floor(points.length / 40);
  return points.map(([step], index) => {
    const near = points
      .slice(Math.max(0, index - half), index + half + 1)
      .filter(([, y]) => y !== null);
    return [step, near.length ? near.reduce((sum, [, y]) => sum + y, 0) / near.length : NaN];
  });
}

function laidOver(run, page) {
  const { memory } = page;
  const list = h("div", { class: "chips", id: "others" });
  const box = h(
    "details",
    { class: "fold inner", open: memory.isOver },
    h("summary", { data: { focus: "over" } }, t("Lay other trainings over it")),
    list,
  );
  async function load() {
    memory.isOver = box.open;
    if (!box.open || list.childElementCount) return;
    const { runs } = await getJson("/api/runs", page.signal).catch(() => ({ runs: [] }));
    const rest = runs.filter(
      (each) => each.kind === "training" && each.key !== run.key && each.state !== "broken",
    );
    put(
      list,
      rest.length
        ? rest.slice(0, 200).map((each) =>
            h(
              "label",
              { class: "chip check" },
              h("input", {
                type: "checkbox",
                checked: memory.others.has(each.key),
                data: { focus: `over-${each.key}` },
                on: { change: (event) => toggle(each, event.target.checked) },
              }),
              each.name,
            ),
          )
        : h("span", { class: "quiet" }, t("there is no other")),
    );
  }
  async function toggle(each, isOn) {
    if (isOn) {
      const other = await getJson(`/api/runs/${each.key}`, page.signal).catch(() => null);
      if (other?.curves) memory.others.set(each.key, [each.name, other.curves]);
    } else memory.others.delete(each.key);
    document.getElementById("curves").replaceWith(curves(run, memory.others));
  }
  box.addEventListener("toggle", load);
  if (box.open) load();
  return box;
}

function timing(run) {
  const parts = Object.entries(run.timing_seconds).filter(([, seconds]) => seconds > 0);
  const total = parts.reduce((sum, [, seconds]) => sum + seconds, 0);
  if (!total) return h("p", { class: "quiet" }, t("nothing was measured yet"));
  return [
    h(
      "div",
      { class: "bar tall" },
      parts.map(([name, seconds]) =>
        h("div", {
          style: {
            width: `${(100 * seconds) / total}%`,
            background: SLICES[name] || "var(--ink-3)",
          },
          title: `${t(name)} ${percent(seconds / total)}`,
        }),
      ),
    ),
    h(
      "div",
      { class: "legend" },
      parts.map(([name, seconds]) =>
        h(
          "span",
          {},
          h("i", { style: { background: SLICES[name] || "var(--ink-3)" } }),
          `${t(name)} ${percent(seconds / total)}`,
        ),
      ),
    ),
    h("p", { class: "quiet" }, t("{0} in all", duration(total))),
    run.advice.length
      ? h(
          "ul",
          { class: "plainlist" },
          run.advice.map((each) => h("li", {}, advice(each))),
        )
      : h("p", { class: "good" }, t("Nothing to change.")),
  ];
}

function advice({ evidence, change, gain }) {
  return gain
    ? t("{0}: try {1} (up to {2}x)", evidence, change, number(gain, 2))
    : t("{0}: try {1} (gain not measured)", evidence, change);
}

function lastSplit(run, memory) {
  const splits = Object.keys(run.confusions);
  return splits.includes(memory.split) ? memory.split : splits.at(-1);
}

function classes(run, page, result) {
  if (!run.classes.length)
    return h(
      "p",
      { class: "quiet" },
      run.state === "running"
        ? t("Known at the end of the training.")
        : t("no classes were recorded"),
    );
  const cells = run.confusions[lastSplit(run, page.memory)];
  const rows = run.classes
    .map((name, index) => {
      const own = cells.filter(([row]) => row === index);
      const total = own.reduce((sum, [, , count]) => sum + count, 0);
      const right = own
        .filter(([, column]) => column === index)
        .reduce((sum, [, , count]) => sum + count, 0);
      return { name, index, total, share: total ? right / total : NaN };
    })
    .filter((row) => row.total)
    .sort((one, other) => one.share - other.share);
  return h(
    "div",
    { class: "classbars" },
    rows.slice(0, 60).map((row) =>
      h(
        "button",
        {
          type: "button",
          class: "classbar plain",
          on: { click: () => showCell(run, page, result, { label: row.name }) },
        },
        h("span", {}, row.name),
        h(
          "div",
          { class: "bar" },
          h("div", {
            class: `done ${row.share >= 0.95 ? "" : row.share >= 0.5 ? "mid" : "low"}`,
            style: { width: `${100 * row.share}%` },
          }),
        ),
        h("span", { class: "quiet number" }, `${percent(row.share)} · ${number(row.total)}`),
      ),
    ),
  );
}

function confusion(run, page, result) {
  const split = lastSplit(run, page.memory);
  const count = run.classes.length;
  const cell = Math.max(4, Math.min(34, Math.floor(1000 / count)));
  const edge =
    cell >= 13 ? 14 + 7 * Math.min(16, Math.max(...run.classes.map((name) => name.length))) : 6;
  const size = edge + cell * count + 2;
  const totals = new Map();
  for (const [row, , value] of run.confusions[split])
    totals.set(row, (totals.get(row) || 0) + value);
  const shown = (name) => (name.length > 16 ? `${name.slice(0, 15)}…` : name);
  const boxes = run.confusions[split].map(([row, column, value]) => {
    const share = value / totals.get(row);
    const said = `${run.classes[row]} → ${run.classes[column]}: ${number(value)} (${percent(share)})`;
    const open = () =>
      showCell(run, page, result, { label: run.classes[row], predicted: run.classes[column] });
    return s(
      "g",
      {
        "class": "cell",
        "tabindex": 0,
        "role": "button",
        "aria-label": said,
        "on": {
          click: open,
          keydown: (event) => {
            if (event.key === "Enter") open();
          },
          pointermove: (event) => tip(said, event.clientX, event.clientY),
          pointerleave: () => tip(null),
        },
      },
      s("rect", {
        "x": edge + column * cell,
        "y": edge + row * cell,
        "width": cell - 1,
        "height": cell - 1,
        "rx": 2,
        "class": row === column ? "right" : "wrong",
        "fill-opacity": 0.25 + 0.75 * share,
      }),
      cell >= 20
        ? s(
            "text",
            {
              "x": edge + (column + 0.5) * cell,
              "y": edge + (row + 0.5) * cell + 4,
              "text-anchor": "middle",
              "class": share > 0.5 ? "on" : "",
            },
            value,
          )
        : null,
    );
  });
  const names =
    cell >= 13
      ? run.classes.flatMap((name, index) => [
          s(
            "text",
            { "x": edge - 6, "y": edge + (index + 0.5) * cell + 4, "text-anchor": "end" },
            shown(name),
          ),
          s(
            "text",
            { transform: `translate(${edge + (index + 0.5) * cell + 4} ${edge - 6}) rotate(-90)` },
            shown(name),
          ),
        ])
      : [];
  const right = run.confusions[split]
    .filter(([row, column]) => row === column)
    .reduce((sum, [, , value]) => sum + value, 0);
  const all = run.confusions[split].reduce((sum, [, , value]) => sum + value, 0);
  return [
    h(
      "div",
      { class: "chips" },
      Object.keys(run.confusions).map((name) =>
        h(
          "button",
          {
            "type": "button",
            "class": "chip",
            "aria-pressed": String(name === split),
            "data": { focus: `split-${name}` },
            "on": {
              click: () => {
                page.memory.split = name;
                page.again();
              },
            },
          },
          name,
        ),
      ),
      h(
        "span",
        { class: "quiet" },
        t(
          "{0} of {1} right; rows are true, columns predicted; choose a cell to see its clips",
          number(right),
          number(all),
        ),
      ),
    ),
    h(
      "div",
      { class: "cells" },
      h(
        "div",
        { class: "scroll" },
        s(
          "svg",
          {
            class: "confusion",
            id: "confusion",
            viewBox: `0 0 ${size} ${size}`,
            width: size,
            height: size,
          },
          s("rect", {
            x: edge,
            y: edge,
            width: cell * count,
            height: cell * count,
            class: "ground",
          }),
          names,
          boxes,
        ),
      ),
      result,
    ),
  ];
}

async function showCell(run, page, result, wanted) {
  const split = lastSplit(run, page.memory);
  const rows = await getJson(
    `/api/runs/${run.key}/predictions?${query({ split, ...wanted })}`,
    page.signal,
  ).catch(() => []);
  const link = (row) =>
    run.data_key
      ? h(
          "a",
          {
            href: `#/clip/${run.data_key}?${query({ split: row.split, id: row.clip_id, label: row.label, said: row.predicted, score: row.score })}`,
          },
          row.clip_id,
        )
      : row.clip_id;
  put(
    result,
    h(
      "h3",
      {},
      wanted.predicted === undefined ? wanted.label : `${wanted.label} → ${wanted.predicted}`,
    ),
    run.data_key
      ? null
      : h(
          "p",
          { class: "quiet" },
          t("The data is not below the folders that are served, so its clips cannot be opened."),
        ),
    table(
      [
        [t("clip"), link],
        [t("true"), (row) => row.label],
        [
          t("predicted"),
          (row) =>
            h("span", { class: row.label === row.predicted ? "good" : "bad" }, row.predicted),
        ],
        [t("score"), (row) => row.score, "number"],
      ],
      rows,
    ),
  );
  result.scrollIntoView({ behavior: "smooth", block: "nearest" });
}
