// A click on the heading of a table's column sorts its rows by it, a second click the other way.
function valueOf(row, index) {
  const text = row.cells[index].textContent.trim();
  const number = parseFloat(text.replace(/,/g, ""));
  return Number.isNaN(number) ? text : number;
}

function compare(a, b) {
  if (typeof a === typeof b) return a < b ? -1 : a > b ? 1 : 0;
  return typeof a === "number" ? -1 : 1;
}

function sortBy(table, index) {
  const body = table.tBodies[0];
  const order = table.dataset.sorted === String(index) ? -1 : 1;
  table.dataset.sorted = order === 1 ? String(index) : "";
  Array.from(body.rows)
    .sort((a, b) => order * compare(valueOf(a, index), valueOf(b, index)))
    .forEach((row) => body.appendChild(row));
}

document.querySelectorAll("table.docutils").forEach((table) => {
  Array.from(table.querySelectorAll("thead th")).forEach((heading, index) => {
    heading.addEventListener("click", () => sortBy(table, index));
  });
});
