// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Draws a report on determinism.

"use strict";
const GRADES = ["everywhere", "same machine", "same run", "unknown"];
const TEXTS = {
  "everywhere": "the same on every machine", "same machine": "the same again on the same machine",
  "same run": "may differ between two runs", "unknown": "unknown",
};
const hideUnless = (name, shown) => document.querySelectorAll(`[data-${name}]`).forEach(each => { each.hidden = !shown; });
const percent = share => share === 0 || share === 1 ? `${100 * share} %`
  : `${Math.min(Math.max(100 * share, 0.1), 99.9).toFixed(1)} %`;
const swatch = grade => make("i", {class: `swatch g${GRADES.indexOf(grade)}`});

// --- Shares ---

function drawShares() {
  $("grades").replaceChildren(...GRADES.map(grade => make("span", {}, swatch(grade), TEXTS[grade])));
  const bars = [["CPU", "cpu"], ["CUDA", "cuda"]].flatMap(([name, device]) =>
    [["operators", `${name}: operators`], ["arithmetic", `${name}: arithmetic`]].map(([what, label]) => ({
      label, parts: GRADES.map(grade => [grade, D.shares[device][grade][what]])})));
  const left = 150, width = 740, row = 34;
  const svg = make("svg", {viewBox: `0 0 ${left + width + 10} ${row * bars.length}`, role: "img",
    "aria-label": "Shares of PyTorch's operators by where their results are the same bits"});
  bars.forEach((bar, i) => {
    let x = left;
    svg.append(make("text", {class: "side", x: left - 10, y: row * i + 21, "text-anchor": "end"}, bar.label));
    for (const [grade, share] of bar.parts) {
      if (!share) continue;
      svg.append(make("rect", {class: `g${GRADES.indexOf(grade)}`, x, y: row * i + 4, width: width * share,
        height: row - 8, tabindex: 0, "data-tip": `${bar.label}: ${percent(share)} ${TEXTS[grade]}`}));
      x += width * share;
    }
  });
  $("shares").replaceChildren(svg);
}

// --- Tables ---

hideUnless("refused", D.refused.length);
hideUnless("eager", D.eager.length);
hideUnless("operations", D.operations.length);
if (D.eager.length) {
  drawShares();
  const grade = (title, key) => ({title, value: each => GRADES.indexOf(each[key]),
    cell: each => make("span", {}, swatch(each[key]), each[key])});
  table($("operators"), [
    {title: "operator", value: each => each.name, cell: each => make("code", {}, each.name)},
    {title: "calls", n: true, value: each => each.count},
    {title: "arithmetic", n: true, value: each => each.arithmetic, cell: each => short(each.arithmetic)},
    {title: "cause", value: each => each.cause, tip: each => each.text},
    grade("CPU", "cpu"), grade("CUDA", "cuda"),
    {title: "most calls at", value: each => each.places[0][0],
      tip: each => each.places.map(([place, count]) => `${place}: ${count.toLocaleString("en")}`).join("\n")},
  ], D.eager);
}
if (D.refused.length) {
  table($("refused"), [
    {title: "operator", value: each => each.name, cell: each => make("code", {}, each.name)},
    {title: "calls", n: true, value: each => each.count},
    {title: "first at", value: each => each.place},
    {title: "reason", value: each => each.reason || "not tried: too many are refused"},
  ], D.refused);
}
if (D.operations.length) {
  table($("operations"), [
    {title: "operation", value: each => each.name, cell: each => make("code", {}, each.name)},
    {title: "number", n: true, value: each => each.count},
    {title: "rules", value: each => each.rules.join(", ") || "none"},
    {title: "what they define", value: each => each.text},
  ], D.operations);
}
