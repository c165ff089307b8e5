// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Draws the data embedded in the page of a sweep.

const points = D.points, losses = D.losses || null;
const names = [...new Set(points.flatMap(each => Object.keys(each.given)))];
const hasPrograms = points.some(each => each.program);
const settings = (point, without) => [point.machine, ...Object.entries(point.given)
  .filter(([name]) => name !== without).map(([name, value]) => `${name}=${value}`)].join(" ");
const lineColor = i => `var(--k${i % 10})`;
const dashOf = i => i > 9 ? "6 4" : null;
const key = (text, i) => make("span", {}, make("i", {style: `border-color:${lineColor(i)};border-top-style:${
  dashOf(i) ? "dashed" : "solid"}`}), text);

// Draws curves, each {label, points: [[x, y, tip]]}; the arrow keys step through all points.
function curves(where, found, label, across, along, format) {
  const all = found.flatMap((curve, i) => curve.points.map(point => ({point, i}))).sort((a, b) =>
    a.point[0] - b.point[0] || a.i - b.i);
  if (!all.length) {
    where.replaceChildren(make("p", {class: "soft"}, "There is nothing to draw."));
    return;
  }
  const width = widthOf(where), height = Math.max(260, Math.min(420, width * .55));
  const left = 66, right = 16, top = 12, bottom = 46;
  const extent = n => [Math.min(...all.map(each => each.point[n])), Math.max(...all.map(each => each.point[n]))];
  const [low, high] = extent(0), isLog = low > 0 && high / low > 20 && across.isLog;
  let [bottomY, topY] = extent(1);
  bottomY = format.fromZero ? 0 : bottomY - .05 * (topY - bottomY || 1);
  topY += .06 * (topY - bottomY || 1);
  const x = isLog ? axis(low / 1.2, high * 1.2, left, width - right, true, width / 80)
    : axis(low - (high - low ? .03 * (high - low) : .5 * (low || 1)), high + (high - low ? .03 * (high - low)
      : .5 * (low || 1)), left, width - right, false, Math.max(3, width / 130));
  const y = axis(bottomY, topY, height - bottom, top, false, 6);
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: "0", "data-chart": "",
    "aria-label": `${label}. The arrow keys walk through the points.`});
  for (const tick of y.ticks) svg.append(
    make("line", {class: "grid", x1: left, x2: width - right, y1: y.at(tick), y2: y.at(tick)}),
    make("text", {x: left - 8, y: y.at(tick) + 4, "text-anchor": "end"}, format.tick(tick)));
  for (const tick of x.ticks) svg.append(
    make("line", {class: "grid", x1: x.at(tick), x2: x.at(tick), y1: top, y2: height - bottom}),
    make("text", {x: Math.min(x.at(tick), width - right - 14), y: height - bottom + 18, "text-anchor": "middle"},
      tickText(tick, across.unit)));
  titleAxes(svg, (left + width - right) / 2, height - 6, (top + height - bottom) / 2, across.title, along);
  const isFew = all.length <= 400;
  found.forEach((curve, i) => {
    svg.append(make("path", {fill: "none", stroke: lineColor(i), "stroke-width": 1.8, "stroke-linejoin": "round",
      "stroke-dasharray": dashOf(i), d: "M" + curve.points.map(([a, b]) =>
        `${x.at(a).toFixed(1)} ${y.at(b).toFixed(1)}`).join("L")}));
    const [a, b] = curve.points.at(-1);
    if (!format.dots) svg.append(make("circle", {cx: x.at(a), cy: y.at(b), r: 4, fill: lineColor(i)}));
    if (isFew && format.dots) svg.append(...curve.points.map(([a, b]) =>
      make("circle", {cx: x.at(a), cy: y.at(b), r: 3.2, fill: lineColor(i)})));
  });
  const mark = make("circle", {r: 6, fill: "none", stroke: "var(--text)", "stroke-width": 2, visibility: "hidden"});
  svg.append(mark);
  const places = all.map(({point}) => [x.at(point[0]), y.at(point[1])]);
  walkable(svg, all.length, (px, py) => places.reduce((best, [a, b], i) =>
    Math.hypot(a - px, b - py) < Math.hypot(places[best][0] - px, places[best][1] - py) ? i : best, 0),
    i => places[i], i => `${found[all[i].i].label}\n${all[i].point[2]}`, i => {
      mark.setAttribute("visibility", i === null ? "hidden" : "visible");
      if (i === null) return;
      mark.setAttribute("cx", places[i][0]);
      mark.setAttribute("cy", places[i][1]);
    });
  where.replaceChildren(svg);
}

// --- Losses ---

function meanOf(values, at, count) {
  const near = values.slice(Math.max(0, at - count + 1), at + 1).filter(x => x !== null);
  return near.reduce((sum, x) => sum + x, 0) / near.length;
}
function drawLosses() {
  const chosen = $("point").value, count = Number($("loss-mean").value);
  const found = Object.entries(losses).map(([name, values]) => {
    const point = points.find(each => each.program === name && settings(each) === chosen);
    return {label: name, points: values.map((loss, i) => loss === null ? null
      : [(i + 1) * point.seconds, meanOf(values, i, count),
        `step ${i + 1}, ${seconds((i + 1) * point.seconds)}\nloss ${loss}`]).filter(Boolean)};
  });
  $("recipes").replaceChildren(...found.map((curve, i) => key(curve.label, i)));
  curves($("losses"), found, "Losses by predicted time", {title: "predicted time", unit: "s"}, "loss",
    {tick: x => String(Number(x.toPrecision(6))), dots: false});
}
for (const each of document.querySelectorAll("[data-losses]")) each.hidden = !losses;
if (losses) {
  choices($("point"), [...new Set(points.map(each => settings(each)))]);
  for (const id of ["point", "loss-mean"]) $(id).addEventListener("change", drawLosses);
  drawn($("losses"), drawLosses);
}

// --- Times ---

function drawTimes() {
  const across = $("across").value, bySeries = new Map();
  for (const point of points) {
    if (!(across in point.numbers)) continue;
    const label = [hasPrograms ? point.program : null, settings(point, across)].filter(Boolean).join(", ");
    if (!bySeries.has(label)) bySeries.set(label, []);
    bySeries.get(label).push([point.numbers[across], point.seconds,
      `${across} ${scaled(point.numbers[across], "")}\n${seconds(point.seconds)} a step`]);
  }
  const found = [...bySeries].map(([label, all]) => ({label, points: all.sort((a, b) => a[0] - b[0])}));
  // Beyond 20 curves, readers cannot distinguish the keys, so only tooltips show the names.
  $("series").replaceChildren(...(found.length > 20 ? [make("span", {class: "soft"}, `${found.length} curves`)]
    : found.map((curve, i) => key(curve.label, i))));
  curves($("times"), found, `Time of a step by ${across}`, {title: across, unit: "", isLog: true}, "time of a step",
    {tick: x => tickText(x, "s"), dots: true, fromZero: true});
}
choices($("across"), names);
$("across").addEventListener("change", drawTimes);
drawn($("times"), drawTimes);

table($("points"), [
  {title: "machine", value: row => row.machine},
  ...(hasPrograms ? [{title: "recipe", value: row => row.program}] : []),
  ...names.map(name => ({title: name, n: 1, value: row => row.numbers[name], cell: row => row.given[name] ?? "\u2013",
    tip: row => name in row.numbers ? String(row.numbers[name]) : null})),
  {title: "step", n: 1, value: row => row.seconds, cell: row => seconds(row.seconds), tip: row =>
    Object.entries(row.causes).map(([name, value]) => `${name} ${seconds(value)}`).join("\n")},
  ...(losses ? [
    {title: "training", n: 1, value: row => row.seconds * losses[row.program].length,
      cell: row => seconds(row.seconds * losses[row.program].length)},
    {title: "last loss", n: 1, value: row => losses[row.program].at(-1),
      cell: row => losses[row.program].at(-1) === null ? "not finite" : short(losses[row.program].at(-1))}] : []),
], points);
