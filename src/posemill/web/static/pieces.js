// Small things that several pages show.

import { h } from "./dom.js";
import { number, percent, t } from "./words.js";

/** The state of a run, as a word with a dot. */
export function state(name) {
  return h("span", { class: `state ${name}` }, h("i", { "aria-hidden": "true" }), t(name));
}

/** A bar: what is done, and what of it failed. */
export function bar(done, total, failed = 0) {
  const share = (value) => `${total ? Math.min(100, (100 * value) / total) : 0}%`;
  return h(
    "div",
    {
      "class": "bar",
      "role": "progressbar",
      "aria-valuemin": 0,
      "aria-valuemax": total || 0,
      "aria-valuenow": done || 0,
    },
    h("div", { class: "done", style: { width: share((done || 0) - (failed || 0)) } }),
    failed ? h("div", { class: "lost", style: { width: `max(3px, ${share(failed)})` } }) : null,
  );
}

/** Why there is nothing to see. */
export function failure(error) {
  return h(
    "div",
    { class: "empty bad", role: "alert" },
    h("h2", {}, t("This cannot be shown")),
    h("p", { class: "reason" }, t(error.message)),
  );
}

/** How bad a share is, as a badge with a number on it. */
export function badge(badness) {
  if (badness === null || badness === undefined) return h("span", { class: "quiet" }, "…");
  const good = 1 - badness;
  const mood = good >= 0.95 ? "good" : good >= 0.8 ? "fair" : good >= 0.5 ? "weak" : "poor";
  return h(
    "span",
    { class: `badge ${mood}`, title: t("badness: 0 nothing to say, 1 nothing found") },
    number(badness, 2),
  );
}

/** In how many frames a part was found, as a small upright bar for each. */
export function presence(missing, colours) {
  return h(
    "span",
    { class: "presence" },
    Object.entries(missing).map(([part, share]) => {
      const found = share === null ? null : 1 - share;
      return h(
        "span",
        {
          class: "part",
          title: `${t(part.replaceAll("_", " "))}: ${percent(found)}`,
        },
        h("i", {
          style: {
            height: `${found === null ? 0 : Math.max(6, 100 * found)}%`,
            background: colours[part] || "var(--ink-3)",
          },
        }),
      );
    }),
  );
}

/** A table of rows; each column is [heading, function of a row, class]. */
export function table(columns, rows, props = {}) {
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      props,
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map(([heading, , kind]) => h("th", { scope: "col", class: kind }, heading)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            {},
            columns.map(([, cell, kind]) => h("td", { class: kind }, cell(row))),
          ),
        ),
      ),
    ),
  );
}

/** A section with a heading. */
export function section(title, ...children) {
  return h("section", { class: "card" }, h("h2", {}, title), children);
}

/** What a manifest or a configuration says, name by name. */
export function facts(values, prefix = "") {
  return Object.entries(values).flatMap(([name, value]) => {
    if (value && typeof value === "object" && !Array.isArray(value))
      return facts(value, `${prefix}${name}.`);
    if (value === null || value === "" || (Array.isArray(value) && !value.length)) return [];
    const shown = typeof value === "string" ? value : JSON.stringify(value);
    return [h("dt", {}, prefix + name), h("dd", {}, shown.slice(0, 2000))];
  });
}
