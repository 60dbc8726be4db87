// On phones, stack each table that is wider than the page: one cell below the other, with its head.
function stackTables() {
  const narrow = matchMedia("(max-width: 40rem)").matches;
  for (const box of document.querySelectorAll(".pst-scrollable-table-container")) {
    const table = box.querySelector("table");
    const heads = table.querySelectorAll("thead th");
    table.classList.remove("stacked");
    // The matrix of foreign callables stays a matrix.
    if (!narrow || heads.length > 6 || box.scrollWidth <= box.clientWidth) continue;
    for (const row of table.tBodies[0].rows) {
      for (const cell of row.cells) cell.dataset.head = heads[cell.cellIndex].textContent;
    }
    table.classList.add("stacked");
  }
}

addEventListener("load", stackTables);
addEventListener("resize", stackTables);
