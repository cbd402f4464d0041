// The graph of a pipeline: sources on the left, sinks on the right, with the rates of the last batch.
import { number, svg } from "./dom.js";

const WIDE = 190, HIGH = 62, GAP = 60, APART = 18;

export function graph(view, choose) {
  const nodes = view.nodes.map((node) => ({ ...node, rate: rateOf(view, node) }));
  const depth = depths(nodes);
  const columns = [];
  for (const node of nodes) (columns[depth.get(node.name)] ??= []).push(node);
  const place = new Map();
  columns.forEach((column, x) => column.forEach((node, y) => place.set(node.name, [x * (WIDE + GAP) + 4, y * (HIGH + APART) + 4])));
  const width = columns.length * (WIDE + GAP) - GAP + 8;
  const height = Math.max(1, ...columns.map((column) => column.length)) * (HIGH + APART) - APART + 8;
  const drawn = svg("svg", { class: "graph", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": describe(nodes) });
  for (const node of nodes) for (const from of node.reads) if (place.has(from)) drawn.append(edge(place.get(from), place.get(node.name)));
  for (const node of nodes) drawn.append(box(node, place.get(node.name), choose));
  return drawn;
}

function depths(nodes) {
  const known = new Map(nodes.map((node) => [node.name, node]));
  const found = new Map();
  const of = (name, seen) => {
    if (found.has(name) || seen.has(name)) return found.get(name) ?? 0;
    seen.add(name);
    const reads = known.get(name).reads.filter((each) => known.has(each));
    const deep = reads.length ? 1 + Math.max(...reads.map((each) => of(each, seen))) : 0;
    found.set(name, deep);
    return deep;
  };
  nodes.forEach((node) => of(node.name, new Set()));
  const last = Math.max(0, ...found.values());
  nodes.filter((node) => node.role === "sink").forEach((node) => found.set(node.name, last));
  return found;
}

function sourcesOf(view, name, seen = new Set()) {
  const node = view.nodes.find((each) => each.name === name);
  if (!node || seen.has(name)) return [];
  seen.add(name);
  return node.role === "source" ? [name] : node.reads.flatMap((each) => sourcesOf(view, each, seen));
}

function inputOf(view, source) {
  return Math.max(0, ...view.queries.map((query) => query.input_per_second_by_source[source] ?? 0));
}

function rateOf(view, node) {
  if (node.role === "sink") {
    const query = view.queries.find((each) => each.sink === node.name);
    if (!query || query.batch === null) return "no batch yet";
    const out = query.output_per_second;
    return out === null ? `${number(query.processed_per_second)} rows/s done` : `${number(out)} rows/s out`;
  }
  if (node.static) return "static table";
  const rate = sourcesOf(view, node.name).reduce((sum, source) => sum + inputOf(view, source), 0);
  return `${number(rate)} rows/s in`;
}

function edge([x1, y1], [x2, y2]) {
  const [a, b, c, d] = [x1 + WIDE, y1 + HIGH / 2, x2, y2 + HIGH / 2];
  return svg("path", { d: `M${a} ${b}C${a + GAP / 2} ${b} ${c - GAP / 2} ${d} ${c} ${d}` });
}

function box(node, [x, y], choose) {
  const link = svg("a", { href: choose(node), "data-node": node.name, "aria-label": `${node.role} ${node.name}, ${node.kind}, ${node.rate}` });
  const short = node.name.length > 22 ? `${node.name.slice(0, 21)}…` : node.name;
  link.append(
    svg("rect", { x, y, width: WIDE, height: HIGH, rx: 8 }),
    svg("text", { x: x + 10, y: y + 20 }, short),
    svg("text", { x: x + 10, y: y + 36, class: "kind" }, `${node.role} · ${node.kind}`.slice(0, 30)),
    svg("text", { x: x + 10, y: y + 53, class: "rate" }, node.rate),
  );
  return link;
}

function describe(nodes) {
  return nodes.map((node) => `${node.role} ${node.name}${node.reads.length ? ` reads ${node.reads.join(" and ")}` : ""}`).join("; ");
}
