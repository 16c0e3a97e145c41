// The data, and what all parts of the page share: elements, tables, charts, colours, downloads.

const data = JSON.parse(document.getElementById("data").textContent);
const faults = [];  // errors of this page, for the self-test
window.addEventListener("error", (event) => faults.push(String(event.message)));
window.addEventListener("unhandledrejection", (event) => faults.push(String(event.reason)));

// Colours that people with any colour vision can distinguish (Okabe and Ito), then dashes besides.
const tree_colours = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"];
const tree_dashes = ["", "9 4", "3 3", "12 3 3 3", "1 4"];
const colour_of = (tree) => tree_colours[tree % tree_colours.length];
const dash_of = (tree) => tree_dashes[Math.floor(tree / tree_colours.length) % tree_dashes.length];
const calm = window.matchMedia("(prefers-reduced-motion: reduce)");

// An element with attributes and children; texts never become markup.
function make(name, attributes = {}, ...children) {
  const is_svg = ["svg", "g", "line", "path", "rect", "circle", "polygon", "text", "title"].includes(name);
  const element = is_svg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== null && value !== false) element.setAttribute(key, value === true ? "" : value);
  }
  for (const child of children) element.append(child);
  return element;
}

// A number as people read it: whole numbers in full, others to six digits.
function shown(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
}

function add_part(id, title) {
  const head = make("h2", {id: "head_" + id}, title);
  const section = make("section", {id: "part_" + id, "aria-labelledby": head.id}, head);
  document.getElementById("main").append(section);
  list_part(id, title);
  return section;
}
function list_part(id, title) {
  document.getElementById("parts").append(make("li", {}, make("a", {href: "#part_" + id}, title)));
}

function bar_of(value, full) {
  const share = full > 0 ? Math.max(0, Math.min(1, value / full)) : 0;
  const fill = make("i", {class: share > 0.9999 ? "full" : null});
  fill.style.width = 100 * share + "%";
  return make("span", {class: "bar", "aria-hidden": "true"}, fill);
}

// A table of the data. Cells carry the place of their value, which the self-test reads.
function add_table(section, name) {
  const table = data.tables[name];
  const columns = table.columns;
  const at = Object.fromEntries(columns.map((column, i) => [column.title, i]));
  const is_number = columns.map((_, i) => table.rows.some((row) => typeof row[i] === "number"));
  const full = columns.map((column, i) => column.bar && !column.of
    ? Math.max(...table.rows.map((row) => Number(row[i]) || 0), 0) : Number(column.of) || 0);
  const head = make("tr");
  columns.forEach((column, i) => head.append(make("th", {scope: "col", class: is_number[i] ? "number" : null},
    column.title + (column.unit ? " (" + column.unit + ")" : ""))));
  const body = make("tbody");
  table.rows.forEach((row, r) => {
    const line = make("tr", {"data-row": r});
    row.forEach((value, c) => {
      const cell = make(c === 0 ? "th" : "td", {scope: c === 0 ? "row" : null, class: is_number[c] ? "number" : null,
        "data-table": name, "data-cell": r + "," + c}, shown(value));
      if (columns[c].bar && typeof value === "number") {
        cell.append(bar_of(value, columns[c].of in at ? row[at[columns[c].of]] : full[c]));
      }
      line.append(cell);
    });
    body.append(line);
  });
  // A heading that only repeats that of its part is for the region's name alone.
  const is_repeated = section.querySelector("h2").textContent === table.title;
  const title = make("h3", {id: "table_" + name, hidden: is_repeated}, table.title);
  const caption = make("caption", {}, table.title + ". " + table.caption);
  section.append(title, make("div", {class: "scroll", tabindex: "0", role: "region", "aria-labelledby": title.id},
    make("table", {"data-name": name}, caption, make("thead", {}, head), body)));
  return body;
}

function save(name, type, content) {
  const link = make("a", {href: URL.createObjectURL(new Blob([content], {type})), download: name});
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// The drawing as a document of its own: the page's styles become attributes.
function as_document(svg) {
  const copy = svg.cloneNode(true);
  const originals = [svg, ...svg.querySelectorAll("*")], copies = [copy, ...copy.querySelectorAll("*")];
  originals.forEach((original, i) => {
    const style = getComputedStyle(original);
    for (const key of ["fill", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-family", "font-weight"]) {
      copies[i].style.setProperty(key, style.getPropertyValue(key));
    }
    copies[i].removeAttribute("class");
  });
  const box = svg.viewBox.baseVal;
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", box.width);
  copy.setAttribute("height", box.height);
  copy.style.background = getComputedStyle(document.body).backgroundColor;
  return new XMLSerializer().serializeToString(copy);
}
function save_png(svg, name) {
  const box = svg.viewBox.baseVal;
  const image = new Image();
  image.onload = () => {
    const canvas = make("canvas", {width: 2 * box.width, height: 2 * box.height});
    const context = canvas.getContext("2d");
    context.fillStyle = getComputedStyle(document.body).backgroundColor;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((blob) => save(name, "image/png", blob), "image/png");
  };
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(as_document(svg));
}
function download_buttons(svg, name) {
  return [
    make("button", {type: "button", onclick: () => save(name + ".svg", "image/svg+xml", as_document(svg))}, "Save SVG"),
    make("button", {type: "button", onclick: () => save_png(svg, name + ".png")}, "Save PNG"),
  ];
}

// The times, rates or speed-ups of two columns over sizes, both axes logarithmic.
function size_chart(section) {
  const table = data.tables.sizes;
  const column = (title) => table.columns.findIndex((each) => each.title === title);
  const x = column("bytes"), width = 720, height = 300, left = 70, bottom = 250;
  const series = [["rate", "plan", "plan"], ["rate of the ring", "ring", "best ring"]].filter(([title]) => column(title) >= 0);
  const values = table.rows.flatMap((row) => series.map(([title]) => row[column(title)])).filter((value) => value > 0);
  const low = Math.log10(Math.min(...values)), high = Math.log10(Math.max(...values));
  const place = (row, title) => [
    left + (width - left - 90) * Math.log(row[x] / table.rows[0][x]) / Math.log(table.rows.at(-1)[x] / table.rows[0][x]),
    bottom - (bottom - 20) * (Math.log10(row[column(title)]) - low) / Math.max(high - low, 1e-9)];
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": "Rate in GB/s over the size of the buffer; the table below has the numbers"});
  svg.append(make("path", {class: "axis", d: `M${left} 15V${bottom}H${width - 20}`}));
  for (const share of [0, 0.5, 1]) {
    const value = 10 ** (low + share * (high - low)), y = bottom - (bottom - 20) * share;
    svg.append(make("text", {x: left - 6, y: y + 4, "text-anchor": "end", class: "faint", "font-size": 12}, Number(value.toPrecision(3)) + ""));
  }
  svg.append(make("text", {x: 4, y: 12, "font-size": 12}, "GB/s"));
  for (const row of table.rows) {
    svg.append(make("text", {x: place(row, "rate")[0], y: bottom + 18, "text-anchor": "middle", class: "faint", "font-size": 12}, String(row[0])));
  }
  for (const [title, style, name] of series) {
    const points = table.rows.map((row) => place(row, title));
    svg.append(make("path", {class: style, d: "M" + points.map((point) => point.map((v) => v.toFixed(1)).join(" ")).join("L")}));
    svg.append(make("text", {x: points.at(-1)[0] + 6, y: points.at(-1)[1] + (style === "ring" ? 14 : 2), "font-size": 12}, name));
  }
  svg.append(make("text", {x: width / 2, y: height - 8, "text-anchor": "middle", "font-size": 12}, "size of the buffer in bytes"));
  section.append(make("figure", {id: "chart_sizes"}, svg), make("div", {class: "controls"}, ...download_buttons(svg, "rates")));
}

function start_page() {
  document.getElementById("title").textContent = data.title;
  document.getElementById("sentence").textContent = data.sentence;
  for (const remark of data.remarks || []) document.getElementById("remarks").append(make("li", {}, remark));
  document.getElementById("theme").addEventListener("change", (event) => {
    document.documentElement.dataset.theme = event.target.value;
  });
  document.getElementById("save_data").addEventListener("click", () =>
    save("report.json", "application/json", document.getElementById("data").textContent));
  document.getElementById("print_page").addEventListener("click", () => window.print());
}

// The parts of the page, in order. A part is there if its data is.
const parts = [
  ["summary", "Summary", ["summary"]],
  ["trees", "Trees and loads", ["trees", "loads"]],
  ["proof", "Proof of the bound", ["proof"]],
  ["time", "Time line", []],
  ["steps", "Steps", ["steps"]],
  ["calls", "Calls", ["collectives", "ranks", "used_links"]],
  ["sizes", "Speed-up by size", ["sizes"]],
  ["allocations", "Speed-up by set of ranks", ["allocations"]],
  ["changes", "What changes would give", ["changes"]],
  ["difference", "Difference of two plans", ["difference", "difference_trees", "difference_loads"]],
  ["links", "Links", ["links"]],
];

function build_page() {
  start_page();
  start_picture();
  for (const [id, title, tables] of parts) {
    const present = tables.filter((name) => data.tables && name in data.tables);
    const has_line = (id === "time" && data.time_line) || (id === "calls" && data.calls);
    if (present.length === 0 && !has_line) continue;
    const section = add_part(id, title);
    if (id === "time") start_time_line(section);
    if (id === "calls" && data.calls) start_calls(section);
    if (id === "sizes") size_chart(section);
    if (id === "proof") explain_proof(section);
    for (const name of present) add_table(section, name);
  }
  start_lessons(add_part("lessons", "Classic algorithms, step by step"));
}
