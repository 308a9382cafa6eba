// The page as a whole: shows the data as the reader chose, and asks its server for new data.

const EVERY = 2000; // milliseconds between requests
const THEME = "discover-theme";
let data = JSON.parse(at("data").textContent);
let charts = [];

// Elements that are replaced lose the focus; the new element with the same key gets it.
function keepingFocus(change) {
  const key = document.activeElement?.dataset?.key;
  change();
  if (!key || document.activeElement?.dataset?.key === key) return;
  document.querySelector(`[data-key="${CSS.escape(key)}"]`)?.focus({ preventScroll: true });
}

const update = () => keepingFocus(show);
const group = () => data.groups.find((entry) => entry.name === choice.group);

function showHead() {
  document.title = data.study;
  at("study").textContent = data.study;
  at("about").textContent = data.about;
  at("about").hidden = !data.about;
  for (const place of ["finding", "concluded"]) {
    const said = data.conclusion.length ? data.conclusion : ["There is nothing to compare."];
    at(place).replaceChildren(...said.map((text) => el("p", {}, text)));
  }
  at("finding").hidden = !data.conclusion.length;
  at("facts").replaceChildren(...data.facts.map(([count, name]) =>
    el("div", {}, el("dd", {}, count), el("dt", {}, name))));
  at("bar").setAttribute("aria-label", data.progress);
  at("bar").replaceChildren(...data.states.map(([state, count]) => {
    const part = el("span", { class: state });
    part.style.flexGrow = count;
    return part;
  }));
  at("states").replaceChildren(...data.states.map(([state, count]) =>
    el("li", { class: `state ${state}` }, `${count.toLocaleString("en")} ${state}`)));
}

function showGroups() {
  const several = data.groups.length > 1;
  at("groups").hidden = !several;
  const names = data.groups.map((entry) => [entry.name, entry.title]);
  segments(at("groups"), names, choice.group, (name) => {
    choice.group = name;
    update();
  });
}

function showControls() {
  const { panels } = group();
  const options = panels.map((panel) => [panel.title, panel.title]);
  if (panels.length > 1) options.unshift(["", `All ${panels.length}`]);
  if (!options.some(([value]) => value === choice.task[choice.group])) {
    choice.task[choice.group] = options[0][0];
  }
  const select = at("task");
  const offered = JSON.stringify(options);
  if (select.dataset.offered !== offered) { // so that an open list stays open
    select.replaceChildren(...options.map(([value, text]) => el("option", { value }, text)));
    select.dataset.offered = offered;
  }
  select.value = choice.task[choice.group];
  const kinds = Object.entries(data.kinds).map(([kind, [name, about]]) => [kind, name, about]);
  segments(at("kind"), kinds, choice.kind, (kind) => {
    choice.kind = kind;
    update();
  });
  const windows = data.windows.map((size) => [size, String(size), `Mean of up to ${size} evaluations`]);
  at("window").parentElement.hidden = windows.length < 2;
  segments(at("window"), windows, choice.window, (size) => {
    choice.window = size;
    update();
  });
}

function showLegend() {
  const { lines, base } = group();
  at("legend").replaceChildren(...lines.map((line) => {
    const hidden = choice.hidden.has(line.label);
    const press = () => {
      choice.hidden[hidden ? "delete" : "add"](line.label);
      update();
    };
    return el("button", { type: "button", "aria-pressed": String(!hidden), click: press,
      "data-key": `legend-${line.label}`, title: hidden ? "Show" : "Hide" },
    line.begun ? swatch(line) : "", line.label,
    line.label === base ? el("small", {}, "baseline") : "",
    line.begun ? "" : el("small", {}, "not begun"));
  }));
}

function showCharts() {
  const chosen = choice.task[choice.group];
  const panels = group().panels.filter((panel) => !chosen || panel.title === chosen);
  const large = panels.length === 1;
  hideTip(null);
  charts = panels.map((panel) => chart(data, group(), panel, large, large ? null : () => {
    choice.task[choice.group] = panel.title;
    update();
    at("curves").scrollIntoView();
  }));
  const place = at("charts");
  // The place keeps its height while it is empty, so that the page does not jump.
  place.style.minHeight = `${place.offsetHeight}px`;
  place.className = large ? "" : "many";
  place.replaceChildren(...charts.map((chart) => chart.figure));
  charts.forEach((chart) => chart.redraw());
  place.style.minHeight = "";
  const smoothed = choice.window > 1 ? `, each point the mean of up to ${choice.window} evaluations` : "";
  const counts = large
    ? panels[0].lines.map(([which, where]) =>
      `“${group().lines[which].label}”: ${data.cells[where].count}`).join("; ")
    : "";
  at("caption").textContent = `Return against steps. ${data.kinds[choice.kind][1]}${smoothed}. `
    + `A tick on a line marks where a run ends early.${counts && ` ${counts}.`}`;
}

function showTables() {
  at("words").replaceChildren(...prose(group().words, `words-${choice.group}`));
  at("scores").replaceChildren(...group().tables.flatMap((table, i) =>
    titled(`table-${choice.group}-${i}`, table, update)));
}

function showMissing() {
  const parts = [];
  if (data.failed.rows.length) parts.push(...titled("failed", data.failed, update));
  if (data.missing.rows.length) parts.push(...titled("lacking-table", data.missing, update));
  if (!parts.length) parts.push(el("p", {}, "Nothing: every run came to its end."));
  at("lacking").replaceChildren(...parts);
  at("origin").replaceChildren(...prose(data.origin, "origin"));
}

function show() {
  if (!group()) choice.group = data.groups[0].name;
  if (!data.windows.includes(choice.window)) choice.window = data.window;
  showHead();
  showGroups();
  showControls();
  showLegend();
  showCharts();
  showTables();
  showMissing();
  showRuns(data);
  markWide();
}

// Light or dark: as the system is set, until the reader changes it.

const dark = matchMedia("(prefers-color-scheme: dark)");
const system = () => (dark.matches ? "dark" : "light");
const isDark = () => (document.documentElement.dataset.theme || system()) === "dark";

function showTheme() {
  at("theme").textContent = isDark() ? "Light" : "Dark";
  at("theme").setAttribute("aria-label", `Change to ${isDark() ? "light" : "dark"} colours`);
}

function remembered() {
  try {
    return localStorage.getItem(THEME);
  } catch {
    return null; // a page in a file may have no storage
  }
}

at("theme").addEventListener("click", () => {
  document.documentElement.dataset.theme = isDark() ? "light" : "dark";
  try {
    localStorage.setItem(THEME, document.documentElement.dataset.theme);
  } catch {
    // then the choice is lost
  }
  showTheme();
});
dark.addEventListener("change", showTheme);
if (["light", "dark"].includes(remembered())) document.documentElement.dataset.theme = remembered();

at("task").addEventListener("change", (event) => {
  choice.task[choice.group] = event.target.value;
  update();
});
at("filter").addEventListener("input", (event) => {
  choice.filter = event.target.value;
  choice.all.delete("runs");
  showRuns(data);
});
// A browser may fill the field with what was there before the page was loaded anew.
choice.filter = at("filter").value;

let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return; // a phone's address bar comes and goes
  width = window.innerWidth;
  requestAnimationFrame(() => {
    charts.forEach((chart) => chart.redraw());
    markWide();
  });
});

// A page that is served asks for new data, and keeps what the reader chose.

let tag = null;

async function ask(address) {
  const badge = at("live");
  try {
    const headers = tag ? { "If-None-Match": tag } : {};
    const answer = await fetch(address, { headers, cache: "no-store" });
    if (answer.status === 200) {
      tag = answer.headers.get("ETag");
      data = await answer.json();
      update();
    } else if (answer.status !== 304) throw new Error(await answer.text());
    badge.textContent = "live";
    badge.className = "on";
  } catch (error) {
    badge.textContent = error instanceof TypeError ? "no longer served" : error.message;
    badge.className = "off";
  }
  setTimeout(ask, EVERY, address);
}

showTheme();
show();
if (document.documentElement.dataset.live) ask(document.documentElement.dataset.live);
