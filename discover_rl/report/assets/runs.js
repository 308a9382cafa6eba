// The list of runs: filtered by words, each with its settings and versions on demand.

const FIRST = 50;
const COLUMNS = ["run", "seed", "state", "step", "final score", "commit"];
const NUMERIC = [false, true, false, true, true, false];
const haystacks = new WeakMap();

function haystack(data, run) {
  if (!haystacks.has(run)) {
    const setup = Object.entries(data.setups[run.setup]);
    const settings = setup.map(([name, value]) => `${name}=${value}`);
    const own = [run.name, run.task, run.algorithm, run.arm, run.state, run.commit, run.reason];
    haystacks.set(run, [...own, ...settings].join(" ").toLowerCase());
  }
  return haystacks.get(run);
}

function found(data) {
  const words = choice.filter.toLowerCase().split(/\s+/).filter(Boolean);
  return data.runs.filter((run) => words.every((word) => haystack(data, run).includes(word)));
}

const sortKey = (run, column) =>
  [run.name, run.seed, run.state, run.step, run.score[1], run.commit][column];

function pairs(title, entries) {
  if (!entries.length) return [];
  return [el("h4", {}, title), el("dl", { class: "pairs" }, entries.map(([name, value]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, value))))];
}

function details(data, run) {
  const own = [["task", run.task], ["algorithm", run.algorithm], ["arm", run.arm],
    ["seed", String(run.seed)], ["state", run.state], ["commit", run.commit || "unknown"]];
  if (run.reason) own.push(["reason", run.reason]);
  return el("tr", { class: "details" }, el("td", { colspan: COLUMNS.length },
    pairs("Run", own),
    pairs("Settings", Object.entries(data.setups[run.setup])),
    pairs("Versions", Object.entries(data.codes[run.code]))));
}

function row(data, run, changed) {
  const open = choice.open.has(run.name);
  const press = () => {
    choice.open[open ? "delete" : "add"](run.name);
    changed();
  };
  const name = el("button", { type: "button", class: "quiet expand", "aria-expanded": String(open),
    "data-key": `run-${run.name}`, click: press }, run.name);
  const first = el("tr", {},
    el("th", { scope: "row" }, name),
    el("td", { class: "number" }, String(run.seed)),
    el("td", {}, el("span", { class: `state ${run.state}` }, run.state)),
    el("td", { class: "number" }, run.step.toLocaleString("en")),
    el("td", { class: "number" }, run.score[0]),
    el("td", { class: "code" }, run.commit || "–"));
  return open ? [first, details(data, run)] : [first];
}

function showRuns(data) {
  const again = () => keepingFocus(() => showRuns(data));
  const all = found(data);
  const rows = ordered(all, "runs-table", sortKey);
  const shown = choice.all.has("runs") ? rows : rows.slice(0, FIRST);
  const more = () => {
    choice.all.add("runs");
    again();
  };
  const [total, some] = [data.runs.length, all.length];
  at("counted").textContent = some === total
    ? `${total.toLocaleString("en")} runs`
    : `${some.toLocaleString("en")} of ${total.toLocaleString("en")} runs`;
  at("list").replaceChildren(
    scrolling("Runs", el("table", { id: "runs-table" },
      el("thead", {}, heads("runs-table", COLUMNS, NUMERIC, again)),
      el("tbody", {}, shown.flatMap((run) => row(data, run, again))))),
    ...(shown.length < some
      ? [el("button", { type: "button", class: "more", "data-key": "more-runs", click: more },
        `Show all ${some.toLocaleString("en")}`)]
      : []));
  markWide();
}
