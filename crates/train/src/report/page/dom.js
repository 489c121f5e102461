// Builds elements. Strings become text nodes, never markup.

const MISSING = "–";

function grouped(value) {
  return value.toLocaleString("en-US", { maximumSignificantDigits: 6 });
}

// A spot in the colour of a line.
function key(color) {
  return html("span", { class: `key color-${color ?? "none"}`, "aria-hidden": true });
}

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name.startsWith("aria-")) element.setAttribute(name, String(value));
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

function html(name, attributes, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes, ...children) {
  return fill(document.createElementNS(SVG, name), attributes, children);
}

let lastId = 0;

function newId() {
  lastId += 1;
  return `id-${lastId}`;
}

// A row of buttons of which one is chosen: arrow keys move the choice, as in a radio group.
function choice(label, options, chosen, onChange) {
  const buttons = options.map(([value, text]) => {
    const isChosen = value === chosen;
    const attributes = { type: "button", role: "radio", "aria-checked": isChosen, tabindex: isChosen ? 0 : -1 };
    return html("button", { ...attributes, onclick: () => choose(value) }, text);
  });
  function choose(value, hasFocus) {
    options.forEach(([other], index) => {
      buttons[index].setAttribute("aria-checked", other === value);
      buttons[index].tabIndex = other === value ? 0 : -1;
      if (other === value && hasFocus) buttons[index].focus();
    });
    onChange(value);
  }
  function onkeydown(event) {
    const at = buttons.indexOf(document.activeElement);
    const next = moved(event.key, at, options.length);
    if (at < 0 || next == null) return;
    event.preventDefault();
    choose(options[next][0], true);
  }
  return html(
    "div",
    { class: "control" },
    html("span", { class: "label" }, label),
    html("div", { class: "choice", role: "radiogroup", "aria-label": label, onkeydown }, buttons),
  );
}

// Returns the index after an arrow key, in a ring of `count`, or after Home or End; undefined for
// other keys.
function moved(key, at, count) {
  const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[key];
  if (step) return (at + step + count) % count;
  return { Home: 0, End: count - 1 }[key];
}

// A slider with its value beside it.
function slider(label, range, value, words, onInput) {
  const output = html("output", {}, words(value));
  const input = html("input", { type: "range", ...range, value, id: newId(), "aria-valuetext": words(value) });
  input.addEventListener("input", () => {
    const value = Number(input.value);
    output.textContent = words(value);
    input.setAttribute("aria-valuetext", words(value));
    onInput(value);
  });
  const name = html("label", { class: "label", for: input.id }, label);
  return html("div", { class: "control" }, name, input, output);
}

function checkbox(label, isChecked, onChange) {
  const input = html("input", { type: "checkbox", checked: isChecked });
  input.addEventListener("change", () => onChange(input.checked));
  return html("label", { class: "control" }, input, label);
}

function table(caption, head, rows, className) {
  const cell = (cell, name, scope) =>
    cell instanceof Element && /^T[HD]$/.test(cell.tagName) ? cell : html(name, { scope }, cell);
  return html(
    "div",
    { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
    html(
      "table",
      { class: className },
      html("caption", { class: "hidden" }, caption),
      html("thead", {}, html("tr", {}, head.map((text) => cell(text, "th", "col")))),
      html("tbody", {}, rows.map((row) =>
        row instanceof Element ? row
          : html("tr", {}, row.map((text, index) => cell(text, index ? "td" : "th", index ? null : "row"))))),
    ),
  );
}
