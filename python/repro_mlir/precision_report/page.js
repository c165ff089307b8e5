// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The script of a comparison's page: draws the data that the page contains.

const runs = D.runs, compared = runs.slice(1), base = runs[0];

const color = number => `var(--c${number === 0 ? 0 : 1 + (number - 1) % 7})`;
const dash = number => number > 7 ? "7 4" : null;
const lossText = x => x === null ? "not finite" : short(x);
const decibels = x => isNumber(x) ? x.toFixed(1) + " dB" : x === null ? "\u2013" : x;

function percent(count, of) {
  if (!of) return "\u2013";
  const share = 100 * count / of;
  return count === 0 ? "0" : share < .01 ? "<0.01 %" : share.toFixed(2) + " %";
}
function placeOf(contraction) {
  if (contraction.layer !== null) return contraction.layer;
  const found = /^loc\("(.*?)"(?::(\d+))?/.exec(contraction.location);
  return found ? found[1] + (found[2] ? ":" + found[2] : "") : contraction.location;
}

// --- Losses ---

const hiddenRuns = new Set();
// The mean loss of each step and the preceding steps; losses that are not finite are skipped.
function smoothed(values, count) {
  return values.map((value, s) => {
    const near = values.slice(Math.max(0, s - count + 1), s + 1).filter(x => x !== null);
    return value === null ? null : near.reduce((sum, x) => sum + x, 0) / near.length;
  });
}
function drawLosses() {
  const isDifference = $("loss-view").value === "difference", isLog = $("loss-view").value === "log";
  const width = 1100, height = 380, left = 84, right = 16, top = 12, bottom = 50;
  const drawn = runs.map((run, i) => [run, i]).filter(([, i]) => !hiddenRuns.has(i) && !(isDifference && i === 0));
  const valueOf = (run, s) => {
    const loss = run.losses[s];
    if (loss === null) return null;
    return isDifference ? (base.losses[s] === null ? null : loss - base.losses[s]) : loss;
  };
  const curves = new Map(drawn.map(([run]) => {
    const found = smoothed(run.losses.map((_, s) => valueOf(run, s)), Number($("loss-mean").value));
    return [run, found.map(x => x === null || !isLog ? x : x > 0 ? Math.log10(x) : null)];
  }));
  const held = isDifference ? [] : drawn.map(([run, i]) => [run.validation
    .filter(([, loss]) => loss !== null && (!isLog || loss > 0))
    .map(([step, loss]) => [step, isLog ? Math.log10(loss) : loss]), i]);
  const all = [...[...curves.values()].flat(),
    ...held.flatMap(([points]) => points.map(each => each[1]))].filter(x => x !== null && Number.isFinite(x));
  let low = all.reduce((a, b) => Math.min(a, b), Infinity), high = all.reduce((a, b) => Math.max(a, b), -Infinity);
  if (!all.length) [low, high] = [0, 1];
  if (low === high) [low, high] = [low - .5, high + .5];
  const pad = .04 * (high - low);
  low -= pad; high += pad;
  const x = step => left + (D.steps === 1 ? .5 : (step - 1) / (D.steps - 1)) * (width - left - right);
  const y = value => top + (high - value) / (high - low) * (height - top - bottom);
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: "0", "data-chart": "",
    "aria-label": "Losses of all recipes by step. The arrow keys walk through the steps."});
  for (const tick of ticks(low, high, 9)) svg.append(
    make("line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)}),
    make("text", {x: left - 8, y: y(tick) + 4, "text-anchor": "end"}, isLog ? short(10 ** tick, 3) : short(tick, 3)));
  for (const tick of ticks(1, D.steps, 10).filter(Number.isInteger)) svg.append(
    make("text", {x: x(tick), y: height - 28, "text-anchor": "middle"}, String(tick)));
  titleAxes(svg, (left + width - right) / 2, height - 8, (top + height - bottom) / 2, "step",
    isDifference ? "loss minus that of f32" : isLog ? "loss, logarithmic" : "loss");
  svg.append(make("line", {class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom}));
  for (const step of D.sampled) svg.append(
    make("path", {d: `M${x(step) - 4} ${height - bottom + 7}l4 -7l4 7z`, fill: "var(--soft)"}));
  for (const [run, i] of [...drawn].reverse()) {
    let d = "", isDown = false;
    curves.get(run).forEach((value, s) => {
      if (value === null) { isDown = false; return; }
      d += `${isDown ? "L" : "M"}${x(s + 1).toFixed(1)} ${y(value).toFixed(1)}`;
      isDown = true;
    });
    svg.append(make("path", {d, fill: "none", stroke: color(i), "stroke-width": 1.7, "stroke-linejoin": "round",
      "stroke-dasharray": dash(i)}));
    if (run.first_nonfinite !== null) svg.append(
      make("text", {x: x(run.first_nonfinite), y: top + 12, "text-anchor": "middle", style: `fill:${color(i)}`},
        "\u2715"));
  }
  for (const [points, i] of held) {
    if (points.length) svg.append(make("path", {fill: "none", stroke: color(i), "stroke-width": 1.3,
      "stroke-dasharray": "2 4", d: "M" + points.map(([step, loss]) => `${x(step)} ${y(loss)}`).join("L")}));
    for (const [step, loss] of points) svg.append(make("circle", {cx: x(step), cy: y(loss), r: 3.2, fill: "var(--page)",
      stroke: color(i), "stroke-width": 1.6}));
  }
  const line = make("line", {class: "axis", y1: top, y2: height - bottom, visibility: "hidden"});
  svg.append(line);
  walkable(svg, D.steps, at => Math.round((at - left) / (width - left - right) * (D.steps - 1)),
    s => [x(s + 1), top + 60],
    s => [`step ${s + 1}`, ...drawn.map(([run]) => {
      const held = run.validation.find(each => each[0] === s + 1);
      const difference = run === base || run.losses[s] === null || base.losses[s] === null ? ""
        : `  (${run.losses[s] - base.losses[s] >= 0 ? "+" : ""}${(run.losses[s] - base.losses[s]).toPrecision(4)})`;
      return `${run.recipe}: ${run.losses[s] === null ? "not finite" : run.losses[s]}${difference}`
        + (held ? `, validation ${held[1] === null ? "not finite" : held[1]}` : "");
    })].join("\n"),
    s => {
      line.setAttribute("visibility", s === null ? "hidden" : "visible");
      if (s !== null) { line.setAttribute("x1", x(s + 1)); line.setAttribute("x2", x(s + 1)); }
    });
  $("losses").replaceChildren(svg);
}
$("legend").append(...runs.map((run, i) => make("button", {type: "button", "aria-pressed": "true", onclick: event => {
  if (hiddenRuns.has(i)) hiddenRuns.delete(i); else hiddenRuns.add(i);
  event.currentTarget.setAttribute("aria-pressed", String(!hiddenRuns.has(i)));
  drawLosses();
}}, make("i", {style: `border-color:${color(i)};border-top-style:${dash(i) ? "dashed" : "solid"}`}), run.recipe)));
for (const id of ["loss-view", "loss-mean"]) $(id).addEventListener("change", drawLosses);
drawLosses();

const lastOf = run => run.losses[run.losses.length - 1];
const heldOf = run => run.validation.length ? run.validation[run.validation.length - 1][1] : null;
const named = (run, i) => make("span", {},
  make("span", {class: "swatch", style: `background:${color(i)}`}), run.recipe);
const differenceOf = run => lastOf(run) === null || lastOf(base) === null ? null : lastOf(run) - lastOf(base);
table($("runs"), [
  {title: "recipe", value: row => row.run.recipe, cell: row => named(row.run, row.i)},
  {title: "last loss", n: 1, value: row => lastOf(row.run), cell: row => lossText(lastOf(row.run)),
    tip: row => String(lastOf(row.run))},
  {title: "minus f32", n: 1, value: row => row.i ? differenceOf(row.run) : null,
    cell: row => row.i && differenceOf(row.run) !== null
      ? (differenceOf(row.run) >= 0 ? "+" : "") + short(differenceOf(row.run)) : "\u2013",
    tip: row => row.i ? String(differenceOf(row.run)) : null},
  ...(runs.some(run => run.validation.length) ? [{title: "validation", n: 1, value: row => heldOf(row.run),
    cell: row => row.run.validation.length ? lossText(heldOf(row.run)) : "\u2013",
    tip: row => String(heldOf(row.run))}] : []),
  {title: "not finite from", n: 1, value: row => row.run.first_nonfinite,
    cell: row => row.run.first_nonfinite === null ? "\u2013" : "step " + row.run.first_nonfinite},
  {title: "state at the end (H3)", value: row => row.run.state, class: "hash",
    cell: row => row.run.state.slice(0, 16) + "…", tip: row => row.run.state},
  {title: "program (H2)", value: row => row.run.program, class: "hash",
    cell: row => row.run.program.slice(0, 16) + "…", tip: row => row.run.program},
], runs.map((run, i) => ({run, i})));

// --- Layers ---

const shareOf = pick => operands => {
  const found = operands.map(each => pick(each.statistics)).filter(([, of]) => of);
  const worst = found.sort((a, b) => b[0] / b[1] - a[0] / a[1])[0];
  return worst ? {value: worst[0] / worst[1], text: percent(...worst)} : {value: null, text: "\u2013"};
};
const limitOf = s => s.blocks ? [s.blocks.least + s.blocks.greatest, s.blocks.count - s.blocks.zero] : [0, 0];
const MEASURES = {
  result: {isRatio: true, of: (operands, sample) => ({value: sample.result_sqnr_db,
    text: decibels(sample.result_sqnr_db)})},
  operand: {isRatio: true, of: operands => {
    const found = operands.map(each => each.statistics.sqnr_db).filter(x => x !== "exact");
    const worst = found.includes(null) ? null : found.length ? Math.min(...found) : operands.length ? "exact" : "f32";
    return {value: worst, text: decibels(worst)};
  }},
  saturated: {of: shareOf(s => [s.saturated, s.elements])},
  underflowed: {of: shareOf(s => [s.underflowed, s.elements])},
  limit: {of: shareOf(limitOf)},
  nans: {of: shareOf(s => [s.nans_after, s.elements])},
};
function heatOf(measure, value) {
  if (value === null || value === "exact" || value === "f32") return "";
  const part = measure.isRatio ? Math.max(0, Math.min(1, (45 - value) / 45))
    : value <= 0 ? 0 : Math.max(.06, Math.min(1, 1 + Math.log10(value) / 5));
  return `background:color-mix(in srgb, var(--bad) ${(62 * part).toFixed(0)}%, transparent)`;
}
const sampleOf = (run, step) => run.samples.find(each => each.step === step);
const partOf = (run, step, number) => {
  const sample = sampleOf(run, step);
  return sample && sample.contractions.find(each => each.number === number);
};
const chosen = {run: 0, number: null};

function operandTip(operand) {
  const s = operand.statistics;
  return [`${operand.name}: ${operand.format}`,
    `SQNR ${isNumber(s.sqnr_db) ? s.sqnr_db + " dB" : s.sqnr_db || "\u2013"}`,
    `saturated ${s.saturated} of ${s.elements}`, `to zero ${s.underflowed}`,
    s.blocks ? `scales at a limit ${s.blocks.least} + ${s.blocks.greatest} of ${s.blocks.count - s.blocks.zero}` : null,
    `NaN ${s.nans} before, ${s.nans_after} after`, `${s.bytes} bytes, ${s.bytes_f32} in f32`]
    .filter(Boolean).join("\n");
}
function drawLayers() {
  const role = $("role").value, step = Number($("step").value), measure = MEASURES[$("measure").value];
  const rows = base.contractions.map((each, number) => ({each, number})).filter(row => row.each.role === role);
  if (!rows.some(row => row.number === chosen.number)) chosen.number = rows.length ? rows[0].number : null;
  const found = (run, row) => {
    const part = partOf(run, step, row.number);
    return part ? measure.of([...part.operands], part) : {value: null, text: "\u2013"};
  };
  table($("layers"), [
    {title: role === "product" ? "where" : "layer", value: row => placeOf(row.each), class: "h"},
    ...compared.map((run, i) => ({title: run.recipe, n: 1, value: row => found(run, row).value,
      style: row => heatOf(measure, found(run, row).value),
      cell: row => {
        const part = partOf(run, step, row.number);
        const lines = part ? [`result ${isNumber(part.result_sqnr_db) ? part.result_sqnr_db + " dB"
          : part.result_sqnr_db || "\u2013"}`, ...part.operands.map(operandTip)] : [];
        return make("button", {type: "button", "data-tip": [`${run.recipe}, ${placeOf(row.each)}, ${role}`, ...lines]
          .join("\n"), "data-cell": `${i} ${row.number}`,
          "aria-current": String(chosen.run === i && chosen.number === row.number), onclick: () => {
            chosen.run = i; chosen.number = row.number; mark(); drawOperands();
          }}, found(run, row).text);
      }})),
  ], rows, "heat");
  drawOperands();
}
function mark() {
  for (const cell of document.querySelectorAll("[data-cell]"))
    cell.setAttribute("aria-current", String(cell.dataset.cell === `${chosen.run} ${chosen.number}`));
}

// --- Operands ---

function drawHistogram(operand) {
  const s = operand.statistics, h = s.histogram;
  const stats = make("dl", {class: "stats"}, ...[
    ["SQNR", decibels(s.sqnr_db)], ["saturated", percent(s.saturated, s.elements)],
    ["to zero", percent(s.underflowed, s.elements)], ["zeros before", percent(s.zeros, s.elements)],
    ...(s.blocks ? [["blocks", short(s.blocks.count)], ["blocks of zeros", short(s.blocks.zero)],
      ["scale least", percent(s.blocks.least, s.blocks.count - s.blocks.zero)],
      ["scale greatest", percent(s.blocks.greatest, s.blocks.count - s.blocks.zero)],
      ["scale NaN", short(s.blocks.nan)]] : []),
    ["NaN before", short(s.nans)], ["NaN after", short(s.nans_after)],
    ["bytes", short(s.bytes)], ["of f32", (100 * s.bytes / s.bytes_f32).toFixed(1) + " %"],
  ].map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));
  const panel = make("div", {class: "panel"}, make("h3", {}, operand.name + " "),
    make("div", {class: "soft"}, operand.format), stats);
  if (!h) return panel;
  const range = s.range, last = h.first + h.counts.length - 1;
  let low = h.first - 1, high = last + 1;
  if (range) {
    // Limits the axis: with the full range of a format such as bf16, the histogram would be too narrow to read.
    low = Math.max(Math.min(low, range.lowest - 1), h.first - 24);
    high = Math.min(Math.max(high, range.highest + 1), last + 24);
  }
  const width = 560, height = 236, left = 60, right = 10, top = 14, bottom = 48, most = Math.max(...h.counts);
  const slot = (width - left - right) / (high - low + 1);
  const x = exponent => left + (exponent - low) * slot;
  const clip = exponent => Math.max(left, Math.min(width - right, x(exponent)));
  const y = count => top + (1 - count / most) * (height - top - bottom);
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: "0", "data-chart": "",
    "aria-label": `Exponents of ${operand.name} and the range of its format. The arrow keys walk through them.`});
  if (range) {
    const band = (from, to, part) => make("rect", {x: clip(from), width: Math.max(0, clip(to + 1) - clip(from)), y: top,
      height: height - top - bottom, fill: `color-mix(in srgb, var(--mark) ${part}%, transparent)`});
    svg.append(band(range.lowest, range.highest, 9), band(range.least, range.greatest, 14));
  }
  for (const tick of ticks(0, most, 3)) svg.append(
    make("line", {class: "grid", x1: left, x2: width - right, y1: y(tick), y2: y(tick)}),
    make("text", {x: left - 6, y: y(tick) + 4, "text-anchor": "end"},
      tick >= 1000 ? (tick / 1000) + "k" : String(tick)));
  const bars = h.counts.map((count, i) => {
    const exponent = h.first + i, isWithin = (from, to) => exponent >= from && exponent <= to;
    const part = !range || isWithin(range.least, range.greatest) ? "var(--mark)"
      : isWithin(range.lowest, range.highest) ? "var(--near)" : "var(--bad)";
    return make("rect", {x: x(exponent) + .12 * slot, width: .76 * slot, y: y(count),
      height: Math.max(count ? 1 : 0, height - bottom - y(count)), rx: Math.min(2, slot / 6),
      fill: part});
  });
  svg.append(...bars);
  svg.append(make("line", {class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom}));
  for (const tick of ticks(low, high, 9).filter(Number.isInteger)) svg.append(
    make("text", {x: x(tick) + slot / 2, y: height - 28, "text-anchor": "middle"}, String(tick)));
  titleAxes(svg, (left + width - right) / 2, height - 8, (top + height - bottom) / 2, "exponent", "elements");
  walkable(svg, h.counts.length, at => Math.floor((at - left) / slot) + low - h.first,
    i => [x(h.first + i), top + 40],
    i => [`2^${h.first + i} ≤ |x| < 2^${h.first + i + 1}`, `${h.counts[i]} of ${s.elements} elements`,
      range ? `the format: 2^${range.least} to 2^${range.greatest}`
        + (s.blocks ? ` at the median scale, 2^${range.lowest} to 2^${range.highest} in all` : "") : null]
      .filter(Boolean).join("\n"),
    at => bars.forEach((bar, i) => bar.setAttribute("opacity", at === null || at === i ? 1 : .55)));
  panel.append(svg);
  return panel;
}
function drawOperands() {
  const run = compared[chosen.run], step = Number($("step").value);
  const part = chosen.number === null ? null : partOf(run, step, chosen.number);
  const contraction = chosen.number === null ? null : run.contractions[chosen.number];
  $("operands-title").textContent = !contraction ? "" : [`${run.recipe}: ${placeOf(contraction)}`, contraction.role,
    `step ${step}`, contraction.result === "f32" ? null : `result ${contraction.result}`,
    contraction.accumulator ? `adds as ${contraction.accumulator}` : null].filter(Boolean).join(", ");
  $("operands").replaceChildren(...(part && part.operands.length ? part.operands.map(drawHistogram)
    : [make("p", {class: "soft"}, "No operand of this contraction has another format than f32.")]));
}

// --- All operands ---

function drawAll() {
  const run = compared[Number($("all-run").value)], step = Number($("all-step").value), sample = sampleOf(run, step);
  const rows = sample ? sample.contractions.flatMap(part => part.operands.map(operand =>
    ({each: run.contractions[part.number], operand, s: operand.statistics}))) : [];
  const share = (title, pick) => ({title, n: 1, value: row => {
    const [count, of] = pick(row.s);
    return of ? count / of : null;
  }, cell: row => percent(...pick(row.s)), tip: row => pick(row.s).join(" of ")});
  table($("all"), [
    {title: "layer", value: row => placeOf(row.each)}, {title: "role", value: row => row.each.role},
    {title: "operand", value: row => row.operand.name}, {title: "format", value: row => row.operand.format},
    {title: "SQNR", n: 1, value: row => row.s.sqnr_db, cell: row => decibels(row.s.sqnr_db),
      tip: row => String(row.s.sqnr_db)},
    share("saturated", s => [s.saturated, s.elements]), share("to zero", s => [s.underflowed, s.elements]),
    share("scales at a limit", limitOf), share("NaN", s => [s.nans_after, s.elements]),
    {title: "bytes", n: 1, value: row => row.s.bytes, cell: row => short(row.s.bytes)},
    {title: "of f32", n: 1, value: row => row.s.bytes / row.s.bytes_f32,
      cell: row => (100 * row.s.bytes / row.s.bytes_f32).toFixed(1) + " %", tip: row => `${row.s.bytes_f32} in f32`},
  ], rows);
}

if (D.sampled.length) {
  const roles = ["fprop", "wgrad", "dgrad", "product"]
    .filter(role => base.contractions.some(each => each.role === role));
  choices($("role"), roles, roles.map(role => ({fprop: "fprop: forward results", wgrad: "wgrad: weight gradients",
    dgrad: "dgrad: gradients of activations", product: "product: of no weight"})[role]));
  for (const id of ["step", "all-step"]) choices($(id), D.sampled);
  $("step").value = $("all-step").value = D.sampled[D.sampled.length - 1];
  choices($("all-run"), compared.map((_, i) => i), compared.map(run => run.recipe));
  for (const id of ["role", "step", "measure"]) $(id).addEventListener("change", drawLayers);
  for (const id of ["all-run", "all-step"]) $(id).addEventListener("change", drawAll);
  drawLayers();
  drawAll();
} else for (const each of document.querySelectorAll("[data-sampled]")) each.hidden = true;

// --- Weights, and contractions in f32 ---

const layers = [...new Set(compared.flatMap(run => run.weights.map(each => each.name)))];
const errorOf = (run, name) => {
  const found = run.weights.find(each => each.name === name);
  return found ? found.relative_error : null;
};
if (layers.length) table($("weights"), [
  {title: "weight", value: row => row},
  ...compared.map(run => ({title: run.recipe, n: 1, value: row => errorOf(run, row),
    cell: row => errorOf(run, row) === null ? "\u2013" : errorOf(run, row).toExponential(2),
    tip: row => String(errorOf(run, row))})),
], layers);

$("left").append(...compared.map(run => {
  const left = run.contractions.filter(each => each.in_f32 && each.role !== "other");
  const others = run.contractions.filter(each => each.in_f32 && each.role === "other").length;
  const counts = new Map();
  for (const each of left) {
    const key = `${placeOf(each)}, ${each.role}`;
    counts.set(key, (counts.get(key) || 0) + 1);
  }
  const total = `${run.recipe}: ${left.length + others} of ${run.contractions.length}`;
  return make("details", {}, make("summary", {}, total),
    make("ul", {}, ...[...counts].map(([key, count]) => make("li", {}, key + (count > 1 ? `, ${count} times` : ""))),
      others ? make("li", {}, `${others} of the role other, such as gradients of products`) : null));
}));
