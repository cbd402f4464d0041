// Rows to the values of a chart.
const MOST = 120;

export function timeColumn(columns) {
  const named = columns.findIndex((column) => /^(enqueued|timestamp)/i.test(column.name) && /^timestamp|^date/.test(column.type));
  return named >= 0 ? named : columns.findIndex((column) => /^timestamp|^date/.test(column.type));
}

// One value for each thing across: how many rows it has, or the last number of a column. Times are counted by the second.
export function grouped(rows, x, y, columns) {
  const isTime = /^timestamp/.test(columns[x]?.type ?? "");
  const found = new Map();
  for (const row of rows) {
    const raw = row[x] === null || row[x] === undefined ? "" : typeof row[x] === "object" ? JSON.stringify(row[x]) : String(row[x]);
    const name = isTime ? raw.slice(0, 19) : raw;
    if (y === "count") found.set(name, (found.get(name) ?? 0) + 1);
    else found.set(name, Number(row[Number(y)]));
  }
  const all = [...found.entries()];
  const ordered = all.every(([name]) => name !== "" && !Number.isNaN(Number(name))) ? all.sort((a, b) => Number(a[0]) - Number(b[0])) : all.sort((a, b) => (a[0] < b[0] ? -1 : 1));
  const kept = ordered.slice(-MOST);
  return { names: kept.map(([name]) => name), values: kept.map(([, value]) => (Number.isFinite(value) ? value : null)) };
}
