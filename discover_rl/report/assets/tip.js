// The values of the curves at one step, beside the pointer.

function nearest(steps, wanted) {
  let [low, high] = [0, steps.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (steps[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low && wanted - steps[low - 1] < steps[low] - wanted ? low - 1 : low;
}

// The points of all lines at the evaluation nearest to a step.
function pointsAt(drawn, wanted) {
  const found = drawn.lines.map((line) => {
    const i = nearest(line.steps, wanted);
    const runs = Array.isArray(line.curves.runs) ? line.curves.runs[i] : line.curves.runs;
    return { ...line, i, step: line.steps[i], value: line.value[i], runs };
  });
  const away = Math.min(...found.map((point) => Math.abs(point.step - wanted)));
  const step = found.find((point) => Math.abs(point.step - wanted) === away).step;
  const close = (point) => {
    const gap = point.steps.length > 1 ? point.steps[1] - point.steps[0] : 0;
    return point.value !== null && Math.abs(point.step - step) <= gap / 2;
  };
  return { step, points: found.filter(close).sort((a, b) => b.value - a.value) };
}

function showTip(drawn, wanted, left, top) {
  const { step, points } = pointsAt(drawn, wanted);
  const px = drawn.x(step).toFixed(1);
  drawn.cross.replaceChildren(
    svg("path", { class: "rule", d: `M${px},${MARGIN.top}V${drawn.base}` }),
    ...points.map((point) => {
      const place = { cx: px, cy: drawn.y(point.value).toFixed(1), r: 4 };
      return colour(svg("circle", { class: "dot", ...place }), point.line);
    }));
  const rows = points.map((point) => {
    const { i, low, high } = point;
    const bounds = low && low[i] !== null ? [low[i], high[i]] : [];
    const band = bounds.length ? `[${bounds.map(drawn.write).join(", ")}]` : "";
    return el("tr", {},
      el("th", { scope: "row" }, swatch(point.line), point.line.label),
      el("td", {}, drawn.write(point.value)),
      el("td", { class: "faint" }, band),
      el("td", { class: "faint" }, `${point.runs} run${point.runs === 1 ? "" : "s"}`));
  });
  const tip = at("tip");
  tip.replaceChildren(el("strong", {}, `step ${step.toLocaleString("en")}`), el("table", {}, rows));
  tip.hidden = false;
  const room = { x: document.documentElement.clientWidth, y: window.innerHeight };
  const beside = left + 18 + tip.offsetWidth > room.x ? left - 18 - tip.offsetWidth : left + 18;
  tip.style.left = `${Math.max(6, Math.min(beside, room.x - tip.offsetWidth - 6))}px`;
  // On a phone there is no room beside the finger, so the tip goes below the curves.
  const picture = drawn.cross.ownerSVGElement;
  const below = room.x < 640 ? picture.getBoundingClientRect().bottom : top + 14;
  tip.style.top = `${Math.max(6, Math.min(below, room.y - tip.offsetHeight - 6))}px`;
  return step;
}

function hideTip(drawn) {
  at("tip").hidden = true;
  if (drawn) drawn.cross.replaceChildren();
}
