// Everything that has data-find is shown while it holds every word of the field and is in every list chosen.
{
  const form = document.querySelector("form.filter");
  const rows = document.querySelectorAll("#leaderboards tbody tr");
  const apply = () => {
    const words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const lists = [...form.querySelectorAll("select")].filter((list) => list.value);
    for (const part of document.querySelectorAll("[data-find]")) {
      const chosen = lists.every((list) => part.dataset[list.name].split("|").includes(list.value));
      part.hidden = !(chosen && words.every((word) => part.dataset.find.includes(word)));
    }
    for (const section of document.querySelectorAll("#leaderboards > section")) {
      section.hidden = !section.querySelector("tbody tr:not([hidden])");
    }
    const shown = [...rows].filter((row) => !row.hidden).length;
    form.querySelector("output").value = `${shown} of ${rows.length} configurations`;
  };
  form.hidden = false;
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(apply));
  apply();
}
