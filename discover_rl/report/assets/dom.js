"use strict";
// Elements, numbers and choices. Names from records reach the page as text nodes only.

const SVG = "http://www.w3.org/2000/svg";

function make(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name, value);
    else if (value !== null && value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  node.append(...children.flat());
  return node;
}

const el = (tag, attributes = {}, ...children) =>
  make(document.createElement(tag), attributes, children);
const svg = (tag, attributes = {}, ...children) =>
  make(document.createElementNS(SVG, tag), attributes, children);
const at = (id) => document.getElementById(id);

function number(value, places) {
  const options = { minimumFractionDigits: places, maximumFractionDigits: places };
  return value.toLocaleString("en", options).replace("-", "−");
}

// A function that writes numbers with enough digits to see a hundredth of a span.
function writer(span) {
  if (span >= 1e5) return (value) => `${number(value / 1e3, 1)}k`;
  const places = Math.max(0, Math.min(9, 2 - Math.floor(Math.log10(span || 1))));
  return (value) => number(value, places);
}

function short(steps) {
  const units = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
  const [size, unit] = units.find(([least]) => steps >= least) || [1, ""];
  return `${Number((steps / size).toPrecision(6))}${unit}`;
}

// What the reader chose, which stays when new data arrive.
const choice = {
  group: null,
  task: {},
  kind: "iqm",
  window: null,
  hidden: new Set(),
  filter: "",
  sorts: {},
  open: new Set(),
  all: new Set(),
};

// Buttons of which one is pressed.
function segments(place, options, chosen, choose) {
  place.replaceChildren(
    ...options.map(([value, label, title]) =>
      el("button", {
        type: "button",
        title,
        "aria-pressed": String(value === chosen),
        "data-key": `${place.id}-${value}`,
        click: () => choose(value),
      }, label)),
  );
}

function prose(blocks, key) {
  return blocks.map((block, i) => {
    if (block.text !== undefined) return el("p", {}, block.text);
    const list = el("ul", {}, block.list.map((line) => el("li", {}, line)));
    if (block.list.length <= 8) return list;
    const id = `${key}-${i}`;
    const toggled = (event) => choice.all[event.target.open ? "add" : "delete"](id);
    return el("details", { open: choice.all.has(id), toggle: toggled },
      el("summary", { "data-key": id }, `All ${block.list.length}, one by one`), list);
  });
}
