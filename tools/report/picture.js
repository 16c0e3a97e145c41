// The drawing: trees over the links of the machine, and the links that prove the bound.

const most_drawn = 12;  // trees side by side on one link
const drawing = {svg: null, nodes: new Map(), links: new Map()};
const pair_of = (a, b) => (a < b ? a + " " + b : b + " " + a);

function start_picture() {
  const section = document.getElementById("part_machine");
  const svg = section.querySelector("svg");
  if (!svg) {
    section.remove();
    return;
  }
  list_part("machine", "Machine and trees");
  drawing.svg = svg;
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "The machine with its links; numbers on links are load and capacity. The tables below list all of them.");
  for (const node of svg.querySelectorAll(".node")) {
    drawing.nodes.set(Number(node.dataset.id), {x: Number(node.dataset.x), y: Number(node.dataset.y), element: node});
  }
  for (const link of svg.querySelectorAll(".link")) drawing.links.set(pair_of(Number(link.dataset.from), Number(link.dataset.to)), link);
  const trees = data.plan ? data.plan.trees : [];
  const controls = document.getElementById("tree_controls");
  if (trees.length > 0) {
    const choice = make("select", {id: "tree"});
    if (trees.length <= most_drawn) choice.append(make("option", {value: "all"}, "all trees"));
    choice.append(make("option", {value: "none"}, "none"));
    trees.forEach((tree, i) => choice.append(make("option", {value: i}, "tree " + (i + 1))));
    choice.value = trees.length <= most_drawn ? "all" : "0";
    const phase = make("select", {id: "phase"}, make("option", {value: "both"}, "both ways"),
      make("option", {value: "reduce"}, "towards the root"), make("option", {value: "broadcast"}, "from the root"));
    for (const control of [choice, phase]) control.addEventListener("change", draw_trees);
    controls.append(make("label", {for: "tree"}, "Trees"), choice, make("label", {for: "phase"}, "Data moves"), phase);
    draw_trees();
  }
  if (data.proof && data.proof.kind !== "none") {
    const box = make("input", {type: "checkbox", id: "show_proof", onchange: () => show_proof(box.checked)});
    controls.append(make("label", {}, box, " show the proof of the bound"));
  }
  controls.append(...download_buttons(svg, "machine"));
}

// The strands of the chosen trees on each pair of nodes: what `blink plan --svg` draws.
function chosen_strands() {
  const choice = document.getElementById("tree").value, phase = document.getElementById("phase").value;
  const strands = new Map();
  data.plan.trees.forEach((tree, i) => {
    if (choice !== "all" && Number(choice) !== i) return;
    for (const way of ["reduce", "broadcast"]) {
      if (phase !== "both" && phase !== way) continue;
      for (const [, , path] of tree[way] || []) {
        for (let hop = 0; hop + 1 < path.length; ++hop) {
          const key = pair_of(path[hop], path[hop + 1]);
          const here = strands.get(key) || strands.set(key, new Map()).get(key);
          const strand = here.get(i) || here.set(i, {forth: false, back: false, only_reduces: true}).get(i);
          strand[path[hop] < path[hop + 1] ? "forth" : "back"] = true;
          strand.only_reduces = strand.only_reduces && way === "reduce";
        }
      }
    }
  });
  return strands;
}

function draw_trees() {
  const layer = drawing.svg.querySelector(".trees"), strands = chosen_strands();
  layer.replaceChildren();
  for (const [key, here] of strands) {
    const [a, b] = key.split(" ").map((id) => drawing.nodes.get(Number(id)));
    if (!a || !b) continue;
    const length = Math.max(1, Math.hypot(b.x - a.x, b.y - a.y)), x = (b.x - a.x) / length, y = (b.y - a.y) / length;
    const rim = Math.min(21, length / 3);
    let number = 0;
    for (const [tree, strand] of here) {
      const aside = (number - (here.size - 1) / 2) * 5.2, back = (number % 3) * 9;
      const from = {x: a.x + x * rim - y * aside, y: a.y + y * rim + x * aside};
      const to = {x: b.x - x * rim - y * aside, y: b.y - y * rim + x * aside};
      const colour = colour_of(tree);
      layer.append(make("line", {class: "strand", x1: from.x, y1: from.y, x2: to.x, y2: to.y, stroke: colour, "stroke-width": 3.2,
        "stroke-dasharray": strand.only_reduces ? "7 4" : dash_of(tree) || null}, make("title", {}, "tree " + (tree + 1))));
      const head = (tip, dx, dy) => {
        const end = {x: tip.x - dx * back, y: tip.y - dy * back}, foot = {x: end.x - dx * 12, y: end.y - dy * 12};
        layer.append(make("polygon", {points: [end.x, end.y, foot.x - dy * 5, foot.y + dx * 5, foot.x + dy * 5, foot.y - dx * 5].map((v) => v.toFixed(1)).join(" "),
          fill: colour, stroke: "white", "stroke-width": 0.6}));
      };
      if (strand.forth) head(to, x, y);
      if (strand.back) head(from, -x, -y);
      ++number;
    }
  }
  draw_legend(strands);
}

function draw_legend(strands) {
  const legend = document.getElementById("legend"), rows = data.tables.trees.rows;
  const drawn = new Set([...strands.values()].flatMap((here) => [...here.keys()]));
  legend.replaceChildren();
  for (const tree of [...drawn].sort((a, b) => a - b)) {
    const swatch = make("svg", {viewBox: "0 0 40 12", width: 40, height: 12, "aria-hidden": "true"},
      make("line", {x1: 2, y1: 6, x2: 38, y2: 6, stroke: colour_of(tree), "stroke-width": 4, "stroke-dasharray": dash_of(tree) || null}));
    legend.append(make("span", {}, swatch, ` tree ${tree + 1}: root ${rows[tree][1]}, weight ${rows[tree][3]}`));
  }
  document.getElementById("picture_words").textContent =
    `Numbers on links: load/capacity in ${data.machine.unit}, once where both directions agree, else near the node that it leaves. ` +
    `Heads show where data goes; a tree is dashed where it only reduces. Drawn: ${drawn.size} of ${data.plan.trees.length} trees.`;
}

// Marks the nodes of a cut, or of the first part of a partition, and the links with a price.
function show_proof(is_on) {
  const sides = data.proof.kind === "cut" ? data.proof.sides : [];
  for (const id of sides.flat()) drawing.nodes.get(id)?.element.classList.toggle("side", is_on);
  for (const [from, to] of data.tables.proof.rows) drawing.links.get(pair_of(from, to))?.classList.toggle("cut", is_on);
}

const shown_path = (path) => make("output", {"data-path": path}, shown(path.split(".").reduce((value, key) => value[key], data)));

function explain_proof(section) {
  if (!data.proof) return;
  section.append(make("p", {}, data.proof.text), make("p", {}, "Sum over the links ", shown_path("proof.sum"), " × factor ",
    shown_path("proof.factor"), " = bound ", shown_path("proof.bound"), " " + data.machine.unit + "."));
}
