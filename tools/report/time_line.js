// The time line of a simulated call, chunk by chunk on each link, and that of recorded calls.

const most_lines = 80;  // links of the time line; of more, the busiest

// The events of the time line as objects.
const crossings = data.time_line ? data.time_line.events.map((event) =>
  Object.fromEntries(data.time_line.fields.map((field, i) => [field, event[i]]))) : [];
const crossings_at = (time) => crossings.filter((each) => each.begin_ns <= time && time < each.end_ns);
const in_time = (nanoseconds) => shown(nanoseconds / 1000) + " us";

function lines_of_links() {
  const busy = data.time_line.links.map(() => 0);
  for (const each of crossings) busy[each.link] += each.end_ns - each.begin_ns;
  const links = data.time_line.links.map((ends, link) => ({link, ends, busy: busy[link]}));
  links.sort((a, b) => b.busy - a.busy);
  return links.slice(0, most_lines).sort((a, b) => a.ends[0] - b.ends[0] || a.ends[1] - b.ends[1]);
}

function draw_time_line(lines) {
  const left = 90, width = 1000, row = 13, total = data.time_line.nanoseconds;
  const height = lines.length * row + 40, x = (time) => left + (width - left - 20) * time / total;
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", id: "time_line",
    "aria-label": "Time from left to right, a row for each link; bars are chunks, filled from the root, outlined towards it"});
  const row_of = new Map(lines.map((line, i) => [line.link, i]));
  lines.forEach(({ends}, i) => svg.append(make("text", {x: left - 6, y: i * row + 20, "text-anchor": "end", "font-size": 10}, `${ends[0]} → ${ends[1]}`)));
  const bars = new Map();
  for (const each of crossings) {
    if (!row_of.has(each.link)) continue;
    const key = each.tree + " " + each.is_reduce, from = x(each.begin_ns), w = Math.max(0.4, x(each.end_ns) - from - 0.3);
    bars.set(key, (bars.get(key) || "") + `M${from.toFixed(1)} ${row_of.get(each.link) * row + 11}h${w.toFixed(1)}v10h-${w.toFixed(1)}z`);
  }
  for (const [key, d] of bars) {
    const [tree, is_reduce] = key.split(" ").map(Number);
    svg.append(make("path", {d, fill: colour_of(tree), "fill-opacity": is_reduce ? 0.25 : 1, stroke: colour_of(tree), "stroke-width": 0.8},
      make("title", {}, `tree ${tree + 1}, ${is_reduce ? "towards" : "from"} the root`)));
  }
  const y = lines.length * row + 16;
  svg.append(make("path", {class: "axis", d: `M${left} ${y}H${width - 20}`}));
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    svg.append(make("text", {x: x(share * total), y: y + 16, "text-anchor": share === 1 ? "end" : "middle", class: "faint", "font-size": 11}, in_time(Math.round(share * total))));
  }
  const now = make("line", {class: "now", x1: left, x2: left, y1: 4, y2: y});
  svg.append(now);
  return {svg, move: (time) => { for (const key of ["x1", "x2"]) now.setAttribute(key, x(time)); }};
}

// Marks what moves on the drawing of the machine.
function draw_moving(active, time) {
  if (!drawing.svg) return;
  let layer = drawing.svg.querySelector(".moving_chunks");
  if (!layer) drawing.svg.append(layer = make("g", {class: "moving_chunks"}));
  layer.replaceChildren();
  drawing.links.forEach((link) => link.classList.remove("busy"));
  for (const each of active) {
    const [from, to] = data.time_line.links[each.link], a = drawing.nodes.get(from), b = drawing.nodes.get(to);
    drawing.links.get(pair_of(from, to))?.classList.add("busy");
    if (!a || !b) continue;
    const share = calm.matches ? 0.5 : (time - each.begin_ns) / (each.end_ns - each.begin_ns || 1);
    layer.append(make("circle", {class: "chunk", cx: a.x + (b.x - a.x) * share, cy: a.y + (b.y - a.y) * share, r: 6, style: `fill:${colour_of(each.tree)}`}));
  }
}

// Play, pause, step and a slider over `count` places. `show(at, is_still)` shows a place.
function player(name, count, show, speed) {
  let timer = null, at = 0;
  const slider = make("input", {type: "range", id: name + "_slider", min: 0, max: count, value: 0, "aria-label": "place in " + name});
  const play = make("button", {type: "button", id: name + "_play", "aria-pressed": "false"}, "Play");
  const go = (to, is_still = true) => {
    at = Math.max(0, Math.min(count, to));
    slider.value = at;
    slider.setAttribute("aria-valuetext", show(at, is_still));
  };
  const stop = () => {
    clearInterval(timer);
    timer = null;
    play.textContent = "Play";
    play.setAttribute("aria-pressed", "false");
    go(at);
  };
  play.addEventListener("click", () => {
    if (timer !== null) return stop();
    if (at >= count) at = 0;
    play.textContent = "Pause";
    play.setAttribute("aria-pressed", "true");
    timer = setInterval(() => (at >= count ? stop() : go(at + 1, false)), calm.matches ? Math.max(speed, 700) : speed);
  });
  slider.addEventListener("input", () => go(Number(slider.value)));
  const button = (id, text, by) => make("button", {type: "button", id: name + "_" + id, onclick: () => { if (timer !== null) stop(); go(by()); }}, text);
  const controls = make("div", {class: "controls", role: "group", "aria-label": "Controls of " + name}, play,
    button("back", "Step back", () => at - 1), button("step", "Step", () => at + 1), button("start", "To the start", () => 0), slider);
  return {controls, go};
}

function start_time_line(section) {
  const line = data.time_line, lines = lines_of_links(), {svg, move} = draw_time_line(lines);
  const times = [...new Set([0, ...crossings.flatMap((each) => [each.begin_ns, each.end_ns])])].sort((a, b) => a - b);
  const state = make("p", {class: "state", role: "status", "aria-live": "polite", id: "time_state"});
  const body = make("tbody", {id: "time_now"});
  const ended = (time) => crossings.filter((each) => each.end_ns <= time).length;
  const show = (at, is_still) => {
    const time = times[at], active = crossings_at(time);
    move(time);
    draw_moving(active, time);
    if (!is_still) return in_time(time);
    const text = `At ${in_time(time)}: ${active.length} chunks on links, ${ended(time)} of ${crossings.length} crossings done.`;
    state.textContent = text;
    body.replaceChildren(...active.slice(0, 40).map((each) => make("tr", {}, ...[
      `${line.links[each.link][0]} → ${line.links[each.link][1]}`, each.tree + 1, each.chunk + 1, each.is_reduce ? "towards" : "from",
      `${each.from} → ${each.to}`, shown(each.begin_ns / 1000), shown(each.end_ns / 1000)].map((cell, i) => make(i ? "td" : "th", {scope: i ? null : "row"}, String(cell))))));
    return text;
  };
  const controls = player("time_line", times.length - 1, show, 60);
  const heads = ["link", "tree", "chunk", "root", "edge", "begin (us)", "end (us)"].map((text) => make("th", {scope: "col"}, text));
  section.append(make("p", {}, `A simulated call of ${line.bytes} bytes (${line.bytes_in_words}): `, shown_path("time_line.messages"), " messages in chunks of at most ",
    shown_path("time_line.largest_chunk"), " bytes. " + (lines.length < line.links.length ? `The ${lines.length} busiest of ${line.links.length} links.` : "")),
    controls.controls, state, make("figure", {}, make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Time line"}, svg),
      make("figcaption", {}, "Bars are chunks in the colours of their trees: filled on the way from the root, pale on the way to it.")),
    make("div", {class: "controls"}, ...download_buttons(svg, "time_line")),
    make("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": "Chunks on links at this time"},
      make("table", {}, make("caption", {}, "Chunks on links at this time, at most 40."), make("thead", {}, make("tr", {}, ...heads)), body)));
  controls.go(0);
}

// Recorded calls: a row for each rank, a bar for each call, cut by causes.
function start_calls(section) {
  const calls = data.calls, most = Math.min(calls.shown, 40);
  const events = calls.events.map((event) => Object.fromEntries(calls.fields.map((field, i) => [field, event[i]])));
  const left = 80, width = 1000, row = 20, height = calls.ranks.length * row + 40;
  const svg = make("svg", {viewBox: `0 0 ${width} ${height}`, role: "img", id: "call_line", "aria-label": "Calls of each rank over time; the tables below have the sums"});
  const layer = make("g");
  const state = make("p", {class: "state", role: "status", "aria-live": "polite"});
  calls.ranks.forEach(({rank}, i) => svg.append(make("text", {x: left - 6, y: i * row + 22, "text-anchor": "end", "font-size": 11}, "rank " + rank)));
  svg.append(layer);
  const show = (first) => {
    const here = events.filter((each) => each.call >= first && each.call < first + most);
    const begin = Math.min(...here.map((each) => each.begin_us)), end = Math.max(...here.map((each) => each.begin_us + each.us));
    const x = (time) => left + (width - left - 20) * (time - begin) / Math.max(end - begin, 1e-9);
    layer.replaceChildren();
    for (const each of here) {
      let from = each.begin_us;
      const parts_of_call = [["peers", each.peers_us], ["receive", each.receive_us], ["send", each.send_us], ["moving", each.us - each.peers_us - each.receive_us - each.send_us]];
      for (const [style, length] of parts_of_call) {
        if (length <= 0) continue;
        layer.append(make("rect", {class: style + (each.ok ? "" : " failed"), x: x(from), y: each.rank * row + 10, width: Math.max(0.3, x(from + length) - x(from)), height: row - 5},
          make("title", {}, `rank ${calls.ranks[each.rank].rank}, call ${each.call + 1} (${calls.names[each.call]}): ${style} ${shown(length)} us`)));
        from += length;
      }
    }
    const text = `Calls ${first + 1} to ${first + most} of ${calls.count}: ${shown(end - begin)} us.`;
    state.textContent = text;
    return text;
  };
  const controls = player("calls", calls.shown - most, show, 300);
  const key = ["peers", "receive", "send", "moving"].map((style) => make("span", {},
    make("svg", {width: 24, height: 12, "aria-hidden": "true"}, make("rect", {class: style, width: 24, height: 12})), " " + style));
  section.append(make("p", {}, calls.shown < calls.count ? `The first ${calls.shown} of ${calls.count} calls.` : `All ${calls.count} calls.`), controls.controls, state,
    make("figure", {}, svg, make("figcaption", {}, "Clocks of hosts are moved so that all leave the first call together. In a bar, waiting for peers comes first, then waiting to receive and to send, then moving, whatever their order was.")),
    make("div", {class: "legend"}, ...key), make("div", {class: "controls"}, ...download_buttons(svg, "calls")));
  controls.go(0);
}
