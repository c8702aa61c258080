// Under the player: where each part was found and how sure it is, jumps, distances; scrubbed by hand.

import { partName } from "./words.js";
import { tip } from "./dom.js";

const BAND = 12;
const GAP = 3;
const CURVE = 46;
const NAMES = 92;

export class Timeline {
  constructor(canvas, meta, onSeek) {
    Object.assign(this, { canvas, meta, onSeek });
    this.frame = 0;
    this.distances = null;
    this.rows = null; // of the other run, -1 for a frame that it has not
    this.hidden = new Set();
    const seek = (event) => this.onSeek(this.frameAt(event));
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.isHeld = true;
      seek(event);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (this.isHeld) seek(event);
      tip(this.say(event), event.clientX, event.clientY);
    });
    const drop = () => {
      this.isHeld = false;
    };
    canvas.addEventListener("pointerup", drop);
    canvas.addEventListener("pointercancel", drop);
    canvas.addEventListener("pointerleave", () => tip(null));
  }

  get names() {
    return this.canvas.clientWidth < 520 ? 0 : NAMES;
  }

  get parts() {
    return this.meta.present ? this.meta.skeleton.parts : [];
  }

  get height() {
    return Math.max(
      28,
      this.parts.length * (BAND + GAP) + GAP + 8 + (this.distances ? CURVE + 8 : 0),
    );
  }

  frameAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const share = (event.clientX - box.left - this.names) / Math.max(1, box.width - this.names);
    return Math.max(
      0,
      Math.min(this.meta.num_frames - 1, Math.floor(share * this.meta.num_frames)),
    );
  }

  say(event) {
    const frame = this.frameAt(event);
    const words = [`${frame + 1} / ${this.meta.num_frames}`];
    const row = Math.floor(
      (event.clientY - this.canvas.getBoundingClientRect().top - GAP) / (BAND + GAP),
    );
    const part = this.parts[row];
    if (part) {
      const bins = this.meta.scores[row];
      const score = bins[Math.floor((frame / this.meta.num_frames) * bins.length)];
      words.push(`${partName(part.name)} ${score ? score.toFixed(2) : "–"}`);
    }
    const far = this.distances?.[frame];
    if (Number.isFinite(far)) words.push(`${far.toFixed(1)} px`);
    return words.join("   ");
  }

  draw() {
    const { canvas, meta } = this;
    const ratio = devicePixelRatio || 1;
    canvas.style.height = `${this.height}px`;
    canvas.width = Math.round(canvas.clientWidth * ratio);
    canvas.height = Math.round(this.height * ratio);
    const context = canvas.getContext("2d");
    const style = getComputedStyle(canvas);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const left = this.names;
    const wide = canvas.clientWidth - left;
    context.font = "12px system-ui, sans-serif";
    context.textBaseline = "middle";
    this.parts.forEach((part, row) => {
      const top = GAP + row * (BAND + GAP);
      if (left) {
        context.fillStyle = style.getPropertyValue("--ink-2");
        context.fillText(partName(part.name), 0, top + BAND / 2 + 0.5, left - 8);
      }
      context.fillStyle = style.getPropertyValue("--well");
      context.fillRect(left, top, wide, BAND);
      const present = meta.present[row];
      const scores = meta.scores[row];
      context.fillStyle = part.colour;
      present.forEach((value, bin) => {
        if (!value) return;
        context.globalAlpha =
          (0.3 + 0.7 * (scores[bin] ?? 1)) * (this.hidden.has(part.name) ? 0.3 : 1);
        const from = left + (wide * bin) / present.length;
        const high = (BAND * value) / 255;
        context.fillRect(from, top + BAND - high, wide / present.length + 0.4, high);
      });
      context.globalAlpha = 1;
      context.fillStyle = style.getPropertyValue("--bad");
      for (const frame of this.jumps(part.name)) {
        context.fillRect(left + (wide * (frame + 0.5)) / meta.num_frames - 1, top - 2, 2, BAND + 4);
      }
    });
    if (this.distances) this.drawDistances(context, style, left, wide);
    const x = left + (wide * (this.frame + 0.5)) / meta.num_frames;
    context.fillStyle = style.getPropertyValue("--ink");
    context.fillRect(x - 1, 0, 2, this.height);
    context.beginPath();
    context.arc(x, this.height - 4, 4, 0, 7);
    context.fill();
  }

  jumps(part) {
    const frames = this.meta.quality?.parts?.[part]?.jump_frames || [];
    const rows = this.meta.frame_indices || [];
    return frames.map((frame) => rows.indexOf(frame)).filter((row) => row >= 0);
  }

  drawDistances(context, style, left, wide) {
    const top = this.parts.length * (BAND + GAP) + GAP + 6;
    const most = Math.max(1e-6, ...this.distances.filter(Number.isFinite));
    context.fillStyle = style.getPropertyValue("--well");
    context.fillRect(left, top, wide, CURVE);
    context.strokeStyle = style.getPropertyValue("--accent");
    context.lineWidth = 1.5;
    context.beginPath();
    let isDown = false;
    this.distances.forEach((value, frame) => {
      if (this.rows?.[frame] < 0) return; // one of every few was taken there: the line goes on
      if (!Number.isFinite(value)) {
        isDown = false;
        return;
      }
      const x = left + (wide * (frame + 0.5)) / this.distances.length;
      const y = top + CURVE - 3 - ((CURVE - 6) * value) / most;
      if (isDown) context.lineTo(x, y);
      else context.moveTo(x, y);
      isDown = true;
    });
    context.stroke();
    context.fillStyle = style.getPropertyValue("--ink-2");
    context.fillText(`${most.toFixed(1)} px`, left ? 0 : 4, top + 8);
  }
}
