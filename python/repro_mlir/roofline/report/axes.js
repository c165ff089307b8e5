// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers with units, and axes, for the pages of predictions.

const PREFIXES = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "\u00b5"],
  [1e-9, "n"], [1e-12, "p"]];
// Formats a number with three digits and a unit prefix.
function scaled(x, unit) {
  if (!isNumber(x)) return "\u2013";
  if (x === 0) return `0 ${unit}`;
  const size = Math.abs(x), [power, prefix] = PREFIXES.find(each => size >= .9995 * each[0]) || PREFIXES.at(-1);
  const value = x / power, digits = Math.max(0, 2 - Math.max(0, Math.floor(Math.log10(Math.abs(value) * 1.0005))));
  return `${value.toFixed(Math.min(digits, 2))} ${prefix}${unit}`;
}
// Formats a tick label without trailing zeros.
const tickText = (x, unit) => scaled(x, unit).replace(/(\.\d*?)0+ /, "$1 ").replace(". ", " ");
const seconds = x => scaled(x, "s");
const bytes = x => scaled(x, "B");
const share = (x, of) => of ? (100 * x / of).toFixed(Math.abs(x) < .0995 * of ? 1 : 0) + " %" : "\u2013";
const widthOf = where => {
  const style = getComputedStyle(where);
  return Math.max(260, where.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
};

// Draws an element now and after each change of its width; hidden elements have no width.
function drawn(where, draw) {
  let width = where.clientWidth;
  draw();
  new ResizeObserver(() => {
    if (!where.clientWidth || where.clientWidth === width) return;
    width = where.clientWidth;
    draw();
  }).observe(where);
}

// Creates a scale that maps `low` to `high` onto pixels, and its ticks.
function axis(low, high, from, to, isLog, count) {
  if (isLog) {
    const [a, b] = [Math.log10(low), Math.log10(high)], found = [];
    const every = Math.max(1, Math.ceil((b - a) / count)), parts = 3 * (b - a) <= count ? [1, 2, 5] : [1];
    for (let power = Math.floor(a); power <= b + 1e-9; power++)
      if (power % every === 0) found.push(...parts.map(part => part * 10 ** power)
        .filter(x => x >= low * .999 && x <= high * 1.001));
    return {at: x => from + (Math.log10(x) - a) / (b - a) * (to - from), ticks: found};
  }
  return {at: x => from + (x - low) / (high - low) * (to - from), ticks: ticks(low, high, count)};
}
