// The clips of a run: searched, filtered, sorted and paged by the server.

import { h, put } from "./dom.js";
import { getBytes, getJson, query } from "./net.js";
import { number, partName, percent, t } from "./words.js";
import { badge, failure, presence } from "./pieces.js";
import { unpackPictures } from "./sources.js";
import { aspectOf, drawPose } from "./stage.js";

const PAGE = 50;
const SORTS = {
  worst: "worst first",
  order: "in order",
  jumps: "most jumps",
  missing: "most missing",
  failed: "most failed",
  frames: "longest",
  name: "by name",
};
const FIELDS = ["split", "label", "search", "part", "missing", "jumps", "failed", "sort", "offset"];

export async function showClips({ main, key, values, signal, crumbs }) {
  const wanted = Object.fromEntries(FIELDS.map((name) => [name, values.get(name) || ""]));
  const path = `/api/runs/${encodeURIComponent(key)}`;
  const list = h("div", { class: "clips", id: "clips" });
  const bar = h("div", { class: "toolbar wrap" });
  const foot = h("div", { class: "pages" });
  const note = h("p", { class: "quiet", id: "measured" });
  let timer = 0;
  signal.addEventListener("abort", () => clearTimeout(timer));

  function go(changes) {
    const next = { ...wanted, offset: "", ...changes };
    const rest = query(next);
    history.pushState(null, "", `#/clips/${key}${rest ? `?${rest}` : ""}`);
    Object.assign(wanted, next);
    load();
  }

  let run;
  let skeleton = null;
  try {
    run = await getJson(path, signal);
  } catch (error) {
    if (!signal.aborted) {
      crumbs();
      put(main, failure(error));
    }
    return;
  }
  crumbs([run.name, `#/run/${key}`], [t("Clips")]);
  put(
    main,
    h(
      "div",
      { class: "head" },
      h("h1", {}, t("Clips"), " ", h("span", { class: "quiet" }, run.name)),
    ),
    bar,
    note,
    list,
    foot,
  );
  let choices = { splits: [], labels: [] };
  let parts = [];
  const thumbs = new Thumbs(path, signal, () => skeleton);

  async function load() {
    clearTimeout(timer);
    let answer;
    try {
      answer = await getJson(`${path}/clips?${query({ ...wanted, limit: PAGE })}`, signal);
    } catch (error) {
      if (!signal.aborted) put(list, failure(error));
      return;
    }
    if (!answer.is_ready) {
      put(
        list,
        answer.reason
          ? failure(new Error(answer.reason))
          : h("p", { class: "quiet" }, t("reading the records …")),
      );
      if (!answer.reason) timer = setTimeout(load, 400);
      return;
    }
    if (!choices.splits.length)
      choices = await getJson(`${path}/choices`, signal).catch(() => choices);
    if (parts.join() !== answer.parts.join() || !bar.childElementCount) {
      parts = answer.parts;
      put(bar, filters());
    }
    if (!skeleton && answer.clips.length) {
      const first = answer.clips.find((clip) => clip.num_rows) || answer.clips[0];
      skeleton = await getJson(
        `${path}/clip?${query({ split: first.split, id: first.clip_id })}`,
        signal,
      ).catch(() => null);
    }
    if (signal.aborted) return;
    render(answer);
    const isNew = answer.is_measuring || run.state === "running";
    if (isNew) timer = setTimeout(load, answer.num_clips > 20000 ? 4000 : 1500);
  }

  function filters() {
    const select = (name, label, options) =>
      h(
        "label",
        { class: "field" },
        h("span", {}, label),
        h(
          "select",
          { id: `filter-${name}`, on: { change: (event) => go({ [name]: event.target.value }) } },
          options.map(([value, text]) =>
            h("option", { value, selected: wanted[name] === value }, text),
          ),
        ),
      );
    const search = h("input", {
      type: "search",
      id: "filter-search",
      value: wanted.search,
      placeholder: t("part of its name"),
      on: {
        input: () => {
          clearTimeout(search.wait);
          search.wait = setTimeout(() => go({ search: search.value }), 250);
        },
      },
    });
    const label = h("input", {
      type: "search",
      id: "filter-label",
      value: wanted.label,
      list: "labels",
      placeholder: t("any"),
      on: { change: () => go({ label: label.value }) },
    });
    const shares = ["", "0.01", "0.05", "0.1", "0.25", "0.5", "0.9"];
    return [
      h("label", { class: "field grow" }, h("span", {}, t("search")), search),
      select("split", t("split"), [
        ["", t("all")],
        ...choices.splits.map(([name, count]) => [name, `${name} (${number(count)})`]),
      ]),
      choices.labels.length
        ? h(
            "label",
            { class: "field" },
            h("span", {}, t("label")),
            label,
            h(
              "datalist",
              { id: "labels" },
              choices.labels.map(([name]) => h("option", { value: name })),
            ),
          )
        : null,
      select("part", t("part"), [["", t("any")], ...parts.map((part) => [part, partName(part)])]),
      select(
        "missing",
        t("missing in"),
        shares.map((share) => [share, share ? `≥ ${percent(Number(share))}` : t("any")]),
      ),
      select(
        "jumps",
        t("jumps"),
        ["", "1", "3", "10"].map((count) => [count, count ? `≥ ${count}` : t("any")]),
      ),
      h(
        "label",
        { class: "field check" },
        h("span", {}, t("failed")),
        h("input", {
          type: "checkbox",
          id: "filter-failed",
          checked: wanted.failed === "1",
          on: { change: (event) => go({ failed: event.target.checked ? "1" : "" }) },
        }),
      ),
      select(
        "sort",
        t("order"),
        Object.entries(SORTS).map(([value, text]) => [value === "worst" ? "" : value, t(text)]),
      ),
    ];
  }

  function render(answer) {
    const isAll = answer.num_measured >= answer.num_clips;
    note.textContent = isAll
      ? t("{0:clip|clips}", number(answer.total))
      : t(
          "{0:clip|clips}; {1} of {2} measured so far",
          number(answer.total),
          number(answer.num_measured),
          number(answer.num_clips),
        );
    const colours = Object.fromEntries(
      (skeleton?.skeleton.parts || []).map((part) => [part.name, part.colour]),
    );
    thumbs.clear();
    put(
      list,
      answer.clips.length
        ? [heads(), answer.clips.map((clip) => row(clip, colours))]
        : h("div", { class: "empty" }, h("p", {}, t("no clip is like that"))),
    );
    const offset = Number(wanted.offset) || 0;
    const page = (text, to, isOn, id) =>
      h(
        "button",
        {
          type: "button",
          id,
          disabled: !isOn,
          data: { focus: id },
          on: {
            click: () => {
              go({ offset: String(to || "") });
              scrollTo(0, 0);
            },
          },
        },
        text,
      );
    put(
      foot,
      page(t("before"), Math.max(0, offset - PAGE), offset > 0, "page-before"),
      h(
        "span",
        { class: "quiet" },
        answer.total
          ? t(
              "{0} to {1} of {2}",
              number(offset + 1),
              number(Math.min(offset + PAGE, answer.total)),
              number(answer.total),
            )
          : "",
      ),
      page(t("next"), offset + PAGE, offset + PAGE < answer.total, "page-next"),
    );
  }

  const heads = () =>
    h(
      "div",
      { class: "clipheads" },
      h("span", {}),
      h("span", {}, t("clip")),
      h(
        "span",
        { class: "presence", title: t("in how many frames each part was found") },
        t("found"),
      ),
      h("span", {}, t("what is wrong")),
      h(
        "span",
        { class: "numbers", title: t("badness: 0 nothing to say, 1 nothing found") },
        `${t("jumps")} · ${t("badness")}`,
      ),
    );

  function row(clip, colours) {
    const isThere = clip.num_rows > 0;
    const canvas = h("canvas", { class: "thumb", width: 128, height: 96 });
    if (isThere) thumbs.watch(canvas, clip);
    const href = `#/clip/${key}?${query({ split: clip.split, id: clip.clip_id })}`;
    return h(
      isThere ? "a" : "div",
      {
        class: `clip${isThere ? "" : " gone"}`,
        href: isThere ? href : null,
        data: { focus: `${clip.split}/${clip.clip_id}` },
      },
      canvas,
      h(
        "div",
        { class: "who" },
        h("span", { class: "name" }, clip.clip_id || t("(no name)")),
        h(
          "span",
          { class: "quiet" },
          [clip.split, clip.label, t("{0:frame|frames}", number(clip.num_frames ?? clip.num_rows))]
            .filter(Boolean)
            .join("  ·  "),
          clip.num_failed
            ? h("em", { class: "bad" }, `  ${t("{0} failed", number(clip.num_failed))}`)
            : "",
        ),
      ),
      presence(clip.missing, colours),
      h("div", { class: "why quiet" }, clip.reasons.slice(0, 3).join(" · ")),
      h(
        "div",
        { class: "numbers" },
        clip.num_jumps
          ? h("span", { class: "quiet", title: t("jumps") }, `${number(clip.num_jumps)} ⤴`)
          : "",
        badge(clip.badness),
      ),
    );
  }
  load();
}

/** Small pictures of the middle of each clip, fetched when they come into view, a few at a time. */
class Thumbs {
  constructor(path, signal, getMeta) {
    Object.assign(this, { path, signal, getMeta, waiting: [], busy: 0, kept: new Map() });
    this.observer = new IntersectionObserver(
      (entries) =>
        entries.forEach((entry) => {
          if (!entry.isIntersecting) return;
          this.observer.unobserve(entry.target);
          this.waiting.push(entry.target);
          this.next();
        }),
      { rootMargin: "200px" },
    );
    signal.addEventListener("abort", () => this.observer.disconnect());
  }

  clear() {
    this.observer.disconnect();
    this.waiting = [];
  }

  watch(canvas, clip) {
    canvas.clip = clip;
    this.observer.observe(canvas);
  }

  async next() {
    if (this.busy >= 3 || !this.waiting.length) return;
    const canvas = this.waiting.shift();
    this.busy += 1;
    try {
      await this.draw(canvas);
    } catch {
      /* the table is of use without it */
    }
    this.busy -= 1;
    this.next();
  }

  async draw(canvas) {
    const { clip } = canvas;
    const meta = this.getMeta();
    if (!meta) return;
    const name = `${clip.split}\n${clip.clip_id}\n${clip.num_rows}`;
    if (!this.kept.has(name)) {
      const asked = query({
        split: clip.split,
        id: clip.clip_id,
        start: Math.floor(clip.num_rows / 2),
        count: 1,
      });
      const points = new Float32Array(await getBytes(`${this.path}/points?${asked}`, this.signal));
      const pictures = meta.bounds
        ? [null]
        : await getBytes(`${this.path}/frames?${asked}&side=160`, this.signal)
            .then(unpackPictures)
            .catch(() => [null]);
      this.kept.set(name, [points, pictures[0]]);
      if (this.kept.size > 400) this.kept.delete(this.kept.keys().next().value);
    }
    const [points, picture] = this.kept.get(name);
    const context = canvas.getContext("2d");
    context.fillStyle = "#1b1e24";
    context.fillRect(0, 0, canvas.width, canvas.height);
    const aspect = picture ? picture.width / picture.height : aspectOf(meta);
    const width = Math.min(canvas.width, canvas.height * aspect);
    const box = {
      width,
      height: width / aspect,
      left: (canvas.width - width) / 2,
      top: (canvas.height - width / aspect) / 2,
    };
    if (picture) context.drawImage(picture, box.left, box.top, box.width, box.height);
    drawPose(context, meta, points, box, { thick: 0.7 });
    canvas.dataset.drawn = "1";
  }
}
