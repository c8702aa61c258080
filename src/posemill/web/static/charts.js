// Curves as SVG: lines over time or steps, with a grid, a legend and the value under the pointer.

import { h, s, tip } from "./dom.js";
import { number, t } from "./words.js";

const WIDTH = 640;
const EDGE = { left: 52, right: 12, top: 10, bottom: 26 };

/** Marks of an axis: round values that cover a range. */
export function ticks(low, high, count = 4) {
  if (!(high > low)) return [low];
  const raw = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= raw);
  const found = [];
  for (let value = Math.ceil(low / step) * step; value <= high + step * 1e-6; value += step)
    found.push(value);
  return found;
}

function short(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e6) return `${number(value / 1e6, size >= 1e7 ? 0 : 1)}M`;
  if (size >= 1e4) return `${number(value / 1e3)}k`;
  if (size < 1e-3) return value.toExponential(0);
  return String(Number(value.toPrecision(3)));
}

/**
 * A chart of lines.
 * lines: [{name, colour, points: [[x, y], …], faint, dashed, dots}]; options: title, height, zero,
 * most, xName, xText, yText.
 */
export function lineChart(lines, options = {}) {
  const height = options.height || 190;
  const known = lines.flatMap((line) => line.points.filter(([, y]) => Number.isFinite(y)));
  if (!known.length)
    return h(
      "figure",
      { class: "chart" },
      caption(options.title),
      h("p", { class: "quiet none" }, options.empty || t("nothing yet")),
    );
  let [x0, x1] = range(known.map(([x]) => x));
  let [y0, y1] = range(known.map(([, y]) => y));
  if (options.zero) y0 = Math.min(0, y0);
  if (options.most !== undefined) y1 = Math.max(options.most, y1);
  if (x1 === x0) x1 = x0 + 1;
  if (y1 === y0) {
    y1 += Math.abs(y1) * 0.1 || 1;
    y0 -= options.zero ? 0 : Math.abs(y0) * 0.1;
  }
  const wide = WIDTH - EDGE.left - EDGE.right;
  const high = height - EDGE.top - EDGE.bottom;
  const px = (x) => EDGE.left + (wide * (x - x0)) / (x1 - x0);
  const py = (y) => EDGE.top + high * (1 - (y - y0) / (y1 - y0));
  const xText = options.xText || short;
  const yText = options.yText || short;
  const grid = [
    ...ticks(y0, y1).map((y) => [
      s("line", { x1: EDGE.left, x2: WIDTH - EDGE.right, y1: py(y), y2: py(y) }),
      s("text", { "x": EDGE.left - 7, "y": py(y) + 4, "text-anchor": "end" }, yText(y)),
    ]),
    ...ticks(x0, x1, 5).map((x) =>
      s("text", { "x": px(x), "y": height - 8, "text-anchor": "middle" }, xText(x)),
    ),
  ];
  const drawn = lines.map((line) => [
    s("path", {
      "d": path(line.points, px, py),
      "stroke": line.colour,
      "fill": "none",
      "class": `line${line.faint ? " faint" : ""}`,
      "stroke-dasharray": line.dashed ? "5 4" : null,
    }),
    line.dots || line.points.length < 13
      ? line.points
          .filter(([, y]) => Number.isFinite(y))
          .map(([x, y]) => s("circle", { cx: px(x), cy: py(y), r: 2.6, fill: line.colour }))
      : null,
  ]);
  const cursor = s("line", {
    class: "cursor",
    y1: EDGE.top,
    y2: height - EDGE.bottom,
    x1: -9,
    x2: -9,
  });
  const picture = s(
    "svg",
    { "viewBox": `0 0 ${WIDTH} ${height}`, "role": "img", "aria-label": options.title || "" },
    s("g", { class: "grid" }, grid),
    drawn,
    cursor,
  );
  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const x =
      x0 + ((event.clientX - box.left) * (WIDTH / box.width) - EDGE.left) * ((x1 - x0) / wide);
    const said = lines
      .filter((line) => !line.faint && line.points.length)
      .map((line) => {
        const near = nearest(line.points, x);
        return `${line.name} ${number(near[1], Math.abs(near[1]) < 10 ? 4 : 1)}`;
      });
    const at = nearest(known, x)[0];
    cursor.setAttribute("x1", px(at));
    cursor.setAttribute("x2", px(at));
    tip(
      `${options.xName || ""} ${xText(at)}   ${said.slice(0, 6).join("   ")}`.trim(),
      event.clientX,
      event.clientY,
    );
  });
  picture.addEventListener("pointerleave", () => {
    tip(null);
    cursor.setAttribute("x1", -9);
    cursor.setAttribute("x2", -9);
  });
  const named = lines.filter((line) => line.name && !line.faint);
  return h(
    "figure",
    { class: "chart" },
    caption(options.title),
    picture,
    named.length > 1 || options.legend
      ? h(
          "div",
          { class: "legend" },
          named.map((line) =>
            h("span", {}, h("i", { style: { background: line.colour } }), line.name),
          ),
        )
      : null,
  );
}

function caption(title) {
  return title ? h("figcaption", {}, title) : null;
}

function range(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

function path(points, px, py) {
  let text = "";
  let isDown = false;
  for (const [x, y] of points) {
    if (!Number.isFinite(y)) {
      isDown = false;
      continue;
    }
    text += `${isDown ? "L" : "M"}${px(x).toFixed(1)} ${py(y).toFixed(1)}`;
    isDown = true;
  }
  return text;
}

function nearest(points, x) {
  return points.reduce(
    (best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best),
    points[0],
  );
}
