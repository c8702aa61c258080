// A second run of the same clip in the player: over it or beside it, with the distance of each frame.

import { h } from "./dom.js";
import { getJson, query } from "./net.js";
import { number, partName, t } from "./words.js";
import { PointSource } from "./sources.js";
import { Stage } from "./stage.js";

export function comparePanel(player, kept) {
  const choice = h(
    "select",
    { "id": "other", "aria-label": t("another run"), "on": { change: () => choose(choice.value) } },
    h("option", { value: "" }, t("none")),
  );
  const modes = ["over", "beside"].map((mode) =>
    h(
      "label",
      { class: "check" },
      h("input", {
        type: "radio",
        name: "mode",
        value: mode,
        checked: kept.mode === mode,
        on: {
          change: () => {
            kept.mode = mode;
            player.later();
          },
        },
      }),
      t(mode === "over" ? "over it" : "beside it"),
    ),
  );
  const result = h("div", { class: "compared", id: "compared" });
  const box = h(
    "section",
    { class: "card" },
    h("h2", {}, t("Compare")),
    choice,
    h("div", { class: "chips" }, modes),
    result,
  );
  const name = { split: player.meta.split, id: player.meta.clip_id };

  getJson(`/api/runs/${player.key}/others?${query(name)}`, player.signal)
    .then((others) => {
      choice.append(...others.map((run) => h("option", { value: run.key }, run.name)));
      const wanted = player.otherKey;
      if (others.some((run) => run.key === wanted)) {
        choice.value = wanted;
        choose(wanted);
      }
    })
    .catch(() => {});

  async function choose(key) {
    player.other = null;
    player.otherKey = key;
    Object.assign(player.timeline, { distances: null, rows: null });
    result.replaceChildren();
    if (!key) {
      player.later();
      return;
    }
    try {
      const [meta, compared] = await Promise.all([
        getJson(`/api/runs/${key}/clip?${query(name)}`, player.signal),
        getJson(`/api/runs/${player.key}/compare?${query({ ...name, other: key })}`, player.signal),
      ]);
      const points = new PointSource(key, meta, player.signal, () => player.later());
      player.stage2 = new Stage(player.second, meta, null);
      player.other = { key, meta, points, rows: compared.rows };
      Object.assign(player.timeline, { distances: compared.distances, rows: compared.rows });
      result.append(...describe(compared));
    } catch (error) {
      if (!player.signal.aborted) result.append(h("p", { class: "reason" }, error.message));
    }
    player.later();
  }
  return box;
}

function describe(compared) {
  return [
    h(
      "p",
      { class: "quiet" },
      t(
        "distance in pixels, {0:point|points} of {1}",
        number(compared.num_points),
        compared.layout,
      ),
    ),
    h(
      "table",
      { class: "tight" },
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          [t("part"), t("agree"), t("median"), "p95"].map((text, index) =>
            h("th", { class: index ? "number" : "" }, text),
          ),
        ),
      ),
      h(
        "tbody",
        {},
        Object.entries(compared.parts).map(([part, found]) =>
          h(
            "tr",
            {},
            h("td", {}, partName(part)),
            h("td", { class: "number" }, found.agree === null ? "–" : number(found.agree, 3)),
            h("td", { class: "number" }, number(found.median, 2)),
            h("td", { class: "number" }, number(found.p95, 2)),
          ),
        ),
      ),
    ),
  ];
}
