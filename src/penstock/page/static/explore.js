// A live preview of a source, a step or a SELECT, as a table, bars or a line.
import { preview } from "./api.js";
import { valueChart } from "./charts.js";
import { el, fill } from "./dom.js";
import { ageOf, arrivals, grouped, timeColumn } from "./rows.js";

const MAX_KEPT = 5000, MAX_SHOWN = 500;

export function explore(main, name, step, bad) {
  const fresh = () => ({ columns: [], mode: "", rows: [], waiting: [], paused: false, left: 0, arrived: 0, updates: 0, at: null });
  const state = { ...fresh(), running: null, chart: null, nodes: [] };
  const ui = {
    what: el("select", { id: "what", "aria-label": "What to preview" }),
    sql: el("textarea", { id: "sql", spellcheck: "false", "aria-label": "A SELECT over the streams", placeholder: "SELECT ... FROM a source or step (Ctrl+Enter runs)" }),
    start: el("select", { id: "start" }, el("option", { value: "latest" }, "from now on"), el("option", { value: "earliest" }, "from the beginning")),
    run: el("button", { id: "run", class: "main", type: "button", onclick: () => run() }, "Run"),
    pause: el("button", { id: "pause", type: "button", disabled: true, onclick: () => pause() }, "Pause"),
    stop: el("button", { id: "stop", type: "button", disabled: true, onclick: () => stop() }, "Stop"),
    status: el("p", { id: "status", role: "status", "aria-live": "polite" }, "Choose what to preview, or type a SELECT."),
    kind: el("select", { id: "kind" }, ["table", "bar", "line"].map((each) => el("option", { value: each }, each))),
    x: el("select", { id: "x" }), y: el("select", { id: "y" }),
    count: el("button", { id: "count", type: "button", onclick: () => countByTime() }, "Count by time"),
    age: el("p", { id: "age", class: "dim" }),
    place: el("div", { id: "seen" }),
  };
  const axes = el("span", { class: "row", id: "axes", hidden: true }, el("label", {}, "across", ui.x), el("label", {}, "up", ui.y));
  fill(main, el("h1", {}, `Explore ${name}`),
    el("p", { class: "dim" }, "A separate query reads the sources; it does not affect the pipeline, its sinks or its checkpoints. It ends when you leave the page."),
    el("div", { class: "row" }, el("label", {}, "Preview", ui.what), ui.start), ui.sql,
    el("div", { class: "row" }, ui.run, ui.pause, ui.stop, el("label", {}, "as", ui.kind), axes, ui.count), ui.status, ui.age, ui.place);
  for (const each of [ui.kind, ui.x, ui.y]) each.addEventListener("change", () => { axes.hidden = ui.kind.value === "table"; redraw(); });
  ui.what.addEventListener("change", () => { ui.sql.hidden = ui.what.value !== "sql"; });
  const keys = (event) => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) run(); };
  ui.sql.addEventListener("keydown", keys);

  function choices(view) {
    const nodes = view.nodes.filter((node) => node.role !== "sink" && !node.static);
    const names = JSON.stringify(nodes.map((node) => node.name));
    if (names === JSON.stringify(state.nodes)) return;
    state.nodes = nodes.map((node) => node.name);
    fill(ui.what, nodes.map((node) => el("option", { value: `step:${node.name}` }, `${node.role} ${node.name}`)),
      nodes.filter((node) => node.role === "source").map((node) => el("option", { value: `bad:${node.name}` }, `bad records of ${node.name}`)),
      el("option", { value: "sql" }, "a SELECT"));
    ui.what.value = step ? `${bad ? "bad" : "step"}:${step}` : "sql";
    if (ui.what.selectedIndex < 0) ui.what.value = "sql";
    ui.what.dispatchEvent(new Event("change"));
  }

  async function run() {
    await stop();
    const [role, chosen] = ui.what.value.split(":");
    Object.assign(state, fresh());
    showAge();
    showStatus("Starting Spark …");
    ui.run.disabled = true;
    const request = { pipeline: name, start: ui.start.value, sql: role === "sql" ? ui.sql.value : "", step: chosen ?? "", bad: role === "bad" };
    try {
      state.running = await preview(request, {
        says: ({ says }) => showStatus(says),
        columns: ({ columns, mode }) => { Object.assign(state, { columns, mode }); fillAxes(); showStatus("Waiting for rows …"); redraw(); },
        rows: take,
        end: ({ why }) => ended(`Ended: ${why}.`),
        error: ({ says }) => ended(says, true),
      });
      ui.stop.disabled = ui.pause.disabled = false;
    } catch (error) {
      ended(error.message, true);
    }
  }

  function take(message) {
    message.at = Date.now();
    state.updates += 1;
    // A result that replaces the previous one is counted once.
    state.left = message.replaces ? message.left_out : state.left + message.left_out;
    state.arrived = message.replaces ? message.rows.length : state.arrived + message.rows.length;
    if (state.paused) { state.waiting.push(message); state.waiting = state.waiting.slice(-50); }
    else put(message);
    showStatus(`${state.paused ? "Paused. " : ""}${arrivals({ ...state, kept: MAX_KEPT })}`);
  }

  function put(message) {
    state.rows = message.replaces ? message.rows : [...state.rows, ...message.rows].slice(-MAX_KEPT);
    state.replaces = message.replaces;
    state.more = message.replaces && message.left_out > 0;
    state.at = message.at;
    showAge();
    redraw();
  }

  function showAge() {
    const { stale, text } = state.at === null ? { stale: false, text: "" } : ageOf(state.at, Date.now());
    fill(ui.age, text);
    ui.age.className = stale ? "stale" : "dim";
    ui.place.className = stale ? "stale" : "";
  }

  function pause() {
    state.paused = !state.paused;
    fill(ui.pause, state.paused ? "Resume" : "Pause");
    if (!state.paused) { const held = state.waiting; state.waiting = []; held.forEach(put); }
  }

  async function stop() {
    const running = state.running;
    if (!running) return;
    ended(`Stopped. ${arrivals({ ...state, kept: MAX_KEPT })}`);
    await running.stop().catch((error) => showStatus(error.message, true));
  }

  function ended(text, wrong) {
    state.running = null;
    state.paused = false;
    fill(ui.pause, "Pause");
    ui.stop.disabled = ui.pause.disabled = true;
    ui.run.disabled = false;
    showStatus(text, wrong);
  }

  function showStatus(text, wrong = false) {
    fill(ui.status, text);
    ui.status.className = wrong ? "wrong" : "";
  }

  function fillAxes() {
    const names = state.columns.map((column) => column.name);
    fill(ui.x, names.map((each, at) => el("option", { value: at }, each)));
    fill(ui.y, el("option", { value: "count" }, "count of rows"), names.map((each, at) => el("option", { value: at }, `${state.mode === "update" ? "latest" : "sum of"} ${each}`)));
    const time = timeColumn(state.columns);
    if (time >= 0) ui.x.value = time;
    const numeric = state.columns.findIndex((column) => /int|double|float|decimal/.test(column.type));
    if (numeric >= 0 && Number(ui.x.value) !== numeric) ui.y.value = numeric;
  }

  function countByTime() {
    const time = timeColumn(state.columns);
    if (time < 0) { showStatus("No column has a time to count by.", true); return; }
    ui.kind.value = "bar"; ui.x.value = time; ui.y.value = "count";
    ui.kind.dispatchEvent(new Event("change"));
  }

  function redraw() {
    if (ui.kind.value === "table") { drop(); fill(ui.place, table(state)); return; }
    const { names, values } = grouped(state.rows, Number(ui.x.value), ui.y.value, state.columns, state.mode);
    if (state.chart?.kind !== ui.kind.value) {
      drop();
      const place = el("div", { class: "card chart", role: "img" });
      fill(ui.place, place);
      state.chart = { kind: ui.kind.value, drawn: valueChart(place, ui.kind.value) };
    }
    state.chart.drawn.show(names, values, ui.y.selectedOptions[0]?.textContent ?? "");
  }

  function drop() { state.chart?.drawn.end(); state.chart = null; }

  const ageing = setInterval(showAge, 1000);
  return { pipeline: name, handlers: { view: choices }, end() { clearInterval(ageing); drop(); stop(); } };
}

function table(state) {
  const rows = state.replaces ? state.rows.slice(0, MAX_SHOWN) : state.rows.slice(-MAX_SHOWN).reverse();
  const numeric = state.columns.map((column) => /int|double|float|decimal/.test(column.type));
  const caption = state.more ? "The first rows of the result so far; there are more" : state.replaces ? "The result so far; it updates in place" : "The newest rows first";
  return el("div", { class: "scroll", tabindex: 0 }, el("table", { id: "rows" }, el("caption", {}, caption),
    el("thead", {}, el("tr", {}, state.columns.map((column) => el("th", { scope: "col", title: column.type }, column.name)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((value, at) => el("td", { class: numeric[at] ? "number" : null }, text(value))))))));
}

function text(value) {
  if (value === null) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
