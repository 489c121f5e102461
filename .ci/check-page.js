// Uses a page of `train report` as a reader would. `check-page` puts this script into a copy of the
// page; `errors` is a list of the page's errors. The result is in the attribute `data-check`.

const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
const one = (selector, inside = document) => inside.querySelector(selector);
const press = (element, key) => element.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const pause = () => new Promise((resolve) => setTimeout(resolve, 50));
const data = JSON.parse(one("#data").textContent);
const failed = [];
let passed = 0;

function check(name, isRight) {
  if (isRight) passed += 1;
  else failed.push(name);
}

function input(element, value) {
  element.value = value;
  element.dispatchEvent(new Event("input", { bubbles: true }));
}

const panels = () => all('[role="tabpanel"]').filter((panel) => !panel.hidden);

async function open(name) {
  const tab = all('[role="tab"]').find((tab) => tab.textContent === name);
  tab?.click();
  await pause();
  return tab && panels()[0];
}

async function checkTabs() {
  const tabs = all('[role="tab"]');
  check("there are tabs", tabs.length >= 3);
  check("there are curves without a tab being opened", all("#charts svg").length > 0);
  for (const tab of tabs) {
    tab.click();
    await pause();
    check(`${tab.textContent} is alone`, panels().length === 1 && panels()[0].id === tab.getAttribute("aria-controls"));
    check(`${tab.textContent} has contents`, panels()[0].textContent.length > tab.textContent.length);
    check(`${tab.textContent} fits the window`, document.documentElement.scrollWidth <= innerWidth);
  }
  tabs[0].click();
  tabs[0].focus();
  press(tabs[0], "ArrowRight");
  check("the right arrow opens the next tab", document.activeElement === tabs[1] && tabs[1].getAttribute("aria-selected") === "true");
  press(tabs[1], "End");
  check("End opens the last tab", document.activeElement === tabs.at(-1));
  press(tabs.at(-1), "ArrowRight");
  check("the tabs are a ring", document.activeElement === tabs[0]);
  check("one tab can be reached by the tabulator", tabs.filter((tab) => tab.tabIndex === 0).length === 1);
}

async function checkCurves() {
  const panel = await open("Curves");
  const shown = () => all("figure", panel).filter((figure) => !figure.hidden);
  check("there are charts", shown().length >= 2);
  const hasTime = all('figure[data-x="seconds"]', panel).length > 0;
  const steps = shown().map((figure) => one("h3", figure).textContent);
  for (const x of hasTime ? ["steps", "time"] : ["steps"]) {
    all(".controls button", panel).find((button) => button.textContent === x)?.click();
    await pause();
    const titles = shown().map((figure) => one("h3", figure).textContent);
    check(`the charts by ${x} are those by steps`, String(titles) === String(steps));
    for (const figure of shown()) await checkChart(figure, `${one("h3", figure).textContent} by ${x}`);
  }
  const figure = shown()[0];
  const box = one(".plot", figure).getBoundingClientRect();
  one(".plot", figure).dispatchEvent(new PointerEvent("pointermove", { clientX: box.x + box.width / 2, clientY: box.y + 50, bubbles: true }));
  check("the pointer shows values", !one(".tip", figure).hidden);
  const cursor = one(".cursor", figure).getBoundingClientRect();
  check("the cursor is near the pointer", Math.abs(cursor.x - box.x - box.width / 2) < box.width / 3);
}

async function checkChart(figure, title) {
  const plot = one(".plot", figure);
  const drawing = one("svg", plot);
  const lines = all("polyline", drawing);
  check(`${title} has lines`, lines.length > 0 && lines.every((line) => !/NaN|Infinity|inf/.test(line.getAttribute("points"))));
  check(`${title} has ticks`, all("text", drawing).length >= 4 && !/NaN|undefined/.test(figure.textContent));
  const edge = drawing.getBoundingClientRect();
  const isWhole = ({ left, right, top, bottom }) => left >= edge.left - 1 && right <= edge.right + 1 && top >= edge.top - 1 && bottom <= edge.bottom + 1;
  const cut = all("text", drawing).filter((text) => !isWhole(text.getBoundingClientRect()));
  check(`${title} shows whole labels, not ${cut.map((text) => text.textContent)}`, cut.length === 0);
  const sizes = all("text", drawing).map((text) => text.getBoundingClientRect()).map(({ width, height }) => Math.min(width, height));
  check(`${title} has readable labels`, sizes.every((size) => size > 5));
  plot.focus();
  press(plot, "ArrowLeft");
  const tip = one(".tip", figure);
  check(`${title} shows values by keys`, !tip.hidden && /\d/.test(one("b", tip)?.textContent ?? ""));
  const { lines: hovered } = JSON.parse(figure.dataset.hover);
  check(`${title} shows a value of each line`, all("b", tip).length === hovered.length);
  press(plot, "End");
  const before = tip.textContent;
  press(plot, "Home");
  check(`${title} moves by keys`, tip.textContent !== before || hovered.every((line) => line.x.length < 2));
  press(plot, "Escape");
  check(`${title} hides its values`, tip.hidden);
}

async function checkAttention() {
  const panel = await open("Attention");
  const { attention } = data.runs.find((run) => run.examples?.attention.length).examples;
  const heads = () => all(".heads [role=radio]", panel);
  const title = () => one("figure h3", panel).textContent;
  const { weights } = attention[0].maps[0];
  check("every head and the mean has a small map", heads().length === weights.length * (weights[0].length + 1));
  const before = title();
  press(heads()[0], "ArrowRight");
  check("the right arrow chooses the next head", title() !== before && heads()[1] === document.activeElement);
  press(heads()[1], "ArrowDown");
  check("the down arrow chooses the next layer", /layer 2, head 2/.test(title()));
  const slider = one('input[type="range"]', panel);
  check("the first example is the longest", attention.every(({ maps }) => maps[0].rows.length <= attention[slider.value].maps[0].rows.length));
  input(slider, 1);
  check("the slider chooses an example", one("figure .note", panel).textContent.endsWith(attention[1].source));
  const heat = () => one(".heat", panel);
  heat().focus();
  press(heat(), "ArrowRight");
  check("arrow keys read a cell", /column 2 .*: (0\.\d|1|masked)/.test(one(".readout", panel).textContent));
  for (const kind of all('[aria-label="Attention"] [role=radio]', panel)) {
    kind.click();
    const { rows, columns } = attention[1].maps.find((map) => kind.textContent.startsWith(map.kind));
    const cells = all(".heat .cell, .heat .masked", panel);
    check(`${kind.textContent} has all cells`, cells.length === rows.length * columns.length);
    check(`${kind.textContent} has no wrong number`, !/NaN|undefined/.test(panel.innerHTML));
  }
}

async function checkSamples() {
  const panel = await open("Samples");
  const { samples } = data.runs.find((run) => run.examples).examples;
  const rows = () => all("tbody tr", panel).length;
  check("all samples are shown", rows() === samples.length);
  all(".controls [role=radiogroup]", panel).at(-1).querySelectorAll("button")[1].click();
  check("only wrong samples are shown", rows() === samples.filter((sample) => !sample.is_exact).length);
  check("errors are marked", all("td mark, td del", panel).length > 0);
}

async function checkSettings() {
  const panel = await open("Settings");
  check("all settings are shown", all("tbody tr:not(.section)", panel).length === data.settings.length);
  all(".controls button", panel)[1].click();
  const rows = all("tbody tr:not(.section)", panel);
  check("changed settings are marked", rows.length > 0 && rows.every((row) => one(".changed", row)));
}

async function checkTheme() {
  const color = () => getComputedStyle(document.body).backgroundColor;
  const [, light, dark] = all("header [role=radio]");
  light.click();
  const before = color();
  dark.click();
  check("dark differs from light", color() !== before);
  dispatchEvent(new Event("beforeprint"));
  check("all parts are printed", all('[role="tabpanel"]').every((panel) => !panel.hidden && panel.children.length > 1));
  check("the print is light", color() === before);
  dispatchEvent(new Event("afterprint"));
  check("one part is shown after printing", panels().length === 1);
  light.click();
}

async function run() {
  await pause();
  check("the page has a heading", one("h1").textContent.length > 0);
  check("no text became markup", all("img, main script").length === 0 && document.title !== "evil");
  await checkTabs();
  await checkCurves();
  const has = (part) => data.runs.some((run) => run.examples?.[part].length);
  check("parts without data have no tab", Boolean(await open("Attention")) === has("attention") && Boolean(await open("Samples")) === has("samples"));
  check("what is missing is said", all(".missing-parts li").length === data.runs.flatMap((run) => run.notes).length);
  if (has("attention")) await checkAttention();
  if (has("samples")) await checkSamples();
  await checkSettings();
  await checkTheme();
}

run()
  .catch((error) => failed.push(String(error)))
  .then(() => {
    failed.push(...errors);
    document.documentElement.dataset.check = failed.length ? `failed: ${failed.join("; ")}` : `${passed} checks passed`;
  });
