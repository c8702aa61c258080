// The words of the page in English and Chinese; the English ones are the keys.

import { ZH } from "./words_zh.js";

let current = first();

function first() {
  let kept = null;
  try {
    kept = localStorage.getItem("language");
  } catch {
    /* a private window */
  }
  const wanted = kept || (navigator.languages || [navigator.language])[0] || "en";
  return wanted.toLowerCase().startsWith("zh") ? "zh" : "en";
}

function apply() {
  document.documentElement.lang = current === "zh" ? "zh-CN" : "en";
}
apply();

export const language = () => current;

export function setLanguage(name) {
  current = name;
  apply();
  try {
    localStorage.setItem("language", name);
  } catch {
    /* a private window */
  }
}

/** A text in the reader's language; {0}, {1} … stand for the values, {0:clip|clips} for so many. */
export function t(text, ...values) {
  const said = (current === "zh" && ZH[text]) || text;
  return said.replace(/\{(\d)(?::(\w+)\|(\w+))?\}/g, (_, place, one, several) => {
    const value = values[Number(place)];
    if (!one) return value;
    return `${value} ${String(value) === "1" ? one : several}`;
  });
}

/** A number as people write it. */
export function number(value, digits = 0) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return value.toLocaleString(current === "zh" ? "zh-CN" : "en-GB", {
    maximumFractionDigits: digits,
    minimumFractionDigits: digits,
  });
}

export function percent(share, digits = 0) {
  if (share === null || share === undefined) return "–";
  if (share > 0 && share < 0.005 && !digits) return "<1 %";
  if (share < 1 && share > 0.995 && !digits) return "99 %";
  return `${(share * 100).toFixed(digits)} %`;
}

/** `2 h 3 min`, `41 s`. */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.round(seconds);
  if (whole < 60) return t("{0} s", whole);
  if (whole < 3600) return t("{0} min {1} s", Math.floor(whole / 60), whole % 60);
  if (whole < 86400 * 2)
    return t("{0} h {1} min", Math.floor(whole / 3600), Math.floor(whole / 60) % 60);
  return t("{0} days {1} h", Math.floor(whole / 86400), Math.floor(whole / 3600) % 24);
}

export function moment(text) {
  if (!text) return "";
  const date = new Date(text);
  if (Number.isNaN(date.getTime())) return String(text);
  return date.toLocaleString(current === "zh" ? "zh-CN" : "en-GB", {
    dateStyle: "medium",
    timeStyle: "short",
  });
}

const part = (options) => (text) => {
  const date = new Date(text || NaN);
  return Number.isNaN(date.getTime())
    ? ""
    : date.toLocaleString(current === "zh" ? "zh-CN" : "en-GB", options);
};
export const day = (text) =>
  part({ year: "numeric", month: current === "zh" ? "numeric" : "short", day: "numeric" })(text);
export const clockTime = part({ timeStyle: "short" });

/** `left hand` for `left_hand`, in the reader's language. */
export const partName = (name) => t(String(name).replaceAll("_", " "));
