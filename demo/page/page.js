// The page: settings, curves, the typed source, and a trained model. Everything is computed by the
// worker; see worker.js for the messages.

const byId = (id) => document.getElementById(id);

// Returns the sections of a run's config.json from the fields of the page.
function settingsOf() {
  const number = (name) => Number(byId(name).value);
  const width = number("width");
  return {
    seed: number("seed"),
    data: { task: byId("task").value, symbols: number("symbols"), min_length: 1, max_length: number("length") },
    model: {
      d_model: width, n_heads: number("heads"), d_ff: 4 * width, norm_placement: byId("norm").value,
      n_encoder_layers: number("layers"), n_decoder_layers: number("layers"),
    },
    optimization: { steps: number("steps"), batch_size: number("batch"), schedule: { learning_rate: number("rate"), warmup: 50 } },
    evaluation: { every: 20, validation_size: 100 },
  };
}

// Maps the names of settings in errors to the ids of the fields that set them.
const FIELDS = {
  "data.symbols": "symbols", "data.max_length": "length", "model.d_model": "width", "model.n_heads": "heads",
  "model.n_encoder_layers": "layers", "optimization.steps": "steps", "optimization.batch_size": "batch",
  "optimization.schedule.learning_rate": "rate", seed: "seed",
};

const run = { id: 0, request: 0, isRunning: false, isOver: false, step: 0, steps: 0, taken: [], loss: null, exact: null };
const form = byId("settings");
let worker = null;

// The curves of the run. A chart reads their arrays again whenever it is drawn.
const loss = { label: "loss of each batch", x: [], y: [], color: "var(--series-1)", dash: "" };
const validation = { label: "validation loss", x: [], y: [], color: "var(--series-2)", dash: "7 3" };
const exact = { label: "exact match", x: [], y: [], color: "var(--series-3)", dash: "" };
const range = [0, 1];
const options = { xLabel: "step", xRange: range, height: 190 };
const group = [];
const curves = [
  lineChart([loss, validation], { ...options, title: "Loss", note: "Nats per token: each batch, and 100 unseen sources.", group }),
  lineChart([exact], { ...options, title: "Exact match", note: "Share of 100 unseen sources with no wrong symbol.", range: [0, 1.02], yWords: share, group }),
];

const maps = mapsView(byId("attention"));
const beamMaps = mapsView(byId("beam-attention"));

function tiles() {
  const tile = (label, id) => html("div", { class: "tile" }, html("dt", {}, label), html("dd", { id }, MISSING));
  byId("tiles").replaceChildren(tile("step", "t-step"), tile("loss", "t-loss"), tile("exact match", "t-exact"), tile("steps per second", "t-steps"), tile("tokens per second", "t-tokens"));
}

function say(text) {
  byId("status").textContent = text;
}

function problem(text) {
  byId("problem").textContent = text ?? "";
  byId("problem").hidden = !text;
  if (text) byId("problem").scrollIntoView({ block: "nearest" });
}

// Ends the run, and shows `text` as the reason.
function stop(text) {
  Object.assign(run, { isRunning: false, isOver: true });
  problem(text);
  say("Stopped.");
  drawButtons();
}

// Returns steps and tokens per second, over about the last two seconds of computation. Both are
// `null` before the first step.
function speeds() {
  let [seconds, steps, tokens] = [0, 0, 0];
  for (let i = run.taken.length - 1; i >= 0 && seconds < 2; i -= 1) {
    seconds += run.taken[i].seconds;
    steps += run.taken[i].steps;
    tokens += run.taken[i].tokens;
  }
  return seconds > 0 ? [steps / seconds, tokens / seconds] : [null, null];
}

function drawNumbers() {
  const [steps, tokens] = speeds();
  byId("t-step").textContent = run.step ? `${grouped(run.step)} of ${grouped(run.steps)}` : MISSING;
  byId("t-loss").textContent = run.loss == null ? MISSING : run.loss.toFixed(4);
  byId("t-exact").textContent = run.exact == null ? MISSING : share(run.exact);
  byId("t-steps").textContent = steps == null ? MISSING : short(steps, 3);
  byId("t-tokens").textContent = tokens == null ? MISSING : grouped(tokens);
}

let isAsked = false;

// Draws at most once per frame, however often the worker reports.
function drawSoon() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => {
    isAsked = false;
    drawNumbers();
    for (const curve of curves) curve.redraw();
  });
}

function drawButtons() {
  byId("start").textContent = run.isRunning ? "Pause" : run.step && !run.isOver ? "Continue" : "Start";
  byId("start").disabled = run.isOver;
  byId("step").disabled = run.isOver || run.isRunning;
}

// Returns whether the typed source is valid for the task.
function isOfTask() {
  const [symbols, length] = ["symbols", "length"].map((name) => Number(byId(name).value));
  const words = byId("source").value.trim().split(/\s+/);
  return words.length <= length && words.every((word) => /^[1-9]\d*$/.test(word) && Number(word) <= symbols);
}

// Returns a random source of the task.
function exampleSource() {
  const [symbols, length] = ["symbols", "length"].map((name) => Number(byId(name).value));
  const count = Math.max(1, Math.min(length, 6));
  return Array.from({ length: count }, () => 1 + Math.floor(Math.random() * symbols)).join(" ");
}

function begin() {
  problem();
  for (const field of form.elements) field.removeAttribute?.("aria-invalid");
  if (!form.checkValidity()) {
    const wrong = form.querySelector("input:invalid, select:invalid");
    wrong.setAttribute("aria-invalid", "true");
    run.id += 1;
    byId("config").removeAttribute("href");
    worker.postMessage({ kind: "pause" });
    stop(`${labelOf(wrong)}: ${wrong.validationMessage}`);
    return;
  }
  const settings = settingsOf();
  Object.assign(run, { id: run.id + 1, isRunning: false, isOver: false, step: 0, steps: settings.optimization.steps, taken: [], loss: null, exact: null });
  for (const one of [loss, validation, exact]) [one.x.length, one.y.length] = [0, 0];
  range[1] = run.steps;
  byId("config").removeAttribute("href");
  byId("source-hint").textContent = `1 to ${settings.data.max_length} numbers from 1 to ${settings.data.symbols}, with blanks between them.`;
  worker.postMessage({ kind: "new", id: run.id, settings, source: byId("source").value });
  drawButtons();
  drawSoon();
}

function toggle() {
  run.isRunning = !run.isRunning;
  run.request += 1;
  worker.postMessage({ kind: run.isRunning ? "run" : "pause", request: run.request });
  if (run.isRunning) say("Training …");
  drawButtons();
}

// Shows the output with wrong symbols marked.
function drawOutput({ compared }) {
  const parts = compared.map(({ text, correct }) => {
    if (correct == null || text === correct) return html("span", { class: "symbol" }, text);
    if (!text) return html("del", { class: "symbol missing", title: `missing: ${correct}` }, html("span", { class: "hidden" }, "missing: "), correct);
    const title = correct ? `should be ${correct}` : "should have ended before";
    return html("mark", { class: "symbol wrong", title }, text, html("span", { class: "hidden" }, ` (wrong, ${title})`));
  });
  const errors = compared.filter(({ text, correct }) => correct != null && text !== correct).length;
  const verdict = html("span", { class: `verdict ${errors ? "wrong" : "right"}` }, errors ? `${errors} wrong` : "correct");
  byId("output").replaceChildren(html("span", { class: "label" }, "Output"), ...(compared.length ? parts : [html("span", { class: "note" }, "nothing")]), verdict);
}

// State of the tab for a trained model: its beam search, and the chosen step and output.
const asked = { beams: null, step: 0, chosen: 0 };

function drawSearch() {
  const { source, steps, found } = asked.beams;
  asked.chosen = Math.min(asked.chosen, found.length - 1);
  asked.step = Math.min(asked.step, steps.length - 1);
  const target = found[asked.chosen];
  const percent = (value) => `${(100 * value).toFixed(1)} %`;
  const row = Math.min(asked.step, target.written.length - 1);
  const symbol = (text, i, probability) => html("span", { class: `symbol${i === row ? " now" : ""}`, style: `--p:${probability.toFixed(3)}`, title: percent(probability) }, text);
  const results = found.map((one, i) => {
    const button = html("button", { type: "button", role: "radio", "aria-checked": i === asked.chosen, tabindex: i === asked.chosen ? 0 : -1, onclick: () => choose(i) },
      html("span", { class: "rank" }, `${i + 1}`), html("span", { class: "tokens" }, one.written.map((text, t) => symbol(text, t, one.probabilities[t]))), html("span", { class: "note" }, `score ${one.score.toFixed(3)}`));
    return button;
  });
  function choose(i) {
    asked.chosen = (i + found.length) % found.length;
    drawSearch();
    byId("found").querySelector('[aria-checked="true"]').focus();
  }
  const onkeydown = (event) => {
    const next = moved(event.key, asked.chosen, found.length);
    if (next == null) return;
    event.preventDefault();
    choose(next);
  };
  byId("found").replaceChildren(html("h3", {}, "Found, the best first"), html("div", { class: "results-of-search", role: "radiogroup", "aria-label": "Outputs", onkeydown }, results));
  if (!byId("search-step")) {
    const control = slider("Step", { min: 1, max: steps.length, step: 1 }, asked.step + 1, (value) => `${value}`, (value) => { asked.step = value - 1; drawSearch(); });
    control.querySelector("input").id = "search-step";
    control.querySelector("label").htmlFor = "search-step";
    byId("steps-of-search").replaceChildren(html("div", { class: "controls" }, control), html("div", { class: "grid-of-cards" }, html("section", { class: "card", id: "beams-now" }), html("section", { class: "card", id: "likely" })));
  }
  byId("search-step").max = steps.length;
  const beams = steps[asked.step].map((beam) => [
    html("td", {}, html("span", { class: "tokens" }, beam.tokens.map((text) => html("span", { class: "symbol" }, text)))),
    percent(beam.probability), beam.log_probability.toFixed(3), beam.has_ended ? "ended" : "",
  ]);
  byId("beams-now").replaceChildren(html("h3", {}, `Beams after step ${asked.step + 1}`), table("Beams", ["output so far", "newest symbol", "log-probability", ""], beams, "numbers"));
  const likely = target.likely[row].map(({ text, probability }) => html("div", { class: "bar-row" },
    html("span", { class: "symbol" }, text), html("span", { class: "bar" }, html("span", { style: `width:${(100 * probability).toFixed(2)}%` })), html("span", { class: "note" }, percent(probability))));
  byId("likely").replaceChildren(html("h3", {}, `Likely symbols at position ${row + 1} of output ${asked.chosen + 1}`), ...likely);
  beamMaps.show({ source, ...target }, row);
}

// Shows what is wrong with a question, and dims the beams, which belong to an earlier question.
// Without a text, the question is valid, and both are undone.
function wrongQuestion(field, text) {
  for (const id of ["question", "beams"]) byId(id).removeAttribute("aria-invalid");
  field?.setAttribute("aria-invalid", "true");
  byId("question-hint").textContent = text ?? "";
  byId("search").classList.toggle("old", text != null);
}

function ask() {
  const beams = byId("beams");
  if (!beams.checkValidity()) {
    wrongQuestion(beams, `Beams: ${beams.validationMessage}`);
    return;
  }
  worker?.postMessage({ kind: "beams", text: byId("question").value, width: Number(beams.value) });
}

// Maximum size of a model file, in bytes.
const LARGEST = 200e6;

async function load(file) {
  problem();
  byId("search").hidden = true;
  byId("file-status").textContent = `Reading ${file.name} …`;
  try {
    if (!worker) throw new Error("waits for Reset, which begins again after the failure");
    if (file.size > LARGEST) throw new Error(`has ${grouped(file.size)} bytes, and may have ${grouped(LARGEST)}`);
    const bytes = new Uint8Array(await file.arrayBuffer());
    asked.name = file.name;
    worker.postMessage({ kind: "load", name: file.name, bytes }, [bytes.buffer]);
  } catch (error) {
    byId("file-status").textContent = "No model.";
    problem(`${file.name} cannot be read: ${error.message}.`);
  }
}

const labelOf = (field) => field.labels[0].firstChild.textContent.trim();

// Returns a message with settings named as on the page, and marks the field of the setting with
// which the message begins.
function inWords(text) {
  for (const [path, id] of Object.entries(FIELDS)) {
    if (text.startsWith(path)) byId(id).setAttribute("aria-invalid", "true");
    text = text.replaceAll(path, labelOf(byId(id)));
  }
  return text;
}

// Handlers of the worker's messages, by the kind of message.
const heard = {
  ready({ engine }) {
    byId("engine").textContent = engine === "simd128" ? "with vector instructions (simd128)" : "without vector instructions";
    begin();
  },
  made({ config }) {
    byId("config").href = `data:application/json,${encodeURIComponent(JSON.stringify(JSON.parse(config), null, 2))}`;
    say("Ready. Start begins to train.");
    document.documentElement.dataset.ready = run.id;
  },
  steps({ taken, evaluations, seconds }) {
    for (const step of taken) {
      loss.x.push(step.step);
      loss.y.push(step.loss);
      run.step = step.step;
      run.loss = step.loss;
    }
    for (const one of evaluations) {
      validation.x.push(one.step);
      validation.y.push(one.loss);
      exact.x.push(one.step);
      exact.y.push(one.exact_match);
      run.exact = one.exact_match;
    }
    if (!taken.length) return;
    run.taken.push({ steps: taken.length, seconds, tokens: taken.reduce((sum, step) => sum + step.tokens, 0) });
    if (!run.isRunning && !run.isOver) say(`Paused at step ${grouped(run.step)}.`);
    drawButtons();
    drawSoon();
  },
  look({ look }) {
    byId("source").removeAttribute("aria-invalid");
    byId("attention").classList.remove("old");
    drawOutput(look);
    maps.show(look);
  },
  "no-look"({ text }) {
    byId("source").setAttribute("aria-invalid", "true");
    byId("attention").classList.add("old");
    byId("output").replaceChildren(html("span", { class: "verdict wrong" }, text));
  },
  paused({ reason, request }) {
    // An answer is out of date if another request has followed.
    if (reason !== "finished" && request !== run.request) return;
    run.isRunning = false;
    run.isOver = reason === "finished";
    say(run.isOver ? `Finished: all ${grouped(run.steps)} steps are taken.` : `Paused at step ${grouped(run.step)}.`);
    drawButtons();
  },
  loaded({ name, config }) {
    const { data, model } = config;
    const symbols = data.symbols ? `, ${data.symbols} symbols` : "";
    byId("file-status").textContent = `${name}: task ${data.task}${symbols}, width ${model.d_model}, ${model.n_heads} heads, ${model.n_encoder_layers} + ${model.n_decoder_layers} layers.`;
    byId("search").hidden = false;
    Object.assign(asked, { beams: null, step: 0, chosen: 0 });
    const length = Math.min(data.max_length ?? 4, 6);
    byId("question").value = data.symbols ? Array.from({ length }, (_, i) => 1 + ((3 * i + 2) % data.symbols)).join(" ") : "";
    ask();
  },
  beams({ beams }) {
    wrongQuestion();
    const isFirst = !asked.beams;
    asked.beams = beams;
    asked.step = isFirst ? beams.steps.length - 1 : asked.step;
    byId("search-step")?.setAttribute("max", beams.steps.length);
    drawSearch();
  },
  error({ cause, id, text }) {
    if (cause === "load") {
      byId("file-status").textContent = "No model.";
      problem(`${asked.name} ${text}.`);
    } else if (cause === "beams") {
      wrongQuestion(byId("question"), text);
    } else if (id === run.id) {
      stop(inWords(text));
    }
  },
  broken({ text }) {
    worker.terminate();
    worker = null;
    byId("search").hidden = true;
    byId("file-status").textContent = "No model.";
    stop(`The computation has failed, perhaps for want of memory (${text}). Reset begins again.`);
  },
};

function startWorker() {
  worker = new Worker(`worker.js${location.search}`, { type: "module" });
  worker.onmessage = ({ data }) => {
    // Reports of a run that was reset are out of date.
    if (["steps", "look", "no-look", "paused", "made"].includes(data.kind) && data.id !== run.id) return;
    heard[data.kind](data);
  };
  worker.onerror = (event) => heard.broken({ text: event.message ?? "the worker cannot start" });
}

function tabs() {
  const all = [...document.querySelectorAll('[role="tab"]')];
  const open = (tab, hasFocus) => {
    for (const other of all) {
      other.setAttribute("aria-selected", other === tab);
      other.tabIndex = other === tab ? 0 : -1;
      byId(other.getAttribute("aria-controls")).hidden = other !== tab;
    }
    if (hasFocus) tab.focus();
  };
  for (const tab of all) {
    tab.addEventListener("click", () => open(tab));
    tab.addEventListener("keydown", (event) => {
      const next = moved(event.key, all.indexOf(tab), all.length);
      if (next == null) return;
      event.preventDefault();
      open(all[next], true);
    });
  }
}

function theme() {
  const apply = (name) => {
    document.documentElement.dataset.theme = name;
    document.dispatchEvent(new Event("themechange"));
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("themechange")));
  byId("theme").replaceChildren(choice("Theme", [["auto", "auto"], ["light", "light"], ["dark", "dark"]], "auto", apply));
}

function listen() {
  byId("start").addEventListener("click", toggle);
  byId("step").addEventListener("click", () => worker.postMessage({ kind: "step" }));
  byId("reset").addEventListener("click", () => (worker ? begin() : startWorker()));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("change", (event) => {
    if (["symbols", "length"].includes(event.target.id) && form.checkValidity() && !isOfTask()) byId("source").value = exampleSource();
    if (worker) begin();
  });
  byId("source").addEventListener("input", () => worker?.postMessage({ kind: "source", text: byId("source").value }));
  byId("draw").addEventListener("click", () => {
    byId("source").value = exampleSource();
    worker?.postMessage({ kind: "source", text: byId("source").value });
  });
  byId("question").addEventListener("input", ask);
  byId("beams").addEventListener("input", ask);
  byId("file").addEventListener("change", ({ target }) => {
    const [file] = target.files;
    // Without a value, the field also reports a change if the same file is chosen again.
    if (file) load(file).then(() => { target.value = ""; });
  });
  // A browser would open a file that is dropped anywhere else, and the run would be lost.
  document.addEventListener("dragover", (event) => {
    event.preventDefault();
    byId("drop").classList.add("over");
  });
  document.addEventListener("dragleave", () => byId("drop").classList.remove("over"));
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    byId("drop").classList.remove("over");
    const [file] = event.dataTransfer.files;
    if (!file) return;
    byId("tab-ask").click();
    load(file);
  });
}

tiles();
byId("curves").replaceChildren(...curves);
tabs();
theme();
listen();
startWorker();
