// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The script of the page of a comparison: draws the data that the page contains.

const found = D.differences.map((each, i) => ({...each, at: i, name: each.name || "(unnamed)"}));
const far = x => x === "inf" ? Infinity : x;
const placeOf = each => (each.step === null ? "" : `step ${each.step}, `) + each.name;
const farText = (x, unit) => x === null || x === undefined ? "–"
  : x.toLocaleString("en") + (unit === "1" ? "" : x === 1 ? " ulp" : " ulps");

$("title").textContent = D.equal ? `${D.sides[0]} and ${D.sides[1]} are equal`
  : found.length ? `First difference: ${placeOf(found[0])}` : "The two sides have different tensors";
document.querySelectorAll("[data-different]").forEach(each => { each.hidden = !found.length; });
document.querySelectorAll("[data-alone]").forEach(each => { each.hidden = !D.only_in.some(side => side.count); });

// --- The largest distance of each tensor, in order ---

function drawChart() {
  let walked = null;
  const width = 1100, height = 260, left = 84, right = 16, top = 14, bottom = 46;
  const known = found.filter(each => isNumber(each.ulps) && each.ulps > 0);
  const high = Math.max(1, ...known.map(each => Math.log10(each.ulps)));
  const x = i => left + (found.length === 1 ? .5 : i / (found.length - 1)) * (width - left - right);
  const y = each => isNumber(each.ulps)
    ? top + (1 - Math.log10(Math.max(1, each.ulps)) / high) * (height - top - bottom) : top;
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: "0", "data-chart": "",
    "aria-label": "Largest distance of each differing tensor, in ulps or as an integer. " +
      "The arrow keys walk through the tensors."});
  for (const tick of ticks(0, high, 5)) if (Number.isInteger(tick)) {
    const line = y({ulps: 10 ** tick});
    svg.append(make("line", {class: "grid", x1: left, x2: width - right, y1: line, y2: line}),
      make("text", {x: left - 8, y: line + 4, "text-anchor": "end"}, `10^${tick}`));
  }
  titleAxes(svg, (left + width - right) / 2, height - 10, (top + height - bottom) / 2,
    "differing tensors, in order", "largest distance (ulps or integers)");
  const dots = found.map((each, i) => make("circle", {cx: x(i), cy: y(each), r: found.length > 200 ? 3 : 5,
    class: isNumber(each.ulps) ? "dot" : "dot other", onclick: () => choose(i)}));
  svg.append(...dots);
  walkable(svg, found.length, near => {
    let best = 0;
    found.forEach((_, i) => { if (Math.abs(x(i) - near) < Math.abs(x(best) - near)) best = i; });
    return best;
  }, i => [x(i), y(found[i])], i => `${placeOf(found[i])}\n${describe(found[i])}`, i => { walked = i; });
  svg.addEventListener("keydown", event => { if (event.key === "Enter" && walked !== null) choose(walked); });
  $("chart").replaceChildren(svg);
  return dots;
}
function describe(each) {
  return each.reason === "elements"
    ? `${each.count.toLocaleString("en")} of ${each.size.toLocaleString("en")} elements, ` +
      `at most ${farText(each.ulps, each.unit)}`
    : `another ${each.reason}: ${each.types.join(" and ")}`;
}

// --- One tensor ---

function choose(i) {
  const each = found[i];
  dots.forEach((dot, k) => dot.classList.toggle("chosen", k === i));
  $("tensor-title").textContent = placeOf(each);
  const hasElements = each.reason === "elements";
  $("tensor-summary").textContent = (each.module ? `Module ${each.module}. ` : "") +
    (hasElements ? `${each.types[0]}: ` : "") + describe(each) + ".";
  $("histogram-title").textContent = each.unit === "1" ? "Elements by difference" : "Elements by distance in ulps";
  for (const id of ["element", "histogram", "histogram-title"]) $(id).hidden = !hasElements;
  if (!hasElements) return;
  const first = each.first;
  $("element").replaceChildren(make("table", {}, make("thead", {}, make("tr", {},
    ...["side", "element", "bits", "value"].map(title => make("th", {scope: "col"}, title)))),
  make("tbody", {}, ...[0, 1].map(k => make("tr", {}, make("td", {}, D.sides[k]),
    make("td", {}, make("code", {}, `[${first.index.join(", ")}]`)), make("td", {}, make("code", {}, first.bits[k])),
    make("td", {}, first.values[k] || "–"))), make("tr", {}, make("td", {}, "distance"),
    make("td", {colspan: 3}, first.ulps === null ? "–"
      : [farText(first.ulps, each.unit), ...(each.unit === "1" ? [] : [`absolute ${short(far(first.absolute))}`]),
        `relative ${short(far(first.relative))}`].join(", "))))));
  drawHistogram(each.histogram);
}
function drawHistogram(bars) {
  const top = Math.max(1, ...bars.map(each => Math.log10(1 + each[1]))), height = 24 * bars.length + 30;
  const svg = make("svg", {viewBox: `0 0 900 ${height}`, role: "img", "aria-label": "Histogram of distances"});
  bars.forEach(([label, count], i) => {
    const length = 560 * Math.log10(1 + count) / top, y = 24 * i;
    svg.append(make("text", {x: 190, y: y + 16, "text-anchor": "end"}, label),
      make("rect", {x: 200, y: y + 3, width: Math.max(length, count ? 1 : 0), height: 17,
        class: label === "equal" ? "count equal" : "count"}),
      make("text", {x: 208 + length, y: y + 16}, count.toLocaleString("en")));
  });
  svg.append(make("text", {x: 200, y: height - 8}, "number of elements, logarithmic"));
  $("histogram").replaceChildren(svg);
}

// --- Tables ---

let dots = [];
if (found.length) {
  dots = drawChart();
  const columns = [
    {title: "#", n: true, value: each => each.at + 1},
    {title: "tensor", value: each => each.name,
      cell: each => make("button", {type: "button", onclick: () => choose(each.at)}, each.name)},
    {title: "type", value: each => each.types[0]},
    {title: "elements that differ", n: true, value: each => each.count, cell: each => each.reason === "elements"
      ? `${each.count.toLocaleString("en")} of ${each.size.toLocaleString("en")}` : `another ${each.reason}`},
    {title: "distance, at most", n: true, value: each => each.ulps, cell: each => farText(each.ulps, each.unit)},
    {title: "absolute", n: true, value: each => far(each.absolute), cell: each => short(far(each.absolute))},
    {title: "relative", n: true, value: each => far(each.relative), cell: each => short(far(each.relative))},
  ];
  if (found.some(each => each.step !== null)) columns.splice(1, 0, {title: "step", n: true, value: each => each.step});
  table($("tensors"), columns, found);
  choose(0);
}
const alone = D.only_in.flatMap(side => [
  ...side.steps.map(step => ({side: side.side, step, name: "all tensors of the step"})),
  ...side.tensors.map(each => ({side: side.side, ...each}))]);
table($("alone"), [{title: "only in", value: each => each.side}, {title: "step", n: true, value: each => each.step},
  {title: "tensor", value: each => each.name}], alone.slice(0, D.drawn));
