// The end: builds the page. With #selftest in its address the page compares itself with its data.

// A shown number is its value: exactly for whole numbers, else to six digits.
function agrees(text, value) {
  if (value === null) return text === "–";
  if (typeof value !== "number") return text === String(value);
  const number = Number(text);
  return Number.isInteger(value) ? number === value : Math.abs(number - value) <= 1e-5 * Math.abs(value);
}

function contrast(a, b) {
  const luminance = (colour) => {
    const [red, green, blue] = colour.match(/[\d.]+/g).slice(0, 3).map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const [dark, light] = [luminance(a), luminance(b)].sort((x, y) => x - y);
  return (light + 0.05) / (dark + 0.05);
}

function self_test() {
  const wrong = [];
  let checked = 0;
  const expect = (is_right, what) => { ++checked; if (!is_right) wrong.push(what); };
  // Every cell of every table.
  for (const [name, table] of Object.entries(data.tables || {})) {
    const cells = document.querySelectorAll(`[data-table="${name}"]`);
    expect(cells.length === table.rows.reduce((sum, row) => sum + row.length, 0), "cells of " + name);
    for (const cell of cells) {
      const [row, column] = cell.dataset.cell.split(",").map(Number);
      expect(agrees(cell.firstChild ? cell.firstChild.textContent : "", table.rows[row][column]), `${name} ${row},${column}: ${cell.textContent}`);
    }
  }
  for (const output of document.querySelectorAll("[data-path]")) {
    const value = output.dataset.path.split(".").reduce((at, key) => at[key], data);
    expect(agrees(output.textContent, value), output.dataset.path);
  }
  // Bars are as long as the shares that they show.
  for (const bar of document.querySelectorAll('[data-table="loads"] .bar i')) {
    const cell = bar.closest("[data-cell]"), row = data.tables.loads.rows[Number(cell.dataset.cell.split(",")[0])];
    expect(Math.abs(parseFloat(bar.style.width) - row.at(-1)) < 0.01, "bar of " + row.slice(0, 2));
  }
  if (document.getElementById("tree")) test_trees(expect);
  if (data.time_line) test_time_line(expect);
  for (const algorithm of Object.values(algorithms)) {
    for (const ranks of algorithm.only_powers ? [2, 4, 8, 16] : all_of(15).map((i) => i + 2)) {
      try { run_algorithm(algorithm, ranks); ++checked; } catch (fault) { wrong.push(`${algorithm.name}, ${ranks} ranks: ${fault.message}`); }
    }
  }
  const body = getComputedStyle(document.body);
  for (const selector of ["#sentence", "caption", "thead th", "h2", "nav a", "button"]) {
    const element = document.querySelector(selector);
    if (!element) continue;
    const style = getComputedStyle(element), ground = style.backgroundColor === "rgba(0, 0, 0, 0)" ? body.backgroundColor : style.backgroundColor;
    expect(contrast(style.color, ground) >= 4.5, `contrast of ${selector}: ${style.color} on ${ground}`);
  }
  for (const control of document.querySelectorAll("button, select, input")) {
    const named = control.textContent || control.getAttribute("aria-label") || (control.labels && control.labels.length);
    expect(Boolean(named), "a control without a name");
  }
  for (const table of document.querySelectorAll("table")) expect(table.caption && table.querySelector("th[scope=col]"), "a table without caption or heads");
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  expect(new Set(ids).size === ids.length, "an id is there twice");
  for (const fault of faults) wrong.push("error: " + fault);
  return wrong.length === 0 ? `ok: ${checked} checks` : `failed: ${wrong.slice(0, 20).join("; ")}`;
}

// Each tree alone has a strand on each pair of nodes that its paths join.
function test_trees(expect) {
  const choice = document.getElementById("tree"), before = choice.value;
  data.plan.trees.slice(0, 20).forEach((tree, i) => {
    choice.value = i;
    choice.dispatchEvent(new Event("change"));
    const pairs = new Set();
    for (const [, , path] of [...(tree.reduce || []), ...(tree.broadcast || [])]) path.slice(1).forEach((id, hop) => pairs.add(pair_of(path[hop], id)));
    expect(document.querySelectorAll(".strand").length === pairs.size, "strands of tree " + (i + 1));
  });
  choice.value = before;
  choice.dispatchEvent(new Event("change"));
}

// The table of chunks at a time lists those that the data has then; the slider moves both ways.
function test_time_line(expect) {
  const slider = document.getElementById("time_line_slider");
  for (const share of [0, 0.31, 0.77, 1, 0]) {
    slider.value = Math.round(share * Number(slider.max));
    slider.dispatchEvent(new Event("input"));
    const text = document.getElementById("time_state").textContent;
    const [, time, active, done, all] = text.match(/At (.*) us: (\d+) chunks on links, (\d+) of (\d+)/);
    const at = [...new Set([0, ...data.time_line.events.flatMap((event) => [event[6], event[7]])])].sort((a, b) => a - b)[Number(slider.value)];
    expect(agrees(time, at / 1000), "time of the slider: " + text);
    expect(Number(active) === data.time_line.events.filter((event) => event[6] <= at && at < event[7]).length, "chunks on links: " + text);
    expect(Number(done) === data.time_line.events.filter((event) => event[7] <= at).length && Number(all) === data.time_line.events.length, "crossings: " + text);
    expect(document.getElementById("time_now").rows.length === Math.min(40, Number(active)), "rows of chunks: " + text);
  }
  expect(Math.max(...data.time_line.events.map((event) => event[7])) <= data.time_line.nanoseconds, "a chunk ends after the call");
}

build_page();
if (location.hash === "#selftest") document.documentElement.dataset.selftest = self_test();
