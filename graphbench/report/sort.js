"use strict";

// A click on a heading sorts by it, a second click turns the order round. Cells without a value stay at the end.
for (const head of document.querySelectorAll("table.sortable thead th")) {
  head.querySelector("button").addEventListener("click", () => {
    const table = head.closest("table");
    const place = [...head.parentNode.children].indexOf(head);
    const numeric = head.classList.contains("n");
    const before = head.getAttribute("aria-sort");
    const descending = before ? before === "ascending" : numeric;
    for (const each of head.parentNode.children) each.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const key = (row) => {
      const cell = row.children[place];
      const value = cell.dataset.v ?? (numeric ? "" : cell.textContent);
      return value === "" ? null : numeric ? Number(value) : value;
    };
    const compare = numeric ? (a, b) => a - b : (a, b) => a.localeCompare(b, "en", { numeric: true });
    const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return descending ? compare(b, a) : compare(a, b);
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
  });
}
