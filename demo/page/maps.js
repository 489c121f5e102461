// Attention maps of every layer and head: a small picture of each, and one of them large.

// Returns a view whose `show` draws a source, the tokens of the decoder and their maps.
function mapsView(container) {
  // The last layer is shown first.
  const state = { kind: "cross", layer: Infinity, head: 0, at: null, row: null };
  const controls = choice("Attention", [["cross", "cross"], ["encoder", "encoder"], ["decoder", "decoder"]], state.kind, (kind) => { state.kind = kind; draw(); });
  const heads = html("div", { class: "heads", role: "radiogroup", "aria-label": "Layer and head" });
  const title = html("h3", {});
  const readout = html("p", { class: "readout", role: "status" });
  const body = html("div", { class: "scroll" });
  const scale = html("div", {});
  const large = html("figure", { class: "map" }, html("figcaption", {}, title, html("p", { class: "note" }, "Each row sums to 1.")), body, readout, scale);
  container.replaceChildren(html("div", { class: "controls" }, controls), html("div", { class: "attention" }, heads, large));
  let [buttons, picture, shape, shown] = [[], null, "", []];

  // Returns the tokens and the labels of the rows and columns of the chosen kind of attention.
  function axes() {
    const { source, read, written } = state.at;
    const rows = read.map((_, i) => written[i] ?? "…");
    if (state.kind === "cross") return { rows, columns: source, rowLabel: "writes", columnLabel: "looks at the source" };
    if (state.kind === "encoder") return { rows: source, columns: source, rowLabel: "source", columnLabel: "looks at the source" };
    return { rows, columns: read, rowLabel: "writes", columnLabel: "looks at what it has read" };
  }

  function drawHeads(layers) {
    const counts = layers.map((layer) => layer.length).join();
    if (buttons.length !== layers.length || heads.dataset.counts !== counts) {
      heads.dataset.counts = counts;
      buttons = layers.map((layer, l) => layer.map((_, h) => {
        const name = `layer ${l + 1}, head ${h + 1}`;
        const canvas = html("canvas", { "aria-hidden": true });
        return html("button", { type: "button", role: "radio", "aria-label": name, title: name, onclick: () => pick(l, h) }, canvas, html("span", {}, `head ${h + 1}`));
      }));
      heads.replaceChildren(...buttons.map((layer, l) => html("div", { class: "layer" }, html("span", { class: "label" }, `layer ${l + 1}`), layer)));
    }
    const color = getComputedStyle(document.documentElement).getPropertyValue("--heat").trim();
    layers.forEach((layer, l) => layer.forEach((map, h) => {
      const [button, isChosen] = [buttons[l][h], l === state.layer && h === state.head];
      button.setAttribute("aria-checked", isChosen);
      button.tabIndex = isChosen ? 0 : -1;
      const canvas = button.querySelector("canvas");
      [canvas.width, canvas.height] = [map[0].length, map.length];
      paint(canvas, map.flat().map((weight) => weight / 1000), color, false);
    }));
  }

  function draw() {
    if (!state.at) return;
    const layers = state.at.maps[state.kind];
    state.layer = Math.min(state.layer, layers.length - 1);
    state.head = Math.min(state.head, layers[state.layer].length - 1);
    drawHeads(layers);
    const kind = { cross: "Cross-attention", encoder: "Encoder self-attention", decoder: "Decoder self-attention" }[state.kind];
    title.textContent = `${kind}, layer ${state.layer + 1}, head ${state.head + 1}`;
    const weights = layers[state.layer][state.head].flat().map((weight) => weight / 1000);
    const { rows, columns, rowLabel, columnLabel } = axes();
    const isCausal = state.kind === "decoder";
    const newShape = JSON.stringify([state.kind, rows, columns]);
    if (newShape !== shape) {
      shape = newShape;
      // The picture reads `shown` when the pointer or a key asks for a weight.
      shown = weights;
      const hadFocus = body.contains(document.activeElement);
      const place = picture?.dataset.place?.split(",").map(Number);
      // An unchanged hint is not set again, so that screen readers do not repeat it.
      const hint = "Point at a cell, or move by arrow keys.";
      if (!hadFocus && readout.textContent !== hint) readout.textContent = hint;
      picture = heatMap({ rows, columns, weights: shown, isCausal, isOwnScale: false, rowLabel, columnLabel, readout, title: title.textContent, place: hadFocus ? place : null });
      body.replaceChildren(picture);
      scale.replaceChildren(scaleBar(1, isCausal));
      if (hadFocus) picture.focus();
    } else {
      weights.forEach((weight, i) => { shown[i] = weight; });
    }
    picture.setAttribute("aria-label", `${title.textContent}: arrow keys move between cells`);
    [...picture.querySelectorAll(".cell, .masked")].forEach((cell, i) => {
      if (cell.classList.contains("cell")) cell.setAttribute("fill-opacity", shown[i].toFixed(3));
      cell.classList.toggle("dim", state.row != null && state.kind !== "encoder" && Math.floor(i / columns.length) !== state.row);
    });
  }

  function pick(layer, head) {
    [state.layer, state.head] = [layer, head];
    draw();
    buttons[layer][head].focus();
  }

  heads.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!step) return;
    event.preventDefault();
    const layer = (state.layer + step[0] + buttons.length) % buttons.length;
    const count = buttons[layer].length;
    pick(layer, (state.head + step[1] + count) % count);
  });
  document.addEventListener("themechange", draw);
  return {
    // Draws `at`: { source, read, written, maps }. `row` is the row to highlight, if any.
    show(at, row = null) {
      [state.at, state.row] = [at, row];
      draw();
    },
  };
}
