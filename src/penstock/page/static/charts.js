// Time series and bar charts, drawn by uPlot in the colours of the page.
const COLOURS = ["#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b"];

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function axes(labels) {
  const line = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  const bottom = labels ? { ...line, values: (_, at) => at.map((n) => (Number.isInteger(n) ? labels()[n] ?? "" : "")) } : line;
  return [bottom, { ...line, size: 60 }];
}

function fromZero(_, low, high) {
  return [Math.min(0, low ?? 0), Math.max(high ?? 0, 1) * 1.05];
}

// With a single batch the axis shows one minute around it.
const TIME = {
  x: { range: (_, low, high) => (high - low < 60 ? [(low + high) / 2 - 30, (low + high) / 2 + 30] : [low, high]) },
  y: { range: fromZero },
};

function options(place, series, more = {}) {
  return {
    width: Math.max(200, place.clientWidth), height: Math.max(110, place.clientHeight - 40),
    series: [{}, ...series], axes: axes(more.labels), cursor: { y: false }, ...more.plot,
  };
}

// A chart in `place`; each line is {name, of}, where `of` maps a point to its value.
export function timeChart(place, lines, stacked = false) {
  const drawn = lines.map((line, at) => ({
    label: line.name, stroke: COLOURS[at % COLOURS.length], width: 1.5, spanGaps: true,
    fill: stacked ? COLOURS[at % COLOURS.length] + "99" : undefined, points: { show: false },
  }));
  const order = stacked ? drawn.map((_, at) => drawn.length - 1 - at) : drawn.map((_, at) => at);
  let plot = null;
  const data = (points) => {
    const columns = lines.map((line) => points.map((point) => line.of(point)));
    if (stacked) columns.forEach((column, at) => at && column.forEach((value, i) => { column[i] = value + columns[at - 1][i]; }));
    return [points.map((point) => point.at), ...order.map((at) => columns[at])];
  };
  return {
    show(points) {
      place.dataset.points = points.length;
      const last = points[points.length - 1];
      const label = last ? lines.map((line) => `${line.name} ${line.of(last) ?? "unknown"}`).join(", ") : "no batch yet";
      place.setAttribute("aria-label", `${place.dataset.name}: ${label}`);
      // Too few points to see a line: show the points.
      drawn.forEach((line) => { line.points = { show: points.length < 3 }; });
      if (!plot) plot = new uPlot(options(place, order.map((at) => drawn[at]), { plot: { scales: TIME } }), data(points), place);
      else plot.setData(data(points));
    },
    resize() { if (plot) plot.setSize({ width: Math.max(200, place.clientWidth), height: Math.max(110, place.clientHeight - 40) }); },
    end() { if (plot) plot.destroy(); plot = null; },
  };
}

// Bars or a line over categories: each has its position on the axis.
export function valueChart(place, kind) {
  let plot = null;
  let labels = [];
  return {
    show(names, values, label) {
      labels = names;
      place.dataset.bars = JSON.stringify(names.map((name, at) => [name, values[at]]));
      place.setAttribute("aria-label", `${kind} chart of ${label}: ${names.length} values`);
      const data = [names.map((_, at) => at), values];
      if (plot) { plot.setData(data); return; }
      const bars = kind === "bar" ? { paths: uPlot.paths.bars({ size: [0.7, 60] }), fill: COLOURS[0] + "99" } : {};
      const series = [{ label, stroke: COLOURS[0], width: 1.5, ...bars }];
      const range = (_, low, high) => [Math.min(-0.5, low), Math.max(high + 0.5, 0.5)];
      plot = new uPlot(options(place, series, { labels: () => labels, plot: { scales: { x: { time: false, range }, y: { range: fromZero } } } }), data, place);
    },
    end() { if (plot) plot.destroy(); plot = null; place.replaceChildren(); },
  };
}
