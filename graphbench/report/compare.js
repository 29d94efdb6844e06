// Rows of the leaderboards that are ticked stand side by side: their numbers, the settings that differ, their curves.
{
  const section = document.querySelector("#compare");
  const bar = document.querySelector("#picked");
  const rows = [...document.querySelectorAll("#leaderboards th[data-config]")].map((head) => head.closest("tr"));
  const make = (tag, text, properties = {}) => Object.assign(document.createElement(tag), { textContent: text }, properties);

  const settingsOf = (row) => {
    const text = document.getElementById(row.cells[0].dataset.config)?.querySelector("pre.settings")?.textContent;
    return text === undefined ? null : new Map(text.split("\n").map((line) => line.split(/: (.*)/s, 2)));
  };
  const numbersOf = (row) => {
    const heads = [...row.closest("table").tHead.rows[0].cells].map((cell) => cell.textContent);
    return new Map([["data set", row.dataset.set], ...heads.map((head, i) => [head, row.cells[i]]).slice(1)]);
  };
  const union = (maps) => [...new Set(maps.flatMap((map) => [...map.keys()]))];

  const tableOf = (picked) => {
    const table = make("table", "");
    table.dataset.name = "Comparison";
    const head = table.createTHead().insertRow();
    head.append(make("th", "", { scope: "col" }));
    for (const row of picked) {
      const cell = head.appendChild(make("th", "", { scope: "col" }));
      const [label, name] = [row.querySelector("th b"), row.querySelector("th small")];
      cell.append(...(label ? [make("b", label.textContent)] : []), make("small", name.textContent));
    }
    const body = table.createTBody();
    const numbers = picked.map(numbersOf);
    for (const name of union(numbers)) {
      const line = body.insertRow();
      line.append(make("th", name, { scope: "row" }));
      for (const map of numbers) {
        const value = map.get(name) ?? "";
        const cell = line.appendChild(make("td", typeof value === "string" ? value : ""));
        if (typeof value !== "string") cell.append(...value.cloneNode(true).childNodes);
      }
    }
    return [table, body];
  };

  const addDifferences = (body, picked) => {
    const settings = picked.map(settingsOf);
    if (settings.includes(null)) return "Settings of these configurations are not on the page (--limit).";
    const names = union(settings);
    const differing = names.filter((name) => new Set(settings.map((map) => map.get(name))).size > 1);
    for (const name of differing.sort()) {
      const line = body.insertRow();
      line.append(make("th", name, { scope: "row" }));
      line.append(...settings.map((map) => make("td", map.get(name) ?? "not there")));
    }
    return `${differing.length} settings differ, ${names.length - differing.length} are equal.`;
  };

  const show = () => {
    const picked = rows.filter((row) => row.querySelector("input.pick").checked);
    section.hidden = bar.hidden = picked.length === 0;
    bar.querySelector("output").value = `${picked.length} picked`;
    section.querySelector("div.content").replaceChildren();
    if (picked.length < 2) {
      section.querySelector("div.content").append(make("p", "Pick a second row to compare with."));
      return;
    }
    const [table, body] = tableOf(picked);
    const about = make("p", addDifferences(body, picked), { className: "about" });
    const box = make("div", "", { className: "box", tabIndex: 0 });
    box.setAttribute("role", "region");
    box.setAttribute("aria-label", "Comparison, a table that scrolls sideways");
    box.append(table);
    const curves = make("div", "", { className: "grid" });
    for (const row of picked) {
      const figure = document.querySelector(`#curves figure[data-config="${row.cells[0].dataset.config}"]`);
      if (figure) curves.append(figure.cloneNode(true));
    }
    section.querySelector("div.content").append(about, box, curves);
    copying.offer(box);
  };

  for (const row of rows) {
    const name = row.querySelector("th small").textContent;
    const pick = make("input", "", { type: "checkbox", className: "pick" });
    pick.setAttribute("aria-label", `compare ${name}`);
    pick.addEventListener("change", show);
    row.cells[0].prepend(pick);
  }
  bar.querySelector("button").addEventListener("click", () => {
    for (const row of rows) row.querySelector("input.pick").checked = false;
    show();
  });
}
