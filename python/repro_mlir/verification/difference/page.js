// Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Draws the tables of a difference.

const tensorColumns = [
  {title: "tensor", value: row => row.tensor},
  {title: "elements that differ", n: 1, value: row => row.count,
    cell: row => `${row.count.toLocaleString("en")} of ${row.size.toLocaleString("en")}`},
  {title: "ulps, at most", n: 1, value: row => row.ulps, cell: row => row.ulps === null ? "NaN" : short(row.ulps)},
  {title: "absolute, at most", n: 1, value: row => row.absolute, cell: row => row.absolute.toExponential(2)},
  {title: "of the largest value", n: 1, value: row => row.ratio, cell: row => row.ratio?.toExponential(1) ?? ""},
];
if ($("operators")) table($("operators"), [
  {title: "number", n: 1, value: row => row.index},
  {title: "operator", value: row => row.operator},
  {title: "module or line", value: row => row.origin},
  ...tensorColumns], D.operators);
for (const part of ["given", "results"]) if ($(part)) table($(part), tensorColumns, D[part]);
