// All heads as small pictures, one head as a large one, and the heads that connect two tokens.

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
