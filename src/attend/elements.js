// The elements that the page is made of.

const byId = (id) => document.getElementById(id);

// make("td", {class: "number"}, "0.25") is <td class="number">0.25</td>; children are elements or text.
function make(name, attributes = {}, ...children) {
  const drawn = ["svg", "path", "text"].includes(name);
  const element = drawn ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  element.append(...children);
  return element;
}

// A table with a heading for each column; the first cell of each row is its heading.
function makeTable(headings, rows, caption) {
  const body = make("tbody");
  for (const [first, ...rest] of rows)
    body.append(make("tr", {}, make("th", { scope: "row" }, first), ...rest.map((cell) => make("td", {}, cell))));
  const head = make("thead", {}, make("tr", {}, ...headings.map((text) => make("th", { scope: "col" }, text))));
  return make("table", {}, make("caption", {}, caption), head, body);
}

// The text of a token, so that it neither joins its neighbours nor turns their direction.
const makeName = (text) => make("bdi", { class: "token-name" }, text);
const tokenName = (token) => makeName(cut(visible(data.tokens[token].text)));

// A bar that fills `share` of its cell.
function makeBar(share, name = "bar") {
  const bar = make("span", { class: name });
  bar.style.inlineSize = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return make("span", { class: "bar-room", "aria-hidden": "true" }, bar);
}

// A number with its bar beside it.
const measured = (text, bar) => make("span", { class: "measured" }, make("span", { class: "number" }, text), bar);

// Numbers side by side as bars, upwards where they are positive and downwards where they are negative; `largest` fills
// the height.
function makeStrip(numbers, largest, label) {
  let up = "", down = "";
  numbers.forEach((number, channel) => {
    const height = Math.min(1, Math.abs(number) / (largest || 1));
    const bar = `M${channel + 0.1} 0h0.8v${number < 0 ? height : -height}h-0.8z`;
    if (number < 0) down += bar; else up += bar;
  });
  return make("svg", { class: "strip", viewBox: `0 -1 ${numbers.length} 2`, preserveAspectRatio: "none", role: "img", "aria-label": label },
    make("path", { class: "zero", d: `M0 0H${numbers.length}` }), make("path", { class: "up", d: up }), make("path", { class: "down", d: down }));
}

const largestOf = (...lists) => Math.max(...lists.map((list) => list.reduce((most, number) => Math.max(most, Math.abs(number)), 0)));

// Colours of the theme for canvases: [r, g, b].
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim().split(/\s+/).map(Number);
}

// How dark a weight is shown. Its root, so that small weights can be seen; the legend says so.
const shade = (weight) => Math.sqrt(Math.max(0, Math.min(1, weight)));
