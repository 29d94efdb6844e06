// A table as it is shown (rows that are not hidden, in their order) on the clipboard.
const copying = (() => {
  // Text and rank of a cell: drawings are left out, and of a model with a label the name below it.
  const read = (cell) => {
    const copy = cell.cloneNode(true);
    const rank = copy.querySelector(".rank")?.className.match(/r([123])/)?.[1] ?? "0";
    const small = copy.querySelector("b") ? "small, " : "";
    for (const part of copy.querySelectorAll(`${small}svg, .rank`)) part.remove();
    return { text: copy.textContent.replace(/\s+/g, " ").trim(), rank, numeric: cell.classList.contains("n") };
  };
  const rowsOf = (table) =>
    [...table.rows].filter((row) => !row.hidden).map((row) => [...row.cells].map(read));

  const markdown = (table) => {
    const cells = rowsOf(table).map((row) =>
      row.map(({ text, rank }) => {
        const plain = text.replace(/[\\`*|~[<]/g, "\\$&");
        return rank === "1" ? `**${plain}**` : plain;
      }),
    );
    const rule = rowsOf(table)[0].map(({ numeric }) => (numeric ? "--:" : "---"));
    return [cells[0], rule, ...cells.slice(1)].map((row) => `| ${row.join(" | ")} |\n`).join("");
  };

  const special = {
    "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "\\textless{}",
    ">": "\\textgreater{}", "|": "\\textbar{}", "±": "$\\pm$", "\0": "$-$",
  };
  const escapeLatex = (text) => {
    const signed = text.replace(/(?<![\w.])-(?=\d)/g, "\0"); // a minus, not a hyphen
    const escaped = signed.replace(/[\\~^<>|±\0&%$#_{}]/g, (letter) => special[letter] ?? `\\${letter}`);
    return /^[[*]/.test(escaped) ? `{}${escaped}` : escaped; // behind \\ these would be read as its argument
  };
  const styles = { 1: "\\textbf", 2: "\\underline", 3: "\\textit" };
  const latex = (table) => {
    const [head, ...body] = rowsOf(table);
    const line = (row) =>
      row.map(({ text, rank }) => (styles[rank] ? `${styles[rank]}{${escapeLatex(text)}}` : escapeLatex(text)))
        .join(" & ") + " \\\\";
    return [
      "% needs \\usepackage{booktabs}", "\\begin{table}", "\\centering",
      `\\caption{${escapeLatex(table.dataset.name)}}`,
      `\\begin{tabular}{${head.map(({ numeric }) => (numeric ? "r" : "l")).join("")}}`,
      "\\toprule", line(head), "\\midrule", ...body.map(line), "\\bottomrule", "\\end{tabular}", "\\end{table}", "",
    ].join("\n");
  };

  const csv = (table) =>
    rowsOf(table)
      .map((row) => row.map(({ text }) => (/[",]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text)).join(",") + "\n")
      .join("");

  const put = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.body.appendChild(document.createElement("textarea")); // where the page is no secure context
      area.value = text;
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };

  const formats = { Markdown: markdown, LaTeX: latex, CSV: csv };
  const offer = (box) => {
    const table = box.querySelector("table");
    const bar = document.createElement("p");
    bar.className = "copy";
    bar.append("Copy as ");
    for (const [name, write] of Object.entries(formats)) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.setAttribute("aria-label", `copy the table ${table.dataset.name} as ${name}`);
      button.addEventListener("click", async () => {
        await put(write(table));
        said.value = `copied as ${name}`;
      });
      bar.append(button, " ");
    }
    const said = bar.appendChild(document.createElement("output"));
    box.after(bar);
  };
  for (const box of document.querySelectorAll("div.box")) offer(box);
  return { formats, offer };
})();
