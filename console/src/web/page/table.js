// A table of which only the visible rows are in the document: it takes ten thousand rows like ten.

const ROW = 28;
const AROUND = 6;

export class Table {
  constructor(place, columns, { name, sort, down = false, none = "None." }) {
    this.place = place;
    this.columns = columns;
    this.sort = sort ?? columns[0].id;
    this.down = down;
    this.none = none;
    this.filter = "";
    this.all = [];
    this.rows = [];
    this.pool = [];
    this.build(name);
    place.tabIndex = 0;
    place.addEventListener("scroll", () => this.draw(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(place);
  }

  build(name) {
    const make = (kind, parent) => parent.appendChild(document.createElement(kind));
    this.table = make("table", this.place);
    make("caption", this.table).textContent = name;
    const group = make("colgroup", this.table);
    const head = make("tr", make("thead", this.table));
    this.heads = this.columns.map((column) => {
      make("col", group).style.width = `${column.width}px`;
      const cell = make("th", head);
      cell.scope = "col";
      cell.className = (column.kind ?? "").split(" ")[0];
      const button = make("button", cell);
      button.textContent = column.title;
      button.addEventListener("click", () => this.sortBy(column));
      return cell;
    });
    this.table.style.minWidth = `${this.columns.reduce((sum, column) => sum + column.width, 0)}px`;
    this.body = make("tbody", this.table);
    this.above = this.pad();
    this.below = this.pad();
    this.empty = make("p", this.place);
    this.empty.className = "none";
    this.showSort();
  }

  pad() {
    const row = this.body.appendChild(document.createElement("tr"));
    row.className = "pad";
    row.setAttribute("aria-hidden", "true");
    const cell = row.appendChild(document.createElement("td"));
    cell.colSpan = this.columns.length;
    return row;
  }

  sortBy(column) {
    // Numbers are mostly wanted from the largest on.
    this.down = this.sort === column.id ? !this.down : (column.kind ?? "").startsWith("number");
    this.sort = column.id;
    this.showSort();
    this.arrange();
  }

  showSort() {
    this.columns.forEach((column, at) => {
      const order = this.down ? "descending" : "ascending";
      if (column.id === this.sort) this.heads[at].setAttribute("aria-sort", order);
      else this.heads[at].removeAttribute("aria-sort");
    });
  }

  setFilter(words) {
    this.filter = words.trim().toLowerCase();
    this.place.scrollTop = 0;
    this.arrange();
  }

  update(rows) {
    this.all = rows;
    this.arrange();
  }

  matches(row, words) {
    const text = this.columns.map((column) => this.text(column, row)).join(" ").toLowerCase();
    return words.every((word) => text.includes(word));
  }

  text(column, row) {
    return column.text ? column.text(row) : String(column.value(row));
  }

  arrange() {
    const words = this.filter.split(/\s+/).filter((word) => word !== "");
    const kept = words.length === 0 ? this.all.slice() : this.all.filter((row) => this.matches(row, words));
    const column = this.columns.find((one) => one.id === this.sort);
    const sign = this.down ? -1 : 1;
    const collator = Table.collator;
    kept.sort((a, b) => {
      const [one, other] = [column.value(a), column.value(b)];
      const order = typeof one === "string" ? collator.compare(one, other) : one - other;
      return order === 0 ? (a.key < b.key ? -1 : a.key > b.key ? 1 : 0) : sign * order;
    });
    this.rows = kept;
    this.table.setAttribute("aria-rowcount", String(kept.length + 1));
    this.draw();
  }

  draw() {
    const height = this.place.clientHeight || ROW * 12;
    const most = Math.ceil(height / ROW) + 2 * AROUND;
    const highest = Math.max(0, this.rows.length - most);
    const first = Math.min(highest, Math.max(0, Math.floor(this.place.scrollTop / ROW) - AROUND));
    const shown = Math.min(most, this.rows.length - first);
    while (this.pool.length < shown) this.pool.push(this.makeRow());
    while (this.pool.length > shown) this.pool.pop().element.remove();
    for (let at = 0; at < shown; at += 1) this.fill(this.pool[at], this.rows[first + at], first + at);
    this.above.firstChild.style.height = `${first * ROW}px`;
    this.below.firstChild.style.height = `${(this.rows.length - first - shown) * ROW}px`;
    this.above.hidden = first === 0;
    this.below.hidden = first + shown >= this.rows.length;
    this.empty.hidden = this.rows.length > 0;
    this.empty.textContent = this.all.length === 0 ? this.none : "No row matches the filter.";
  }

  makeRow() {
    const element = document.createElement("tr");
    const cells = this.columns.map(() => element.appendChild(document.createElement("td")));
    this.body.insertBefore(element, this.below);
    return { element, cells, texts: [], kinds: [], styles: [] };
  }

  // The document is touched only where something has changed.
  fill(row, data, index) {
    if (row.index !== index) {
      row.index = index;
      row.element.className = index % 2 === 1 ? "odd" : "";
      row.element.setAttribute("aria-rowindex", String(index + 2));
    }
    row.element.dataset.key = data.key;
    this.columns.forEach((column, at) => {
      const cell = row.cells[at];
      const text = this.text(column, data);
      if (row.texts[at] !== text) {
        cell.textContent = text;
        cell.title = column.hint ? column.hint(data) : text;
        row.texts[at] = text;
      }
      const kind = [column.kind, column.mark?.(data)].filter(Boolean).join(" ");
      if (row.kinds[at] !== kind) {
        cell.className = kind;
        row.kinds[at] = kind;
      }
      if (!column.style) return;
      for (const [name, value] of Object.entries(column.style(data))) cell.style.setProperty(name, value);
    });
  }
}

Table.collator = new Intl.Collator("en", { numeric: true });
