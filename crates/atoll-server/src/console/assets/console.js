// The console: the login, the pages, and what is asked of the server again and again.

import { Table, age, ask, byId, bytes, carefully, count, duration, make, say } from "/page.js";
import { TimeChart } from "/charts.js";
import * as query from "/query.js";

const PAGES = ["overview", "activity", "statements", "tables", "query"];
/** Seconds that charts show, and between two samples; every so many samples, all is asked for. */
const SHOWN = 300;
const PERIOD = 1;
const SELDOM = 10;
/**
 * Seconds over which durations are counted, and times of components, which are those of one
 * transaction in many; and after which two samples have a gap.
 */
const WINDOW = 5;
const WINDOW_OF_SAMPLES = 30;
const GAP = 10;

let me;
let samples = [];
let memory = [];
let turn = 0;
let timer;
let details;

// --- The login ---

function enter(who) {
  me = who;
  [samples, memory, turn] = [[], [], 0];
  byId("login").hidden = true;
  byId("console").hidden = false;
  say(byId("database"), who.database);
  say(byId("who"), who.role);
  byId("who").title = `${who.role}${who.is_superuser ? ", a superuser" : ""}; Atoll ${who.version}, ${who.scheme}`;
  document.title = `${who.database} · Atoll console`;
  turnTo();
  poll();
}

function leave() {
  clearTimeout(timer);
  me = undefined;
  byId("console").hidden = true;
  byId("login").hidden = false;
  byId("password").value = "";
  (byId("role").value ? byId("password") : byId("role")).focus();
}

byId("login-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = event.target.querySelector("button");
  say(byId("login-error"), "");
  button.disabled = true;
  try {
    enter(await ask("/api/login", { role: byId("role").value, password: byId("password").value }));
    byId("password").value = "";
  } catch (error) {
    say(byId("login-error"), `${error.message[0].toUpperCase()}${error.message.slice(1)}.`);
    byId("password").select();
  }
  button.disabled = false;
});

byId("logout").addEventListener("click", async () => {
  await ask("/api/logout", {}).catch(() => {});
  leave();
});

// --- The pages ---

function turnTo() {
  const wanted = location.hash.slice(1);
  const page = PAGES.includes(wanted) ? wanted : PAGES[0];
  for (const one of PAGES) {
    byId(`page-${one}`).hidden = one !== page;
    const link = document.querySelector(`nav a[href="#${one}"]`);
    if (one === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (page === "query") byId("sql").focus({ preventScroll: true });
  window.scrollTo(0, 0);
}
window.addEventListener("hashchange", () => {
  if (location.hash !== "#content") turnTo();
});

// --- Figures and charts ---

const FIGURES = [
  ["Transactions / s", "tps"], ["Aborts / s", "aborts"], ["Mean duration", "mean"],
  ["95 % are within", "p95"], ["Clients", "clients"], ["Memory", "memory"],
];
const figures = {};
for (const [title, name] of FIGURES) {
  figures[name] = make("dd", { id: `figure-${name}` }, "–");
  byId("figures").append(make("div", {}, make("dt", {}, title), figures[name]));
}

const percent = (value) => (value === null ? "–" : `${count(Math.round(value * 1000) / 10)} %`);
const charts = {
  throughput: new TimeChart(byId("chart-throughput"), { format: count, seconds: SHOWN, name: "Transactions per second", floor: 10 }),
  latency: new TimeChart(byId("chart-latency"), { format: duration, seconds: SHOWN, name: "Duration of statements", floor: 0.0001 }),
  time: new TimeChart(byId("chart-time"), { format: percent, stacked: true, seconds: SHOWN, name: "Time of transactions by component", floor: 0.01 }),
  memory: new TimeChart(byId("chart-memory"), { format: bytes, stacked: true, seconds: SHOWN, name: "Memory", floor: 1 << 20, binary: true }),
};

const sum = (values) => values.reduce((all, one) => all + one, 0);

/** What has happened between two samples; null behind a gap or a new start of the server. */
function between(before, after) {
  const time = after.now - before.now;
  const commits = after.commits - before.commits;
  if (time <= 0 || time > GAP || commits < 0) return null;
  return {
    tps: commits / time,
    aborts: Math.max(0, after.aborts - before.aborts) / time,
  };
}

/** The sample at the beginning of the window before another. */
function windowBefore(at, seconds) {
  let before = samples[at];
  for (let i = at; i >= 0 && samples[at].now - samples[i].now <= seconds; i -= 1) before = samples[i];
  return before;
}

/** The share of each component in the time of the transactions that were measured. */
function shares(at) {
  const before = windowBefore(at, WINDOW_OF_SAMPLES);
  const parts = samples[at].parts.map((seconds, i) => Math.max(0, seconds - before.parts[i]));
  const all = sum(parts);
  return parts.map((part) => (all > 0 ? part / all : null));
}

/** The duration below which a share of statements is, from counts of classes. */
function quantile(ends, counts, share) {
  const wanted = sum(counts) * share;
  let passed = 0;
  for (let at = 0; at < counts.length; at += 1) {
    if (counts[at] > 0 && passed + counts[at] >= wanted) {
      const high = ends[at] ?? ends.at(-1) * 2;
      const low = at === 0 ? high / 10 : ends[at - 1];
      return low * (high / low) ** ((wanted - passed) / counts[at]);
    }
    passed += counts[at];
  }
  return null;
}

/** Durations of the statements that ended in the window before a sample. */
function latency(at) {
  const [before, after] = [windowBefore(at, WINDOW), samples[at]];
  const counts = after.counts.map((all, i) => all - before.counts[i]);
  const all = sum(counts);
  if (all <= 0 || counts.some((one) => one < 0)) return [null, null, null];
  return [
    (after.total_s - before.total_s) / all,
    quantile(after.ends_s, counts, 0.5),
    quantile(after.ends_s, counts, 0.95),
  ];
}

function sample(overview) {
  const database = overview.database[0] ?? {};
  samples.push({
    now: overview.now,
    commits: database.xact_commit ?? 0,
    aborts: database.xact_rollback ?? 0,
    names: overview.time.map(({ component }) => component.replaceAll("_", " ")),
    parts: overview.time.map(({ seconds }) => seconds),
    counts: overview.durations.counts,
    ends_s: overview.durations.ends_s,
    total_s: overview.durations.total_s,
  });
  const oldest = overview.now - SHOWN;
  samples = samples.filter(({ now }) => now >= oldest);
  memory = memory.filter(({ now }) => now >= oldest);
}

function drawCharts() {
  const times = samples.map(({ now }) => now);
  const rates = samples.map((one, at) => (at === 0 ? null : between(samples[at - 1], one)));
  const of = (get) => rates.map((rate) => (rate ? get(rate) : null));
  charts.throughput.show(["committed", "aborted"], times, [of((rate) => rate.tps), of((rate) => rate.aborts)]);
  const names = samples.at(-1).names;
  const components = samples.map((_, at) => shares(at));
  charts.time.show(names, times, names.map((_, at) => components.map((one) => one[at] ?? null)));
  const durations = samples.map((_, at) => (at === 0 ? [null, null, null] : latency(at)));
  charts.latency.show(["mean", "half within", "95 % within"], times, [0, 1, 2].map((at) => durations.map((one) => one[at])));
  const rate = rates.at(-1);
  say(figures.tps, rate ? count(Math.round(rate.tps)) : "–");
  say(figures.aborts, rate ? count(Math.round(rate.aborts)) : "–");
  say(figures.mean, duration(durations.at(-1)[0]));
  say(figures.p95, duration(durations.at(-1)[2]));
}

// --- Tables ---

const snapshots = new Table(byId("snapshots"), [
  { title: "Process", cell: ({ pid }) => String(pid) },
  { title: "Command", kind: "text", cell: ({ command }) => command || "–" },
  { title: "State", cell: ({ state }) => state },
  { title: "Age", number: true, cell: ({ age_seconds }) => age(age_seconds) },
  { title: "Shared", number: true, cell: ({ bytes_shared }) => bytes(bytes_shared) },
  { title: "Kept for it", number: true, cell: ({ bytes_kept }) => bytes(bytes_kept) },
], { key: ({ id }) => id, empty: "No snapshot is held." });

const aborts = new Table(byId("aborts"), [
  { title: "Reason", cell: ({ reason }) => reason },
  { title: "Transactions", number: true, cell: ({ aborts: all }) => count(all) },
], { key: ({ reason }) => reason, empty: "None." });

const nodes = new Table(byId("nodes"), [
  { title: "Node", cell: ({ node }) => String(node) },
  { title: "Processors", kind: "text", cell: ({ cpus }) => ranges(cpus) },
  { title: "Memory", number: true, cell: ({ memory_bytes }) => bytes(memory_bytes) },
], { key: ({ node }) => node, empty: "None." });

/** 0,1,2,5 as 0–2, 5. */
function ranges(cpus) {
  const all = [];
  for (const cpu of (cpus || "").split(",").filter(Boolean).map(Number)) {
    if (all.length && all.at(-1)[1] === cpu - 1) all.at(-1)[1] = cpu;
    else all.push([cpu, cpu]);
  }
  return all.map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(", ") || "none";
}

const parts = new Table(byId("parts"), [
  { title: "Use", cell: ({ name }) => name },
  { title: "Size or count", number: true, cell: ({ text }) => text },
], { key: ({ name }) => name, empty: "Nothing yet." });

const mayEnd = (client) => me.is_superuser || client.usename === me.role;

async function end(pid, connection) {
  const did = connection ? "The connection ends" : "The statement is cancelled";
  try {
    const { ended } = await ask("/api/end", { pid, connection });
    say(byId("activity-said"), ended ? `${did}: client ${pid}.` : `There is no client ${pid}.`);
  } catch (error) {
    say(byId("activity-said"), error.message);
  }
}

function stateOf(client, cell) {
  const text = client.wait_event_type ? `waits: ${client.wait_event}` : client.state ?? "–";
  const kind = client.wait_event_type || /aborted/.test(text) ? "tag bad" : text === "active" ? "tag on" : "tag";
  if (!cell.firstChild) cell.append(make("span"));
  cell.firstChild.className = kind;
  say(cell.firstChild, text);
}

function codeIn(get) {
  return (row, cell) => {
    if (!cell.firstChild) cell.append(make("code", { class: "clip" }));
    const text = get(row) ?? "";
    if (cell.firstChild.textContent !== text) {
      say(cell.firstChild, text);
      cell.title = text;
    }
  };
}

const activity = new Table(byId("activity"), [
  { title: "Client", cell: ({ pid }) => String(pid) },
  { title: "Role", minor: true, cell: ({ usename }) => usename },
  { title: "Program", minor: true, cell: ({ application_name }) => application_name || "–" },
  { title: "From", minor: true, cell: ({ client_addr }) => client_addr ?? "socket" },
  { title: "State", cell: stateOf },
  { title: "Transaction", number: true, minor: true, cell: ({ xact_s }) => duration(xact_s) },
  { title: "Statement", kind: "text", cell: codeIn(({ query: sql }) => sql) },
  {
    title: "",
    cell(client, cell) {
      if (!mayEnd(client)) return "";
      if (!cell.firstChild) {
        const cancel = make("button", { type: "button", class: "small", "aria-label": `Cancel the statement of client ${client.pid}`, onclick: () => end(client.pid, false) }, "Cancel");
        cell.append(make("div", { class: "tools" }, cancel, carefully("Terminate", () => end(client.pid, true))));
      }
      cell.firstChild.firstChild.disabled = client.state !== "active";
      return undefined;
    },
  },
], { key: ({ pid }) => pid, empty: "No client is connected." });

const locks = new Table(byId("locks"), [
  { title: "Client", cell: ({ pid }) => String(pid) },
  { title: "Lock", cell: ({ classid, objid }) => `${classid}, ${objid}` },
  { title: "Mode", cell: ({ mode }) => mode },
  { title: "", cell: ({ granted }) => (granted ? "held" : "waits") },
], { key: ({ pid, classid, objid, mode, granted }) => [pid, classid, objid, mode, granted], empty: "None is held." });

const statements = new Table(byId("statements"), [
  { title: "Statement", kind: "text", cell: codeIn(({ query: sql }) => sql) },
  {
    title: "Total",
    number: true,
    cell(row, cell) {
      if (!cell.firstChild) cell.append(make("span"), make("span", { class: "meter" }));
      say(cell.firstChild, duration(row.total_exec_time / 1e3));
      cell.lastChild.style.width = `${Math.round(row.share * 100)}%`;
    },
  },
  { title: "Calls", number: true, cell: ({ calls }) => count(calls) },
  { title: "Mean", number: true, cell: ({ mean_exec_time }) => duration(mean_exec_time / 1e3) },
  { title: "Least", number: true, minor: true, cell: ({ min_exec_time }) => duration(min_exec_time / 1e3) },
  { title: "Most", number: true, minor: true, cell: ({ max_exec_time }) => duration(max_exec_time / 1e3) },
  { title: "Rows", number: true, minor: true, cell: ({ rows }) => count(rows) },
  { title: "Errors", number: true, minor: true, cell: ({ errors }) => count(errors) },
], { key: ({ at }) => at, empty: "No statement has run." });

const KINDS = { r: "table", v: "view", m: "materialized view" };
const tables = new Table(byId("tables"), [
  {
    title: "Name",
    cell(row, cell) {
      if (cell.firstChild) return;
      const name = row.nspname === "public" ? row.relname : `${row.nspname}.${row.relname}`;
      cell.append(make("button", { type: "button", class: "link", onclick: () => showTable(row.oid, name, row.relkind) }, name));
    },
  },
  { title: "Kind", cell: ({ relkind }) => KINDS[relkind] ?? relkind },
  { title: "Rows", number: true, cell: ({ rows, relkind }) => (relkind === "v" || rows < 0 ? "–" : count(rows)) },
  { title: "Size", number: true, cell: ({ bytes: size, relkind }) => (relkind === "v" ? "–" : bytes(size)) },
], { key: ({ oid }) => oid, empty: "There are no tables." });

const columns = new Table(byId("columns"), [
  { title: "Column", cell: ({ name }) => name },
  { title: "Type", cell: ({ type }) => type },
  { title: "", cell: ({ not_null }) => (not_null ? "not null" : "") },
  { title: "Default", kind: "text", cell: codeIn(({ default_value }) => default_value) },
], { key: ({ name }) => name, empty: "None." });

const indexes = new Table(byId("indexes"), [
  { title: "Index", cell: ({ name }) => name },
  { title: "", cell: ({ is_primary, is_unique }) => (is_primary ? "primary key" : is_unique ? "unique" : "") },
  { title: "Definition", kind: "text", cell: codeIn(({ definition }) => definition) },
], { key: ({ name }) => name, empty: "None." });

async function showTable(oid, name, kind) {
  const found = await ask(`/api/table/${oid}`).catch((error) => ({ columns: { error: error.message }, indexes: [] }));
  byId("table-card").hidden = false;
  say(byId("title-table"), `${KINDS[kind] === "view" ? "View" : "Table"} ${name}`);
  columns.show(found.columns);
  indexes.show(found.indexes);
  byId("title-table").focus();
  byId("table-card").scrollIntoView({ block: "nearest" });
}

// --- What is asked for again and again ---

function warn(rows, lost) {
  const failing = Array.isArray(rows) ? rows.filter(({ failing: is }) => is) : [];
  const lines = failing.map(({ part, message }) => ["warning bad", `Failing: ${part}: ${message}`]);
  if (lost) lines.unshift(["warning", "The server is not reached. Trying again …"]);
  const shown = [...byId("health").children].map((line) => line.textContent);
  if (lines.length === shown.length && lines.every(([, text], at) => text === shown[at])) return;
  byId("health").replaceChildren(...lines.map(([kind, text]) => make("div", { class: kind }, text)));
}

function showOften(overview) {
  sample(overview);
  warn(overview.health, false);
  drawCharts();
  say(figures.clients, count(overview.activity.length));
  snapshots.show(overview.snapshots);
  aborts.show(overview.aborts.filter(({ aborts: all }) => all > 0));
  activity.show(overview.activity);
  showParts(overview.log?.[0]);
}

function showParts(log) {
  const lines = (details?.memory ?? []).map(({ part, bytes: size }) => ({ name: PARTS[part] ?? part, text: bytes(size) }));
  if (log) {
    lines.push({ name: "log", text: bytes(log.log_bytes) });
    lines.push({ name: "flushes of the log", text: count(log.flushes) });
    lines.push({ name: "checkpoints", text: count(log.checkpoints) });
  }
  parts.show(lines);
}

/** Parts of memory by their names for people; the first ones make up the chart. */
const PARTS = {
  tables: "tables", indexes: "indexes", heap: "heap", headers: "row headers",
  kept: "kept for snapshots", free: "free segments", heap_free: "free heap",
  process: "the whole process", rest: "rest of the process", store_committed: "committed by the store", store_limit: "limit of the store",
  copied_on_write: "copied on write",
};
const IN_CHART = ["tables", "indexes", "headers", "heap", "kept", "free", "rest"];

function showSeldom(found) {
  details = found;
  if (Array.isArray(found.memory)) {
    const of = Object.fromEntries(found.memory.map(({ part, bytes: size }) => [part, size]));
    of.rest = Math.max(0, of.process - sum(IN_CHART.map((part) => of[part] ?? 0)));
    memory.push({ now: samples.at(-1).now, values: IN_CHART.map((part) => of[part] ?? 0) });
    charts.memory.show(IN_CHART.map((part) => PARTS[part]), memory.map(({ now }) => now), IN_CHART.map((_, at) => memory.map(({ values }) => values[at])));
    say(figures.memory, bytes(sum(memory.at(-1).values)));
  }
  nodes.show(found.nodes);
  locks.show(found.locks);
  tables.show(found.tables);
  const all = Array.isArray(found.statements) ? found.statements : [];
  const most = Math.max(...all.map(({ total_exec_time }) => total_exec_time), 1e-9);
  statements.show(all.map((one, at) => ({ ...one, at, share: one.total_exec_time / most })));
}

async function poll() {
  clearTimeout(timer);
  if (!me) return;
  const began = performance.now();
  if (!document.hidden) {
    try {
      showOften(await ask("/api/overview"));
      if (turn % SELDOM === 0) showSeldom(await ask("/api/details"));
      turn += 1;
    } catch (error) {
      if (error.status === 401) {
        leave();
        return;
      }
      if (error.status === undefined) throw error;
      warn([], error.status === 0);
    }
  }
  if (me) timer = setTimeout(poll, Math.max(100, PERIOD * 1000 - (performance.now() - began)));
}
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && me) poll();
});

query.begin(leave);
ask("/api/me").then(enter, leave);
