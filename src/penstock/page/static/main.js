// Which part is shown follows from the address; each part says what it wants to hear of.
import { enter, stream } from "./api.js";
import { el, fill, tellAges } from "./dom.js";
import { explore } from "./explore.js";
import { overview } from "./overview.js";
import { pipeline } from "./pipeline.js";

const main = document.getElementById("main");
let part = null;
let close = () => {};

function route() {
  const [, , name, what, step, bad] = location.hash.split("/").map(decodeURIComponent);
  if (!name) return overview(main);
  return what === "explore" ? explore(main, name, step, bad === "bad") : pipeline(main, name);
}

function show() {
  close();
  part?.end();
  part = route();
  trail();
  close = stream(part.pipeline, part.handlers, linked);
}

function trail() {
  const [, , name, what] = location.hash.split("/").map(decodeURIComponent);
  document.title = name ? `${name} · Penstock` : "Penstock";
  fill(document.getElementById("trail"), name && [" / ", el("a", { href: `#/p/${encodeURIComponent(name)}` }, name)], what && ` / ${what}`);
}

function linked(ok) {
  const link = document.getElementById("link");
  link.textContent = ok ? "connected" : "not connected; trying again";
  link.dataset.ok = ok ? "yes" : "no";
}

function stored() {
  try { return localStorage.getItem("theme"); } catch { return null; }
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  try { localStorage.setItem("theme", name); } catch { /* a private window keeps nothing, and needs nothing kept */ }
  dispatchEvent(new Event("recolour"));
}

function toggle() {
  theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");
}

document.documentElement.dataset.theme = stored() ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
document.getElementById("theme").addEventListener("click", toggle);
addEventListener("keydown", (event) => {
  if (event.key === "t" && !/INPUT|TEXTAREA|SELECT/.test(event.target.tagName) && !event.ctrlKey && !event.metaKey) toggle();
});
addEventListener("hashchange", show);
setInterval(tellAges, 1000);
enter().then(show, (error) => {
  linked(false);
  fill(main, el("h1", {}, "Who is there?"), el("p", { class: "wrong" }, error.message));
});
