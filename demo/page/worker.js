// Computes in a thread of its own, so that the page never stalls. Training is cut into slices;
// between two of them the worker reads the page's messages.

// A module with vector instructions. `WebAssembly.validate` accepts it if the browser has simd128.
const SIMD_TEST = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15, 253, 98, 11);

// Duration of a slice, and minimum time between two looks at the attention, in milliseconds.
const SLICE = 30;
const LOOK_EVERY = 200;

// The address can ask for an engine, as in `?engine=plain`, to compare the two.
const asked = new URLSearchParams(location.search).get("engine");
const engine = asked === "plain" || !WebAssembly.validate(SIMD_TEST) ? "plain" : "simd128";
const channel = new MessageChannel();
let wasm = null;
let session = null;
let model = null;
let id = 0;
let isRunning = false;
let isScheduled = false;
let steps = 0;
// Number of the page's last request to run or to pause, which answers repeat.
let request = 0;
let source = "";
let lookedAt = 0;

function look() {
  lookedAt = performance.now();
  if (!session) return;
  try {
    postMessage({ kind: "look", id, look: JSON.parse(session.look(source)) });
  } catch (error) {
    if (error instanceof WebAssembly.RuntimeError) throw error;
    postMessage({ kind: "no-look", id, text: String(error) });
  }
}

function pause(reason) {
  isRunning = false;
  postMessage({ kind: "paused", id, reason, request });
}

// Schedules the next slice, unless one is scheduled already.
function schedule() {
  if (isScheduled) return;
  isScheduled = true;
  channel.port2.postMessage(null);
}

// Takes at least one step, and then further steps until the slice is over. Reports them to the
// page, even if one of them fails.
function train(milliseconds) {
  const [taken, evaluations] = [[], []];
  let isOver = false;
  const begun = performance.now();
  let busy = 0;
  try {
    do {
      const from = performance.now();
      const step = JSON.parse(session.step());
      busy += performance.now() - from;
      if (step === null) return;
      taken.push(step);
      isOver = step.step === steps;
      if (step.is_evaluated || isOver) evaluations.push({ step: step.step, ...JSON.parse(session.evaluate()) });
    } while (!isOver && performance.now() - begun < milliseconds);
  } finally {
    postMessage({ kind: "steps", id, taken, evaluations, seconds: busy / 1000 });
  }
  if (performance.now() - lookedAt > LOOK_EVERY || isOver || milliseconds === 0) look();
  if (isOver) pause("finished");
}

channel.port1.onmessage = () => {
  isScheduled = false;
  if (!isRunning) return;
  guard(() => {
    train(SLICE);
    if (isRunning) schedule();
  });
};

const actions = {
  new(message) {
    isRunning = false;
    session?.free();
    session = null;
    id = message.id;
    source = message.source;
    steps = message.settings.optimization.steps;
    session = new wasm.Session(JSON.stringify(message.settings));
    postMessage({ kind: "made", id, config: session.config() });
    look();
  },
  run(message) {
    request = message.request;
    if (!session) return;
    isRunning = true;
    schedule();
  },
  pause(message) {
    request = message.request;
    if (isRunning) pause("paused");
  },
  step() {
    if (session) train(0);
  },
  source(message) {
    source = message.text;
    look();
  },
  load(message) {
    model?.free();
    model = null;
    model = new wasm.TrainedModel(message.bytes);
    postMessage({ kind: "loaded", name: message.name, config: JSON.parse(model.config()) });
  },
  beams(message) {
    if (!model) return;
    postMessage({ kind: "beams", beams: JSON.parse(model.beams(message.text, message.width)) });
  },
};

// Runs an action, and reports its error. After a WebAssembly.RuntimeError, such as a panic, the
// module cannot be used any more, so the page ends the worker.
function guard(action, cause) {
  try {
    action();
  } catch (error) {
    isRunning = false;
    const isBroken = error instanceof WebAssembly.RuntimeError;
    postMessage({ kind: isBroken ? "broken" : "error", cause, id, text: String(error) });
  }
}

async function begin() {
  wasm = await import(`./${engine}/demo.js`);
  await wasm.default();
  onmessage = ({ data }) => guard(() => actions[data.kind](data), data.kind);
  postMessage({ kind: "ready", engine });
}

begin().catch((error) => postMessage({ kind: "broken", text: String(error) }));
