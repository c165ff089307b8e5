# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""How the page of a comparison looks."""

STYLE = """
:root {
  color-scheme: light dark;
  --page: #ffffff; --panel: #f5f6f8; --line: #d9dce1; --text: #1d2127; --soft: #5b6470; --bad: #d33f49; --mark:
  #2f6fde; --near: #9cbcf2;
  --c0: #1d2127; --c1: #2f6fde; --c2: #c8372d; --c3: #17845b; --c4: #a86a00; --c5: #8348c9; --c6: #007f92; --c7:
  #b3477f;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171b; --panel: #1d2127; --line: #373d46; --text: #e6e9ed; --soft: #9ba5b1; --bad: #ff6b70; --mark:
  #7aa7ff; --near: #47639c;
    --c0: #e6e9ed; --c1: #7aa7ff; --c2: #ff7b70; --c3: #53c596; --c4: #e2ad4c; --c5: #bf94f5; --c6: #4cc3d6;
    --c7: #ec86b6;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 84rem; padding: 1.5rem 1.5rem 6rem; background: var(--page); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .3rem; }
h3 { font-size: .95rem; margin: 0 0 .3rem; font-weight: 600; }
p { margin: .2rem 0 .7rem; max-width: 72ch; }
.soft, .facts dt { color: var(--soft); }
.facts { display: flex; flex-wrap: wrap; gap: .1rem 1.6rem; margin: .4rem 0 0; }
.facts div { display: flex; gap: .45rem; } .facts dd { margin: 0; }
code, .hash { font: 13px ui-monospace, "SF Mono", Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.note { border-left: 3px solid var(--bad); padding: .1rem .8rem; }
.bar { display: flex; flex-wrap: wrap; gap: .5rem 1.2rem; align-items: center; margin: .5rem 0 .8rem; }
label { display: inline-flex; gap: .45rem; align-items: center; max-width: 100%; } select { min-width: 0; }
select, button { font: inherit; color: inherit; background: var(--panel); border: 1px solid var(--line);
  border-radius: 6px; padding: .2rem .55rem; }
button { cursor: pointer; } button:hover, select:hover { border-color: var(--soft); }
:focus-visible { outline: 2px solid var(--mark); outline-offset: 1px; }
.legend { display: flex; flex-wrap: wrap; gap: .4rem; }
.legend button { display: inline-flex; gap: .45rem; align-items: center; }
.legend button[aria-pressed=false] { opacity: .45; }
.legend i { width: 1.4rem; border-top: 3px solid; }
.scroll { overflow-x: auto; max-height: 38rem; overflow-y: auto; border: 1px solid var(--line); border-radius: 8px; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .28rem .7rem; text-align: left; white-space: nowrap; border-bottom: 1px solid var(--line); }
tr:last-child > * { border-bottom: 0; }
thead th { position: sticky; top: 0; background: var(--panel); z-index: 1; font-weight: 600; }
thead th button { all: unset; cursor: pointer; } thead th button:focus-visible { outline: 2px solid var(--mark); }
thead th button::after { content: "\\2195"; opacity: .35; margin-left: .35rem; }
thead th[aria-sort=ascending] button::after { content: "\\2191"; opacity: 1; }
thead th[aria-sort=descending] button::after { content: "\\2193"; opacity: 1; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
tbody tr:hover { background: var(--panel); }
.heat td { padding: 0; } .heat td.h { padding: .28rem .7rem; }
.heat td button { all: unset; display: block; width: 100%; box-sizing: border-box; cursor: pointer; padding: .28rem
  .7rem; text-align: right;
  font-variant-numeric: tabular-nums; }
.heat td button:focus-visible, .heat td button[aria-current=true] { outline: 2px solid var(--mark);
  outline-offset: -2px; }
.swatch { display: inline-block; width: .7rem; height: .7rem; border-radius: 2px; margin-right: .5rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1rem; }
.panel { border: 1px solid var(--line); border-radius: 8px; padding: .8rem 1rem; min-width: 0; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--soft); font: 12px system-ui, sans-serif; }
svg .grid { stroke: var(--line); } svg .axis { stroke: var(--soft); }
dl.stats { display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: .1rem 1rem; margin:
  .4rem 0; }
dl.stats div { display: flex; justify-content: space-between; gap: .6rem; }
dl.stats dt { color: var(--soft); } dl.stats dd { margin: 0; font-variant-numeric: tabular-nums; }
#tip { position: fixed; z-index: 9; pointer-events: none; background: var(--text); color: var(--page); padding:
  .35rem .6rem;
  border-radius: 6px; font-size: 13px; white-space: pre; max-width: 40rem; overflow: hidden; }
@media (max-width: 40rem) { body { padding: 1rem .8rem 4rem; } .charts { grid-template-columns: 1fr; } }
@media print { .scroll { max-height: none; overflow: visible; } }
"""
