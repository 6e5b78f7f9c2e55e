// What all pages use: requests, texts for numbers, elements, and tables that change in place.
//
// Texts of the server are put into the page as text, never as HTML.

/** A request that was refused; `status` is 0 if the server was not reached. */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Asks the server: GET without a body, POST with one. */
export async function ask(path, body) {
  const post = body !== undefined;
  let response;
  try {
    response = await fetch(path, {
      method: post ? "POST" : "GET",
      headers: post ? { "Content-Type": "application/json" } : {},
      body: post ? JSON.stringify(body) : undefined,
      credentials: "same-origin",
    });
  } catch {
    throw new Refused(0, "the server is not reached");
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, answer.message ?? response.statusText);
  return answer;
}

export const byId = (id) => document.getElementById(id);

/** An element with attributes, a class first, and children; texts become text. */
export function make(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "class") element.className = value;
    else if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== false && value !== undefined) element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** Sets a text only if it is another, so that nothing is drawn anew. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

const round = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2));

const scaled = (value, step, units) => {
  let at = 0;
  while (Math.abs(value) >= step && at < units.length - 1) {
    value /= step;
    at += 1;
  }
  return [value, units[at]];
};

/** 1234567 as 1.23 M. */
export function count(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (Math.abs(value) < 10000) return Number.isInteger(value) ? String(value) : round(value);
  const [part, unit] = scaled(value, 1000, ["", " k", " M", " G", " T"]);
  return round(part) + unit;
}

export function bytes(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const [part, unit] = scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
  return `${unit === "B" ? part : round(part)} ${unit}`;
}

/** A duration in seconds. */
export function duration(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (value < 0.001) return `${round(value * 1e6)} µs`;
  if (value < 1) return `${round(value * 1e3)} ms`;
  return value < 120 ? `${round(value)} s` : age(value);
}

/** A long time in seconds. */
export function age(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const whole = Math.max(0, Math.floor(value));
  const [days, hours, minutes] = [Math.floor(whole / 86400), Math.floor(whole / 3600) % 24, Math.floor(whole / 60) % 60];
  if (days) return `${days} d ${hours} h`;
  if (hours) return `${hours} h ${minutes} min`;
  return minutes ? `${minutes} min ${whole % 60} s` : `${whole} s`;
}

const kindOf = ({ number, kind, minor }) =>
  [number && "number", kind, minor && "minor"].filter(Boolean).join(" ");

/**
 * A table that changes in place: rows keep their elements, so that focus and selection stay.
 *
 * A column has a `title`, `number` if it is one, `minor` if a phone need not show it, and
 * `cell(row, td)`, which returns a text, or fills the cell itself and returns undefined.
 */
export class Table {
  constructor(table, columns, { key, empty }) {
    this.columns = columns;
    this.key = key;
    this.empty = empty;
    this.rows = new Map();
    this.body = make("tbody");
    const heads = columns.map((column) => make("th", { scope: "col", class: kindOf(column) }, column.title));
    table.replaceChildren(make("thead", {}, make("tr", {}, ...heads)), this.body);
  }

  show(rows) {
    if (!Array.isArray(rows)) {
      this.#note(rows?.error ?? "");
      return;
    }
    if (rows.length === 0) {
      this.#note(this.empty);
      return;
    }
    this.note?.remove();
    this.note = undefined;
    const left = new Map();
    let before = null;
    for (const row of rows) {
      const key = String(this.key(row));
      const line = this.rows.get(key) ?? this.#line();
      left.set(key, line);
      this.rows.delete(key);
      this.columns.forEach((column, at) => {
        const cell = line.cells[at];
        const text = column.cell(row, cell);
        if (text !== undefined) say(cell, text);
      });
      const next = before ? before.nextSibling : this.body.firstChild;
      if (next !== line) this.body.insertBefore(line, next);
      before = line;
    }
    for (const gone of this.rows.values()) gone.remove();
    this.rows = left;
  }

  #line() {
    const cells = this.columns.map((column) => make("td", { class: kindOf(column) }));
    return make("tr", {}, ...cells);
  }

  #note(text) {
    this.rows = new Map();
    this.note = make("tr", {}, make("td", { class: "none", colspan: this.columns.length }, text));
    this.body.replaceChildren(this.note);
  }
}

/** A button that does something when it is pressed twice within some seconds. */
export function carefully(label, does) {
  let timer;
  const button = make("button", { type: "button", class: "small" }, label);
  const calm = () => {
    clearTimeout(timer);
    button.classList.remove("sure");
    say(button, label);
  };
  button.addEventListener("click", () => {
    if (button.classList.contains("sure")) {
      calm();
      does();
      return;
    }
    button.classList.add("sure");
    say(button, "Sure?");
    timer = setTimeout(calm, 4000);
  });
  button.addEventListener("blur", calm);
  return button;
}
