// The query box: runs texts, and shows their results as tables and charts.

import { Refused, ask, byId, count, make, say } from "/page.js";
import { resultChart } from "/charts.js";

const HISTORY_MAX = 50;
const BARS_MAX = 60;

const history = [];
let running = 0;
let last = 0;
let began = 0;

/** Readies the page; `lost` is called when the login has ended. */
export function begin(lost) {
  const form = byId("query-form");
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    run(lost);
  });
  byId("sql").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run(lost);
    }
  });
  byId("cancel").addEventListener("click", async () => {
    say(byId("query-said"), "Cancelling …");
    await ask("/api/cancel", { run: running }).catch(() => {});
  });
  setInterval(() => {
    if (running) say(byId("query-said"), `Running for ${((Date.now() - began) / 1000).toFixed(0)} s`);
  }, 1000);
}

/** Puts a text into the box. */
export function edit(sql) {
  byId("sql").value = sql;
  byId("sql").focus();
}

async function run(lost) {
  const sql = byId("sql").value;
  if (running || !sql.trim()) return;
  last += 1;
  running = last;
  began = Date.now();
  remember(sql);
  byId("run").disabled = true;
  byId("cancel").disabled = false;
  say(byId("query-said"), "Running");
  byId("query-error").replaceChildren();
  const mayChange = byId("may-change");
  const asked = {
    run: running,
    sql,
    may_change: mayChange.checked,
    seconds: Number(byId("seconds").value),
  };
  try {
    const answer = await ask("/api/query", asked);
    show(sql, answer);
  } catch (error) {
    if (error instanceof Refused && error.status === 401) {
      lost();
    } else {
      byId("results").replaceChildren();
      problem(sql, { state: "", message: error.message });
    }
  }
  // Changes are allowed for one text at a time.
  mayChange.checked = false;
  running = 0;
  byId("run").disabled = false;
  byId("cancel").disabled = true;
}

function remember(sql) {
  const at = history.indexOf(sql);
  if (at >= 0) history.splice(at, 1);
  history.unshift(sql);
  history.splice(HISTORY_MAX);
  const line = (text) => make("li", {}, make("button", { type: "button", class: "link", onclick: () => edit(text) }, text.replace(/\s+/g, " ").trim()));
  byId("history").replaceChildren(...history.map(line));
}

function show(sql, { results, notices, error, took_ms }) {
  const cards = results.map((result, at) => card(result, at));
  const said = notices.map((notice) => make("p", { class: "notice" }, notice));
  byId("results").replaceChildren(...said, ...cards);
  say(byId("query-said"), error ? `Failed after ${took_ms} ms` : `Took ${took_ms} ms`);
  if (error) problem(sql, error);
}

function problem(sql, { state, message, detail, hint, position }) {
  const parts = [make("h2", {}, message)];
  if (detail) parts.push(make("p", {}, detail));
  if (hint) parts.push(make("p", {}, `Hint: ${hint}`));
  if (state) parts.push(make("p", { class: "quiet" }, `SQLSTATE ${state}`));
  if (position) {
    const before = [...sql].slice(0, position - 1).join("");
    const start = before.lastIndexOf("\n") + 1;
    const line = sql.slice(start).split("\n", 1)[0];
    const number = before.split("\n").length;
    const caret = `${" ".repeat([...before.slice(start)].length)}^`;
    parts.push(make("pre", {}, `Line ${number}\n${line}\n${caret}`));
    byId("sql").focus();
    byId("sql").setSelectionRange(before.length, before.length);
  }
  byId("query-error").replaceChildren(make("div", { class: "card problem" }, ...parts));
}

function card(result, number) {
  const { tag, columns, rows, cut, took_ms } = result;
  const head = make("div", { class: "result-head" }, make("h2", {}, tag), make("span", { class: "quiet" }, `${took_ms} ms`));
  const box = make("section", { class: "card result", "aria-label": `Result ${number + 1}` }, head);
  if (cut) box.append(make("p", { class: "notice" }, `${cut}: what follows is not all of it.`));
  if (columns.length === 0) return box;
  const place = make("div", {});
  const numbers = columns.slice(1).filter((column) => column.is_number);
  const canDraw = rows.length > 1 && numbers.length > 0;
  const views = [["Table", () => place.replaceChildren(table(result))]];
  if (canDraw) {
    views.push(["Line", () => chart(place, result, false)], ["Bars", () => chart(place, result, true)]);
  }
  const buttons = views.map(([name, view]) => {
    const button = make("button", { type: "button", class: "small", "aria-pressed": "false" }, name);
    button.addEventListener("click", () => {
      buttons.forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
      view();
    });
    return button;
  });
  const csv = make("button", { type: "button", class: "small", onclick: () => download(result) }, "CSV");
  const segment = canDraw ? make("div", { class: "segment", role: "group", "aria-label": "View" }, ...buttons) : null;
  head.append(make("div", { class: "tools" }, ...[segment, csv].filter(Boolean)));
  box.append(place);
  buttons[0].click();
  return box;
}

function table({ columns, rows }) {
  const heads = columns.map(({ name, kind, is_number }) =>
    make("th", { scope: "col", class: is_number ? "number" : "" }, name, make("small", {}, kind)));
  const cell = (value, at) => value === null
    ? make("td", { class: columns[at].is_number ? "number none" : "none" }, "NULL")
    : make("td", { class: columns[at].is_number ? "number" : "", title: value.length > 60 ? value : undefined }, value);
  const body = rows.map((row) => make("tr", {}, ...row.map(cell)));
  const whole = make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...body));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Rows" }, whole);
}

const isTime = (kind) => /^(DATE|TIMESTAMP)/i.test(kind);

/** A time as a number, if it has a form that the browser knows. */
function moment(text) {
  const iso = text.replace(" ", "T").replace(/([+-]\d\d)$/, "$1:00");
  return Date.parse(/T/.test(iso) && !/(Z|[+-]\d\d:\d\d)$/.test(iso) ? `${iso}Z` : iso);
}

function chart(place, { columns, rows }, bars) {
  const shown = bars ? rows.slice(0, BARS_MAX) : rows;
  const series = columns.map((column, at) => ({ ...column, at })).slice(1).filter((column) => column.is_number);
  const labels = shown.map((row) => row[0] ?? "NULL");
  const places = columns[0].is_number ? labels.map(Number) : isTime(columns[0].kind) ? labels.map(moment) : null;
  const across = places?.every(Number.isFinite) ? places : null;
  const number = (text) => (text === null || !Number.isFinite(Number(text)) ? null : Number(text));
  const box = make("div", { class: "chart tall" });
  const note = rows.length > shown.length ? make("p", { class: "notice" }, `The first ${BARS_MAX} of ${rows.length} rows.`) : null;
  place.replaceChildren(...[note, box].filter(Boolean));
  resultChart(box, {
    labels,
    across,
    names: series.map(({ name }) => name),
    values: series.map(({ at }) => shown.map((row) => number(row[at]))),
    bars,
    format: count,
    name: `${series.map(({ name }) => name).join(", ")} by ${columns[0].name}`,
  });
}

/** Makes a file in CSV, here in the browser. */
function download({ columns, rows }) {
  const field = (text) => (text === null ? "" : /[",\r\n]/.test(text) || text === "" ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = [columns.map(({ name }) => field(name)), ...rows.map((row) => row.map(field))];
  const text = lines.map((line) => `${line.join(",")}\r\n`).join("");
  const address = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  const link = make("a", { href: address, download: "result.csv" });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}
