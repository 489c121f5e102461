// Decoded examples with their errors marked.

function words(marked, kind) {
  const parts = marked.map(([word, isMarked]) => (isMarked ? html(kind === "wrong" ? "mark" : "del", { class: kind }, word) : word));
  return parts.flatMap((part, i) => (i ? [" ", part] : [part]));
}

function samplesPanel(data) {
  const runs = data.runs.filter((run) => run.examples);
  const state = { run: 0, shown: "all" };
  // A translation that differs from its reference may still be good.
  const isText = runs.every((run) => run.is_text);
  const [right, wrong] = isText ? ["same", "different"] : ["right", "wrong"];
  const list = html("div", {});
  const summary = html("p", { class: "note", role: "status" });

  function draw() {
    const { name, examples } = runs[state.run];
    const exact = examples.samples.filter((sample) => sample.is_exact).length;
    summary.replaceChildren(
      `${exact} of ${examples.samples.length} outputs for the validation split are ${isText ? "the same as their references" : "right"}. Greedy decoding by the model of ${name}, step ${grouped(examples.step)}. `,
      html("mark", { class: "wrong" }, "wrong"), " words are in the output only, ", html("del", { class: "missing" }, "missing"), " ones in the reference only.");
    const shown = examples.samples.map((sample, i) => [i, sample]).filter(([, sample]) => state.shown === "all" || sample.is_exact !== (state.shown === "wrong"));
    const rows = shown.map(([i, { source, reference, output, is_exact }]) => html("tr", {},
      html("th", { scope: "row" }, String(i + 1)),
      html("td", {}, html("span", { class: is_exact ? "verdict right" : "verdict wrong" }, is_exact ? `✓ ${right}` : `${isText ? "≠" : "✗"} ${wrong}`)),
      html("td", { "data-label": "source" }, source),
      html("td", { "data-label": "reference" }, words(reference, "missing")),
      html("td", { "data-label": "output" }, output.length ? words(output, "wrong") : html("em", {}, "(empty)")),
    ));
    list.replaceChildren(rows.length ? table("Samples", ["", "", "source", "reference", "output"], rows, "samples") : html("p", {}, "There are none."));
  }

  const controls = html("div", { class: "controls" },
    runs.length > 1 && choice("Run", runs.map((run, i) => [i, run.name]), 0, (run) => { state.run = run; draw(); }),
    choice("Show", [["all", "all"], ["wrong", wrong], ["right", right]], "all", (shown) => { state.shown = shown; draw(); }),
  );
  draw();
  return [controls, summary, list];
}
