// Settings of all runs side by side, and the environment.

function settingsPanel(data) {
  const { runs, settings } = data;
  const isSingle = runs.length === 1;
  const isChanged = (setting) => setting.presets.some((preset) => preset != null);
  const differs = (setting) => new Set(setting.values).size > 1;
  const body = html("div", {});

  function draw(shown) {
    const chosen = settings.filter((setting) => shown === "all" || (shown === "changed" ? isChanged(setting) : differs(setting)));
    const rows = [];
    const section = ({ path }) => (path.includes(".") ? path.split(".")[0] : "run");
    chosen.forEach((setting, i) => {
      if (i === 0 || section(setting) !== section(chosen[i - 1])) {
        rows.push(html("tr", { class: "section" }, html("th", { colspan: 2 + runs.length, scope: "rowgroup" }, section(setting))));
      }
      const name = setting.path.slice(setting.path.indexOf(".") + 1);
      rows.push(html("tr", { class: differs(setting) ? "differs" : null },
        html("th", { scope: "row", title: setting.path }, name, differs(setting) && html("span", { class: "sign", title: "differs between the runs" }, " ≠")),
        html("td", {}, html("code", {}, setting.flag ?? "")),
        setting.values.map((value, run) => {
          const preset = setting.presets[run];
          return html("td", { class: preset == null ? null : "changed" },
            html("span", {}, value ?? MISSING),
            preset != null && html("span", { class: "preset" }, ` ● preset: ${preset}`));
        }),
      ));
    });
    const head = ["setting", "flag", ...(isSingle ? ["value"] : runs.map((run) => run.name))];
    body.replaceChildren(rows.length ? table("Settings", head, rows, "settings") : html("p", {}, "There are none."));
  }

  const changed = settings.filter(isChanged).length;
  const options = [["all", "all"], ["changed", `changed from the preset (${changed})`]];
  if (!isSingle) options.push(["differs", `different between the runs (${settings.filter(differs).length})`]);
  draw("all");
  return [html("div", { class: "controls" }, choice("Show", options, "all", draw)), body];
}

function environmentPanel(data) {
  const names = [...new Set(data.runs.flatMap((run) => run.environment.map(([name]) => name)))];
  const value = (run, name) => run.environment.find((entry) => entry[0] === name)?.[1] ?? MISSING;
  const status = ({ status, reason }) => (reason ? `${status}: ${reason}` : status);
  const rows = names.map((name) => [name, ...data.runs.map((run) => value(run, name))]);
  rows.unshift(["status", ...data.runs.map(status)]);
  const head = ["", ...(data.runs.length === 1 ? ["value"] : data.runs.map((run) => run.name))];
  return [table("Environment", head, rows, "environment")];
}
