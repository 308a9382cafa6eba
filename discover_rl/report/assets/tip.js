// What the curves say at one step, beside the pointer.

function nearest(steps, wanted) {
  let [low, high] = [0, steps.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low && wanted - steps[low - 1] < steps[low] - wanted ? low - 1 : low;
}

// The points of all lines at the evaluation next to a step.
function pointsAt(drawn, wanted) {
  const found = drawn.lines.map((it) => {
    const i = nearest(it.steps, wanted);
    const runs = Array.isArray(it.curves.runs) ? it.curves.runs[i] : it.curves.runs;
    return { ...it, i, step: it.steps[i], value: it.value[i], runs };
  });
  const away = Math.min(...found.map((it) => Math.abs(it.step - wanted)));
  const step = found.find((it) => Math.abs(it.step - wanted) === away).step;
  const close = (it) => {
    const gap = it.steps.length > 1 ? it.steps[1] - it.steps[0] : 0;
    return it.value !== null && Math.abs(it.step - step) <= gap / 2;
  };
  return { step, points: found.filter(close).sort((a, b) => b.value - a.value) };
}

function showTip(drawn, wanted, left, top) {
  const { step, points } = pointsAt(drawn, wanted);
  const px = drawn.x(step).toFixed(1);
  drawn.cross.replaceChildren(
    svg("path", { class: "rule", d: `M${px},${MARGIN.top}V${drawn.base}` }),
    ...points.map((it) => {
      const place = { cx: px, cy: drawn.y(it.value).toFixed(1), r: 4 };
      return colour(svg("circle", { class: "dot", ...place }), it.line);
    }));
  const rows = points.map((it) => {
    const bounds = it.low && it.low[it.i] !== null ? [it.low[it.i], it.high[it.i]] : [];
    const band = bounds.length ? `[${bounds.map(drawn.write).join(", ")}]` : "";
    return el("tr", {},
      el("th", { scope: "row" }, swatch(it.line), it.line.label),
      el("td", {}, drawn.write(it.value)),
      el("td", { class: "faint" }, band),
      el("td", { class: "faint" }, `${it.runs} run${it.runs === 1 ? "" : "s"}`));
  });
  const tip = at("tip");
  tip.replaceChildren(el("strong", {}, `step ${step.toLocaleString("en")}`), el("table", {}, rows));
  tip.hidden = false;
  const room = { x: document.documentElement.clientWidth, y: window.innerHeight };
  const beside = left + 18 + tip.offsetWidth > room.x ? left - 18 - tip.offsetWidth : left + 18;
  tip.style.left = `${Math.max(6, Math.min(beside, room.x - tip.offsetWidth - 6))}px`;
  // On a phone there is no room beside the finger, so it goes below the curves.
  const picture = drawn.cross.ownerSVGElement;
  const below = room.x < 640 ? picture.getBoundingClientRect().bottom : top + 14;
  tip.style.top = `${Math.max(6, Math.min(below, room.y - tip.offsetHeight - 6))}px`;
  return step;
}

function hideTip(drawn) {
  at("tip").hidden = true;
  if (drawn) drawn.cross.replaceChildren();
}
