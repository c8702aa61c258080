// Points and pictures of a clip, fetched in windows ahead of who looks at them.

import { getBytes, query } from "./net.js";

const PICTURES = 20; // of a window
const MOST_WINDOWS = 8;
const MOST_PICTURES = 240;
const RETRY_MS = 2000;

/** The keypoints of a clip: x, y and score of every point, frame by frame. */
export class PointSource {
  constructor(key, meta, signal, onLoad) {
    Object.assign(this, { key, meta, signal, onLoad });
    this.windows = new Map();
    this.reason = ""; // why points did not come
    this.retryAt = 0;
    this.width = meta.skeleton.num_points * 3;
    this.path = "points";
  }

  /** What the bytes of a window are. */
  unpack(bytes) {
    return new Float32Array(bytes);
  }

  /** Float32Array of a frame, null while it is on its way. */
  get(frame) {
    const number = Math.floor(frame / this.meta.window);
    const found = this.load(number);
    if (frame % this.meta.window > this.meta.window * 0.6) this.load(number + 1);
    if (!found) return null;
    const start = (frame - number * this.meta.window) * this.width;
    return found.length >= start + this.width ? found.subarray(start, start + this.width) : null;
  }

  load(number) {
    const start = number * this.meta.window;
    if (start >= this.meta.num_frames) return null;
    if (!this.windows.has(number)) {
      if (performance.now() < this.retryAt) return null;
      this.windows.set(number, null);
      if (this.windows.size > MOST_WINDOWS) this.windows.delete(this.windows.keys().next().value);
      const { split, clip_id: id } = this.meta;
      getBytes(
        `/api/runs/${this.key}/${this.path}?${query({ split, id, start, count: this.meta.window })}`,
        this.signal,
      )
        .then((bytes) => {
          this.windows.set(number, this.unpack(bytes));
          this.reason = "";
          this.onLoad();
        })
        .catch((error) => {
          if (error.name === "AbortError") return;
          this.windows.delete(number);
          this.reason = error.message;
          this.retryAt = performance.now() + RETRY_MS;
          setTimeout(this.onLoad, RETRY_MS); // draws, and so asks again
          this.onLoad();
        });
    }
    return this.windows.get(number);
  }
}

/** The people beside the one who stands for a frame, and who everybody is. */
export class PeopleSource extends PointSource {
  constructor(...about) {
    super(...about);
    this.path = "people";
  }

  unpack(bytes) {
    const [frames, people] = new Int32Array(bytes, 0, 2);
    const numbers = new Int32Array(bytes, 8, 2 * frames + people);
    const starts = [0];
    for (let row = 0; row < frames; row += 1) starts.push(starts[row] + numbers[row]);
    return {
      starts,
      first: numbers.subarray(frames, 2 * frames),
      ids: numbers.subarray(2 * frames),
      points: new Float32Array(bytes, 8 + 4 * numbers.length),
    };
  }

  /** {first: id, others: [[id, points]]} of a frame, null while it is on its way. */
  get(frame) {
    const number = Math.floor(frame / this.meta.window);
    const found = this.load(number);
    if (frame % this.meta.window > this.meta.window * 0.6) this.load(number + 1);
    const row = frame - number * this.meta.window;
    if (!found || row >= found.first.length) return null;
    const others = [];
    for (let person = found.starts[row]; person < found.starts[row + 1]; person += 1)
      others.push([
        found.ids[person],
        found.points.subarray(person * this.width, (person + 1) * this.width),
      ]);
    return { first: found.first[row], others };
  }
}

/** The original frames of a clip as pictures; `isGone` where there are none. */
export class PictureSource {
  constructor(key, meta, signal, onLoad, side = 960) {
    Object.assign(this, { key, meta, signal, onLoad, side });
    this.pictures = new Map(); // frame -> ImageBitmap, or null where it is gone
    this.asked = new Set();
    this.isGone = Boolean(meta.bounds);
  }

  /** The picture of a frame; null where it is gone, undefined while it is on its way. */
  get(frame) {
    if (this.isGone) return null;
    const number = Math.floor(frame / PICTURES);
    this.load(number);
    if (frame % PICTURES > PICTURES * 0.3) this.load(number + 1);
    return this.pictures.get(frame);
  }

  load(number) {
    const start = number * PICTURES;
    if (start >= this.meta.num_frames || this.asked.has(number)) return;
    this.asked.add(number);
    const { split, clip_id: id } = this.meta;
    getBytes(
      `/api/runs/${this.key}/frames?${query({ split, id, start, count: PICTURES, side: this.side })}`,
      this.signal,
    )
      .then((bytes) => unpackPictures(bytes))
      .then((found) => {
        found.forEach((picture, index) => this.pictures.set(start + index, picture));
        if (found.every((picture) => picture === null) && start === 0) this.isGone = true;
        this.forget(number);
        this.onLoad();
      })
      .catch((error) => {
        if (error.name === "AbortError") return;
        for (let frame = start; frame < start + PICTURES; frame += 1)
          this.pictures.set(frame, null);
        this.reason = error.message;
        if (start === 0) this.isGone = true;
        this.onLoad();
      });
  }

  forget(near) {
    for (const number of this.asked) {
      if (this.pictures.size <= MOST_PICTURES) return;
      if (Math.abs(number - near) < 4) continue;
      this.asked.delete(number);
      for (let frame = number * PICTURES; frame < (number + 1) * PICTURES; frame += 1) {
        this.pictures.get(frame)?.close?.();
        this.pictures.delete(frame);
      }
    }
  }
}

/** ImageBitmaps out of one answer: how many, the bytes of each (0: gone), the JPEGs. */
export async function unpackPictures(bytes) {
  const view = new DataView(bytes);
  const count = view.getUint32(0, true);
  let place = 4 * (count + 1);
  const waiting = [];
  for (let index = 0; index < count; index += 1) {
    const size = view.getUint32(4 * (index + 1), true);
    const blob = size
      ? new Blob([new Uint8Array(bytes, place, size)], { type: "image/jpeg" })
      : null;
    waiting.push(blob ? createImageBitmap(blob).catch(() => null) : Promise.resolve(null));
    place += size;
  }
  return Promise.all(waiting);
}
