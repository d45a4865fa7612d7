// The three steps of attention with the model's own numbers, for the token that looks and the head on show.

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
  const head = make("thead", {}, make("tr", {}, heading("token"), heading(`1. score: query · key / √${data.head_size}`),
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
  const item = (step, text) => make("li", {}, make("b", {}, step), ` ${text}`);
  if (score === -Infinity) return make("p", { class: "note" }, `${nameOf(i)} cannot look at ${nameOf(j)}, because this layer sees only part of the text: ${data.layers[view.layer].pattern}.`);
  const scores = weights.map((_, index) => scoreOf(view, index)).filter((other) => other !== -Infinity);
  const highest = Math.max(...scores);
  const total = scores.reduce((sum, other) => sum + Math.exp(other - highest), 0);
  const seen = weights.map((weight, index) => [weight, vector(view.layer, view.head, "values", index)[0]])
    .filter(([weight]) => weight > 0).sort((a, b) => b[0] - a[0]);
  return make("ol", { class: "worked", "aria-label": "One number of each step" },
    item(`Score of ${nameOf(i)} for ${nameOf(j)}:`, `${products(Array.from(query, (number, c) => [number, key[c]]))} = ${short(score * Math.sqrt(size))}; divided by √${size} that is ${short(score)}.`),
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
