// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shared code of all pages: elements, tooltips, tables and charts.

"use strict";
const D = JSON.parse(document.getElementById("data").textContent);
const $ = id => document.getElementById(id);

// --- Elements ---

function make(tag, attributes = {}, ...children) {
  const isDrawing = ["svg", "g", "path", "line", "rect", "text", "circle"].includes(tag);
  const found = isDrawing ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) found.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) found.setAttribute(name, value);
  }
  found.append(...children.filter(each => each !== null && each !== undefined));
  return found;
}

const isNumber = x => typeof x === "number";

function short(x, digits = 4) {
  if (x === null || x === undefined) return "\u2013";
  if (!isNumber(x)) return String(x);
  if (x !== 0 && (Math.abs(x) < 1e-3 || Math.abs(x) >= 1e6)) return x.toExponential(2);
  return Number.isInteger(x) ? x.toLocaleString("en") : x.toFixed(digits);
}
function choices(select, values, texts = values) {
  select.replaceChildren(...values.map((value, i) => make("option", {value}, texts[i])));
}

// --- Tooltips of the element under the pointer or with the focus ---

const tip = make("div", {id: "tip", role: "status", hidden: ""});
document.body.append(tip);
function showTip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
  tip.style.top = Math.max(4, y + 18 + box.height > innerHeight ? y - box.height - 10 : y + 18) + "px";
}
const hideTip = () => { tip.hidden = true; };
document.addEventListener("mousemove", event => {
  const target = event.target.closest && event.target.closest("[data-tip]");
  if (target) showTip(target.dataset.tip, event.clientX, event.clientY);
  else if (!(event.target.closest && event.target.closest("[data-chart]"))) hideTip();
});
document.addEventListener("focusin", event => {
  const target = event.target.closest("[data-tip]");
  if (!target || !target.matches(":focus-visible")) return;
  const box = target.getBoundingClientRect();
  showTip(target.dataset.tip, box.left, box.bottom - 12);
});
document.addEventListener("focusout", hideTip);
document.addEventListener("keydown", event => { if (event.key === "Escape") hideTip(); });

// --- Tables ---

// Columns: {title, n: whether the values are numbers, value: the sort key, cell: text or element, tip}.
function table(where, columns, rows, kind = "") {
  let by = null, sign = 1;
  const body = make("tbody");
  const heads = columns.map((column, i) => make("th", {scope: "col", class: column.n ? "n" : null},
    make("button", {type: "button", onclick: () => { sign = by === i ? -sign : 1; by = i; fill(); }}, column.title)));
  function rank(x) { return x === "exact" ? Infinity : x === null || x === undefined ? -Infinity : x; }
  function fill() {
    heads.forEach((head, i) => head.setAttribute("aria-sort",
      i !== by ? "none" : sign > 0 ? "ascending" : "descending"));
    const order = [...rows];
    if (by !== null) order.sort((a, b) => {
      const [x, y] = [rank(columns[by].value(a)), rank(columns[by].value(b))];
      const less = typeof x === "string" && typeof y === "string"
        ? x.localeCompare(y, "en", {numeric: true}) : x < y ? -1 : x > y ? 1 : 0;
      return sign * less;
    });
    body.replaceChildren(...order.map(row => make("tr", {}, ...columns.map(column => {
      const shown = column.cell ? column.cell(row) : column.value(row);
      const cell = make("td", {class: [column.n ? "n" : "", column.class || ""].join(" ").trim() || null,
        "data-tip": column.tip ? column.tip(row) : null}, shown);
      if (column.style) cell.setAttribute("style", column.style(row) || "");
      return cell;
    }))));
  }
  fill();
  where.replaceChildren(make("div", {class: "scroll " + kind, tabindex: "0", role: "region",
    "aria-label": where.dataset.label || ""}, make("table", {}, make("thead", {}, make("tr", {}, ...heads)), body)));
}

// --- Scales and charts ---

function titleAxes(svg, x, bottom, y, across, along) {
  svg.append(make("text", {x, y: bottom, "text-anchor": "middle"}, across),
    make("text", {transform: `translate(14 ${y}) rotate(-90)`, "text-anchor": "middle"}, along));
}
function ticks(low, high, count) {
  const rough = (high - low) / count || 1, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(x => x * power).find(x => x >= rough);
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++)
    found.push(Number((i * step).toPrecision(12)));
  return found;
}

// Lets the arrow keys step through the points of a chart; `text` describes a point and `mark` highlights it.
function walkable(svg, count, nearest, place, text, mark) {
  let at = null;
  function go(i, x, y) {
    at = Math.max(0, Math.min(count - 1, i));
    mark(at);
    if (x === undefined) {
      const point = place(at), box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
      x = box.left + point[0] / view.width * box.width;
      y = box.top + point[1] / view.height * box.height;
    }
    showTip(text(at), x, y);
  }
  function leave() { mark(null); hideTip(); }
  svg.addEventListener("mousemove", event => {
    const box = svg.getBoundingClientRect();
    const view = svg.viewBox.baseVal, x = (event.clientX - box.left) / box.width * view.width;
    go(nearest(x, (event.clientY - box.top) / box.height * view.height), event.clientX, event.clientY);
  });
  svg.addEventListener("mouseleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", event => {
    const by = {ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -1e9, End: 1e9}[event.key];
    if (by === undefined) return;
    event.preventDefault();
    go((at === null ? (by > 0 ? -1 : count) : at) + by);
  });
}
