// Rows as the values of a chart, and the texts about them.
import { number, span } from "./dom.js";

const MAX_CATEGORIES = 120;
export const STALE_SECONDS = 30;

export function timeColumn(columns) {
  const named = columns.findIndex((column) => /^(enqueued|timestamp)/i.test(column.name) && /^timestamp|^date/.test(column.type));
  return named >= 0 ? named : columns.findIndex((column) => /^timestamp|^date/.test(column.type));
}

// One value for each category: the count of its rows, or the sum of a column. Times are grouped by the second.
// In mode update a row is sent again whenever it changes, so its latest value counts.
export function grouped(rows, x, y, columns, mode) {
  const isTime = /^timestamp/.test(columns[x]?.type ?? "");
  const found = new Map();
  for (const row of rows) {
    const raw = row[x] === null || row[x] === undefined ? "" : typeof row[x] === "object" ? JSON.stringify(row[x]) : String(row[x]);
    const name = isTime ? raw.slice(0, 19) : raw;
    const before = found.get(name) ?? null;
    const value = y === "count" ? 1 : numeric(row[Number(y)]);
    found.set(name, value === null ? before : mode === "update" && y !== "count" ? value : (before ?? 0) + value);
  }
  const all = [...found.entries()];
  const ordered = all.every(([name]) => name !== "" && !Number.isNaN(Number(name))) ? all.sort((a, b) => Number(a[0]) - Number(b[0])) : all.sort((a, b) => (a[0] < b[0] ? -1 : 1));
  const kept = ordered.slice(-MAX_CATEGORIES);
  return { names: kept.map(([name]) => name), values: kept.map(([, value]) => value) };
}

function numeric(value) {
  if (value === null || value === undefined || value === "") return null;
  return Number.isFinite(Number(value)) ? Number(value) : null;
}

// How much has arrived: rows, updates of rows, or a result that is updated.
export function arrivals({ mode, arrived, updates, left, kept }) {
  if (mode === "complete") return `The result has ${left ? "more than " : ""}${plural(arrived, "row")}; it was updated ${plural(updates, "time")}.`;
  const what = `${plural(arrived, mode === "update" ? "update" : "row")} ${arrived === 1 ? "has" : "have"} arrived`;
  return `${what}${left ? `, ${number(left)} more were left out` : ""}${arrived > kept ? `; the newest ${number(kept)} are shown` : ""}.`;
}

// How old the rows on the screen are; `at` and `now` are in milliseconds.
export function ageOf(at, now) {
  const seconds = Math.max(0, (now - at) / 1000);
  const stale = seconds > STALE_SECONDS;
  return { stale, text: `${stale ? "Stale: the" : "The"} newest rows arrived ${span(Math.floor(seconds))} ago.` };
}

function plural(count, thing) {
  return `${number(count)} ${thing}${count === 1 ? "" : "s"}`;
}
