// The page: a summary, tabs, and the switch between light and dark.

const data = JSON.parse(document.getElementById("data").textContent);
const { runs } = data;
const isSingle = runs.length === 1;

function pill({ status, reason }) {
  return html("span", { class: "pill", "data-status": status, title: reason }, status);
}

function summaryOf(run) {
  return html("dl", { class: "tiles" }, run.facts.map(({ label, text, detail }) =>
    html("div", { class: "tile" }, html("dt", {}, label), html("dd", {}, text, detail && html("small", {}, detail)))));
}

function summaryOfAll() {
  const labels = [...new Set(runs.flatMap((run) => run.facts.map(({ label }) => label)))];
  const rows = runs.map((run, i) => [
    html("th", { scope: "row" }, data.colors[i] != null && key(data.colors[i]), run.name),
    html("td", {}, pill(run)),
    ...labels.map((label) => {
      const found = run.facts.find((fact) => fact.label === label);
      return html("td", { title: found?.detail }, found?.text ?? MISSING);
    }),
  ]);
  return table("Runs", ["run", "status", ...labels], rows, "numbers");
}

// Returns the switch between a light page, a dark page and the setting of the system. The choice is
// stored if the browser allows it.
function themeSwitch() {
  const stored = () => { try { return localStorage.getItem("report-theme"); } catch { return null; } };
  const store = (theme) => { try { localStorage.setItem("report-theme", theme); } catch { /* a page without storage */ } };
  const apply = (theme) => {
    document.documentElement.dataset.theme = theme;
    document.dispatchEvent(new Event("themechange"));
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => document.dispatchEvent(new Event("themechange")));
  const theme = ["light", "dark"].includes(stored()) ? stored() : "auto";
  apply(theme);
  return choice("Theme", [["auto", "auto"], ["light", "light"], ["dark", "dark"]], theme, (theme) => { store(theme); apply(theme); });
}

// Tabs whose panels are drawn when they are first shown, or before printing.
function tabs(panels) {
  const all = panels.map(([name, content]) => {
    const id = newId();
    const panel = html("section", { role: "tabpanel", id: `${id}-panel`, "aria-labelledby": id, hidden: true, tabindex: -1 }, html("h2", {}, name));
    const button = html("button", { type: "button", role: "tab", id, "aria-controls": panel.id, "aria-selected": false, tabindex: -1, onclick: () => show(button) }, name);
    return { name, button, panel, content, isDrawn: false };
  });
  function draw(tab) {
    if (tab.isDrawn) return;
    tab.isDrawn = true;
    tab.panel.append(...tab.content().filter(Boolean));
  }
  function show(button) {
    for (const tab of all) {
      const isShown = tab.button === button;
      tab.button.setAttribute("aria-selected", isShown);
      tab.button.tabIndex = isShown ? 0 : -1;
      tab.panel.hidden = !isShown;
      if (isShown) draw(tab);
    }
  }
  function onkeydown(event) {
    const at = all.findIndex((tab) => tab.button === document.activeElement);
    const next = moved(event.key, at, all.length);
    if (next == null) return;
    event.preventDefault();
    show(all[next].button);
    all[next].button.focus();
  }
  let shown = null;
  addEventListener("beforeprint", () => {
    shown = all.find((tab) => !tab.panel.hidden);
    document.documentElement.classList.add("printed");
    all.forEach((tab) => { tab.panel.hidden = false; draw(tab); });
    document.dispatchEvent(new Event("themechange"));
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printed");
    show(shown.button);
    document.dispatchEvent(new Event("themechange"));
  });
  // The address may name a part, as in report.html#attention.
  const named = () => all.find(({ name }) => `#${name.toLowerCase()}` === location.hash);
  addEventListener("hashchange", () => { if (named()) show(named().button); });
  show((named() ?? all[0]).button);
  return [html("div", { class: "tabs", role: "tablist", "aria-label": "Parts of the report", onkeydown }, all.map((tab) => tab.button)), all.map((tab) => tab.panel)];
}

function missing() {
  const notes = runs.flatMap((run) => run.notes.map((note) => (isSingle ? note : `${run.name}: ${note}`)));
  if (notes.length === 0) return null;
  return html("details", { class: "missing-parts", open: isSingle },
    html("summary", {}, `Notes (${notes.length})`),
    html("ul", {}, notes.map((note) => html("li", {}, note))));
}

const some = (test) => runs.some(test);
const panels = [
  chartBox.querySelector("figure") && ["Curves", chartsPanel],
  some((run) => run.examples?.attention.length) && ["Attention", () => attentionPanel(data)],
  some((run) => run.examples) && ["Samples", () => samplesPanel(data)],
  ["Settings", () => settingsPanel(data)],
  ["Environment", () => environmentPanel(data)],
].filter(Boolean);

document.getElementById("report").replaceChildren(
  html("header", {},
    html("div", { class: "title" },
      html("div", {},
        html("h1", {}, isSingle ? runs[0].name : `${runs.length} runs`, isSingle && pill(runs[0])),
        isSingle && runs[0].reason && html("p", { class: "reason" }, runs[0].reason)),
      themeSwitch()),
    isSingle ? summaryOf(runs[0]) : summaryOfAll(),
    missing() ?? ""),
  ...tabs(panels).flat(),
  html("footer", {}, `Written by train ${data.version}`),
);
