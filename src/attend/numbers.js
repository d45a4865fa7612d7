// The numbers of the page, as src/attend/page.cpp has written them, and the elements that show them. Layers, heads and
// tokens count from 0.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const count = data.tokens.length;

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

const floatsOf = (base64) => new Float32Array(bytesOf(base64).buffer);

// Row i of a triangle has i + 1 numbers and begins here.
const rowStart = (i) => (i * (i + 1)) / 2;

// What is known of a head, decoded when somebody asks for it for the first time.
function headOf(layer, head) {
  const entry = data.layers[layer].heads[head];
  if (!entry.decoded) {
    entry.decoded = { bytes: bytesOf(entry.weights) };
    for (const name in entry.full) entry.decoded[name] = floatsOf(entry.full[name]);
  }
  return entry.decoded;
}

const isFull = (layer, head) => "full" in data.layers[layer].heads[head];

// How much token i takes of token j: the number itself where the head is in full, else to the nearest 1/255.
function weight(layer, head, i, j) {
  if (j > i) return 0;
  const numbers = headOf(layer, head);
  const at = rowStart(i) + j;
  return numbers.weights ? numbers.weights[at] : numbers.bytes[at] / 255;
}

const weightsOf = (layer, head, i) => Array.from({ length: i + 1 }, (_, j) => weight(layer, head, i, j));

// The D numbers of a token in one of a full head's lists: queries, keys, values or sums.
function vector(layer, head, name, token) {
  const size = data.head_size;
  return headOf(layer, head)[name].subarray(token * size, (token + 1) * size);
}

// Where a head looks: the mean weights that its tokens give to themselves, to the one before and to the first, and how
// many tokens back it looks on average. The first token, which has no choice, is left out.
function habits(layer, head) {
  const mean = { self: 0, before: 0, first: 0, back: 0 };
  for (let i = 1; i < count; i++) {
    mean.self += weight(layer, head, i, i) / (count - 1);
    mean.before += weight(layer, head, i, i - 1) / (count - 1);
    mean.first += weight(layer, head, i, 0) / (count - 1);
    for (let j = 0; j < i; j++) mean.back += (weight(layer, head, i, j) * (i - j)) / (count - 1);
  }
  return mean;
}

// The token of which token i takes most.
function mostLookedAt(layer, head, i) {
  const weights = weightsOf(layer, head, i);
  return weights.indexOf(Math.max(...weights));
}

// The tokens of which token i takes most, with their weights, the heaviest first.
const heaviest = (layer, head, i, most) => weightsOf(layer, head, i).map((weight, index) => ({ weight, index }))
  .sort((a, b) => b.weight - a.weight).slice(0, most);

// All heads with the weight that token i gives to token j in them, the strongest first. Without a j it is the token of
// which i takes most, which differs from head to head.
function strongestHeads(i, j) {
  const heads = [];
  data.layers.forEach((entry, layer) => entry.heads.forEach((_, head) => {
    const key = j ?? mostLookedAt(layer, head, i);
    heads.push({ layer, head, key, weight: weight(layer, head, i, key) });
  }));
  return heads.sort((a, b) => b.weight - a.weight);
}

// Numbers as they are written everywhere: a true minus sign, and no more digits than one reads.
const minus = (text) => text.replace("-", "−");
const fixed = (number, digits = 2) => minus(number.toFixed(digits));
function short(number) {
  const size = Math.abs(number);
  if (size !== 0 && (size >= 1e4 || size < 1e-3)) return minus(number.toExponential(1));
  return fixed(number, size >= 100 ? 1 : size >= 10 ? 2 : 3);
}
const share = (weight) => (weight > 0 && weight < 0.005 ? "<0.01" : fixed(weight));

// The text of a token with everything visible that would not be: spaces, line ends, controls, and characters without
// a shape or which turn the direction of writing.
function visible(text) {
  if (text === "") return "(no text)";
  return text.replace(/ /g, "·").replace(/\n/g, "⏎").replace(/\t/g, "⇥")
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Zs}\p{Cn}\p{Co}]/gu, (sign) =>
      sign === "\u200d" && text.length > 1 ? sign : `U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`);
}
const cut = (text, most = 40) => (text.length > most ? `${text.slice(0, most)}…` : text);
const nameOf = (token) => `“${cut(visible(data.tokens[token].text))}”`;

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
