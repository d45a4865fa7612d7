// The text: its tokens in reading order, and for the token that looks a line to each that it looks at.

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
