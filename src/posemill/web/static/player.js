// One clip: the original with its skeleton, played, scrubbed, zoomed; a second run over or beside it.

import { h, put, s, tip } from "./dom.js";
import { getJson, query } from "./net.js";
import { number, partName, t } from "./words.js";
import { badge, failure } from "./pieces.js";
import { PeopleSource, PictureSource, PointSource } from "./sources.js";
import { Stage } from "./stage.js";
import { Timeline } from "./timeline.js";
import { comparePanel } from "./compare.js";

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 4];
// Drawn, as not every font has them.
const ICONS = {
  first: "M2 2h2v12H2zM14 2v12L5 8z",
  last: "M12 2h2v12h-2zM2 2v12l9-6z",
  back: "M12 2v12L3 8z",
  on: "M4 2v12l9-6z",
};
// What stays when a clip is left or drawn anew, in another language; `last` is where it was.
const kept = { speed: 1, hidden: new Set(), hasPicture: true, mode: "over", last: null };

export async function showClip({ main, key, values, signal, crumbs }) {
  const name = { split: values.get("split") || "", id: values.get("id") || "" };
  let run;
  let meta;
  try {
    [run, meta] = await Promise.all([
      getJson(`/api/runs/${encodeURIComponent(key)}`, signal),
      getJson(`/api/runs/${encodeURIComponent(key)}/clip?${query(name)}`, signal),
    ]);
  } catch (error) {
    if (!signal.aborted) {
      crumbs([name.id]);
      put(main, failure(error));
    }
    return;
  }
  if (signal.aborted) return;
  crumbs([run.name, `#/run/${key}`], [t("Clips"), `#/clips/${key}`], [meta.clip_id]);
  new Player(main, key, meta, run, signal, values).start();
}

function rate({ fps, play_fps: played }) {
  if (!fps) return "";
  return fps === played
    ? `${number(fps, 2)} fps`
    : t("{0} fps in its file; played at {1}", number(fps, 2), played);
}

class Player {
  constructor(main, key, meta, run, signal, values) {
    Object.assign(this, { main, key, meta, run, signal, values });
    const address = location.hash;
    const last = kept.last?.address === address ? kept.last : null;
    this.frame = last ? last.frame : Number(values.get("frame")) || 0;
    this.isPlaying = false;
    this.other = null; // {key, meta, points}
    this.otherKey = last ? last.otherKey : values.get("other") || "";
    signal.addEventListener("abort", () => {
      kept.last = { address, frame: this.frame, otherKey: this.otherKey };
    });
    const redraw = () => this.later();
    this.points = new PointSource(key, meta, signal, redraw);
    this.people = meta.has_people ? new PeopleSource(key, meta, signal, redraw) : null;
    this.pictures = new PictureSource(key, meta, signal, redraw);
  }

  start() {
    const { meta } = this;
    this.canvas = h("canvas", {
      "class": "stage",
      "tabindex": 0,
      "id": "stage",
      "role": "img",
      "aria-label": meta.clip_id,
    });
    this.second = h("canvas", { class: "stage", id: "second", hidden: true });
    this.strip = h("canvas", { class: "timeline", id: "timeline" });
    this.where = h("output", { class: "where", id: "where" });
    this.note = h("p", { class: "quiet note", hidden: true });
    this.playButton = h("button", {
      type: "button",
      class: "primary play",
      id: "play",
      on: { click: () => this.play(!this.isPlaying) },
    });
    const side = h("aside", { class: "side" });
    put(
      this.main,
      h(
        "div",
        { class: "head" },
        h("h1", { class: "clipname" }, meta.clip_id),
        h(
          "p",
          { class: "quiet" },
          [
            meta.split,
            meta.label,
            t("{0:frame|frames}", number(meta.num_frames)),
            rate(meta),
            meta.size_wh[0] ? `${meta.size_wh[0]} × ${meta.size_wh[1]}` : "",
            meta.skeleton.name,
          ]
            .filter(Boolean)
            .join("  ·  "),
        ),
        this.prediction(),
      ),
      h(
        "div",
        { class: "player" },
        h(
          "div",
          { class: "screen" },
          h("div", { class: "stages" }, this.canvas, this.second),
          this.note,
          this.controls(),
          this.strip,
        ),
        side,
      ),
    );
    this.stage = new Stage(this.canvas, meta, () => this.later());
    this.timeline = new Timeline(this.strip, meta, (frame) => this.seek(frame));
    put(
      side,
      this.partsPanel(),
      this.qualityPanel(),
      comparePanel(this, kept),
      this.downloadPanel(),
      this.keysPanel(),
    );
    this.canvas.addEventListener("pointermove", (event) => this.sayPoint(event));
    this.canvas.addEventListener("pointerleave", () => tip(null));
    addEventListener("keydown", (event) => this.onKey(event), { signal: this.signal });
    addEventListener("resize", () => this.later(), { signal: this.signal });
    this.signal.addEventListener("abort", () => {
      this.isPlaying = false;
      tip(null);
    });
    this.seek(this.frame);
    this.canvas.focus({ preventScroll: true });
  }

  /** What a training said of the clip, where one comes from its page. */
  prediction() {
    const [said, label] = [this.values.get("said"), this.values.get("label")];
    if (!said) return null;
    return h(
      "p",
      { id: "said", class: said === label ? "good" : "bad" },
      said === label
        ? t("predicted {0}, which is right", said)
        : t("predicted {0}, true is {1}", said, label),
      this.values.get("score")
        ? h("span", { class: "quiet" }, `  ${t("score")} ${this.values.get("score")}`)
        : null,
    );
  }

  controls() {
    const speed = h(
      "select",
      {
        "aria-label": t("speed"),
        "id": "speed",
        "on": {
          change: () => {
            kept.speed = Number(speed.value);
          },
        },
      },
      SPEEDS.map((each) =>
        h("option", { value: each, selected: each === kept.speed }, `${each} ×`),
      ),
    );
    this.speed = speed;
    const button = (label, text, action) =>
      h(
        "button",
        {
          "type": "button",
          "class": "icon",
          "aria-label": text,
          "title": text,
          "on": { click: action },
        },
        ICONS[label]
          ? s(
              "svg",
              { "viewBox": "0 0 16 16", "width": 16, "height": 16, "aria-hidden": "true" },
              s("path", { d: ICONS[label], fill: "currentColor" }),
            )
          : label,
      );
    return h(
      "div",
      { class: "controls" },
      this.playButton,
      button("first", t("first frame"), () => this.seek(0)),
      button("back", t("one frame back"), () => this.step(-1)),
      button("on", t("one frame on"), () => this.step(1)),
      button("last", t("last frame"), () => this.seek(this.meta.num_frames - 1)),
      speed,
      button("−", t("smaller"), () => this.zoom(1 / 1.4)),
      button("+", t("larger"), () => this.zoom(1.4)),
      button("1:1", t("whole picture"), () => this.stage.reset()),
      this.where,
    );
  }

  partsPanel() {
    const boxes = this.meta.skeleton.parts.map((part, row) =>
      h(
        "label",
        { class: "check" },
        h("input", {
          type: "checkbox",
          checked: !kept.hidden.has(part.name),
          on: { change: (event) => this.togglePart(part.name, event.target.checked) },
        }),
        h("i", { class: "dot", style: { background: part.colour } }),
        partName(part.name),
        h("kbd", {}, row + 1),
      ),
    );
    const picture = h(
      "label",
      { class: "check" },
      h("input", {
        type: "checkbox",
        id: "picture",
        checked: kept.hasPicture,
        on: {
          change: (event) => {
            kept.hasPicture = event.target.checked;
            this.later();
          },
        },
      }),
      h("i", { class: "dot plain" }),
      t("original picture"),
      h("kbd", {}, "o"),
    );
    return h("section", { class: "card" }, h("h2", {}, t("Shown")), boxes, picture);
  }

  qualityPanel() {
    const quality = this.meta.quality;
    if (!quality) return null;
    const rows = this.meta.frame_indices;
    const jumps = Object.entries(quality.parts).flatMap(([part, found]) =>
      found.jump_frames.map((frame) => [part, frame]),
    );
    return h(
      "section",
      { class: "card" },
      h("h2", {}, t("Quality"), " ", badge(quality.badness)),
      quality.reasons.length
        ? h(
            "ul",
            { class: "plainlist" },
            quality.reasons.map((reason) => h("li", {}, reason)),
          )
        : h("p", { class: "quiet" }, t("No fault that was looked for.")),
      jumps.length
        ? h(
            "div",
            { class: "chips" },
            jumps.slice(0, 16).map(([part, frame]) =>
              h(
                "button",
                {
                  type: "button",
                  class: "chip",
                  on: { click: () => this.seek(rows.indexOf(frame)) },
                },
                t("jump of {0} at {1}", partName(part), frame),
              ),
            ),
          )
        : null,
    );
  }

  downloadPanel() {
    const name = { split: this.meta.split, id: this.meta.clip_id };
    const link = (kind, label) =>
      h(
        "a",
        {
          class: "button",
          download: true,
          href: `/api/runs/${this.key}/file?${query({ ...name, as: kind })}`,
        },
        label,
      );
    return h(
      "section",
      { class: "card" },
      h("h2", {}, t("Download")),
      h(
        "div",
        { class: "chips" },
        h(
          "button",
          { type: "button", class: "button", id: "png", on: { click: () => this.savePng() } },
          "PNG",
        ),
        link("mp4", "MP4"),
        link("pose", ".pose"),
        link("npz", "npz"),
        this.meta.is_video
          ? h(
              "a",
              {
                class: "button",
                href: `/api/runs/${this.key}/video?${query(name)}`,
                target: "_blank",
                rel: "noopener",
              },
              t("original video"),
            )
          : null,
      ),
    );
  }

  keysPanel() {
    const keys = [
      ["␣", t("play or stop")],
      ["← →", t("one frame")],
      ["⇧ ← →", t("ten frames")],
      ["+ − 0", t("zoom")],
      [", .", t("slower, faster")],
      ["1 … 9", t("parts on and off")],
      ["o", t("original picture")],
    ];
    return h(
      "details",
      { class: "card fold keys" },
      h("summary", {}, h("h2", {}, t("Keys"))),
      h(
        "dl",
        { class: "keylist" },
        keys.map(([key, text]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, text)]),
      ),
    );
  }

  togglePart(name, isShown) {
    if (isShown) kept.hidden.delete(name);
    else kept.hidden.add(name);
    this.later();
  }

  zoom(factor) {
    this.stage.zoomAt(this.canvas.clientWidth / 2, this.canvas.clientHeight / 2, factor);
  }

  seek(frame) {
    this.frame = Math.max(0, Math.min(this.meta.num_frames - 1, frame));
    this.later();
  }

  step(count) {
    this.play(false);
    this.seek(this.frame + count);
  }

  play(isPlaying) {
    this.isPlaying = isPlaying;
    if (isPlaying && this.frame === this.meta.num_frames - 1) this.frame = 0;
    this.due = performance.now();
    this.later();
    if (isPlaying) requestAnimationFrame((now) => this.tick(now));
  }

  /** Goes on by as many frames as time has passed; waits for what is still on its way. */
  tick(now) {
    if (!this.isPlaying || this.signal.aborted) return;
    const length = 1000 / (this.meta.play_fps * kept.speed);
    if (now - this.due > 1000) this.due = now - length;
    while (now - this.due >= length && this.isPlaying) {
      if (this.frame >= this.meta.num_frames - 1) {
        this.play(false);
        break;
      }
      if (!this.isReady(this.frame + 1)) {
        this.due = now;
        break;
      }
      this.due += length;
      this.frame += 1;
    }
    this.draw();
    requestAnimationFrame((next) => this.tick(next));
  }

  isReady(frame) {
    const hasPicture = !kept.hasPicture || this.pictures.get(frame) !== undefined;
    return this.points.get(frame) !== null && hasPicture;
  }

  later() {
    if (this.isWaiting) return;
    this.isWaiting = true;
    requestAnimationFrame(() => {
      this.isWaiting = false;
      if (!this.signal.aborted) this.draw();
    });
  }

  draw() {
    const { frame } = this;
    const points = this.points.get(frame);
    const picture = kept.hasPicture ? this.pictures.get(frame) : null;
    const own = { meta: this.meta, points, look: { hidden: kept.hidden } };
    const layers = [own];
    const people = this.people?.get(frame);
    const rimOf = (id) =>
      this.meta.people_colours[Math.max(id - 1, 0) % this.meta.people_colours.length];
    if (people) {
      own.look.rim = rimOf(people.first);
      for (const [id, of] of people.others)
        layers.push({
          meta: this.meta,
          points: of,
          look: { hidden: kept.hidden, rim: rimOf(id) },
        });
    }
    const isBeside = this.other && kept.mode === "beside";
    if (this.other) {
      const row = this.other.rows ? this.other.rows[frame] : frame;
      const others = row >= 0 ? this.other.points.get(row) : null;
      const layer = {
        meta: this.other.meta,
        points: others,
        look: { hidden: kept.hidden, isOther: !isBeside },
      };
      if (isBeside) {
        this.second.hidden = false;
        this.stage2.scale = this.stage.scale;
        this.stage2.dx = this.stage.dx;
        this.stage2.dy = this.stage.dy;
        this.stage2.draw(frame, picture, [layer]);
      } else layers.push(layer);
    }
    this.second.hidden = !isBeside;
    [this.places] = this.stage.draw(frame, picture, layers);
    this.canvas.dataset.ready =
      points && (!this.other || layers.every((layer) => layer.points)) && picture !== undefined
        ? "1"
        : "0";
    const index = this.meta.frame_indices?.[frame];
    this.where.textContent = `${number(frame + 1)} / ${number(this.meta.num_frames)}${index !== undefined && index !== frame ? `  (${t("frame {0}", number(index))})` : ""}`;
    this.playButton.textContent = this.isPlaying ? t("stop playing") : t("play");
    const isGone = this.pictures.isGone && kept.hasPicture;
    const { reason } = this.points;
    this.note.hidden = !isGone && !reason;
    if (reason) this.note.textContent = t("These keypoints cannot be shown: {0}", t(reason));
    else
      this.note.textContent = this.meta.bounds
        ? t("These keypoints were scaled for a model: they have no place in a picture.")
        : t("The original is not there any more: the skeleton alone.");
    Object.assign(this.timeline, { frame, hidden: kept.hidden });
    this.timeline.draw();
  }

  sayPoint(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let best = -1;
    let least = 10 ** 2;
    for (let index = 0; this.places && index < this.meta.skeleton.num_points; index += 1) {
      const far = (this.places[2 * index] - x) ** 2 + (this.places[2 * index + 1] - y) ** 2;
      if (far < least) {
        least = far;
        best = index;
      }
    }
    const points = this.points.get(this.frame);
    tip(
      best < 0 || !points
        ? null
        : `${this.meta.skeleton.point_names[best]}   ${t("score")} ${points[3 * best + 2].toFixed(2)}   ${points[3 * best].toFixed(3)}, ${points[3 * best + 1].toFixed(3)}`,
      event.clientX,
      event.clientY,
    );
  }

  savePng() {
    this.draw();
    this.canvas.toBlob((blob) => {
      const link = document.createElement("a");
      link.href = URL.createObjectURL(blob);
      link.download = `${this.meta.clip_id.replace(/[^\w.-]+/g, "_")}_${this.frame}.png`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    }, "image/png");
  }

  onKey(event) {
    if (
      event.ctrlKey ||
      event.metaKey ||
      event.altKey ||
      /^(INPUT|SELECT|TEXTAREA|BUTTON|A|SUMMARY)$/.test(event.target.tagName)
    ) {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      if (/^(INPUT|SELECT)$/.test(event.target.tagName) || event.altKey || event.metaKey) return;
    }
    const speed = SPEEDS.indexOf(kept.speed);
    const act =
      {
        " ": () => this.play(!this.isPlaying),
        "ArrowLeft": () => this.step(event.shiftKey ? -10 : -1),
        "ArrowRight": () => this.step(event.shiftKey ? 10 : 1),
        "Home": () => this.seek(0),
        "End": () => this.seek(this.meta.num_frames - 1),
        "+": () => this.zoom(1.4),
        "=": () => this.zoom(1.4),
        "-": () => this.zoom(1 / 1.4),
        "0": () => this.stage.reset(),
        ",": () => this.setSpeed(SPEEDS[Math.max(0, speed - 1)]),
        ".": () => this.setSpeed(SPEEDS[Math.min(SPEEDS.length - 1, speed + 1)]),
        "o": () => this.main.querySelector("#picture").click(),
      }[event.key] ||
      (/^[1-9]$/.test(event.key)
        ? () => this.main.querySelectorAll(".side .check input")[Number(event.key) - 1]?.click()
        : null);
    if (!act) return;
    event.preventDefault();
    act();
  }

  setSpeed(value) {
    kept.speed = value;
    this.speed.value = String(value);
  }
}
