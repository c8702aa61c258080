// The frame around all pages: which one is shown, in which language, light or dark.

import { h, put } from "./dom.js";
import { getJson } from "./net.js";
import { language, setLanguage, t } from "./words.js";
import { showHome } from "./home.js";
import { showRun } from "./run.js";
import { showClips } from "./clips.js";
import { showClip } from "./player.js";

const PAGES = { "": showHome, "run": showRun, "clips": showClips, "clip": showClip };
const main = document.getElementById("main");
let ending = new AbortController();
export const site = { version: "", folders: [], allow_actions: false };

/** What the address says: the page, the run's key, and the rest. */
export function route() {
  const [path, rest] = location.hash.replace(/^#\/?/, "").split("?", 2);
  const [page, key] = path.split("/");
  return { page: page || "", key: key || "", values: new URLSearchParams(rest || "") };
}

function show() {
  ending.abort();
  ending = new AbortController();
  const { page, key, values } = route();
  const draw = PAGES[page] || showHome;
  put(main, h("p", { class: "quiet loading" }, t("loading …")));
  header();
  scrollTo(0, 0);
  draw({ main, key, values, signal: ending.signal, crumbs });
}

/** Puts the way to a page into the header, and its name into the window's title. */
function crumbs(...steps) {
  const way = [
    h("a", { href: "#/", class: "brand" }, mark(), "posemill"),
    ...steps.map(([text, href]) => [
      h("span", { "class": "sep", "aria-hidden": "true" }, "/"),
      href ? h("a", { href }, text) : h("span", { class: "here" }, text),
    ]),
  ];
  put(document.getElementById("way"), way);
  document.title = [...steps.map(([text]) => text).reverse(), "posemill"].join(" · ");
}

function mark() {
  return h("img", { src: "/static/icon.svg", alt: "", width: 22, height: 22 });
}

function header() {
  const theme = document.documentElement.dataset.theme;
  put(
    document.getElementById("top"),
    h(
      "nav",
      { "id": "way", "aria-label": t("where you are") },
      h("a", { href: "#/", class: "brand" }, mark(), "posemill"),
    ),
    h(
      "div",
      { class: "switches" },
      h(
        "button",
        {
          type: "button",
          class: "plain",
          id: "language",
          lang: language() === "zh" ? "en" : "zh",
          on: {
            click: () => {
              setLanguage(language() === "zh" ? "en" : "zh");
              show();
            },
          },
        },
        language() === "zh" ? "English" : "中文",
      ),
      h(
        "button",
        {
          "type": "button",
          "class": "plain",
          "id": "theme",
          "aria-label": t("light or dark"),
          "on": {
            click: () => {
              setTheme(theme === "dark" ? "light" : "dark");
              header();
              show();
            },
          },
        },
        t(theme === "dark" ? "light" : "dark"),
      ),
    ),
  );
  const skip = document.getElementById("skip");
  skip.textContent = t("to the content");
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  try {
    localStorage.setItem("theme", name);
  } catch {
    /* a private window */
  }
}

function firstTheme() {
  let kept = null;
  try {
    kept = localStorage.getItem("theme");
  } catch {
    /* a private window */
  }
  return kept || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

document.documentElement.dataset.theme = firstTheme();
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", show);
getJson("/api/site")
  .then((found) => Object.assign(site, found))
  .catch(() => {})
  .finally(show);
