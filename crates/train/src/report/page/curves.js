// The curves of training: by step or by time, smoothed.

// Returns the exponential moving average of a curve, computed from the means if the curve is
// thinned. With more than 400 points, `weight` is raised, so that the average spans the same
// fraction of the curve as with 400 points.
function smoothed(curve, weight) {
  const { x, y } = curve.mean ?? curve;
  const w = weight ** Math.min(1, 400 / x.length);
  let [sum, total] = [0, 0];
  return {
    x,
    y: y.map((value) => {
      if (value == null) return null;
      sum = w * sum + (1 - w) * value;
      total = w * total + (1 - w);
      return sum / total;
    }),
  };
}

// Returns the training time of a step in seconds, interpolated between the logged steps.
function secondsAt({ x, y }, step) {
  const at = nearest(x, step);
  const other = x[at] < step ? at + 1 : at - 1;
  if (x[at] === step || x[other] == null) return y[at];
  return y[at] + ((step - x[at]) / (x[other] - x[at])) * (y[other] - y[at]);
}

// Returns the mean of curves, at the steps that all of them have. If all curves are thinned, their
// means are averaged.
function meanCurve(curves) {
  const bases = curves.map((curve) => (curves.every((one) => one.mean) ? curve.mean : curve));
  const others = bases.slice(1).map(({ x, y }) => new Map(x.map((step, i) => [step, y[i]])));
  const [x, y] = [[], []];
  bases[0].x.forEach((step, i) => {
    if (!others.every((other) => other.has(step))) return;
    const values = [bases[0].y[i], ...others.map((other) => other.get(step))];
    x.push(step);
    y.push(values.includes(null) ? null : values.reduce((a, b) => a + b) / values.length);
  });
  return { x, y };
}

// Merges runs that differ in their seed only into one run, whose curves are the means of theirs.
function meanRun(members) {
  const [first] = members;
  if (members.length === 1) return { ...first, members: [] };
  const mean = (of) => (members.every(of) ? meanCurve(members.map(of)) : null);
  const fields = Object.keys(first.curves).map((field) => [field, mean((run) => run.curves[field])]);
  const curves = Object.fromEntries(fields.filter(([, curve]) => curve?.x.length));
  return { ...first, name: `${first.name}, ${members.length} seeds`, best_step: null, curves, seconds_by_step: mean((run) => run.seconds_by_step), members };
}

function curvesPanel(data) {
  const runs = data.groups.map((group) => meanRun(group.map((index) => ({ ...data.runs[index], index }))));
  const means = runs.filter((run) => run.members.length > 0);
  const hasTime = runs.every((run) => run.seconds_by_step);
  const isSingle = runs.length === 1;
  const points = Math.max(...runs.map((run) => run.curves.loss?.x.length ?? 0));
  const state = { x: "step", weight: points > 50 ? 0.6 : 0, isLog: null };
  const grid = html("div", { class: "grid-of-cards" });

  // Returns a curve over the chosen x axis.
  function over(run, { x, y }) {
    return { x: state.x === "step" ? x : x.map((step) => secondsAt(run.seconds_by_step, step)), y };
  }

  // Returns the lines of a field. Faint lines behind them show each seed of merged runs, or the raw
  // values of a smoothed line.
  function lines(field, label, index, isSmoothed) {
    return runs.flatMap((run) => {
      const curve = run.curves[field];
      if (!curve) return [];
      const style = lineStyle(isSingle ? index : run.index);
      const name = isSingle ? label : run.name;
      const raw = { ...over(run, curve), ...style, label: name };
      const faint = (line) => ({ ...style, ...line, label: name, dash: "", isFaint: true });
      const members = run.members.map((member) => faint({ ...(isSingle ? style : lineStyle(member.index)), ...over(member, member.curves[field]) }));
      if (!isSmoothed || state.weight === 0) return [...members, { ...raw, hasMarkers: !isSmoothed }];
      return [...(members.length ? members : [faint(raw)]), { ...over(run, smoothed(curve, state.weight)), ...style, label: name, raw }];
    });
  }

  // Returns the titles and lines of the charts that show some fields. One run has one chart for all
  // fields; several runs have a chart for each field.
  function of(title, fields) {
    const present = fields.filter(([field]) => runs[0].curves[field]);
    if (isSingle && present.length !== 1) return [[title, fields.flatMap(([field, label, isSmoothed], index) => lines(field, label, index, isSmoothed))]];
    return (isSingle ? present : fields).map(([field, label, isSmoothed]) => [`${title}, ${label}`, lines(field, label, 0, isSmoothed)]);
  }

  function draw() {
    const group = [];
    const charts = [];
    const [only] = runs;
    // All charts have the same x axis, so that they can be compared with each other.
    const ends = runs.flatMap((run) => Object.values(run.curves).map((curve) => over(run, { x: curve.x.slice(-1), y: [] }).x[0]));
    const xRange = [0, Math.max(...ends)];
    const xLabel = state.x === "step" ? "step" : "training time";
    const add = (options) => ([title, series]) => {
      if (series.length === 0) return;
      charts.push(lineChart(series, { title, xLabel, xRange, group, xWords: state.x === "step" ? grouped : (x) => duration(x), ...options }));
    };
    const smoothing = Math.max(...runs.map((run) => run.label_smoothing));
    const loss = runs.flatMap((run) => [run.curves.loss, run.curves.valid_loss]).flatMap((curve) => curve?.y ?? []);
    const positive = loss.filter((y) => y > 0);
    const isSteep = Math.max(...positive) >= 50 * Math.min(...positive);
    const isLog = (state.isLog ?? isSteep) && positive.length > 0;
    if (state.isLog == null) logBox.querySelector("input").checked = isLog;
    const bestAt = isSingle && only.best_step != null ? [{ x: over(only, { x: [only.best_step], y: [0] }).x[0], label: "best" }] : [];
    const lossNote = smoothing > 0
      ? `Nats per token. The training loss has label smoothing ${smoothing}, the validation loss has none.`
      : "Cross-entropy, in nats per token";
    of("Loss", [["loss", "training", true], ["valid_loss", "validation", false]]).forEach(add({ note: lossNote, isLog, marks: bestAt, height: 320 }));
    of("Accuracy", [["exact_match", "exact match", false], ["token_accuracy", "token accuracy", false]])
      .forEach(add({ note: "On the validation split, from 0 to 1", range: [0, 1], yWords: share, marks: bestAt.map(({ x }) => ({ x, label: "" })) }));
    of("Translation", [["bleu", "BLEU", false], ["chrf", "chrF", false]])
      .forEach(add({ note: "On the validation split, from 0 to 100", range: [0, 100] }));
    of("Learning rate", [["learning_rate", "learning rate", false]]).map(([, s]) => ["Learning rate", s.map((one) => ({ ...one, hasMarkers: false }))]).forEach(add({}));
    const clips = new Set(runs.map((run) => run.clip_norm).filter((clip) => clip != null));
    const clipped = (y) => {
      const those = runs.filter((run) => run.clip_norm === y);
      return those.length === runs.length ? "" : `: ${those.map((run) => run.name).join(", ")}`;
    };
    const limits = [...clips].map((y) => ({ y, label: `clipped at ${y}${clipped(y)}` }));
    of("Gradient norm", [["gradient_norm", "gradient norm", true]]).map(([, s]) => ["Gradient norm", s]).forEach(add({ note: "Of all parameters together, before clipping", limits }));
    of("Throughput", [["tokens_per_second", "tokens per second", true]]).map(([, s]) => ["Throughput", s]).forEach(add({ note: "Target tokens per second of training, without padding" }));
    // The first chart of a single run is wide, and so is a last chart that is alone in its row.
    if (isSingle) charts[0]?.classList.add("wide");
    if ((charts.length - (isSingle ? 1 : 0)) % 2 === 1) charts.at(-1)?.classList.add("wide");
    grid.replaceChildren(...charts);
    if (grid.isConnected) charts.forEach((chart) => chart.redraw());
  }

  const logBox = checkbox("logarithmic loss", false, (isLog) => { state.isLog = isLog; draw(); });
  const words = (weight) => (weight === 0 ? "off" : weight.toFixed(2));
  const controls = html("div", { class: "controls" },
    slider("Smoothing", { min: 0, max: 0.99, step: 0.01 }, state.weight, words, (weight) => { state.weight = weight; draw(); }),
    hasTime && choice("Over", [["step", "steps"], ["time", "time"]], "step", (x) => { state.x = x; draw(); }),
    logBox,
  );
  draw();
  const note = means.map(({ members }) => `${members.length} runs differ in their seed only, and their line is the mean of the pale lines: ${members.map((run) => run.name).join(", ")}.`);
  return [controls, ...note.map((text) => html("p", { class: "note" }, text)), grid];
}
