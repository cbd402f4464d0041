// One pipeline: its graph, its queries over time, its events and its bad records.
import { timeChart } from "./charts.js";
import { ago, bytes, clock, el, facts, fill, number, span } from "./dom.js";
import { graph } from "./graph.js";

const PHASES = ["planning", "reading", "state", "writing", "commit", "other"];
const CHARTS = [
  ["Rows per second", [["arriving", (p) => p.input_per_second], ["processed", (p) => p.processed_per_second]]],
  ["Seconds of a batch", PHASES.map((name) => [name, (p) => p[name]]), true],
  ["Rows behind", [["rows", (p) => p.rows_behind]]],
  ["Seconds behind", [["seconds", (p) => p.seconds_behind]]],
  ["Rows of state", [["rows", (p) => p.state_rows]]],
  ["Watermark behind the clock, seconds", [["seconds", (p) => p.watermark_delay_seconds]]],
  ["Dropped", [["late rows", (p) => p.late_rows], ["bad records", (p) => p.bad_records]]],
];

export function pipeline(main, name) {
  const parts = {
    head: el("div"), drawn: el("div", { class: "scroll" }), queries: el("div"), bad: el("div"), events: el("tbody"),
  };
  fill(main, parts.head, el("h2", {}, "Graph"), parts.drawn, parts.queries, el("h2", {}, "Bad records"), parts.bad,
    el("h2", {}, "Events"), el("div", { class: "scroll", tabindex: 0 }, el("table", {},
      el("caption", {}, "Events other than batches, the newest first; times are UTC"),
      el("thead", {}, el("tr", {}, ["time", "event", "description"].map((each) => el("th", { scope: "col" }, each)))), parts.events)));
  const state = { names: [], points: {}, sinks: new Map() };
  const handlers = {
    series: ({ values, points }) => { state.names = values; state.points = {}; take(state, points); },
    points: (points) => { take(state, points); draw(state); },
    view: (view) => { show(parts, view, name); queries(state, parts.queries, view); draw(state); },
    events: (events) => fill(parts.events, [...events].reverse().map(eventRow)),
    unknown: () => fill(main, el("p", { class: "wrong" }, "Unknown pipeline.")),
  };
  const resize = () => state.sinks.forEach((charts) => charts.forEach((chart) => chart.resize()));
  addEventListener("resize", resize);
  const recolour = () => { state.sinks.forEach((charts) => charts.forEach((chart) => chart.end())); draw(state); };
  addEventListener("recolour", recolour);
  return {
    pipeline: name, handlers,
    end() { removeEventListener("resize", resize); removeEventListener("recolour", recolour); state.sinks.forEach((charts) => charts.forEach((chart) => chart.end())); },
  };
}

function take(state, points) {
  for (const [sink, rows] of Object.entries(points)) {
    const made = rows.map((row) => Object.fromEntries(row.map((value, at) => [state.names[at], value])));
    const before = state.points[sink] ?? [];
    const last = before.at(-1)?.at ?? 0;
    // A new viewer gets all points, and may get the newest ones twice.
    state.points[sink] = [...before, ...made.filter((point) => point.at > last)].slice(-2000);
  }
}

function show(parts, view, name) {
  const exploreLink = (node) => `#/p/${name}/explore/${node.role === "sink" ? node.reads[0] : node.name}`;
  fill(parts.head,
    el("h1", {}, view.name, " ", el("span", { class: `state ${view.state}` }, view.state)),
    el("p", { class: "row" }, el("a", { href: `#/p/${name}/explore` }, "Explore"), el("span", { class: "dim" },
      `since ${clock(view.since)} · ${view.failures} failures · ${view.restarts} restarts`)),
    view.last_error && el("p", { class: "wrong" }, `${clock(view.last_error_at)}: ${view.last_error}`));
  const focused = parts.drawn.contains(document.activeElement) ? document.activeElement.dataset.node : null;
  fill(parts.drawn, view.nodes.length ? graph(view, exploreLink) : el("p", { class: "dim" }, "The graph is known after the next start."));
  if (focused) [...parts.drawn.querySelectorAll("[data-node]")].find((each) => each.dataset.node === focused)?.focus();
  fill(parts.bad, badTable(view, name));
}

function queries(state, place, view) {
  for (const query of view.queries) {
    let section = [...place.children].find((each) => each.dataset.sink === query.sink);
    if (!section) { section = build(state, query.sink); place.append(section); }
    fill(section.querySelector(".facts"), summary(query));
  }
}

function build(state, sink) {
  const charts = [];
  const cards = CHARTS.map(([title, lines, stacked]) => {
    const place = el("div", { class: "chart", role: "img", "data-name": title });
    charts.push(timeChart(place, lines.map(([name, of]) => ({ name, of })), stacked));
    return el("div", { class: "card" }, el("h3", {}, title), place);
  });
  state.sinks.set(sink, charts);
  return el("section", { "data-sink": sink }, el("h2", {}, `Sink ${sink}`), el("div", { class: "facts" }), el("div", { class: "charts" }, cards));
}

function summary(query) {
  const partitions = Object.entries(query.behind).flatMap(([source, each]) => Object.entries(each).map(([name, rows]) => [source, name, rows]));
  return [
    facts([
      ["batch", number(query.batch)], ["last batch", ago(query.at)], ["rows/s in", number(query.input_per_second)], ["rows/s processed", number(query.processed_per_second)],
      ["rows/s out", number(query.output_per_second)], ["batch took", span(query.seconds)], ["rows behind", number(query.rows_behind)],
      ["time behind", span(query.seconds_behind)], ["watermark", query.watermark.replace("T", " ").replace(".000Z", "") || "–"],
      ["state", `${number(query.state_rows)} rows, ${bytes(query.state_memory_bytes)}`], ["rows in all", number(query.rows_in)],
      ["late rows", number(query.late_rows)], ["restarts", number(query.restarts)],
    ]),
    query.promise && el("p", { class: "dim" }, `Promise: ${query.promise}`),
    query.last_error && el("p", { class: "wrong" }, query.last_error),
    partitions.length > 0 && el("details", {}, el("summary", {}, `Behind by partition (${partitions.length})`), el("table", {}, el("tbody", {},
      partitions.slice(0, 500).map(([source, name, rows]) => el("tr", {}, el("td", {}, source), el("td", {}, name), el("td", { class: "number" }, number(rows))))))),
  ];
}

function badTable(view, name) {
  const found = view.queries.flatMap((query) => Object.entries(query.bad_records).map(([source, count]) => [query.sink, source, count]));
  if (!found.length) return el("p", { class: "dim" }, "None. With bad_records: fail, the first one stops the pipeline, and the events say why.");
  return el("table", { class: "bad" }, el("thead", {}, el("tr", {}, ["sink", "source", "dropped", "reasons"].map((each) => el("th", { scope: "col" }, each)))),
    el("tbody", {}, found.map(([sink, source, count]) => el("tr", {}, el("td", {}, sink), el("td", {}, source), el("td", { class: "number" }, number(count)),
      el("td", {}, el("a", { href: `#/p/${name}/explore/${source}/bad` }, "show them with their reasons"))))));
}

function eventRow(event) {
  return el("tr", { class: event.level }, el("td", {}, event.at.slice(0, 19).replace("T", " ")), el("td", {}, event.what), el("td", {}, event.sentence));
}

function draw(state) {
  state.sinks.forEach((charts, sink) => charts.forEach((chart) => chart.show(state.points[sink] ?? [])));
}
