// Charts as SVG: lines and stacked areas over time, and lines or bars of a result.

import { make, say } from "/page.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
const COLORS = 8;
const EDGE = { left: 58, right: 10, top: 10, bottom: 22 };

export const color = (at) => `s${(at % COLORS) + 1}`;

function draw(name, attributes, text) {
  const element = document.createElementNS(NAMESPACE, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Round marks between two values, about so many; those of bytes are powers of two. */
function marks(low, high, about, binary = false) {
  if (!(high > low)) return [low];
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = binary
    ? 2 ** Math.ceil(Math.log2(rough))
    : power * ([1, 2, 2.5, 5].find((one) => one * power >= rough) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  const all = [];
  for (let at = first; at * step <= high + step * 1e-9; at += 1) all.push(at * step);
  return all;
}

/** A text of a number without zeros behind its point. */
const short = (text) => text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "").replace(/^0 .*/, "0");

/** The line through points, broken where one is null. */
function path(points) {
  let text = "";
  let open = false;
  for (const [x, y] of points) {
    if (y === null) {
      open = false;
      continue;
    }
    text += `${open ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    open = true;
  }
  return text;
}

/** Calls back with the width of an element, now and whenever it changes. */
function onWidth(element, call) {
  new ResizeObserver((entries) => {
    const width = Math.round(entries[0].contentRect.width);
    if (width > 0) call(width);
  }).observe(element);
}

/** A chart of the last minutes. */
export class TimeChart {
  /** `stacked` areas or lines; `format` makes texts of values. */
  constructor(box, { format, stacked = false, seconds, name, floor = 0, binary = false }) {
    Object.assign(this, { box, format, stacked, seconds, name, floor, binary });
    this.svg = draw("svg", { role: "img" });
    this.legend = make("ul", { class: "legend" });
    box.replaceChildren(this.svg, this.legend);
    this.names = [];
    this.times = [];
    this.values = [];
    onWidth(box, (width) => {
      this.width = width;
      this.draw();
    });
    const point = (event) => {
      const { left } = this.svg.getBoundingClientRect();
      this.at = event.clientX - left;
      this.draw();
    };
    this.svg.addEventListener("pointermove", point);
    this.svg.addEventListener("pointerdown", point);
    this.svg.addEventListener("pointerleave", () => {
      this.at = undefined;
      this.draw();
    });
  }

  /** `times` in seconds, and of each name the values at those times. */
  show(names, times, values) {
    Object.assign(this, { names, times, values });
    this.draw();
  }

  draw() {
    const { width, times, names } = this;
    if (!width) return;
    const height = this.svg.clientHeight || 190;
    const [right, bottom] = [width - EDGE.right, height - EDGE.bottom];
    const end = times.at(-1) ?? 0;
    const x = (time) => right - ((end - time) / this.seconds) * (right - EDGE.left);
    const layers = this.#layers();
    const tops = layers.flatMap((layer) => layer.high).filter((value) => value !== null);
    const high = Math.max(...tops, this.floor, 1e-9) * 1.06;
    const y = (value) => bottom - (value / high) * (bottom - EDGE.top);
    const parts = [];
    for (const mark of marks(0, high, 4, this.binary)) {
      const at = Math.round(y(mark)) + 0.5;
      parts.push(draw("line", { class: "grid", x1: EDGE.left, x2: right, y1: at, y2: at }));
      parts.push(draw("text", { x: EDGE.left - 8, y: at + 4, "text-anchor": "end" }, short(this.format(mark))));
    }
    for (let ago = 0; ago <= this.seconds; ago += width < 460 ? 120 : 60) {
      const text = ago === 0 ? "now" : `−${ago / 60} min`;
      const anchor = ago === 0 ? "end" : ago === this.seconds ? "start" : "middle";
      parts.push(draw("text", { x: x(end - ago), y: height - 5, "text-anchor": anchor }, text));
    }
    layers.forEach((layer, at) => {
      const top = times.map((time, i) => [x(time), layer.high[i] === null ? null : y(layer.high[i])]);
      if (this.stacked) {
        for (const piece of pieces(top)) {
          const under = piece.map((i) => [x(times[i]), y(layer.low[i])]).reverse();
          const around = path([...piece.map((i) => top[i]), ...under]);
          parts.push(draw("path", { class: `area ${color(at)}`, d: `${around}Z` }));
        }
      } else {
        parts.push(draw("path", { class: `line ${color(at)}`, d: path(top) }));
      }
    });
    const shown = this.#nearest(x);
    if (this.at !== undefined && shown !== undefined) {
      const at = x(times[shown]);
      parts.push(draw("line", { class: "cursor", x1: at, x2: at, y1: EDGE.top, y2: bottom }));
    }
    if (tops.length === 0) {
      const middle = { class: "none", x: (EDGE.left + right) / 2, y: (EDGE.top + bottom) / 2, "text-anchor": "middle" };
      parts.push(draw("text", middle, "Nothing yet"));
    }
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren(...parts);
    const texts = names.map((_, at) => this.format(this.values[at][shown ?? times.length - 1] ?? null));
    this.svg.setAttribute("aria-label", `${this.name}: ${names.map((name, at) => `${name} ${texts[at]}`).join(", ")}`);
    this.#legend(texts, shown !== undefined && this.at !== undefined ? end - times[shown] : undefined);
  }

  /** Lower and upper ends of each series. */
  #layers() {
    const base = this.times.map(() => 0);
    return this.names.map((_, at) => {
      const values = this.values[at];
      if (!this.stacked) return { high: values };
      const low = [...base];
      const high = values.map((value, i) => {
        if (value === null) return null;
        base[i] += value;
        return base[i];
      });
      return { low, high };
    });
  }

  #nearest(x) {
    if (this.at === undefined || this.times.length === 0) return undefined;
    let best = 0;
    this.times.forEach((time, i) => {
      if (Math.abs(x(time) - this.at) < Math.abs(x(this.times[best]) - this.at)) best = i;
    });
    return best;
  }

  #legend(texts, ago) {
    const wanted = this.names.length + 1;
    while (this.legend.children.length > wanted) this.legend.lastChild.remove();
    while (this.legend.children.length < wanted) {
      this.legend.append(make("li", {}, make("span", { class: "key" }), make("span"), make("b")));
    }
    this.names.forEach((name, at) => {
      const [key, label, value] = this.legend.children[at].children;
      key.className = `key ${color(at)}`;
      say(label, name);
      say(value, texts[at]);
    });
    const [key, label, value] = this.legend.lastChild.children;
    key.className = "";
    say(label, ago === undefined ? "" : `${Math.round(ago)} s ago`);
    say(value, "");
  }
}

/** The indices of points that follow each other without a gap. */
function pieces(points) {
  const all = [[]];
  points.forEach(([, y], at) => {
    if (y === null) all.push([]);
    else all.at(-1).push(at);
  });
  return all.filter((piece) => piece.length > 1);
}

/** A chart of a result: the first column across, the others up, as lines or as bars. */
export function resultChart(box, { labels, across, names, values, bars, format, name }) {
  const svg = draw("svg", { role: "img", "aria-label": name });
  const legend = make("ul", { class: "legend" }, ...names.map((one, at) =>
    make("li", {}, make("span", { class: `key ${color(at)}` }), one)));
  box.replaceChildren(svg, legend);
  onWidth(box, (width) => {
    const height = svg.clientHeight || 320;
    const [right, bottom] = [width - EDGE.right, height - EDGE.bottom];
    const all = values.flat().filter((value) => value !== null);
    const low = Math.min(0, ...all);
    const high = Math.max(0, ...all) || (low < 0 ? 0 : 1);
    const room = (high - low) * 0.04;
    const [from, to] = [low < 0 ? low - room : 0, high > 0 ? high + room : 0];
    const y = (value) => bottom - ((value - from) / (to - from)) * (bottom - EDGE.top);
    const parts = [];
    for (const mark of marks(from, to, 5)) {
      const at = Math.round(y(mark)) + 0.5;
      parts.push(draw("line", { class: "grid", x1: EDGE.left, x2: right, y1: at, y2: at }));
      parts.push(draw("text", { x: EDGE.left - 8, y: at + 4, "text-anchor": "end" }, short(format(mark))));
    }
    const slot = (right - EDGE.left) / Math.max(labels.length, 1);
    const middle = (at) => EDGE.left + (at + 0.5) * slot;
    const [first, last] = [Math.min(...(across ?? [0])), Math.max(...(across ?? [0]))];
    const x = across && !bars && last > first
      ? (at) => EDGE.left + 6 + ((across[at] - first) / (last - first)) * (right - EDGE.left - 12)
      : middle;
    names.forEach((_, series) => {
      if (bars) {
        const wide = Math.max(1, (slot * 0.78) / names.length);
        values[series].forEach((value, at) => {
          if (value === null) return;
          const left = middle(at) - (wide * names.length) / 2 + wide * series;
          const [top, under] = [y(Math.max(value, 0)), y(Math.min(value, 0))];
          const bar = draw("rect", { class: `bar ${color(series)}`, x: left.toFixed(1), y: top.toFixed(1), width: Math.max(1, wide - 1).toFixed(1), height: Math.max(1, under - top).toFixed(1) });
          bar.append(draw("title", {}, `${labels[at]}: ${value}`));
          parts.push(bar);
        });
      } else {
        const points = values[series].map((value, at) => [x(at), value === null ? null : y(value)]);
        parts.push(draw("path", { class: `line ${color(series)}`, d: path(points) }));
        if (points.length <= 60) {
          points.forEach(([cx, cy], at) => {
            if (cy === null) return;
            const dot = draw("circle", { class: color(series), cx: cx.toFixed(1), cy: cy.toFixed(1), r: 3 });
            dot.append(draw("title", {}, `${labels[at]}: ${values[series][at]}`));
            parts.push(dot);
          });
        }
      }
    });
    // So many labels as have room.
    const longest = Math.max(...labels.map((label) => Math.min(label.length, 16)), 1);
    const every = Math.max(1, Math.ceil((longest * 7 + 12) / slot));
    let free = 0;
    for (let at = 0; at < labels.length; at += every) {
      const label = labels[at].length > 16 ? `${labels[at].slice(0, 15)}…` : labels[at];
      const half = label.length * 3.3;
      const place = Math.max(half, Math.min(x(at), width - half));
      if (place - half < free) continue;
      free = place + half + 8;
      parts.push(draw("text", { x: place.toFixed(1), y: height - 5, "text-anchor": "middle" }, label));
    }
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    svg.replaceChildren(...parts);
  });
}
