// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Draws the data embedded in the page of predictions.

const P = D.predictions;
const isMeasured = P.some(each => isNumber(each.measured)), isSeveral = P.length > 1;
// GPU steps can be measured as a whole, without launch times.
const hasTimes = prediction => prediction.launches.some(each => isNumber(each.measured));
const namesOf = values => [...new Set(values.flatMap(each => Object.keys(each)))];
const causes = namesOf(P.map(each => each.causes));
const causeColor = name => `var(--k${causes.indexOf(name) % 10})`;
const sumOf = values => values.reduce((sum, each) => sum + each, 0);
const unknownOf = each => isNumber(each.measured) ? each.measured - each.seconds : null;
const mainCause = found => Object.keys(found).reduce((a, b) => found[b] > found[a] ? b : a);
const UNITS = {floating_point: "flop"};
const unitOf = name => UNITS[name] || "op";
const spoken = name => name.replaceAll("_", " ");

for (const each of document.querySelectorAll("[data-measured]")) each.hidden = !isMeasured;
for (const each of document.querySelectorAll("[data-times]")) each.hidden = !P.some(hasTimes);
for (const each of document.querySelectorAll("[data-several]")) each.hidden = !isSeveral;

// Aggregates the launches of each kernel.
function kernelsOf(prediction) {
  const found = new Map();
  for (const launch of prediction.launches) {
    if (!found.has(launch.kernel)) found.set(launch.kernel, {name: launch.kernel, launches: 0, seconds: 0,
      operation: launch.operation || "", source: launch.source || "",
      measured: isNumber(launch.measured) ? 0 : null, causes: {}, bytes: {}, operations: {}});
    const kernel = found.get(launch.kernel);
    kernel.launches += 1;
    kernel.seconds += launch.seconds;
    if (kernel.measured !== null) kernel.measured += launch.measured;
    for (const part of ["causes", "bytes", "operations"])
      for (const [name, value] of Object.entries(launch[part])) kernel[part][name] = (kernel[part][name] || 0) + value;
  }
  return [...found.values()];
}
const kernels = P.map(kernelsOf);

// The name, the operations and the source of a kernel or a launch, one line each.
function described(name, found) { return [name, found.operation, found.source].filter(Boolean).join("\n"); }
// The columns that describe kernels, which `kernelOf` returns for a row. Predictions for GPUs have only names.
function kernelColumns(kernelOf) {
  const columns = [{title: "kernel", value: row => kernelOf(row).name}];
  for (const part of ["operation", "source"]) if (kernels.flat().some(each => each[part]))
    columns.push({title: part, value: row => kernelOf(row)[part]});
  return columns.map(each => ({...each, tip: row => described(kernelOf(row).name, kernelOf(row))}));
}

function causesTip(title, found) {
  const known = Object.entries(found.causes).filter(each => each[1] > 0).sort((a, b) => b[1] - a[1]);
  return [title, `predicted ${seconds(found.seconds)}`,
    isNumber(found.measured) ? `measured ${seconds(found.measured)}` : null,
    ...known.map(([name, value]) => `  ${name} ${seconds(value)}, ${share(value, found.seconds)}`),
    isNumber(found.measured) ? `  unknown ${seconds(unknownOf(found))}` : null].filter(Boolean).join("\n");
}

// --- The time of a step ---

function stack(found, scale, title) {
  const part = x => (100 * x / scale).toFixed(3) + "%";
  const bar = make("div", {class: "stack", tabindex: "0", role: "img", "data-tip": causesTip(title, found),
    "aria-label": causesTip(title, found).replaceAll("\n", ", ")});
  let at = 0;
  const add = (from, width, kind, style) => bar.append(
    make("i", {class: kind, style: `left:${part(from)};width:${part(width)};${style}`}));
  for (const [name, value] of Object.entries(found.causes)) {
    if (value > 0) add(at, value, null, `background:${causeColor(name)}`);
    at += value;
  }
  const unknown = unknownOf(found);
  if (unknown !== null) {
    if (unknown > 0) add(at, unknown, "unknown", "");
    if (unknown < 0) add(found.measured, -unknown, "beyond", "");
    bar.append(make("b", {style: `left:${part(found.measured)}`}));
  }
  return bar;
}
function keyOf(name, swatch) { return make("span", {}, swatch, name); }
$("causes").append(...causes.filter(name => P.some(each => each.causes[name] > 0)).map(name =>
  keyOf(name, make("i", {class: "swatch", style: `background:${causeColor(name)}`}))),
  ...(isMeasured ? [keyOf("unknown", make("i", {class: "swatch unknown"}))] : []));
const longest = Math.max(1e-15, ...P.map(each => Math.max(each.seconds, each.measured || 0)));
$("steps").append(...P.map((each, i) => make("div", {class: "row"},
  make("div", {}, make("strong", {}, each.label), make("span", {}, seconds(each.seconds)),
    isNumber(each.measured) ? make("span", {}, `measured ${seconds(each.measured)}, off by `
      + `${each.seconds >= each.measured ? "+" : "\u2212"}`
      + `${share(Math.abs(each.seconds - each.measured), each.measured)}`) : null,
    i && P[0].seconds ? make("span", {class: "soft"}, `${(each.seconds / P[0].seconds).toFixed(2)} of ${P[0].label}`)
      : null),
  stack(each, longest, each.label))));

const ledgerRows = [...causes.filter(name => P.some(each => each.causes[name] > 0))
  .map(name => ({name, of: each => each.causes[name] ?? 0})),
  {name: "predicted", of: each => each.seconds, isSum: true},
  ...(isMeasured ? [{name: "unknown", of: unknownOf}, {name: "measured", of: each => each.measured ?? null,
    isSum: true}, {name: "unknown, without signs", of: each => each.unsigned_unknown ?? null}] : [])];
table($("ledger"), [
  {title: "cause", value: row => row.name, cell: row => row.isSum ? make("strong", {}, row.name) : row.name},
  ...P.flatMap((each, i) => [
    {title: isSeveral ? each.label : "seconds", n: 1, value: row => row.of(each),
      cell: row => seconds(row.of(each)), tip: row => `${row.of(each)} s`},
    {title: "part", n: 1, value: row => row.of(each),
      cell: row => row.of(each) === null ? "\u2013" : share(row.of(each), each.measured ?? each.seconds)}]),
], ledgerRows);

// --- The roofline ---

const chosen = () => Number($("machine").value);
const levels = prediction => namesOf(prediction.launches.map(each => each.bytes));
// The bytes that memory level number `first` or a farther level supplies.
function bytesFrom(kernel, names, first) { return sumOf(names.slice(first).map(name => kernel.bytes[name] || 0)); }
const lineColor = i => `var(--c${1 + i % 7})`;

function drawRoofline() {
  const prediction = P[chosen()], names = levels(prediction), first = Number($("level").value) || 0;
  const unit = $("unit").value, where = $("roofline"), all = kernels[chosen()];
  const total = sumOf(all.map(each => each.seconds)), flat = Object.entries(prediction.ceilings.arithmetic);
  const slopes = Object.entries(prediction.ceilings.bandwidth);
  const points = all.map(kernel => {
    const work = kernel.operations[unit] || 0, moved = bytesFrom(kernel, names, first);
    return {kernel, work, moved, x: work / moved, y: work / kernel.seconds,
      measured: kernel.measured ? work / kernel.measured : null};
  }).filter(each => each.work > 0 && each.moved > 0).sort((a, b) => a.x - b.x);
  const lost = all.filter(each => !points.some(point => point.kernel === each));
  $("left-out").textContent = !lost.length ? "" : `${lost.length} of ${all.length} kernels, `
    + `${share(sumOf(lost.map(each => each.seconds)), total)} of the time, have no such operations or no such bytes.`;
  $("lines").replaceChildren(...[...flat.map(([name, rate]) => `${spoken(name)} ${scaled(rate, unitOf(unit) + "/s")}`),
    ...slopes.map(([name, rate]) => `${name} ${scaled(rate, "B/s")}`)].map((text, i) =>
    keyOf(text, make("i", {style: `border-color:${lineColor(i)}`}))));
  if (!points.length) {
    where.replaceChildren(make("p", {class: "soft"}, "No kernel has such operations and such bytes."));
    return;
  }
  const width = widthOf(where), height = Math.max(280, Math.min(480, width * .6));
  const left = 66, right = 12, top = 12, bottom = 46;
  const peak = Math.max(...flat.map(each => each[1]));
  const ys = points.flatMap(each => [each.y, each.measured]).filter(Boolean), xs = points.map(each => each.x);
  const fast = Math.max(...slopes.map(each => each[1])), slow = Math.min(...slopes.map(each => each[1]));
  const decade = (x, round) => 10 ** round(Math.log10(x));
  const low = decade(Math.min(...xs, peak / fast) / 1.5, Math.floor);
  const high = decade(Math.max(...xs, peak / slow) * 1.5, Math.ceil);
  const x = axis(low, high, left, width - right, true, width / 70);
  const y = axis(decade(Math.min(...ys) / 1.3, Math.floor), Math.max(peak, ...ys) * 2, height - bottom, top, true,
    height / 40);
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: "0", "data-chart": "",
    "aria-label": `Roofline of ${prediction.label}. The arrow keys walk through the kernels.`});
  for (const tick of y.ticks) svg.append(
    make("line", {class: "grid", x1: left, x2: width - right, y1: y.at(tick), y2: y.at(tick)}),
    make("text", {x: left - 8, y: y.at(tick) + 4, "text-anchor": "end"}, tickText(tick, "")));
  for (const tick of x.ticks) svg.append(
    make("line", {class: "grid", x1: x.at(tick), x2: x.at(tick), y1: top, y2: height - bottom}),
    make("text", {x: Math.min(x.at(tick), width - right - 12), y: height - bottom + 18, "text-anchor": "middle"},
      String(Number(tick.toPrecision(3)))));
  titleAxes(svg, (left + width - right) / 2, height - 6, (top + height - bottom) / 2,
    `${unitOf(unit)} for a byte`, `${unitOf(unit)}/s`);
  const floor = 10 ** Math.floor(Math.log10(Math.min(...ys) / 1.3));
  flat.forEach(([, rate], i) => svg.append(make("line", {x1: x.at(Math.max(low, rate / fast)), x2: width - right,
    y1: y.at(rate), y2: y.at(rate), stroke: lineColor(i), "stroke-width": 2})));
  slopes.forEach(([, rate], i) => {
    const from = Math.max(low, floor / rate), to = Math.min(high, peak / rate);
    if (from < to) svg.append(make("line", {x1: x.at(from), y1: y.at(from * rate), x2: x.at(to), y2: y.at(to * rate),
      stroke: lineColor(i + flat.length), "stroke-width": 2}));
  });
  const marks = points.map(point => {
    const r = 3 + 13 * Math.sqrt(point.kernel.seconds / total), color = causeColor(mainCause(point.kernel.causes));
    const found = make("g", {});
    if (point.measured) found.append(
      make("line", {x1: x.at(point.x), x2: x.at(point.x), y1: y.at(point.y), y2: y.at(point.measured), stroke: color,
        "stroke-width": 1.5}),
      make("circle", {cx: x.at(point.x), cy: y.at(point.measured), r: Math.min(r, 7), fill: "var(--page)",
        stroke: color, "stroke-width": 2}));
    found.append(make("circle", {cx: x.at(point.x), cy: y.at(point.y), r, fill: color, "fill-opacity": .8,
      stroke: "var(--page)"}));
    return found;
  });
  // Small marks come last, so that larger ones do not cover them.
  svg.append(...marks.map((mark, i) => [mark, points[i].kernel.seconds]).sort((a, b) => b[1] - a[1])
    .map(each => each[0]));
  const places = points.map(each => [x.at(each.x), y.at(each.y)]);
  walkable(svg, points.length, (px, py) => places.reduce((best, [a, b], i) =>
    Math.hypot(a - px, b - py) < Math.hypot(places[best][0] - px, places[best][1] - py) ? i : best, 0),
    i => places[i], i => roofTip(points[i], prediction, names, first, unit),
    at => marks.forEach((mark, i) => mark.setAttribute("opacity", at === null || at === i ? 1 : .35)));
  where.replaceChildren(svg);
}
function roofTip(point, prediction, names, first, unit) {
  const {kernel} = point, rate = unitOf(unit) + "/s", peak = Math.max(...Object.values(prediction.ceilings.arithmetic));
  // The bandwidth bound: all bytes of the kernel, each at the bandwidth of its level.
  const moving = sumOf(Object.entries(prediction.ceilings.bandwidth).map(([name, bandwidth]) =>
    (kernel.bytes[name] || 0) / bandwidth));
  const roof = Math.min(peak, moving ? point.work / moving : peak);
  return [described(`${kernel.name}, ${kernel.launches} launch${kernel.launches > 1 ? "es" : ""}`, kernel),
    `${scaled(point.y, rate)} predicted in ${seconds(kernel.seconds)}, ${share(point.y, roof)} of the roof`,
    point.measured ? `${scaled(point.measured, rate)} measured in ${seconds(kernel.measured)}` : null,
    `${short(point.x, 3)} ${unitOf(unit)} for a byte`,
    `${scaled(point.work, unitOf(unit))}; ${names.map(name => `${name} ${bytes(kernel.bytes[name] || 0)}`).join(", ")}`,
    `${mainCause(kernel.causes)} takes most of it`].filter(Boolean).join("\n");
}

// --- Kernels ---

function drawKernels() {
  const rows = [...kernels[chosen()]].sort((a, b) => (b.measured ?? b.seconds) - (a.measured ?? a.seconds));
  const scale = Math.max(1e-15, ...rows.map(each => Math.max(each.seconds, each.measured || 0)));
  const prediction = P[chosen()], hasMeasured = hasTimes(prediction);
  const whole = hasMeasured ? prediction.measured : prediction.seconds;
  table($("kernels"), [
    ...kernelColumns(row => row),
    {title: "launches", n: 1, value: row => row.launches},
    {title: "predicted", n: 1, value: row => row.seconds, cell: row => seconds(row.seconds)},
    ...(hasMeasured ? [
      {title: "measured", n: 1, value: row => row.measured, cell: row => seconds(row.measured)},
      {title: "unknown", n: 1, value: unknownOf, cell: row => seconds(unknownOf(row))}] : []),
    {title: "of the step", n: 1, value: row => row.measured ?? row.seconds,
      cell: row => share(row.measured ?? row.seconds, whole)},
    {title: "causes", value: row => row.measured ?? row.seconds, cell: row => stack(row, scale, row.name)},
    ...Object.keys(prediction.causes).filter(name => rows.some(row => row.causes[name] > 0)).map(name => ({title: name,
      n: 1, value: row => row.causes[name] ?? 0, cell: row => seconds(row.causes[name] ?? 0)})),
    ...namesOf(rows.map(row => row.operations)).filter(name => rows.some(row => row.operations[name] > 0)).map(name =>
      ({title: spoken(name), n: 1, value: row => row.operations[name] || 0,
        cell: row => scaled(row.operations[name] || 0, unitOf(name))})),
    {title: "bytes", n: 1, value: row => sumOf(Object.values(row.bytes)), cell: row =>
      bytes(sumOf(Object.values(row.bytes))), tip: row => Object.entries(row.bytes).map(([name, value]) =>
      `${name} ${bytes(value)}`).join("\n")},
  ], rows);
}

function chooseMachine() {
  const names = levels(P[chosen()]), level = $("level").value, unit = $("unit").value;
  const units = namesOf(kernels[chosen()].map(each => each.operations)).filter(name =>
    kernels[chosen()].some(each => each.operations[name] > 0));
  choices($("level"), names.map((_, i) => i), names.map((name, i) => i === 0 ? "all" : i === names.length - 1
    ? `from ${name}` : `from ${name} and beyond`));
  choices($("unit"), units, units.map(spoken));
  if (level && names[level]) $("level").value = level;
  if (units.includes(unit)) $("unit").value = unit;
  drawRoofline();
  drawKernels();
}
choices($("machine"), P.map((_, i) => i), P.map(each => each.label));
$("machine").value = String(Math.max(0, P.findIndex(each => isNumber(each.measured))));
chooseMachine();
$("machine").addEventListener("change", chooseMachine);
for (const id of ["level", "unit"]) $(id).addEventListener("change", drawRoofline);
drawn($("roofline"), drawRoofline);

// --- Timeline of launches ---

// Draws one row of launches; adjacent launches too narrow to see share a rectangle.
function lane(title, launches, pick, width, isLast) {
  const left = 2, right = 8, height = isLast ? 62 : 44, ends = [];
  const x = axis(0, longest, left, width - right, false, Math.max(3, width / 110));
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: "0", "data-chart": "",
    "aria-label": `${title}. The arrow keys walk through the launches.`});
  svg.append(make("text", {x: left, y: 12}, title));
  let at = 0, run = null;
  const flush = () => {
    if (run) svg.append(make("rect", {x: run.from, width: Math.max(.3, run.to - run.from - (run.to - run.from > 4
      ? .7 : 0)), y: 18, height: 22, fill: causeColor(mainCause(run.causes))}));
    run = null;
  };
  launches.forEach((launch, i) => {
    const from = x.at(at);
    at += pick(launch);
    ends.push(at);
    const to = x.at(at);
    if (run && to - run.from > .8) flush();
    if (!run) run = {from, to, causes: {}};
    run.to = to;
    for (const [name, value] of Object.entries(launch.causes)) run.causes[name] = (run.causes[name] || 0) + value;
  });
  flush();
  const mark = make("rect", {y: 15, height: 28, fill: "none", stroke: "var(--text)", "stroke-width": 2,
    visibility: "hidden"});
  svg.append(mark);
  if (isLast) {
    svg.append(make("line", {class: "axis", x1: left, x2: width - right, y1: 43, y2: 43}));
    for (const tick of x.ticks) svg.append(make("text", {x: Math.max(left, Math.min(x.at(tick), width - right - 8)),
      y: 58, "text-anchor": x.at(tick) < 20 ? "start" : x.at(tick) > width - 40 ? "end" : "middle"}, tickText(tick, "s")));
  }
  const place = i => [x.at(i ? ends[i - 1] : 0), x.at(ends[i])];
  walkable(svg, launches.length, px => {
    const found = ends.findIndex(end => x.at(end) >= px);
    return found < 0 ? launches.length - 1 : found;
  }, i => [place(i)[0], 44], i => causesTip(described(`launch ${i + 1} of ${launches.length}: ${launches[i].kernel}`, launches[i]), launches[i]),
  i => {
    mark.setAttribute("visibility", i === null ? "hidden" : "visible");
    if (i === null) return;
    mark.setAttribute("x", place(i)[0]);
    mark.setAttribute("width", Math.max(1, place(i)[1] - place(i)[0]));
  });
  return make("div", {class: "lane"}, svg);
}
const lanes = P.flatMap(each => [[`${each.label}, predicted`, each.launches, launch => launch.seconds],
  ...(hasTimes(each) ? [[`${each.label}, measured`, each.launches, launch => launch.measured]] : [])])
  .filter(each => each[1].length);
drawn($("timeline"), () => $("timeline").replaceChildren(...lanes.map((each, i) =>
  lane(...each, widthOf($("timeline")), i === lanes.length - 1)),
...(lanes.length ? [] : [make("p", {class: "soft"}, "There are no launches.")])));

// --- Kernels by machine ---

if (isSeveral) {
  const byName = kernels.map(found => new Map(found.map(each => [each.name, each])));
  const byAnyName = new Map(kernels.flat().map(each => [each.name, each]));
  table($("machines"), [
    ...kernelColumns(row => byAnyName.get(row)),
    ...P.map((each, i) => ({title: each.label, n: 1, value: row => byName[i].get(row)?.seconds,
      cell: row => seconds(byName[i].get(row)?.seconds), tip: row => byName[i].has(row)
        ? causesTip(`${row} on ${each.label}`, byName[i].get(row)) : null})),
  ], [...byAnyName.keys()]);
}
