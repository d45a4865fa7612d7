// What is chosen, and everything that follows from it.

const view = { layer: data.shown.layer, head: data.shown.head, query: count - 1, key: null };

const lazyTables = [["row-table", () => rowTable(view, view.query)], ["head-table", () => headTable(view)], ["matrix-table", () => matrixTable(view)]];

// Fills a table that is open; one that is closed costs nothing until somebody opens it.
function renderTable(id, fill) {
  const room = byId(id).querySelector(".scroll");
  room.replaceChildren(...(byId(id).open ? [fill()] : []));
}

// Shows a head, with its name and its habits, above the text and in it.
function renderHead(view) {
  const pattern = data.layers[view.layer].pattern;
  byId("picture-title").textContent = `Layer ${view.layer}, head ${view.head}`;
  byId("summary").textContent = `${headInWords(view)}${pattern === "full" ? "" : ` This layer sees only part of the text: ${pattern}.`}`;
  renderText(view, view.query, view.key);
  drawMatrix(view);
}

function render() {
  const { query, key } = view;
  byId("query-name").textContent = nameOf(query);
  byId("key-name").textContent = key === null ? "nobody yet" : nameOf(key);
  byId("drop-key").hidden = key === null;
  tokenElements.forEach((element, index) => (element.tabIndex = index === query ? 0 : -1));
  renderHead(view);
  renderHeads(view);
  renderPair(view);
  renderSteps(view);
  for (const [id, fill] of lazyTables) renderTable(id, fill);
}

// Changes what is chosen. A key that the query cannot see, because it comes later, is dropped.
function choose(change) {
  Object.assign(view, change);
  if (view.key !== null && view.key > view.query) view.key = null;
  render();
  byId("said").textContent = `Layer ${view.layer}, head ${view.head}. ${rowInWords(view, view.query)}.` +
    (view.key === null ? "" : ` ${nameOf(view.key)} gets ${share(weight(view.layer, view.head, view.query, view.key))}.`);
  const place = [view.layer, view.head, view.query, ...(view.key === null ? [] : [view.key])].join(".");
  try {
    history.replaceState(null, "", `#${place}`);
  } catch {
    // Some viewers of files do not let a page change its address.
  }
}

// What the address asks for; what it asks for in vain stays as it is.
function readAddress() {
  const match = /^#(\d+)\.(\d+)(?:\.(\d+))?(?:\.(\d+))?$/.exec(location.hash);
  if (!match) return {};
  const [layer, head, query, key] = match.slice(1).map((text) => (text === undefined ? undefined : Number(text)));
  const change = {};
  if (data.layers[layer]?.heads[head]) Object.assign(change, { layer, head });
  if (query < count) Object.assign(change, { query, key: key <= query ? key : null });
  return change;
}

function pickToken(index, event) {
  const picksKey = event.shiftKey || document.querySelector("#pick input:checked").value === "key";
  if (!picksKey) choose({ query: index });
  else if (index <= view.query) choose({ key: index });
  else byId("said").textContent = `${nameOf(index)} comes later than ${nameOf(view.query)}, which cannot look at it.`;
}

function listenToTokens() {
  tokenElements.forEach((element, index) => {
    element.addEventListener("click", (event) => pickToken(index, event));
    element.addEventListener("pointerenter", (event) => {
      const asksWhoLooks = document.querySelector("#pick input:checked").value === "query";
      if (event.pointerType === "mouse" && asksWhoLooks) renderText(view, index, index === view.query ? view.key : null);
    });
  });
  byId("tokens").addEventListener("pointerleave", () => renderText(view, view.query, view.key));
  byId("tokens").addEventListener("keydown", (event) => {
    const ahead = byId("tokens").dir === "rtl" ? -1 : 1;
    const start = event.shiftKey ? view.key ?? view.query : view.query;
    const moves = { ArrowRight: start + ahead, ArrowLeft: start - ahead, Home: 0, End: count - 1,
      ArrowUp: neighbourOnLine(start, -1), ArrowDown: neighbourOnLine(start, 1) };
    if (event.key === "Escape") choose({ key: null });
    else if (event.key in moves && !event.altKey && !event.ctrlKey && !event.metaKey) {
      const target = Math.max(0, Math.min(event.shiftKey ? view.query : count - 1, moves[event.key]));
      choose(event.shiftKey ? { key: target } : { query: target });
      tokenElements[view.query].focus();
    } else return;
    event.preventDefault();
  });
}

function listenToHeads() {
  byId("head-grid").addEventListener("pointerleave", () => renderHead(view));
  headCells.forEach((cells, layer) => cells.forEach((cell, head) => {
    cell.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && renderHead({ ...view, layer, head }));
    cell.addEventListener("click", () => {
      choose({ layer, head });
      cell.focus();
    });
  }));
  byId("head-grid").addEventListener("keydown", (event) => {
    const moves = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [-1, 0], ArrowDown: [1, 0], Home: [0, -Infinity], End: [0, Infinity] };
    if (!(event.key in moves) || event.altKey || event.ctrlKey || event.metaKey) return;
    const within = (number, size) => Math.max(0, Math.min(size - 1, number));
    const layer = within(view.layer + moves[event.key][0], headCells.length);
    choose({ layer, head: within(view.head + moves[event.key][1], headCells[layer].length) });
    headCells[view.layer][view.head].focus();
    event.preventDefault();
  });
}

function listenToMatrix() {
  const canvas = byId("matrix");
  canvas.addEventListener("pointermove", (event) => {
    const pair = pairUnder(event);
    byId("matrix-says").textContent = pair
      ? `${nameOf(pair.query)} (token ${pair.query}) takes ${fixed(weight(view.layer, view.head, pair.query, pair.key), 3)} of ${nameOf(pair.key)} (token ${pair.key})` : "\u00a0";
  });
  canvas.addEventListener("click", (event) => {
    const pair = pairUnder(event);
    if (pair) choose(pair);
  });
}

// Light or dark: as the system has it, until the button says otherwise. On paper it is light, and the text so narrow that
// it fits: lines cannot be drawn again when the browser has laid out the paper.
const systemIsDark = matchMedia("(prefers-color-scheme: dark)");
let theme = null;
function showTheme(shown = theme ?? (systemIsDark.matches ? "dark" : "light")) {
  document.documentElement.dataset.theme = shown;
  byId("theme").textContent = shown === "dark" ? "Light" : "Dark";
  byId("theme").setAttribute("aria-label", shown === "dark" ? "Change to light colours" : "Change to dark colours");
  paintHeads();
  drawMatrix(view);
}

function listenToTheme() {
  byId("theme").addEventListener("click", () => {
    theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    showTheme();
  });
  systemIsDark.addEventListener("change", () => showTheme());
  const usePaper = (onPaper) => {
    document.documentElement.classList.toggle("paper", onPaper);
    showTheme(onPaper ? "light" : undefined);
    renderText(view, view.query, view.key);
  };
  window.addEventListener("beforeprint", () => usePaper(true));
  window.addEventListener("afterprint", () => usePaper(false));
}

function buildFacts() {
  const heads = data.layers[0].heads.length;
  const groups = data.n_kv_head < heads ? `, of which ${heads / data.n_kv_head} at a time share keys and values` : "";
  byId("model").textContent = `${data.model}: ${data.layers.length} layers of ${heads} heads with ${data.head_size} channels each${groups}; positions: ${data.position}; ${count} tokens`;
  document.title = `Attention of ${data.model}`;
  const likely = data.next.filter((next, index) => index < 3 || next.probability >= 0.001);
  const rows = likely.map((next) => [makeName(cut(visible(next.text))), measured(next.probability < 0.0005 ? "<0.001" : fixed(next.probability, 3), makeBar(next.probability))]);
  const table = makeTable(["token", "probability"], rows, `After ${nameOf(count - 1)}`);
  byId("next-tokens").append(...table.childNodes);
}

function buildLegend() {
  byId("legend").append("Weight: ");
  for (const weight of [0, 0.05, 0.25, 0.5, 1]) {
    const swatch = make("span", { class: "scale" });
    swatch.style.background = `rgb(var(--line) / ${shade(weight)})`;
    byId("legend").append(make("span", { class: "step" }, swatch, ` ${weight}`), " ");
  }
  byId("legend").append("(the shade goes with its square root, so that small ones can be seen)");
}

buildText();
buildHeads();
buildFacts();
buildLegend();
listenToTokens();
listenToHeads();
listenToMatrix();
listenToTheme();
for (const [id, fill] of lazyTables) byId(id).addEventListener("toggle", () => renderTable(id, fill));
byId("drop-key").addEventListener("click", () => choose({ key: null }));
window.addEventListener("hashchange", () => choose(readAddress()));
Object.assign(view, readAddress());
showTheme();
render();
new ResizeObserver(() => {
  renderText(view, view.query, view.key);
  drawMatrix(view);
}).observe(byId("tokens"));
