// What the page shows of what is chosen: the text with its lines, the heads, and the three steps of attention.

// --- The text: its tokens in reading order, and for the token that looks a line to each that it looks at.

const tokenElements = [];

// Whether the text is written from right to left: its first letter decides.
function runsLeftwards() {
  const letter = /\p{L}/u.exec(data.tokens.map((token) => token.text).join(""));
  return letter !== null && /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}]/u.test(letter[0]);
}

// Pieces of one word, and the punctuation after it, stay on one line where they fit. Scripts without spaces break anywhere.
const belongTogether = (before, after) =>
  /[\p{L}\p{M}\p{N}\p{P}]$/u.test(before) && /^[\p{Script=Latin}\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Hebrew}\p{Script=Arabic}\p{M}\p{N}\p{P}]/u.test(after);

function buildText() {
  const room = byId("tokens");
  room.dir = runsLeftwards() ? "rtl" : "ltr";
  let word = null;
  data.tokens.forEach((token, index) => {
    const element = make("span", { class: "token", role: "option", tabindex: -1, title: `token ${index}, number ${token.id} of the vocabulary` },
      makeName(visible(token.text)), make("span", { class: "number" }));
    tokenElements.push(element);
    if (!word || !belongTogether(data.tokens[index - 1].text, token.text)) {
      word = make("span", { class: "word" });
      room.append(word);
    }
    word.append(element);
    if (token.text.endsWith("\n")) room.append(make("br"));
  });
}

// Shows what `query` looks at in the head on show; `key` is the second chosen token or null.
function renderText(view, query, key) {
  const weights = weightsOf(view.layer, view.head, query);
  tokenElements.forEach((element, index) => {
    const seen = index <= query;
    element.style.setProperty("--shade", seen ? shade(weights[index]).toFixed(3) : "0");
    element.lastChild.textContent = seen && (weights[index] >= 0.015 || index === key) ? share(weights[index]) : "";
    element.classList.toggle("key", index === key);
    element.classList.toggle("later", !seen);
    element.setAttribute("aria-selected", index === query);
    element.setAttribute("aria-label", `token ${index}, ${nameOf(index)}, ` +
      (seen ? `weight ${share(weights[index])}` : "comes later, not seen") + (index === key ? ", chosen to be looked at" : ""));
  });
  drawLines(weights, query);
}

// Lines run from the middle of the token that looks to each token that it looks at: over the words of the same line, and
// up between the lines to earlier ones.
function drawLines(weights, query) {
  const lines = byId("lines");
  const room = lines.getBoundingClientRect();
  const boxes = tokenElements.slice(0, query + 1).map((element) => element.getBoundingClientRect());
  const from = boxes[query];
  const fromX = from.left + from.width / 2 - room.left, fromY = from.top - room.top;
  const paths = [];
  weights.forEach((weight, index) => {
    if (weight < 0.01) return;
    const to = boxes[index];
    const toX = to.left + to.width / 2 - room.left;
    let path;
    if (index === query) {
      path = `M${fromX - 7} ${fromY}C${fromX - 16} ${fromY - 24} ${fromX + 16} ${fromY - 24} ${fromX + 7} ${fromY}`;
    } else if (Math.abs(to.top - from.top) < 4) {
      const height = Math.min(30, 10 + Math.abs(toX - fromX) * 0.09);
      path = `M${fromX} ${fromY}C${fromX} ${fromY - height * 1.3} ${toX} ${fromY - height * 1.3} ${toX} ${fromY}`;
    } else {
      const toY = to.bottom - room.top;
      const bend = Math.max(16, (fromY - toY) * 0.55);
      path = `M${fromX} ${fromY}C${fromX} ${fromY - bend} ${toX} ${toY + bend} ${toX} ${toY}`;
    }
    paths.push(make("path", { d: path, "stroke-opacity": shade(weight).toFixed(3), "stroke-width": (0.8 + 3.2 * weight).toFixed(2) }));
  });
  lines.replaceChildren(...paths);
}

// The token on the line above (-1) or below (1) that is nearest to this one; the token itself if there is none.
function neighbourOnLine(index, direction) {
  const here = tokenElements[index].getBoundingClientRect();
  let best = index, least = Infinity;
  tokenElements.forEach((element, other) => {
    const box = element.getBoundingClientRect();
    const rows = (box.top - here.top) * direction;
    if (rows < 4) return;
    const distance = rows * 1000 + Math.abs(box.left + box.width / 2 - here.left - here.width / 2);
    if (distance < least) [best, least] = [other, distance];
  });
  return best;
}

// The picture of the row in words, the heaviest token first.
function rowInWords(view, query) {
  const words = heaviest(view.layer, view.head, query, 5).filter((entry) => entry.weight >= 0.05)
    .map((entry) => `${entry.index === query ? "itself" : nameOf(entry.index)} ${share(entry.weight)}`);
  return `${nameOf(query)} looks at ${words.length ? words.join(", ") : "all tokens a little"}`;
}

function rowTable(view, query) {
  const rows = weightsOf(view.layer, view.head, query).map((weight, index) => [tokenName(index), String(index), fixed(weight, 4)]);
  return makeTable(["token", "position", "weight"], rows, `What ${nameOf(query)} (token ${query}) takes of each token in layer ${view.layer}, head ${view.head}`);
}

// --- The heads: all as small pictures, one head as a large one, and the heads that connect two tokens.

const headCells = [];  // [layer][head]

// A weight matrix as an image of at most `most` pixels a side, in which a pixel shows the largest of its weights.
function drawHead(canvas, layer, head, most) {
  const size = Math.min(count, most);
  const [red, green, blue] = colour("line");
  const image = new ImageData(size, size);
  new Uint32Array(image.data.buffer).fill((blue << 16) | (green << 8) | red);
  for (let i = 0; i < count; i++)
    for (let j = 0; j <= i; j++) {
      const at = (Math.floor((i * size) / count) * size + Math.floor((j * size) / count)) * 4 + 3;
      image.data[at] = Math.max(image.data[at], Math.round(255 * shade(weight(layer, head, i, j))));
    }
  canvas.width = canvas.height = size;
  canvas.getContext("2d").putImageData(image, 0, 0);
}

function buildHeads() {
  const grid = byId("head-grid");
  const numbers = data.layers[0].heads.map((_, head) => make("th", { scope: "col" }, String(head)));
  grid.append(make("thead", {}, make("tr", {}, make("th", { class: "corner", scope: "col" }, make("span", { class: "unseen" }, "layer")), ...numbers)));
  const body = make("tbody");
  data.layers.forEach((entry, layer) => {
    const row = make("tr", {}, make("th", { scope: "row", title: `layer ${layer}: ${entry.pattern} attention` }, String(layer)));
    headCells.push(entry.heads.map((_, head) => {
      const cell = make("td", { role: "gridcell", tabindex: -1 }, make("canvas", { "aria-hidden": "true" }));
      row.append(cell);
      return cell;
    }));
    body.append(row);
  });
  grid.append(body);
  const heads = data.layers[0].heads.length;
  grid.style.maxWidth = `${heads * 3.2 + 2}rem`;
  byId("heads-title").textContent = `All heads: ${data.layers.length} × ${heads}`;
  paintHeads();
}

function paintHeads() {
  headCells.forEach((cells, layer) => cells.forEach((cell, head) => drawHead(cell.firstChild, layer, head, 48)));
}

function renderHeads(view) {
  headCells.forEach((cells, layer) => cells.forEach((cell, head) => {
    const shown = layer === view.layer && head === view.head;
    cell.setAttribute("aria-selected", shown);
    cell.tabIndex = shown ? 0 : -1;
    cell.setAttribute("aria-label", `layer ${layer}, head ${head}`);
    cell.title = `layer ${layer}, head ${head}`;
  }));
}

function headTable(view) {
  const rows = [];
  data.layers.forEach((entry, layer) => entry.heads.forEach((_, head) => {
    const mean = habits(layer, head);
    const most = mostLookedAt(layer, head, view.query);
    rows.push([`${layer}.${head}`, entry.pattern, fixed(mean.self), fixed(mean.before), fixed(mean.first), fixed(mean.back, 1),
      make("span", {}, tokenName(most), ` ${share(weight(layer, head, view.query, most))}`)]);
  }));
  return makeTable(["head", "sees", "itself", "the token before", "the first", "tokens back", `${nameOf(view.query)} looks most at`], rows,
    "Mean weights that the tokens of this text give, and how far back they look on average");
}

// The heads in which the chosen token takes most of the second one, or of any one where no second one is chosen.
function renderPair(view) {
  const query = `${nameOf(view.query)} (token ${view.query})`;
  byId("pair-title").textContent = view.key === null ? "Which heads look hardest?" : "Which heads connect the two?";
  byId("pair-hint").textContent = view.key === null
    ? `The heads in which ${query} takes most of a single token. To ask about one token, click it with Shift or use the switch above the text.`
    : `The heads in which ${query} takes most of ${nameOf(view.key)} (token ${view.key}).`;
  byId("pair-heads").replaceChildren(...strongestHeads(view.query, view.key).slice(0, 8).map((entry) => {
    const looksAt = view.key === null ? [" at ", tokenName(entry.key)] : [];
    const button = make("button", { type: "button" }, make("span", {}, `layer ${entry.layer}, head ${entry.head}`, ...looksAt),
      makeBar(entry.weight), make("span", { class: "number" }, share(entry.weight)));
    if (entry.layer === view.layer && entry.head === view.head) button.setAttribute("aria-current", "true");
    button.addEventListener("click", () => choose({ layer: entry.layer, head: entry.head }));
    return make("li", {}, button);
  }));
}

// The whole head, with room at the left and the top for the tokens' texts where they can be read.
const matrix = { cell: 0, room: 0 };

function drawMatrix(view) {
  const canvas = byId("matrix");
  const width = Math.min(canvas.parentElement.clientWidth, 640);
  matrix.room = Math.min(90, width * 0.22);
  matrix.cell = Math.min(30, (width - matrix.room) / count);
  if (matrix.cell < 11) [matrix.room, matrix.cell] = [0, Math.min(30, width / count)];
  const size = matrix.room + matrix.cell * count, scale = window.devicePixelRatio || 1;
  canvas.width = canvas.height = Math.round(size * scale);
  canvas.style.width = `${size}px`;
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  const rgb = (name, share = 1) => `rgb(${colour(name).join(" ")} / ${share})`;
  const { room, cell } = matrix;
  context.fillStyle = rgb("panel");
  context.fillRect(room, room, cell * count, cell * count);
  context.fillStyle = rgb("paper");
  for (let i = 0; i < count; i++) context.fillRect(room, room + i * cell, (i + 1) * cell, cell);
  const image = make("canvas");
  drawHead(image, view.layer, view.head, 2048);
  context.imageSmoothingEnabled = false;
  context.drawImage(image, room, room, cell * count, cell * count);
  context.fillStyle = rgb("panel");
  for (let line = 0; cell > 6 && line <= count; line++) {
    context.fillRect(room, room + line * cell - 0.5, cell * count, 1);
    context.fillRect(room + line * cell - 0.5, room, 1, cell * count);
  }
  context.lineWidth = 2;
  context.strokeStyle = rgb("look");
  context.strokeRect(room, room + view.query * cell - 1, (view.query + 1) * cell + 1, cell + 1);
  if (view.key !== null) context.strokeRect(room + view.key * cell - 1, room + view.query * cell - 1, cell + 1, cell + 1);
  if (room) labelMatrix(context, rgb, view);
  canvas.setAttribute("aria-label", `All weights of layer ${view.layer}, head ${view.head}: ${count} tokens that look by ${count} that are looked at. ${headInWords(view)}`);
}

function labelMatrix(context, rgb, view) {
  const { room, cell } = matrix;
  context.font = `${Math.min(13, cell * 0.8)}px system-ui, sans-serif`;
  context.textBaseline = "middle";
  for (let token = 0; token < count; token++) {
    const short = cut(visible(data.tokens[token].text), 10);
    const at = room + (token + 0.5) * cell;
    context.fillStyle = rgb(token === view.query ? "look" : "ink");
    context.textAlign = "right";
    context.fillText(short, room - 5, at, room - 5);
    context.fillStyle = rgb(token === view.key ? "line" : "ink");
    context.textAlign = "left";
    context.save();
    context.translate(at, room - 5);
    context.rotate(-Math.PI / 2);
    context.fillText(short, 0, 0, room - 5);
    context.restore();
  }
}

// The pair of tokens under the pointer, or null.
function pairUnder(event) {
  const box = byId("matrix").getBoundingClientRect();
  const at = (position) => Math.floor((position - matrix.room) / matrix.cell);
  const query = at(event.clientY - box.top), key = at(event.clientX - box.left);
  return query >= 0 && query < count && key >= 0 && key <= query ? { query, key } : null;
}

function headInWords(view) {
  if (count < 2) return "";
  const mean = habits(view.layer, view.head);
  const percent = (part) => `${Math.round(part * 100)} %`;
  return `On average this head gives ${percent(mean.self)} to the token itself, ${percent(mean.before)} to the one before it ` +
    `and ${percent(mean.first)} to the first, and looks ${fixed(mean.back, 1)} tokens back.`;
}

function matrixTable(view) {
  const title = `Weights of layer ${view.layer}, head ${view.head}`;
  if (count > 200) {  // more columns than anybody walks through
    const rows = data.tokens.map((_, i) => [tokenName(i), ...heaviest(view.layer, view.head, i, 3).map((entry) =>
      make("span", {}, tokenName(entry.index), ` ${fixed(entry.weight, 2)}`))]);
    return makeTable(["who looks", "most at", "then at", "then at"], rows, `${title}: the three largest of each token. inkling-attend --json prints them all`);
  }
  const rows = data.tokens.map((_, i) => [tokenName(i), ...data.tokens.map((_, j) => (j <= i ? fixed(weight(view.layer, view.head, i, j), 2) : ""))]);
  return makeTable(["who looks", ...data.tokens.map((_, token) => tokenName(token))], rows, title);
}

// --- The three steps of attention with the model's own numbers, for the token that looks and the head on show.

const mostRows = 10;  // of the large table; the others are under "all numbers"

function renderSteps(view) {
  const room = byId("step-numbers");
  if (isFull(view.layer, view.head)) {
    room.replaceChildren(stepsTable(view), workedSteps(view), allNumbers(view));
  } else {
    room.replaceChildren(...notInFull(view));
  }
}

// Quoted for a shell.
const quoted = (text) => (/^[\w./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function notInFull(view) {
  const full = [];
  data.layers.forEach((entry, layer) => entry.heads.forEach((_, head) => isFull(layer, head) && full.push({ layer, head })));
  const command = `inkling-attend ${quoted(data.model)} --prompt ${quoted(data.prompt)} --head ${view.layer}.${view.head} > attention.html`;
  const note = make("div", { class: "note" }, make("p", {},
    `To stay small, this file has the weights of every head, but queries, keys and values of ${full.length === 1 ? "one head" : `${full.length} heads`} only. ` +
    `For layer ${view.layer}, head ${view.head}, make another with this command:`), make("p", {}, make("code", { tabindex: 0, role: "region", "aria-label": "Command" }, command)));
  if (full.length) {
    const button = make("button", { type: "button" }, `Show layer ${full[0].layer}, head ${full[0].head} instead`);
    button.addEventListener("click", () => choose(full[0]));
    note.append(button);
  }
  return [note];
}

// The second chosen token, or the one that is looked at most in the head on show.
const keyOnShow = (view) => view.key ?? mostLookedAt(view.layer, view.head, view.query);

// Whether scores fall with the distance, too.
const isFalling = () => data.position === "alibi";

const scoreOf = (view, j) => headOf(view.layer, view.head).scores[rowStart(view.query) + j];

// The tokens of the table, in reading order: those with the largest weights, and the one on show.
function rowsOnShow(view, weights) {
  const seen = weights.map((_, index) => index).filter((index) => scoreOf(view, index) !== -Infinity);
  const heaviest = seen.sort((a, b) => weights[b] - weights[a]).slice(0, mostRows);
  const key = keyOnShow(view);
  if (!heaviest.includes(key)) heaviest.splice(mostRows - 1, 1, key);
  return heaviest.sort((a, b) => a - b);
}

function stepsTable(view) {
  const weights = weightsOf(view.layer, view.head, view.query);
  const rows = rowsOnShow(view, weights);
  const sums = vector(view.layer, view.head, "sums", view.query);
  const taken = rows.map((j) => vector(view.layer, view.head, "values", j).map((value) => value * weights[j]));
  const largest = largestOf(sums, ...taken);
  const largestScore = Math.max(...rows.map((j) => Math.abs(scoreOf(view, j))).filter(Number.isFinite));
  const body = make("tbody");
  rows.forEach((j, row) => {
    const score = scoreOf(view, j);
    const scoreCell = score === -Infinity ? "out of sight" :
      measured(short(score), makeBar(Math.abs(score) / (largestScore || 1), score < 0 ? "bar minus" : "bar"));
    const line = make("tr", {}, make("th", { scope: "row" }, tokenName(j)), make("td", { class: "measure" }, scoreCell),
      make("td", { class: "measure" }, measured(share(weights[j]), makeBar(weights[j]))),
      make("td", { class: "strips" }, makeStrip(taken[row], largest, `${share(weights[j])} times the value of ${nameOf(j)}`)));
    line.classList.toggle("key", j === keyOnShow(view));
    line.addEventListener("click", () => choose({ key: j }));
    body.append(line);
  });
  const heading = (text) => make("th", { scope: "col" }, text);
  const head = make("thead", {}, make("tr", {}, heading("token"), heading(`1. score: query · key / √${data.head_size}${isFalling() ? " − fall" : ""}`),
    heading("2. weight: softmax of the scores"), heading("3. weight × value, each number a bar")));
  const rest = weights.filter((_, j) => scoreOf(view, j) !== -Infinity && !rows.includes(j)).length;
  const total = fixed(weights.reduce((sum, weight) => sum + weight, 0));
  const foot = make("tfoot", {}, make("tr", {}, make("th", { scope: "row", colspan: 2 }, rest ? `all together, with ${rest} more that weigh less` : "all together"),
    make("td", {}, measured(total, "")), make("td", { class: "strips" }, makeStrip(sums, largest, "the sum of all values times their weights"))));
  const caption = make("caption", {}, `What ${nameOf(view.query)} (token ${view.query}) takes in layer ${view.layer}, head ${view.head}. Click a line to follow its numbers below.`);
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The three steps" }, make("table", {}, caption, head, body, foot));
}

const factor = (number) => (number < 0 ? `(${short(number)})` : short(number));

// "a × b + c × d + …": the first products of a sum.
function products(pairs, most = 3) {
  const shown = pairs.slice(0, most).map(([a, b]) => `${factor(a)} × ${factor(b)}`).join(" + ");
  return pairs.length > most ? `${shown} + … (${pairs.length} products)` : shown;
}

// One number of each step, calculated before the reader's eyes.
function workedSteps(view) {
  const j = keyOnShow(view), i = view.query, size = data.head_size;
  const query = vector(view.layer, view.head, "queries", i), key = vector(view.layer, view.head, "keys", j);
  const weights = weightsOf(view.layer, view.head, i), score = scoreOf(view, j);
  const product = query.reduce((sum, number, c) => sum + number * key[c], 0);
  const item = (step, text) => make("li", {}, make("b", {}, step), ` ${text}`);
  if (score === -Infinity) return make("p", { class: "note" }, `${nameOf(i)} cannot look at ${nameOf(j)}, because this layer sees only part of the text: ${data.layers[view.layer].pattern}.`);
  const scores = weights.map((_, index) => scoreOf(view, index)).filter((other) => other !== -Infinity);
  const highest = Math.max(...scores);
  const total = scores.reduce((sum, other) => sum + Math.exp(other - highest), 0);
  const seen = weights.map((weight, index) => [weight, vector(view.layer, view.head, "values", index)[0]])
    .filter(([weight]) => weight > 0).sort((a, b) => b[0] - a[0]);
  return make("ol", { class: "worked", "aria-label": "One number of each step" },
    item(`Score of ${nameOf(i)} for ${nameOf(j)}:`, `${products(Array.from(query, (number, c) => [number, key[c]]))} = ${short(product)}; divided by √${size} that is ` +
      (isFalling() ? `${short(product / Math.sqrt(size))}, less ${short(product / Math.sqrt(size) - score)} for the distance of ${i - j}: ${short(score)}.` : `${short(score)}.`)),
    item("Weight:", `e^${factor(score)} / (e^${factor(scores[0])}${scores.length > 1 ? ` + … ` : ""}) = ${fixed(Math.exp(score - highest) / total, 4)}` +
      (scores.length > 1 ? `: its share among ${scores.length} tokens.` : ".")),
    item("Sum, its first number:", `${products(seen)} = ${short(vector(view.layer, view.head, "sums", i)[0])}.`));
}

// The table behind the bars: every channel of the two tokens on show.
function allNumbers(view) {
  const j = keyOnShow(view), i = view.query;
  const details = make("details", {}, make("summary", {}, `All ${data.head_size} numbers of query, key, value and sum`));
  const room = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Numbers of query, key, value and sum" });
  details.append(room);
  details.addEventListener("toggle", () => {
    if (!details.open || room.firstChild) return;
    const [query, key, value, sum] = [["queries", i], ["keys", j], ["values", j], ["sums", i]].map(([name, token]) => vector(view.layer, view.head, name, token));
    const share = weight(view.layer, view.head, i, j);
    const rows = Array.from(query, (number, c) => [String(c), short(number), short(key[c]), short(number * key[c]), short(value[c]), short(share * value[c]), short(sum[c])]);
    room.append(makeTable(["channel", `query of ${nameOf(i)}`, `key of ${nameOf(j)}`, "product", `value of ${nameOf(j)}`, "weight × value", "sum over all tokens"], rows,
      `Layer ${view.layer}, head ${view.head}`));
  });
  return details;
}
