// Shows the part of the page that the address names, with the messages that it subscribes to.
import { logIn, stream } from "./api.js";
import { el, fill, updateAges } from "./dom.js";
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
  close = stream(part.pipeline, part.handlers, showConnection);
}

function trail() {
  const [, , name, what] = location.hash.split("/").map(decodeURIComponent);
  document.title = name ? `${name} · Penstock` : "Penstock";
  fill(document.getElementById("trail"), name && [" / ", el("a", { href: `#/p/${encodeURIComponent(name)}` }, name)], what && ` / ${what}`);
}

function showConnection(ok) {
  const link = document.getElementById("link");
  link.textContent = ok ? "connected" : "not connected; reconnecting";
  link.dataset.ok = ok ? "yes" : "no";
}

function stored() {
  try { return localStorage.getItem("theme"); } catch { return null; }
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  try { localStorage.setItem("theme", name); } catch { /* not available in a private window */ }
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
setInterval(updateAges, 1000);
logIn().then(show, (error) => {
  showConnection(false);
  fill(main, el("h1", {}, "Not logged in"), el("p", { class: "wrong" }, error.message));
});
