// Elements made of words: text is always a text node, never markup, wherever it came from.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") {
      for (const [event, handler] of Object.entries(value))
        element.addEventListener(event, handler);
    } else if (name === "style") {
      for (const [key, each] of Object.entries(value)) element.style.setProperty(key, each);
    } else if (name === "data") {
      Object.assign(element.dataset, value);
    } else if (name in element && (name === "value" || name === "checked" || name === "disabled")) {
      element[name] = value;
    } else {
      if (name === "href" && !/^(#|\/(?!\/))/.test(value)) continue; // only places of this server
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false || child === "") continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** An HTML element: h("a", {href: "#/"}, "text", [more]). */
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** An SVG element. */
export function s(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

/** Puts new children into an element; what had the focus has it again. */
export function put(element, ...children) {
  const focused = element.contains(document.activeElement) && document.activeElement.dataset.focus;
  element.replaceChildren();
  append(element, children);
  if (focused) element.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
}

/** Shows a note beside the pointer; null hides it. */
export function tip(text, x = 0, y = 0) {
  const element = document.getElementById("tip");
  element.hidden = !text;
  if (!text) return;
  element.textContent = text;
  const width = element.offsetWidth;
  element.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - width - 8))}px`;
  element.style.top = `${Math.max(4, y - element.offsetHeight - 8)}px`;
}

/** A button that copies a text. */
export function copyButton(text, label, done) {
  const button = h("button", { type: "button", class: "small", on: { click: copy } }, label);
  async function copy() {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = h("textarea", { class: "offscreen", value: text });
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = done;
    setTimeout(() => {
      button.textContent = label;
    }, 1500);
  }
  return button;
}
