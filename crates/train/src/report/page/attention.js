// Attention weights: every layer and head as a small map, and the chosen one as a large map.

const KINDS = { cross: "cross-attention", encoder: "encoder self-attention", decoder: "decoder self-attention" };

// Decodes the weights of a head. Each weight is two digits in base 36, which count thousandths.
function decodeWeights(text) {
  return Array.from({ length: text.length / 2 }, (_, i) => parseInt(text.slice(2 * i, 2 * i + 2), 36) / 1000);
}

function meanOf(heads) {
  return heads[0].map((_, i) => heads.reduce((sum, head) => sum + head[i], 0) / heads.length);
}

function attentionPanel(data) {
  const runs = data.runs.filter((run) => run.examples?.attention.length);
  const sizes = runs[0].examples.attention.map(({ maps }) => maps[0].rows.length);
  const state = { run: 0, example: sizes.indexOf(Math.max(...sizes)), kind: "cross", layer: 0, head: 0, isOwnScale: true };
  const controls = html("div", { class: "controls" });
  const heads = html("div", { class: "heads", role: "radiogroup", "aria-label": "Layer and head" });
  const large = html("figure", { class: "card map" });

  const examples = () => runs[state.run].examples.attention;

  function map() {
    const { maps } = examples()[Math.min(state.example, examples().length - 1)];
    return maps.find((one) => one.kind === state.kind) ?? maps[0];
  }

  // Returns the weights of each layer: those of each head and, if there are several, their mean.
  function layers() {
    return map().weights.map((layer) => {
      const all = layer.map(decodeWeights);
      return all.length > 1 ? [...all, meanOf(all)] : all;
    });
  }

  const headName = (head, layer) => (head < map().weights[layer].length ? `head ${head + 1}` : "mean");

  function drawControls() {
    const { maps } = examples()[0];
    const last = examples().length - 1;
    state.example = Math.min(state.example, last);
    const words = (at) => `${at + 1} of ${last + 1}`;
    controls.replaceChildren(...[
      runs.length > 1 && choice("Run", runs.map((run, i) => [i, run.name]), state.run, (run) => { state.run = run; drawControls(); draw(); }),
      choice("Attention", maps.map(({ kind }) => [kind, KINDS[kind] ?? kind]).reverse(), map().kind, (kind) => { state.kind = kind; draw(); }),
      last > 0 && slider("Example", { min: 0, max: last, step: 1 }, state.example, words, (example) => { state.example = example; draw(); }),
      checkbox("full colour for the largest weight of the map", state.isOwnScale, (isOwn) => { state.isOwnScale = isOwn; draw(); }),
    ].filter(Boolean));
  }

  function draw() {
    const all = layers();
    state.layer = Math.min(state.layer, all.length - 1);
    state.head = Math.min(state.head, all[state.layer].length - 1);
    const { rows, columns } = map();
    const { color } = getComputedStyle(document.documentElement);
    const buttons = all.map((layer, l) => layer.map((weights, h) => {
      const isChosen = l === state.layer && h === state.head;
      const name = `layer ${l + 1}, ${headName(h, l)}`;
      const canvas = html("canvas", { width: columns.length, height: rows.length, "aria-hidden": true });
      paint(canvas, weights, color, state.isOwnScale);
      const attributes = { type: "button", role: "radio", "aria-checked": isChosen, tabindex: isChosen ? 0 : -1, "aria-label": name, title: name };
      return html("button", { ...attributes, onclick: () => pick(l, h) }, canvas, html("span", {}, all[0].length > 6 ? headName(h, l).replace("head ", "") : headName(h, l)));
    }));
    heads.classList.toggle("many", all[0].length > 6);
    const hadFocus = heads.contains(document.activeElement);
    heads.replaceChildren(...buttons.map((layer, l) => html("div", { class: "layer" }, html("span", { class: "label" }, `layer ${l + 1}`), layer)));
    if (hadFocus) buttons[state.layer][state.head].focus();
    drawLarge(all[state.layer][state.head]);
  }

  function pick(layer, head) {
    [state.layer, state.head] = [layer, head];
    draw();
    heads.querySelector('[aria-checked="true"]').focus();
  }

  heads.addEventListener("keydown", (event) => {
    const all = map().weights.map((layer) => layer.length + (layer.length > 1 ? 1 : 0));
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    const layer = (state.layer + step[0] + all.length) % all.length;
    pick(layer, (state.head + step[1] + all[layer]) % all[layer]);
  });

  function drawLarge(weights) {
    const { rows, columns, row_label, column_label, is_causal } = map();
    const source = examples()[state.example].source;
    const title = `${KINDS[map().kind] ?? map().kind}, layer ${state.layer + 1}, ${headName(state.head, state.layer)}`;
    const readout = html("p", { class: "readout", role: "status" }, "Point at a cell, or move by arrow keys.");
    const picture = heatMap({ rows, columns, weights, isCausal: is_causal, isOwnScale: state.isOwnScale, rowLabel: row_label, columnLabel: column_label, readout, title });
    large.replaceChildren(
      html("figcaption", {},
        html("h3", {}, title[0].toUpperCase() + title.slice(1)),
        html("p", { class: "note" }, `Source: ${source}`),
        html("p", { class: "note" }, `Model of ${runs[state.run].name}, step ${grouped(runs[state.run].examples.step)}. Each row sums to 1.`)),
      html("div", { class: "scroll" }, picture),
      readout,
      scaleBar(state.isOwnScale ? Math.max(...weights) : 1, is_causal),
    );
  }

  drawControls();
  draw();
  document.addEventListener("themechange", draw);
  return [controls, html("div", { class: "attention" }, heads, large)];
}

// Paints a map with one pixel for each weight.
function paint(canvas, weights, color, isOwnScale) {
  const context = canvas.getContext("2d");
  const largest = isOwnScale ? Math.max(...weights, 1e-9) : 1;
  context.fillStyle = color;
  weights.forEach((weight, i) => {
    context.globalAlpha = weight / largest;
    context.fillRect(i % canvas.width, Math.floor(i / canvas.width), 1, 1);
  });
}

// Cuts a token so that it fits beside the map.
function cut(text, most = 14) {
  const letters = [...text];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
}

function heatMap({ rows, columns, weights, isCausal, isOwnScale, rowLabel, columnLabel, readout, title, place }) {
  const longest = (tokens) => Math.max(...tokens.map((token) => [...cut(token)].length));
  const cell = Math.max(16, Math.min(30, 600 / Math.max(rows.length, columns.length)));
  const isTurned = longest(columns) * 7.5 > cell;
  const left = 34 + longest(rows) * 7.4;
  const top = 30 + (isTurned ? longest(columns) * 5.6 + 12 : 14);
  // The label of the rows needs some height, even if there are few rows.
  const [width, height] = [Math.max(left + columns.length * cell + (isTurned ? 40 : 8), 200), Math.max(top + rows.length * cell + 6, 160)];
  const largest = isOwnScale ? Math.max(...weights, 1e-9) : 1;
  const parts = [];
  const middle = (count) => (count * cell) / 2;
  parts.push(svg("text", { class: "faint", x: Math.max(left + middle(columns.length), 100), y: 13, "text-anchor": "middle" }, columnLabel));
  parts.push(svg("text", { class: "faint", transform: `translate(12 ${Math.max(top + middle(rows.length), 80)}) rotate(-90)`, "text-anchor": "middle" }, rowLabel));
  columns.forEach((token, i) => {
    const at = `translate(${left + (i + 0.5) * cell + (isTurned ? 4 : 0)} ${top - 7})`;
    const turn = isTurned ? " rotate(-45)" : "";
    parts.push(svg("text", { class: "token", transform: at + turn, "text-anchor": isTurned ? "start" : "middle" }, cut(token), svg("title", {}, token)));
  });
  rows.forEach((token, i) => {
    parts.push(svg("text", { class: "token", x: left - 7, y: top + (i + 0.5) * cell + 4, "text-anchor": "end" }, cut(token), svg("title", {}, token)));
  });
  const cells = weights.map((weight, i) => {
    const [row, column] = [Math.floor(i / columns.length), i % columns.length];
    const isMasked = isCausal && column > row;
    return svg("rect", {
      class: isMasked ? "masked" : "cell",
      x: left + column * cell, y: top + row * cell, width: cell, height: cell,
      "fill-opacity": isMasked ? null : (weight / largest).toFixed(3),
    });
  });
  const frame = svg("rect", { class: "frame", x: left, y: top, width: columns.length * cell, height: rows.length * cell });
  const mark = svg("rect", { class: "mark", width: cell, height: cell, visibility: "hidden" });
  const picture = svg("svg", { class: "heat", viewBox: `0 0 ${width} ${height}`, width, height, tabindex: 0, role: "application", "aria-label": `${title}: arrow keys move between cells` }, parts, cells, frame, mark);
  let at = null;

  function show(row, column) {
    at = [row, column];
    picture.dataset.place = at;
    mark.setAttribute("x", left + column * cell);
    mark.setAttribute("y", top + row * cell);
    mark.setAttribute("visibility", "visible");
    const weight = weights[row * columns.length + column];
    const value = isCausal && column > row ? "masked" : weight.toFixed(3);
    readout.replaceChildren(`row ${row + 1} `, html("b", {}, rows[row]), " → column ", `${column + 1} `, html("b", {}, columns[column]), ": ", html("b", {}, value));
  }

  picture.addEventListener("pointermove", (event) => {
    const box = picture.getBoundingClientRect();
    const column = Math.floor((((event.clientX - box.left) / box.width) * width - left) / cell);
    const row = Math.floor((((event.clientY - box.top) / box.height) * height - top) / cell);
    if (rows[row] != null && columns[column] != null) show(row, column);
  });
  const inside = (value, count) => Math.min(Math.max(value, 0), count - 1);
  const [row, column] = place ?? [0, 0];
  picture.addEventListener("focus", () => at ?? show(inside(row, rows.length), inside(column, columns.length)));
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    show(inside(at[0] + step[0], rows.length), inside(at[1] + step[1], columns.length));
  });
  return picture;
}

function scaleBar(largest, isCausal) {
  return html("div", { class: "scale" }, html("span", {}, "weight 0"), html("span", { class: "ramp" }), html("span", {}, largest.toFixed(3)),
    isCausal && html("span", { class: "masked-key" }, html("span", { class: "masked" }), "masked: a position cannot see later ones"));
}
