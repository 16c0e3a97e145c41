// The classic algorithms: each step moves pieces between ranks, and each rank's pieces are checked.

const log2_of = (ranks) => Math.ceil(Math.log2(ranks));
const all_of = (count) => Array.from({length: count}, (_, i) => i);

// An algorithm has steps, and a step has moves: {from, to, pieces, adds}. The moves of one step
// happen at once. They send what ranks held before it.
const algorithms = {
  ring: {
    name: "Ring all-reduce", goal: "sums", pieces: (ranks) => ranks,
    about: "Each rank sends one piece to the next one: first sums travel round, then results.",
    steps: (ranks) => all_of(2 * (ranks - 1)).map((step) => all_of(ranks).map((rank) => ({from: rank, to: (rank + 1) % ranks,
      pieces: [(rank - step + 2 * ranks) % ranks], adds: step < ranks - 1}))),
  },
  binomial: {
    name: "Binomial tree broadcast", goal: "copies", pieces: () => 1,
    about: "In each step every rank that has the data sends it to one that lacks it.",
    steps: (ranks) => all_of(log2_of(ranks)).map((step) => all_of(2 ** step).filter((rank) => rank + 2 ** step < ranks)
      .map((rank) => ({from: rank, to: rank + 2 ** step, pieces: [0], adds: false}))),
  },
  binomial_all: {
    name: "Binomial tree all-reduce", goal: "sums", pieces: () => 1,
    about: "A reduce along a binomial tree, then a broadcast along the same tree.",
    steps(ranks) {
      const down = algorithms.binomial.steps(ranks);
      return [...down.toReversed().map((step) => step.map((move) => ({...move, from: move.to, to: move.from, adds: true}))), ...down];
    },
  },
  binary: {
    name: "Binary tree broadcast, pipelined", goal: "copies", pieces: () => 4,
    about: "Each rank passes each piece to two children, one after the other; pieces follow each other down the tree.",
    steps(ranks) {
      const held = all_of(ranks).map((rank) => (rank === 0 ? all_of(4) : [])), sent = all_of(ranks).map(() => 0), steps = [];
      while (held.some((pieces) => pieces.length < 4)) {
        const moves = [];
        for (const rank of all_of(ranks)) {
          const children = [2 * rank + 1, 2 * rank + 2].filter((child) => child < ranks);
          const piece = Math.floor(sent[rank] / Math.max(children.length, 1));
          if (children.length === 0 || piece >= held[rank].length) continue;
          moves.push({from: rank, to: children[sent[rank]++ % children.length], pieces: [piece], adds: false});
        }
        for (const move of moves) held[move.to].push(move.pieces[0]);
        steps.push(moves);
      }
      return steps;
    },
  },
  halving: {
    name: "Recursive halving and doubling all-reduce", goal: "sums", pieces: (ranks) => ranks, only_powers: true,
    about: "Pairs at half the distance exchange halves of what is left; then the same way back gathers the results.",
    steps(ranks) {
      const block = (rank, size) => all_of(size).map((i) => Math.floor(rank / size) * size + i);
      const down = [], up = [];
      for (let size = ranks / 2; size >= 1; size /= 2) {
        down.push(all_of(ranks).map((rank) => ({from: rank, to: rank ^ size, pieces: block(rank ^ size, size), adds: true})));
        up.unshift(all_of(ranks).map((rank) => ({from: rank, to: rank ^ size, pieces: block(rank, size), adds: false})));
      }
      return [...down, ...up];
    },
  },
  bruck: {
    name: "Bruck all-gather", goal: "gathered", pieces: (ranks) => ranks,
    about: "In step k each rank sends all it has to the rank 2^k before it: any number of ranks takes the fewest steps.",
    steps: (ranks) => all_of(log2_of(ranks)).map((step) => all_of(ranks).map((rank) => ({from: rank, to: (rank - 2 ** step + ranks) % ranks,
      pieces: all_of(Math.min(2 ** step, ranks - 2 ** step)).map((i) => (rank + i) % ranks), adds: false}))),
  },
};

// What each rank holds of each piece: the ranks whose data is in it; null if it has none.
function first_state(algorithm, ranks) {
  const pieces = algorithm.pieces(ranks);
  return all_of(ranks).map((rank) => all_of(pieces).map((piece) =>
    algorithm.goal === "sums" ? [rank] : (algorithm.goal === "copies" ? rank === 0 : rank === piece) ? [algorithm.goal === "copies" ? 0 : piece] : null));
}

// Applies a step. Throws for a piece that its sender lacks, and for data that would count twice.
function apply_step(state, moves) {
  const next = state.map((row) => row.slice());
  for (const {from, to, pieces, adds} of moves) {
    for (const piece of pieces) {
      const sent = state[from][piece];
      if (!sent) throw new Error(`rank ${from} lacks piece ${piece}`);
      if (adds && sent.some((rank) => next[to][piece].includes(rank))) throw new Error(`piece ${piece} of rank ${to} would count data twice`);
      next[to][piece] = adds ? [...next[to][piece], ...sent].sort((a, b) => a - b) : sent;
    }
  }
  return next;
}

// Returns the states after each step, the last of which meets the goal. Throws if one is wrong.
function run_algorithm(algorithm, ranks) {
  const states = [first_state(algorithm, ranks)];
  for (const moves of algorithm.steps(ranks)) states.push(apply_step(states.at(-1), moves));
  const parts_wanted = algorithm.goal === "sums" ? ranks : 1;
  if (states.at(-1).some((row) => row.some((cell) => !cell || cell.length !== parts_wanted))) throw new Error("the goal is not met");
  return states;
}

const in_runs = (ranks) => {
  if (!ranks) return "–";
  return ranks.length > 2 && ranks.at(-1) - ranks[0] === ranks.length - 1 ? `${ranks[0]}…${ranks.at(-1)}` : ranks.join("+");
};

function start_lessons(section) {
  const choice = make("select", {id: "algorithm"}, ...Object.entries(algorithms).map(([key, each]) => make("option", {value: key}, each.name)));
  const count = make("select", {id: "lesson_ranks"});
  const place = make("div", {class: "lesson"});
  section.append(make("p", {}, "Cells show whose data a rank holds in a piece. Every step is checked: senders have what they send, and no data counts twice."),
    make("div", {class: "controls"}, make("label", {for: "algorithm"}, "Algorithm"), choice, make("label", {for: "lesson_ranks"}, "Ranks"), count), place);
  const offer_counts = () => {
    const is_power = algorithms[choice.value].only_powers, before = Number(count.value) || 8;
    const counts = is_power ? [2, 4, 8, 16] : all_of(15).map((i) => i + 2);
    count.replaceChildren(...counts.map((ranks) => make("option", {value: ranks}, String(ranks))));
    count.value = counts.includes(before) ? before : 8;
  };
  const show = () => show_lesson(place, algorithms[choice.value], Number(count.value));
  choice.addEventListener("change", () => { offer_counts(); show(); });
  count.addEventListener("change", show);
  offer_counts();
  show();
}

function show_lesson(place, algorithm, ranks) {
  const steps = algorithm.steps(ranks), states = run_algorithm(algorithm, ranks), pieces = algorithm.pieces(ranks);
  const state = make("p", {class: "state", role: "status", "aria-live": "polite", id: "lesson_state"});
  const body = make("tbody"), side = 300, middle = side / 2;
  const at = (rank) => ({x: middle + 120 * Math.sin(2 * Math.PI * rank / ranks), y: middle - 120 * Math.cos(2 * Math.PI * rank / ranks)});
  const svg = make("svg", {viewBox: `0 0 ${side} ${side}`, width: side, height: side, role: "img", "aria-label": "The ranks on a circle, with the moves of this step"});
  const largest = Math.max(...all_of(ranks).map((rank) => steps.reduce((sum, moves) =>
    sum + moves.filter((move) => move.from === rank).reduce((of_step, move) => of_step + move.pieces.length, 0), 0)));
  const show = (step) => {
    const moves = step === 0 ? [] : steps[step - 1];
    body.replaceChildren(...states[step].map((row, rank) => make("tr", {}, make("th", {scope: "row"}, "rank " + rank), ...row.map((cell, piece) => {
      const has_come = moves.some((move) => move.to === rank && move.pieces.includes(piece));
      return make("td", {class: (has_come ? "now " : "") + (cell && cell.length === ranks ? "whole" : "")}, in_runs(cell));
    }))));
    svg.replaceChildren();
    for (const {from, to} of moves) {
      const a = at(from), b = at(to), length = Math.hypot(b.x - a.x, b.y - a.y), x = (b.x - a.x) / length, y = (b.y - a.y) / length;
      const tip = {x: b.x - 16 * x, y: b.y - 16 * y}, foot = {x: tip.x - 9 * x, y: tip.y - 9 * y};
      svg.append(make("line", {x1: a.x, y1: a.y, x2: foot.x, y2: foot.y, class: "plan"}),
        make("polygon", {points: [tip.x, tip.y, foot.x - 5 * y, foot.y + 5 * x, foot.x + 5 * y, foot.y - 5 * x].map((v) => v.toFixed(1)).join(" "), style: "fill:var(--bar)"}));
    }
    for (const rank of all_of(ranks)) {
      svg.append(make("circle", {cx: at(rank).x, cy: at(rank).y, r: 14, style: "fill:var(--node);stroke:var(--ink)"}),
        make("text", {x: at(rank).x, y: at(rank).y + 4, "text-anchor": "middle", "font-size": 12}, String(rank)));
    }
    const text = step === 0 ? `Before the first of ${steps.length} steps.`
      : `Step ${step} of ${steps.length}: ${moves.length} moves, each ${moves[0].adds ? "added to what is there" : "copied"}.` +
        (step === steps.length ? " Checked: every rank holds all that it needs, each part once." : "");
    state.textContent = text;
    return text;
  };
  const controls = player("algorithm", steps.length, show, 900);
  const heads = [make("th", {scope: "col"}, ""), ...all_of(pieces).map((piece) => make("th", {scope: "col"}, "piece " + piece))];
  place.replaceChildren(make("p", {}, `${algorithm.about} ${steps.length} steps; a rank sends at most ${shown(largest / pieces)} buffers in all.`),
    controls.controls, state, svg, make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Pieces of each rank"},
      make("table", {}, make("caption", {}, "Whose data each rank holds, piece by piece."), make("thead", {}, make("tr", {}, ...heads)), body)));
  controls.go(0);
}
