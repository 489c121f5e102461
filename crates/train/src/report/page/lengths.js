// Exact match by the length of the source.

function lengthsPanel(data) {
  const runs = data.runs.filter((run) => run.lengths.length > 0);
  const isSingle = data.runs.length === 1;
  const series = runs.flatMap((run) => {
    const index = data.runs.indexOf(run);
    const line = (field, label, style) => ({
      label,
      x: run.lengths.map((score) => score.length),
      y: run.lengths.map((score) => score[field]),
      hasMarkers: true,
      ...lineStyle(style),
    });
    if (!isSingle) return [line("exact_match", run.name, index)];
    return [line("exact_match", "exact match", 0), line("token_accuracy", "token accuracy", 1)];
  });
  const trained = runs.map((run) => run.lengths.filter((score) => score.trained).map((score) => score.length));
  const ranges = trained.map((lengths) => (lengths.length ? [Math.min(...lengths) - 0.5, Math.max(...lengths) + 0.5] : null));
  const isShared = ranges[0] && ranges.every((range) => range && String(range) === String(ranges[0]));
  const all = series.flatMap((one) => one.x);
  const chart = lineChart(series, {
    title: "Exact match by length",
    note: isSingle ? null : "Share of sequences that are right",
    xLabel: "length",
    xRange: [Math.min(...all) - 0.5, Math.max(...all) + 0.5],
    range: [0, 1],
    yWords: share,
    band: isShared ? ranges[0] : null,
    height: 340,
  });
  chart.classList.add("wide");
  const lengths = [...new Set(all)].sort((a, b) => a - b);
  const columns = runs.flatMap((run) => {
    const of = (field) => (length) => share(run.lengths.find((score) => score.length === length)?.[field]);
    const count = (length) => String(run.lengths.find((score) => score.length === length)?.sequences ?? MISSING);
    if (!isSingle) return [[run.name, of("exact_match")]];
    return [["sequences", count], ["exact match", of("exact_match")], ["token accuracy", of("token_accuracy")]];
  });
  const rows = lengths.map((length) => [String(length), ...columns.map(([, words]) => words(length))]);
  const values = html("details", {}, html("summary", {}, "Values"), table("Exact match by length", ["length", ...columns.map(([name]) => name)], rows, "numbers"));
  return [chart, values];
}
