// A line chart with labels beside the lines or in a legend. The pointer or the arrow keys choose
// the place on the x axis whose values the chart shows.

// Dash patterns, so that lines can be told apart without their colours. The first line is solid.
const DASHES = ["", "7 3", "2 3", "9 3 2 3", "14 4", "4 2 1 2 1 2"];
const COLORS = 7;

function lineStyle(index) {
  const dash = DASHES[(index + Math.floor(index / COLORS)) % DASHES.length];
  return { color: `var(--series-${(index % COLORS) + 1})`, dash };
}

// A sample of a line, for legends and tables.
function swatch({ color, dash }) {
  const line = svg("line", { x1: 1, y1: 5, x2: 27, y2: 5, "stroke-dasharray": dash, style: `stroke:${color}` });
  return svg("svg", { class: "swatch", viewBox: "0 0 28 10", width: 28, height: 10, "aria-hidden": true }, line);
}

// Returns about `count` round values in a range.
function linearTicks(min, max, count) {
  const rough = (max - min) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough * 0.999);
  const ticks = [];
  for (let i = Math.ceil(min / step - 1e-9); i * step <= max + step * 1e-9; i += 1) ticks.push(Number((i * step).toPrecision(12)));
  return ticks;
}

function logTicks(min, max) {
  const decades = Math.log10(max / min);
  const factors = decades > 3 ? [1] : decades > 1 ? [1, 3] : [1, 2, 3, 5, 7];
  const every = Math.max(1, Math.ceil(decades / 6));
  const ticks = [];
  for (let power = Math.floor(Math.log10(min)); power <= Math.log10(max); power += 1) {
    if (power % every !== 0) continue;
    for (const factor of factors) {
      const tick = Number(`${factor}e${power}`);
      if (tick >= min * 0.999 && tick <= max * 1.001) ticks.push(tick);
    }
  }
  return ticks.length > 1 ? ticks : [min, max];
}

// Returns the index of the value nearest to `x` in an increasing list.
function nearest(values, x) {
  let [low, high] = [0, values.length - 1];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] < x) low = middle + 1;
    else high = middle;
  }
  return low > 0 && x - values[low - 1] < values[low] - x ? low - 1 : low;
}

// Moves labels apart that would overlap. The `y` of a label is its preferred position before the
// call, and its final position afterwards.
function spread(labels, gap, top, bottom) {
  labels.sort((a, b) => a.y - b.y);
  labels.forEach((label, i) => { label.y = Math.max(label.y, i ? labels[i - 1].y + gap : top); });
  for (let i = labels.length - 1; i >= 0; i -= 1) {
    const limit = i === labels.length - 1 ? bottom : labels[i + 1].y - gap;
    labels[i].y = Math.min(labels[i].y, limit);
  }
  return labels;
}

// Draws a chart. Each series has `label`, `x`, `y` (null leaves a gap), `color` and `dash`.
// Optional: `isFaint` (drawn thin, without label and value), `hasMarkers`, and `raw` (the series
// before smoothing). `options`: `title`, `note`, `xLabel`, `xRange`, `xWords` and `yWords` (which
// format a value), `isLog`, `range` of y, `band` of x, `marks` (vertical lines), `limits`
// (horizontal lines), `group` (charts whose pointers move together), `height`.
function lineChart(series, options) {
  const { title, xWords = grouped, yWords = short, group } = options;
  const named = series.filter((one) => !one.isFaint);
  const tip = html("div", { class: "tip", role: "status", hidden: true });
  const plot = svg("svg", { role: "application", tabindex: 0, "aria-label": `${title}: arrow keys move along the curve` });
  const body = html("div", { class: "plot" }, plot, tip);
  const legend = html("div", { class: "legend" }, named.map((one) => html("span", {}, swatch(one), one.label)));
  const figure = html("figure", { class: "card" }, html("figcaption", {}, html("h3", {}, title), options.note && html("p", { class: "note" }, options.note)), legend, body);
  let scale = null;
  let cursor = null;

  function draw() {
    const width = Math.max(body.clientWidth || options.width || 640, 260);
    const height = options.height ?? 260;
    const isWide = width >= 480 && named.length > 1 && named.length <= 8;
    legend.hidden = isWide || named.length < 2;
    const longest = Math.max(...named.map((one) => one.label.length));
    const all = series.flatMap((one) => one.y.filter((y) => y != null && (!options.isLog || y > 0)));
    const xs = series.flatMap((one) => [one.x[0], one.x[one.x.length - 1]]);
    let [minX, maxX] = options.xRange ?? [Math.min(...xs), Math.max(...xs)];
    if (minX === maxX) [minX, maxX] = [minX - 0.5, maxX + 0.5];
    // The label of the last tick is centred below the end of the axis, and half of it lies beyond.
    const half = 4 + 3.5 * xWords(maxX).length;
    const right = Math.max(14, half, isWide ? Math.min(170, 16 + longest * 6.6) : 0);
    let [minY, maxY] = options.range ?? [options.isLog ? Infinity : 0, -Infinity];
    if (!options.range) {
      for (const y of all) [minY, maxY] = [Math.min(minY, y), Math.max(maxY, y)];
      if (!(maxY > minY)) [minY, maxY] = options.isLog ? [maxY / 2, maxY * 2] : [Math.min(minY, 0), maxY > 0 ? maxY * 1.1 : 1];
      else if (options.isLog) [minY, maxY] = [minY / (maxY / minY) ** 0.03, maxY * (maxY / minY) ** 0.03];
      else maxY += (maxY - minY) * 0.04;
    }
    const ticksY = options.isLog ? logTicks(minY, maxY) : linearTicks(minY, maxY, 5);
    const wordsY = ticksY.map((y) => (options.tickWords ?? tickLabel)(y, options.isLog));
    const left = Math.max(52, 14 + 7 * Math.max(0, ...wordsY.map((words) => words.length)));
    const area = { left, top: 10, right: width - right, bottom: height - 38 };
    const ratio = options.isLog ? Math.log(maxY / minY) : maxY - minY;
    const toX = (x) => area.left + ((x - minX) / (maxX - minX)) * (area.right - area.left);
    const toY = (y) => area.bottom - ((options.isLog ? Math.log(y / minY) : y - minY) / ratio) * (area.bottom - area.top);
    scale = { minX, maxX, toX, toY, area, width, measured: body.clientWidth };
    plot.setAttribute("viewBox", `0 0 ${width} ${height}`);
    plot.setAttribute("height", height);
    const parts = [];
    if (options.band) {
      const [from, to] = options.band.map((x) => toX(Math.min(Math.max(x, minX), maxX)));
      parts.push(svg("rect", { class: "band", x: from, y: area.top, width: to - from, height: area.bottom - area.top }));
      parts.push(svg("text", { class: "faint", x: (from + to) / 2, y: area.bottom - 8, "text-anchor": "middle" }, "lengths of training"));
    }
    for (const [index, y] of ticksY.entries()) {
      parts.push(svg("line", { class: "grid", x1: area.left, x2: area.right, y1: toY(y), y2: toY(y) }));
      parts.push(svg("text", { x: area.left - 8, y: toY(y) + 4, "text-anchor": "end" }, wordsY[index]));
    }
    // Ticks between two whole steps would repeat a label.
    const isNew = (x, index, ticks) => index === 0 || xWords(x) !== xWords(ticks[index - 1]);
    const ticksX = linearTicks(minX, maxX, Math.max(2, Math.floor((area.right - area.left) / 90))).filter(isNew);
    for (const x of ticksX) {
      parts.push(svg("line", { class: "tick", x1: toX(x), x2: toX(x), y1: area.bottom, y2: area.bottom + 4 }));
      parts.push(svg("text", { x: toX(x), y: area.bottom + 17, "text-anchor": "middle" }, xWords(x)));
    }
    parts.push(svg("line", { class: "axis", x1: area.left, x2: area.right, y1: area.bottom, y2: area.bottom }));
    parts.push(svg("text", { class: "faint", x: (area.left + area.right) / 2, y: height - 4, "text-anchor": "middle" }, options.xLabel));
    for (const { y, label } of options.limits ?? []) {
      if (y < minY || y > maxY) continue;
      parts.push(svg("line", { class: "limit", x1: area.left, x2: area.right, y1: toY(y), y2: toY(y) }));
      parts.push(svg("text", { class: "faint", x: area.right - 4, y: toY(y) - 5, "text-anchor": "end" }, label));
    }
    for (const { x, label } of options.marks ?? []) {
      if (x == null || x < minX || x > maxX) continue;
      parts.push(svg("line", { class: "limit", x1: toX(x), x2: toX(x), y1: area.top, y2: area.bottom }));
      const isLeft = toX(x) > (area.left + area.right) / 2;
      parts.push(svg("text", { class: "faint", x: toX(x) + (isLeft ? -5 : 5), y: area.top + 11, "text-anchor": isLeft ? "end" : "start" }, label));
    }
    for (const one of series) parts.push(...line(one, toX, toY, options.isLog));
    if (isWide) parts.push(...endLabels(toY, area));
    parts.push(svg("g", { class: "cursor" }));
    plot.replaceChildren(...parts);
    if (cursor != null) show(cursor, false);
  }

  function endLabels(toY, area) {
    const labels = named.map((one) => {
      const last = one.y.findLast((y) => y != null && (!options.isLog || y > 0));
      return { one, y: toY(last ?? options.range?.[0] ?? 1) };
    });
    return spread(labels.filter((label) => Number.isFinite(label.y)), 15, area.top + 4, area.bottom - 2).map(({ one, y }) =>
      svg("text", { class: "end", x: area.right + 7, y: y + 4, style: `fill:${one.color}` }, one.label));
  }

  // Shows the values nearest to `x`; `isOwn` if the pointer is in this chart.
  function show(x, isOwn) {
    const layer = plot.querySelector(".cursor");
    cursor = x;
    if (x == null || !scale || named.length === 0) {
      layer?.replaceChildren();
      tip.hidden = true;
      return;
    }
    const { toX, toY, area, width } = scale;
    const found = named.filter((one) => one.x.length).map((one) => {
      const at = nearest(one.x, x);
      return { one, x: one.x[at], y: one.y[at] };
    });
    const anchor = found.reduce((best, point) => (Math.abs(point.x - x) < Math.abs(best.x - x) ? point : best));
    const at = toX(anchor.x);
    const dots = found.filter(({ y }) => y != null && (!options.isLog || y > 0)).map((point) =>
      svg("circle", { cx: toX(point.x), cy: toY(point.y), r: 4, style: `fill:${point.one.color}` }));
    layer.replaceChildren(svg("line", { x1: at, x2: at, y1: area.top, y2: area.bottom }), ...dots);
    tip.hidden = !isOwn;
    if (!isOwn) return;
    tip.replaceChildren(
      html("strong", {}, `${options.xLabel} ${xWords(anchor.x)}`),
      ...found.map(({ one, x: own, y }) => html("div", {}, swatch(one), html("span", {}, one.label),
        html("b", {}, (own === anchor.x ? "" : `at ${xWords(own)}: `) + (y == null ? "not finite" : yWords(y)), unsmoothed(one.raw, own)))),
    );
    const isLeft = at > width / 2;
    tip.style.left = isLeft ? "" : `${(at / width) * 100}%`;
    tip.style.right = isLeft ? `${100 - (at / width) * 100}%` : "";
  }

  function unsmoothed(raw, x) {
    const y = raw && raw.y[nearest(raw.x, x)];
    return raw && html("small", {}, y == null ? " (not finite)" : ` (unsmoothed ${yWords(y)})`);
  }

  function move(x) {
    for (const other of group ?? [show]) other(x, other === show);
  }

  function pointer(event) {
    const box = plot.getBoundingClientRect();
    const { minX, maxX, area, width } = scale;
    const at = ((event.clientX - box.left) / box.width) * width;
    const part = (at - area.left) / (area.right - area.left);
    if (part < -0.05 || part > 1.05) return move(null);
    move(minX + Math.min(Math.max(part, 0), 1) * (maxX - minX));
  }

  function onkeydown(event) {
    if (event.key === "Escape") return move(null);
    const longest = named.reduce((best, one) => (one.x.length > best.x.length ? one : best), named[0]);
    if (!longest) return;
    const last = longest.x.length - 1;
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -Math.ceil(last / 10), PageDown: Math.ceil(last / 10) }[event.key];
    const at = cursor == null ? last : nearest(longest.x, cursor);
    const next = event.key === "Home" ? 0 : event.key === "End" ? last : step && Math.min(Math.max(at + step, 0), last);
    if (next == null) return;
    event.preventDefault();
    move(longest.x[next]);
  }

  plot.addEventListener("pointermove", pointer);
  plot.addEventListener("pointerleave", () => move(null));
  plot.addEventListener("blur", () => move(null));
  plot.addEventListener("focus", () => move(cursor ?? scale?.maxX));
  plot.addEventListener("keydown", onkeydown);
  group?.push(show);
  // Drawing changes the height, which must not be observed in the same frame.
  new ResizeObserver(() => requestAnimationFrame(() => body.clientWidth !== scale?.measured && draw())).observe(body);
  figure.redraw = draw;
  return figure;
}

// Returns the path of a series and, unless the series is faint, its markers. A point between two
// gaps has a marker.
function line(one, toX, toY, isLog) {
  let [path, isOn] = ["", false];
  const markers = [];
  one.x.forEach((x, i) => {
    const y = one.y[i];
    const isShown = y != null && (!isLog || y > 0);
    if (isShown) {
      const [px, py] = [toX(x).toFixed(1), toY(y).toFixed(1)];
      path += `${isOn ? "L" : "M"}${px} ${py}`;
      const isAlone = !isOn && (one.y[i + 1] == null);
      if (isAlone || (one.hasMarkers && one.x.length <= 60)) {
        markers.push(svg("circle", { cx: px, cy: py, r: 3, style: `fill:${one.color}` }));
      }
    }
    isOn = isShown;
  });
  const style = `stroke:${one.color}`;
  return [svg("path", { class: one.isFaint ? "raw" : "line", d: path, style, "stroke-dasharray": one.dash }), ...(one.isFaint ? [] : markers)];
}
