// Tables that sort by a click on a column's head. What to sort by comes with every entry.

function compare(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  return typeof a === "number" && typeof b === "number"
    ? a - b
    : String(a).localeCompare(String(b), "en", { numeric: true });
}

// Rows in the chosen order; those without a number are last in either direction.
function ordered(rows, id, entry) {
  const sort = choice.sorts[id];
  if (!sort) return rows;
  return [...rows].sort((a, b) => {
    const [x, y] = [entry(a, sort.column), entry(b, sort.column)];
    const either = x === null || y === null;
    return compare(x, y) * (sort.down && !either ? -1 : 1);
  });
}

function heads(id, names, numeric, changed) {
  const sort = choice.sorts[id];
  return el("tr", {}, names.map((name, i) => {
    const mine = sort && sort.column === i;
    const press = () => {
      // Of numbers the largest come first, of words the first letters.
      choice.sorts[id] = { column: i, down: mine ? !sort.down : numeric[i] };
      changed();
    };
    return el("th", {
      scope: "col",
      class: numeric[i] ? "number" : "",
      "aria-sort": mine ? (sort.down ? "descending" : "ascending") : "none",
    }, el("button", { type: "button", "data-key": `${id}-${i}`, click: press },
      name, el("span", { class: "arrow", "aria-hidden": "true" })));
  }));
}

function sortable(id, table, changed) {
  const rows = ordered(table.rows, id, (row, column) => row[column][1]);
  const entry = ([text, , bold], i) => {
    if (!i) return el("th", { scope: "row" }, el("span", { class: "row-name" }, text));
    // The number of runs behind a score is less prominent than the score.
    const [, main, aside] = text.match(/^(.*?)( \(\d+ of \d+\))?$/s);
    return el("td", { class: table.numeric[i] ? "number" : "" },
      bold ? el("strong", {}, main) : main, aside ? el("small", {}, aside) : "");
  };
  return scrolling(table.title, el("table", { id },
    el("thead", {}, heads(id, table.head, table.numeric, changed)),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map(entry))))));
}

// A table in a box of its own that scrolls sideways; its first column stays in sight.
function scrolling(name, table) {
  const box = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": name,
    scroll: (event) => shade(event.target) }, table);
  return el("div", { class: "frame" }, box, el("p", { class: "hint" }, "More columns: scroll →"));
}

// Say of each side of a box whether columns are hidden there.
function shade(box) {
  const left = box.scrollWidth - box.clientWidth - box.scrollLeft;
  box.parentElement.classList.toggle("wide", box.scrollWidth > box.clientWidth + 1);
  box.parentElement.classList.toggle("more-left", box.scrollLeft > 1);
  box.parentElement.classList.toggle("more-right", left > 1);
}

const markWide = () => document.querySelectorAll(".scroll").forEach(shade);

function titled(id, table, changed) {
  return [
    el("h3", {}, table.title),
    ...(table.caption ? [el("p", { class: "note" }, table.caption)] : []),
    sortable(id, table, changed),
    ...table.notes.map((note) => el("p", { class: "note" }, note)),
  ];
}
