// Learning curves of one panel, as SVG. All numbers come from the data; none is computed here.

const MARGIN = { left: 72, right: 14, top: 10, bottom: 46 };
const MARKS = {
  o: "M-3,0a3,3 0 1,0 6,0a3,3 0 1,0 -6,0",
  s: "M-2.7,-2.7H2.7V2.7H-2.7Z",
  D: "M0,-3.7L3.7,0L0,3.7L-3.7,0Z",
  "^": "M0,-3.4L3.4,2.6H-3.4Z",
  v: "M0,3.4L3.4,-2.6H-3.4Z",
  P: "M-1.2,-3.4H1.2V-1.2H3.4V1.2H1.2V3.4H-1.2V1.2H-3.4V-1.2H-1.2Z",
  X: "M-3.4,-1.9L-1.9,-3.4L0,-1.5L1.9,-3.4L3.4,-1.9L1.5,0L3.4,1.9L1.9,3.4L0,1.5L-1.9,3.4"
    + "L-3.4,1.9L-1.5,0Z",
};

function colour(node, line) {
  node.style.setProperty("--light", line.light);
  node.style.setProperty("--dark", line.dark);
  return node;
}

const dashes = (line, width) => line.dash.map((length) => length * width).join(" ") || null;

function swatch(line) {
  const picture = svg("svg", { class: "swatch line", viewBox: "0 0 34 12", "aria-hidden": "true" },
    svg("path", { d: "M1,6H33", class: "stroke", "stroke-dasharray": dashes(line, 1.8) }),
    svg("path", { d: MARKS[line.marker], class: "mark", transform: "translate(17,6)" }));
  return colour(picture, line);
}

// The lines of a panel that have a curve and that the reader has not hidden.
function series(data, group, panel) {
  return panel.lines.map(([which, where]) => {
    const cell = data.cells[where];
    const curves = cell.curves[choice.window];
    const [value, low, high] = curves ? curves[choice.kind] : [];
    const line = group.lines[which];
    return { line, cell, curves, value, low, high, steps: data.grids[cell.grid] };
  }).filter((curve) => curve.value && !choice.hidden.has(curve.line.label));
}

function nice(low, high, wanted) {
  const raw = (high - low) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= raw);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) {
    ticks.push(i * step);
  }
  return { ticks, step };
}

function extent(lines) {
  let [low, high] = [Infinity, -Infinity];
  for (const curve of lines) {
    for (const row of [curve.value, curve.low, curve.high]) {
      for (const y of row || []) {
        if (y === null) continue;
        low = Math.min(low, y);
        high = Math.max(high, y);
      }
    }
  }
  const room = (high - low) * 0.05 || Math.abs(high) * 0.1 || 1;
  return [low - room, high + room];
}

// Ranges of indices without a gap.
function stretches(row) {
  const found = [];
  let begun = null;
  for (let i = 0; i <= row.length; i++) {
    const there = i < row.length && row[i] !== null;
    if (there && begun === null) begun = i;
    if (!there && begun !== null) {
      found.push([begun, i]);
      begun = null;
    }
  }
  return found;
}

function path(points) {
  return `M${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}`;
}

function drawLine(curve, x, y, marks) {
  const all = curve.steps.map((_, i) => i);
  const between = ([a, b]) => all.slice(a, b);
  const g = svg("g", { class: "line", "data-label": curve.line.label });
  for (const stretch of curve.low ? stretches(curve.low) : []) {
    const there = between(stretch);
    const upper = there.map((i) => [x(curve.steps[i]), y(curve.high[i])]);
    const lower = there.reverse().map((i) => [x(curve.steps[i]), y(curve.low[i])]);
    g.append(svg("path", { class: "band", d: `${path([...upper, ...lower])}Z` }));
  }
  for (const stretch of stretches(curve.value)) {
    const points = between(stretch).map((i) => [x(curve.steps[i]), y(curve.value[i])]);
    const d = points.length > 1 ? path(points) : `${path(points)}h0.01`;
    g.append(svg("path", { class: "stroke", d, "stroke-dasharray": dashes(curve.line, 1.8) }));
  }
  const sparse = Math.max(1, Math.floor(curve.steps.length / marks));
  for (let i = Math.floor(sparse / 2); i < curve.steps.length; i += sparse) {
    if (curve.value[i] === null) continue;
    const place = `translate(${x(curve.steps[i]).toFixed(1)},${y(curve.value[i]).toFixed(1)})`;
    g.append(svg("path", { class: "mark", d: MARKS[curve.line.marker], transform: place }));
  }
  for (const i of curve.curves.ends) {
    if (curve.value[i] === null) continue;
    const [px, py] = [x(curve.steps[i]), y(curve.value[i])];
    g.append(svg("path", { class: "end", d: `M${px.toFixed(1)},${(py - 7).toFixed(1)}v14` }));
  }
  return colour(g, curve.line);
}

function axes(picture, x, y, right, base, xs, ys) {
  const places = Math.max(0, -Math.floor(Math.log10(ys.step) + 1e-9));
  const extra = Math.abs(ys.step / 10 ** -places - Math.round(ys.step / 10 ** -places)) > 1e-6;
  for (const tick of ys.ticks) {
    const py = y(tick).toFixed(1);
    picture.append(
      svg("path", { class: "guide", d: `M${MARGIN.left},${py}H${right}` }),
      svg("text", { class: "tick", x: MARGIN.left - 8, y: py, dy: "0.32em", "text-anchor": "end" },
        number(tick, places + (extra ? 1 : 0)).replace(/^−(0(\.0+)?)$/, "$1")));
  }
  for (const tick of xs.ticks) {
    const there = { x: x(tick).toFixed(1), y: base + 18, "text-anchor": "middle" };
    picture.append(svg("text", { class: "tick", ...there }, short(tick)));
  }
  const middle = (MARGIN.top + base) / 2;
  picture.append(
    svg("path", { class: "axis", d: `M${MARGIN.left},${base}H${right}` }),
    svg("text", { class: "tick name", x: (MARGIN.left + right) / 2, y: base + 38,
      "text-anchor": "middle" }, "environment steps"),
    svg("text", { class: "tick name", transform: `translate(13,${middle}) rotate(-90)`,
      "text-anchor": "middle" }, "return"));
}

function draw(data, group, panel, picture, width, height) {
  const lines = series(data, group, panel);
  picture.replaceChildren();
  picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
  picture.setAttribute("width", width);
  picture.setAttribute("height", height);
  if (!lines.length) {
    const some = panel.lines.some(([, where]) => data.cells[where].curves[choice.window]);
    const text = some ? "all lines are hidden" : "no evaluations yet";
    const there = { x: width / 2, y: height / 2, "text-anchor": "middle" };
    picture.append(svg("text", { class: "tick", ...there }, text));
    return null;
  }
  const grids = panel.lines.map(([, where]) => data.grids[data.cells[where].grid]);
  const last = Math.max(1, ...grids.map((steps) => steps[steps.length - 1] || 0));
  const [low, high] = extent(lines);
  const [right, base] = [width - MARGIN.right, height - MARGIN.bottom];
  const x = (step) => MARGIN.left + (step / last) * (right - MARGIN.left);
  const y = (value) => base - ((value - low) / (high - low)) * (base - MARGIN.top);
  const wanted = Math.max(2, Math.round((base - MARGIN.top) / 45));
  axes(picture, x, y, right, base, nice(0, last, width > 480 ? 6 : 4), nice(low, high, wanted));
  picture.classList.toggle("crowded", lines.length > 5);
  picture.append(...lines.map((curve) => drawLine(curve, x, y, width > 480 ? 8 : 4)));
  const cross = svg("g", { class: "cross" });
  picture.append(cross);
  const step = (px) => ((px - MARGIN.left) / (right - MARGIN.left)) * last;
  return { lines, x, y, step, cross, base, write: writer(high - low) };
}

function chart(data, group, panel, large, enlarge) {
  let drawn = null;
  let here = null;
  const inside = (event) => {
    const box = picture.getBoundingClientRect();
    const [left, top] = [event.clientX, event.clientY];
    here = drawn && showTip(drawn, drawn.step(left - box.left), left, top);
  };
  const leave = () => {
    here = null;
    hideTip(drawn);
  };
  const lift = (event) => {
    if (event.pointerType !== "touch") leave(); // a finger must leave before the tip can be read
  };
  const move = (event) => {
    if (event.key === "Escape") leave();
    if (!drawn || !["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    event.preventDefault();
    const { steps } = drawn.lines[0];
    const i = here === null ? -1 : nearest(steps, here) + (event.key === "ArrowLeft" ? -1 : 1);
    const step = steps[Math.max(0, Math.min(steps.length - 1, i))];
    const box = picture.getBoundingClientRect();
    here = showTip(drawn, step, box.left + drawn.x(step), box.top + 20);
  };
  const names = panel.lines.map(([which]) => group.lines[which].label).join(", ");
  const picture = svg("svg", {
    class: "curves",
    role: "img",
    tabindex: "0",
    "data-key": `chart-${panel.title}`,
    "aria-label": `${panel.title}: return against steps of ${names}. Arrow keys read the points.`,
    pointermove: inside,
    pointerdown: inside,
    pointerleave: lift,
    blur: leave,
    keydown: move,
  });
  const title = enlarge
    ? el("button", { type: "button", class: "quiet", title: "Enlarge", click: enlarge,
      "data-key": `enlarge-${panel.title}` }, panel.title)
    : panel.title;
  const figure = el("figure", {}, el("figcaption", {}, title), picture);
  const redraw = () => {
    const width = Math.max(240, Math.floor(figure.clientWidth));
    const height = Math.round(Math.min(large ? 520 : 330, Math.max(230, width * 0.5)));
    drawn = draw(data, group, panel, picture, width, height);
    here = null;
  };
  return { figure, redraw };
}
