// The charts, which are in the page as SVG: by step or by time, with their values under the pointer
// or chosen by the arrow keys.

const chartBox = document.getElementById("charts");

// Returns the index of the value nearest to `x` in an increasing list.
function nearest(values, x) {
  return values.reduce((best, value, i) => (Math.abs(value - x) < Math.abs(values[best] - x) ? i : best), 0);
}

function hover(figure) {
  const { edges: [left, right], range: [start, end], x_label, lines } = JSON.parse(figure.dataset.hover);
  const plot = figure.querySelector(".plot");
  const tip = html("div", { class: "tip", role: "status", hidden: true });
  const cursor = html("div", { class: "cursor", hidden: true });
  plot.append(cursor, tip);
  fill(plot, { tabindex: 0, role: "application", "aria-label": `${figure.querySelector("h3").textContent}: arrow keys move along the curve` }, []);
  const { x: steps } = lines.reduce((best, line) => (line.x.length > best.x.length ? line : best));
  const last = steps.length - 1;
  let at = null;

  function show(index) {
    at = index;
    tip.hidden = cursor.hidden = index == null;
    if (index == null) return;
    const x = steps[index];
    const place = left + ((x - start) / (end - start)) * (right - left);
    cursor.style.left = `${100 * place}%`;
    tip.style.left = place < 0.5 ? `${100 * place}%` : "";
    tip.style.right = place < 0.5 ? "" : `${100 * (1 - place)}%`;
    tip.replaceChildren(html("strong", {}, `${x_label} ${grouped(x)}`), ...lines.map((line) => {
      const i = nearest(line.x, x);
      const where = line.x[i] === x ? "" : `at ${grouped(line.x[i])}: `;
      return html("div", {}, key(line.color), line.label, html("b", {}, where + line.y[i]));
    }));
  }

  plot.addEventListener("pointermove", (event) => {
    const box = plot.getBoundingClientRect();
    const place = ((event.clientX - box.left) / box.width - left) / (right - left);
    show(place < -0.05 || place > 1.05 ? null : nearest(steps, start + place * (end - start)));
  });
  plot.addEventListener("pointerleave", () => show(null));
  plot.addEventListener("blur", () => show(null));
  plot.addEventListener("focus", () => show(at ?? last));
  plot.addEventListener("keydown", (event) => {
    if (event.key === "Escape") return show(null);
    const page = Math.ceil(last / 10);
    const by = { ArrowLeft: -1, ArrowRight: 1, PageUp: -page, PageDown: page, Home: -last, End: last }[event.key];
    if (by == null) return;
    event.preventDefault();
    show(Math.min(Math.max((at ?? last) + by, 0), last));
  });
}

function chartsPanel() {
  const figures = [...chartBox.querySelectorAll("figure")];
  figures.forEach(hover);
  const show = (x) => figures.forEach((figure) => { figure.hidden = ![x, "all"].includes(figure.dataset.x); });
  show("steps");
  const hasTime = figures.some((figure) => figure.dataset.x === "seconds");
  return [hasTime && html("div", { class: "controls" }, choice("Over", [["steps", "steps"], ["seconds", "time"]], "steps", show)), chartBox];
}
