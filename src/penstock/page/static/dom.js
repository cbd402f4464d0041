// Builds elements. Text is only ever set as text, so HTML in a record is not interpreted.
export function el(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  add(made, children);
  return made;
}

export function svg(tag, props = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) made.setAttribute(name, String(value));
  add(made, children);
  return made;
}

function add(parent, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function fill(parent, ...children) {
  parent.replaceChildren();
  add(parent, children);
}

export function number(value, digits = 0) {
  if (value === null || value === undefined) return "–";
  return Number(value).toLocaleString("en", { maximumFractionDigits: digits });
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  for (const [unit, length] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= length) return `${(seconds / length).toFixed(1)} ${unit}`;
  }
  return `${Math.max(0, seconds).toFixed(seconds < 10 ? 1 : 0)} s`;
}

// How long ago something was; `updateAges` keeps it current.
export function ago(seconds) {
  const made = el("span", { "data-at": seconds || null });
  updateAge(made);
  return made;
}

export function updateAges() {
  document.querySelectorAll("[data-at]").forEach(updateAge);
}

function updateAge(element) {
  const at = Number(element.dataset.at ?? 0);
  element.textContent = at ? `${span(Math.max(0, Math.floor(Date.now() / 1000 - at)))} ago` : "–";
}

export function bytes(count) {
  for (const [unit, length] of [["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (count >= length) return `${(count / length).toFixed(1)} ${unit}`;
  }
  return `${number(count)} B`;
}

export function clock(seconds) {
  return seconds ? new Date(seconds * 1000).toISOString().slice(0, 19).replace("T", " ") : "–";
}

export function facts(pairs) {
  return el("dl", { class: "numbers" }, pairs.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
}
