// The canvas: a picture, the skeleton over it, zoomed and moved.

const SURE = 0.5; // a point with a lower score is drawn faint
const GROUND = "#1b1e24";
const RIM = "#101216";

/** Where x and y of a clip are, in shares of its picture; clips scaled for a model are fitted in. */
export function placer(meta, aspect) {
  if (!meta.bounds) return (x, y) => [x, y];
  const [[lowX, lowY], [highX, highY]] = meta.bounds;
  const scale =
    0.9 * Math.min(aspect / Math.max(highX - lowX, 1e-6), 1 / Math.max(highY - lowY, 1e-6));
  return (x, y) => [
    ((x - (lowX + highX) / 2) * scale) / aspect + 0.5,
    (y - (lowY + highY) / 2) * scale + 0.5,
  ];
}

/** Width over height of a clip's pictures. */
export function aspectOf(meta) {
  const [width, height] = meta.size_wh;
  return !meta.bounds && width > 0 && height > 0 ? width / height : 4 / 3;
}

/**
 * Draws the points of one frame.
 * points: Float32Array of x, y, score; box: {left, top, width, height} of the picture on the canvas;
 * look: {hidden: Set of parts, isOther, thick, rim: colour around the lines}.
 */
export function drawPose(context, meta, points, box, look = {}) {
  const { skeleton } = meta;
  const place = placer(meta, aspectOf(meta));
  const hidden = new Uint8Array(skeleton.num_points);
  for (const part of skeleton.parts)
    if (look.hidden?.has(part.name)) hidden.fill(1, part.start, part.stop);
  const at = new Float32Array(skeleton.num_points * 2);
  for (let index = 0; index < skeleton.num_points; index += 1) {
    const x = points[3 * index];
    const isThere =
      !hidden[index] &&
      Number.isFinite(x) &&
      Math.abs(x) < 20 &&
      Math.abs(points[3 * index + 1]) < 20;
    const [u, v] = isThere ? place(x, points[3 * index + 1]) : [NaN, NaN];
    at[2 * index] = box.left + u * box.width;
    at[2 * index + 1] = box.top + v * box.height;
  }
  const unit = (look.thick || 1) * Math.max(1, Math.min(box.width, box.height) / 420);
  context.lineCap = "round";
  context.setLineDash(look.isOther ? [4 * unit, 3 * unit] : []);
  skeleton.bones.forEach(([one, other], number) => {
    if (!(at[2 * one] === at[2 * one]) || !(at[2 * other] === at[2 * other])) return;
    const isSure = Math.min(points[3 * one + 2], points[3 * other + 2]) >= SURE;
    const isFace = partOf(skeleton, one).name === "face";
    context.globalAlpha = (isSure ? 1 : 0.4) * (isFace ? 0.75 : 1);
    context.beginPath();
    context.moveTo(at[2 * one], at[2 * one + 1]);
    context.lineTo(at[2 * other], at[2 * other + 1]);
    context.strokeStyle = look.rim || RIM;
    context.lineWidth = (isFace ? 1.6 : 3.6) * unit;
    if (!look.isOther && !isFace) context.stroke();
    context.strokeStyle = look.isOther
      ? lighter(skeleton.bone_colours[number])
      : skeleton.bone_colours[number];
    context.lineWidth = (isFace ? 1 : 2.2) * unit;
    context.stroke();
  });
  context.setLineDash([]);
  for (const part of skeleton.parts) {
    const radius =
      (part.name === "face"
        ? part.stop - part.start > 100
          ? 0.8
          : 1.5
        : part.name.endsWith("hand")
          ? 2.2
          : 3.2) * unit;
    for (let index = part.start; index < part.stop; index += 1) {
      if (!(at[2 * index] === at[2 * index])) continue;
      context.globalAlpha = points[3 * index + 2] >= SURE ? 1 : 0.45;
      context.beginPath();
      context.arc(at[2 * index], at[2 * index + 1], radius, 0, 7);
      context.fillStyle = look.isOther
        ? lighter(skeleton.point_colours[index])
        : skeleton.point_colours[index];
      context.fill();
      if (radius > 2) {
        context.strokeStyle = look.isOther ? "#fff" : look.rim || RIM;
        context.lineWidth = 0.8 * unit;
        context.stroke();
      }
    }
  }
  context.globalAlpha = 1;
  return at;
}

const partOf = (skeleton, index) => skeleton.parts.find((part) => index < part.stop);

function lighter(colour) {
  const value = parseInt(colour.slice(1), 16);
  const mix = (shift) => Math.round((((value >> shift) & 255) + 255) / 2);
  return `rgb(${mix(16)}, ${mix(8)}, ${mix(0)})`;
}

/** A canvas on which frames are drawn; wheel and drag zoom and move. */
export class Stage {
  constructor(canvas, meta, onChange) {
    Object.assign(this, { canvas, meta, onChange });
    this.aspect = aspectOf(meta);
    this.reset();
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const box = canvas.getBoundingClientRect();
        this.zoomAt(
          event.clientX - box.left,
          event.clientY - box.top,
          Math.exp(-event.deltaY / 400),
        );
      },
      { passive: false },
    );
    const held = new Map();
    canvas.addEventListener("pointerdown", (event) => {
      held.set(event.pointerId, [event.clientX, event.clientY]);
      canvas.setPointerCapture(event.pointerId);
    });
    const drop = (event) => held.delete(event.pointerId);
    canvas.addEventListener("pointerup", drop);
    canvas.addEventListener("pointercancel", drop);
    canvas.addEventListener("pointermove", (event) => {
      const before = held.get(event.pointerId);
      if (!before) return;
      if (held.size === 2) this.pinch(held, event);
      else this.move(event.clientX - before[0], event.clientY - before[1]);
      held.set(event.pointerId, [event.clientX, event.clientY]);
    });
    canvas.addEventListener("dblclick", () => this.reset());
  }

  pinch(held, event) {
    const others = [...held].find(([id]) => id !== event.pointerId)[1];
    const before = held.get(event.pointerId);
    const far = ([x, y]) => Math.hypot(x - others[0], y - others[1]);
    const box = this.canvas.getBoundingClientRect();
    const middle = [
      (others[0] + event.clientX) / 2 - box.left,
      (others[1] + event.clientY) / 2 - box.top,
    ];
    this.zoomAt(...middle, far([event.clientX, event.clientY]) / Math.max(1, far(before)));
  }

  reset() {
    this.scale = 1;
    this.dx = 0;
    this.dy = 0;
    this.onChange?.();
  }

  move(x, y) {
    if (this.scale === 1) return;
    this.dx += x;
    this.dy += y;
    this.onChange();
  }

  zoomAt(x, y, factor) {
    const scale = Math.min(20, Math.max(1, this.scale * factor));
    const grown = scale / this.scale;
    this.dx = x - (x - this.dx) * grown;
    this.dy = y - (y - this.dy) * grown;
    this.scale = scale;
    if (scale === 1) {
      this.dx = 0;
      this.dy = 0;
    }
    this.onChange();
  }

  /** The place of the picture on the canvas, in CSS pixels. */
  box() {
    const wide = this.canvas.clientWidth;
    const high = this.canvas.clientHeight;
    const width = Math.min(wide, high * this.aspect);
    const height = width / this.aspect;
    return {
      left: ((wide - width) / 2) * this.scale + this.dx,
      top: ((high - height) / 2) * this.scale + this.dy,
      width: width * this.scale,
      height: height * this.scale,
    };
  }

  /** Draws a frame; returns where its points are, in CSS pixels. */
  draw(frame, picture, layers) {
    const ratio = devicePixelRatio || 1;
    const { canvas } = this;
    const [width, height] = [
      Math.round(canvas.clientWidth * ratio),
      Math.round(canvas.clientHeight * ratio),
    ];
    if (canvas.width !== width || canvas.height !== height) {
      canvas.width = width;
      canvas.height = height;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = GROUND;
    context.fillRect(0, 0, canvas.clientWidth, canvas.clientHeight);
    const box = this.box();
    if (picture) context.drawImage(picture, box.left, box.top, box.width, box.height);
    else {
      context.strokeStyle = "#343a44";
      context.lineWidth = 1;
      context.strokeRect(box.left, box.top, box.width, box.height);
    }
    const places = layers.map(({ meta, points, look }) =>
      points ? drawPose(context, meta, points, box, look) : null,
    );
    Object.assign(canvas.dataset, {
      frame,
      box: [box.left, box.top, box.width, box.height].join(","),
      picture: picture ? "1" : "0",
    });
    return places;
  }
}
