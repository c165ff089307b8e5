// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Draws the data embedded in the page of a mapping.

const S = D.simulated;
const BOUNDS = ["compute", "dram", "bisection"], KINDS = ["run", "synchronize", "wait", "transfer"];
// Lists can be longer than the arguments that a call of Math.max may have.
const mostOf = (list, number) => list.reduce((most, each) => Math.max(most, number(each)), 0);
const color = i => `var(--k${i})`;
const boundOf = found => BOUNDS.reduce((a, b) => found.bounds[b] > found.bounds[a] ? b : a);
const named = found => [found.operation, found.source].filter(Boolean).join("\n");
const keysOf = names => names.map((name, i) => make("span", {},
  make("i", {class: "swatch", style: `background:${color(i)}`}), name === "dram" ? "DRAM" : name));
for (const each of document.querySelectorAll("[data-simulated]")) each.hidden = !S;

// --- Cores ---

const whole = S ? S.seconds : D.seconds;
const cores = S ? S.cores.map(each => [...each.at, each.run]) : D.cores;
const shadeOf = part => `color-mix(in srgb, var(--k0) ${Math.round(8 + 92 * Math.min(1, part))}%, var(--page))`;
$("uses").append(...[0, .25, .5, .75, 1].map(part => make("span", {},
  make("i", {class: "swatch", style: `background:${shadeOf(part)}`}), `${100 * part} %`)),
make("span", {}, S ? "of the simulated step" : "of the predicted step"));

function drawCores() {
  const where = $("cores"), width = widthOf(where);
  const all = new Map(D.cores.map(([x, y]) => [`${x},${y}`, 0]));
  for (const [x, y, busy] of cores) all.set(`${x},${y}`, busy);
  const columns = 1 + mostOf(D.cores, each => each[0]), rows = 1 + mostOf(D.cores, each => each[1]);
  const size = Math.min(28, width / columns);
  // A canvas, because a machine can have many thousands of cores.
  const canvas = make("canvas", {role: "img", "data-chart": "", "aria-label":
    `The use of ${all.size} cores in ${columns} columns and ${rows} rows`}), scale = devicePixelRatio || 1;
  canvas.width = columns * size * scale;
  canvas.height = rows * size * scale;
  canvas.style.width = `${columns * size}px`;
  canvas.style.height = `${rows * size}px`;
  const context = canvas.getContext("2d"), probe = make("i", {});
  where.replaceChildren(canvas, probe);
  const shades = [...Array(101).keys()].map(i => {
    probe.style.color = shadeOf(i / 100);
    return getComputedStyle(probe).color;
  });
  probe.remove();
  const gap = size > 4 ? 1 : 0;
  context.scale(scale, scale);
  for (const [at, busy] of all) {
    const [x, y] = at.split(",").map(Number);
    context.fillStyle = shades[whole ? Math.min(100, Math.round(100 * busy / whole)) : 0];
    context.fillRect(x * size, y * size, size - gap, size - gap);
  }
  canvas.addEventListener("mousemove", event => {
    const box = canvas.getBoundingClientRect();
    const x = Math.floor((event.clientX - box.left) / size), y = Math.floor((event.clientY - box.top) / size);
    const busy = all.get(`${x},${y}`);
    if (busy === undefined) hideTip();
    else showTip(`core (${x}, ${y})\nruns kernels for ${seconds(busy)}, ${share(busy, whole)}`, event.clientX,
      event.clientY);
  });
  canvas.addEventListener("mouseleave", hideTip);
}
drawn($("cores"), drawCores);

// --- Launches and memory in time ---

const ends = [];
for (const launch of D.launches) ends.push((ends.at(-1) || 0) + launch.seconds);
const total = ends.at(-1) || 1e-15;
const launchTip = i => {
  const launch = D.launches[i];
  return [`launch ${i + 1} of ${D.launches.length}: ${launch.kernel}`, named(launch),
    `predicted ${seconds(launch.seconds)} on ${launch.cores} cores`,
    ...BOUNDS.map(name => `  ${name} ${seconds(launch.bounds[name])}`),
    `pieces ${launch.partition.join(" x ") || 1}, tiles of ${launch.tile.join(" x ") || "the whole"}`,
    `${bytes(launch.dram_bytes)} of DRAM, ${launch.memory.toLocaleString("en")} bytes of a core`].filter(Boolean).join("\n");
};

// Draws a chart over the predicted time; `draw` adds what is between the axes, for the scales of x and y.
function overTime(where, label, height, top, unit, draw) {
  const width = widthOf(where), left = 66, right = 12, bottom = 26;
  const x = axis(0, total, left, width - right, false, Math.max(3, width / 110));
  const y = axis(0, top, height - bottom, 8, false, height / 40);
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: "0", "data-chart": "",
    "aria-label": `${label}. The arrow keys walk through the launches.`});
  if (unit) for (const tick of y.ticks) svg.append(
    make("line", {class: "grid", x1: left, x2: width - right, y1: y.at(tick), y2: y.at(tick)}),
    make("text", {x: left - 8, y: y.at(tick) + 4, "text-anchor": "end"}, tickText(tick, unit)));
  for (const tick of x.ticks) svg.append(make("text", {x: Math.min(x.at(tick), width - right - 14), y: height - 6,
    "text-anchor": "middle"}, tickText(tick, "s")));
  draw(svg, x, y);
  const mark = make("rect", {y: 8, height: height - bottom - 8, fill: "none", stroke: "var(--text)",
    "stroke-width": 2, visibility: "hidden"});
  svg.append(mark);
  const begin = i => i ? ends[i - 1] : 0;
  if (D.launches.length) walkable(svg, D.launches.length, px => {
    const found = ends.findIndex(end => x.at(end) >= px);
    return found < 0 ? D.launches.length - 1 : found;
  }, i => [x.at(begin(i)), height - bottom], launchTip, i => {
    mark.setAttribute("visibility", i === null ? "hidden" : "visible");
    if (i === null) return;
    mark.setAttribute("x", x.at(begin(i)));
    mark.setAttribute("width", Math.max(1, x.at(ends[i]) - x.at(begin(i))));
  });
  where.replaceChildren(svg);
}
// Calls `draw(launch numbers, from, to)` for runs of launches that are wide enough to be seen.
function runsOf(x, draw) {
  let run = [], from = x.at(0);
  ends.forEach((end, i) => {
    run.push(i);
    if (x.at(end) - from < .8 && i + 1 < ends.length) return;
    draw(run, from, x.at(end));
    run = [];
    from = x.at(end);
  });
}

$("bounds").append(...keysOf(BOUNDS));
drawn($("timeline"), () => overTime($("timeline"), "Predicted launches", 70, 1, "", (svg, x, y) =>
  runsOf(x, (run, from, to) => {
    const longest = run.reduce((a, b) => D.launches[b].seconds > D.launches[a].seconds ? b : a);
    svg.append(make("rect", {x: from, width: Math.max(.3, to - from - (to - from > 4 ? .7 : 0)), y: y.at(1),
      height: y.at(0) - y.at(1), fill: color(BOUNDS.indexOf(boundOf(D.launches[longest])))}));
  })));
drawn($("memory"), () => overTime($("memory"), "Memory of a core", 200, D.data_bytes * 1.05, "B", (svg, x, y) => {
  runsOf(x, (run, from, to) => {
    const most = mostOf(run, i => D.launches[i].memory);
    svg.append(make("rect", {x: from, width: Math.max(.3, to - from), y: y.at(most), height: y.at(0) - y.at(most),
      fill: color(3)}));
  });
  svg.append(make("line", {x1: x.at(0), x2: x.at(total), y1: y.at(D.data_bytes), y2: y.at(D.data_bytes),
    stroke: "var(--bad)", "stroke-width": 2}));
}));

// --- Simulated cores in time ---

if (S) {
  $("kinds").append(...keysOf(KINDS));
  $("left-out").textContent = S.left_out ? `${S.left_out.toLocaleString("en")} shorter intervals are not shown.` : "";
  drawn($("simulated"), () => {
    const where = $("simulated"), width = widthOf(where), left = 66, right = 12;
    const row = Math.max(3, Math.min(18, 900 / Math.max(1, S.cores.length))), height = row * S.cores.length + 30;
    const x = axis(0, S.seconds - S.call_seconds || 1e-15, left, width - right, false, Math.max(3, width / 110));
    const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Simulated cores in time"});
    for (const [kind, core, begin, end] of S.timeline) {
      const isTransfer = kind === "transfer";
      svg.append(make("rect", {x: x.at(begin), width: Math.max(.3, x.at(end) - x.at(begin)),
        y: row * core + (isTransfer ? row * .7 : 0), height: row * (isTransfer ? .3 : .65),
        fill: color(KINDS.indexOf(kind)), "data-tip":
        `core (${S.cores[core].at.join(", ")}): ${kind}, ${seconds(end - begin)} from ${seconds(begin)}`}));
    }
    if (row > 11) S.cores.forEach((core, i) => svg.append(make("text", {x: left - 8, y: row * (i + .75),
      "text-anchor": "end"}, core.at.join(", "))));
    for (const tick of x.ticks) svg.append(make("text", {x: Math.min(x.at(tick), width - right - 14), y: height - 8,
      "text-anchor": "middle"}, tickText(tick, "s")));
    where.replaceChildren(svg);
  });
}

// --- Tables ---

const count = (title, key, format = x => x.toLocaleString("en")) =>
  ({title, n: 1, value: row => row[key], cell: row => format(row[key])});
table($("phases"), [
  {title: "operation", value: row => row.operation, tip: named},
  {title: "source", value: row => row.source, tip: named},
  count("launches", "launches"),
  count("predicted", "seconds", seconds),
  {title: "of the step", n: 1, value: row => row.seconds, cell: row => share(row.seconds, D.seconds)},
  {title: "bound", value: row => row.bound},
  ...BOUNDS.map(name => ({title: name, n: 1, value: row => row.bounds[name], cell: row => seconds(row.bounds[name])})),
  count("cores", "cores"), count("cycles", "cycles", x => scaled(x, "")), count("DRAM", "dram_bytes", bytes),
  count("bytes of a core", "memory"),
], [...D.phases].sort((a, b) => b.seconds - a.seconds));
table($("tensors"), [
  {title: "tensor", value: row => row.name || "\u2013"}, {title: "kind", value: row => row.kind},
  count("bytes", "bytes"), count("address", "address"),
], [...D.tensors].sort((a, b) => b.bytes - a.bytes));
