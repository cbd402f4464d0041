// Every pipeline of the storage.
import { ago, clock, el, facts, fill, number, span } from "./dom.js";

export function overview(main) {
  const list = el("div", { class: "cards" });
  fill(main, el("h1", {}, "Pipelines"), list);
  return {
    pipeline: "",
    handlers: { overview: (views) => fill(list, views.length ? views.map(card) : el("p", {}, "No pipeline has run here yet.")) },
    end() {},
  };
}

function card(view) {
  const rate = view.queries.reduce((sum, query) => sum + query.input_per_second, 0);
  const behind = Math.max(0, ...view.queries.map((query) => query.seconds_behind ?? 0));
  return el("article", { class: "card", "data-pipeline": view.name },
    el("h3", {}, el("a", { href: `#/p/${view.name}` }, view.name), " ", el("span", { class: `state ${view.state}` }, view.state)),
    facts([
      ["rows/s in", number(rate)],
      ["rows behind", number(view.rows_behind)],
      ["time behind", behind ? span(behind) : "–"],
      ["queries", number(view.queries.length)],
      ["restarts", number(view.restarts)],
      ["last batch", ago(Math.max(0, ...view.queries.map((query) => query.at)))],
      ["since", clock(view.since)],
    ]),
    view.last_error && el("p", { class: "wrong" }, view.last_error));
}
