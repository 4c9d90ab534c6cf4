// Messages between hosts or tasks as a matrix: rows send, columns receive.
import { colours, fit, FONT, prepare } from "./canvas.js";
import * as show from "./format.js";

const LABEL = 110;
const CELL_MAX = 56;
const LABELS_FROM = 11;
// Tasks that are shown: those with the most messages.
const NAMES_MAX = 1000;

// The messages of a time by sender and receiver.
export function tally(messages, since, nameOf) {
  const pairs = new Map();
  for (const { from, to, bytes, received } of messages) {
    if (received < since) continue;
    const names = [nameOf(from), nameOf(to)];
    const key = names.join("\n");
    let pair = pairs.get(key);
    if (!pair) pairs.set(key, (pair = { key, from: names[0], to: names[1], messages: 0, bytes: 0 }));
    pair.messages += 1;
    pair.bytes += bytes;
  }
  return [...pairs.values()];
}

export class Matrix {
  constructor(canvas, cell) {
    this.canvas = canvas;
    this.cell = cell;
    this.names = [];
    this.pairs = new Map();
    canvas.addEventListener("mousemove", (event) => this.point(event.offsetX, event.offsetY));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  update(pairs, names, measure) {
    const used = new Set(pairs.flatMap(({ from, to }) => [from, to]));
    const order = new Intl.Collator("en", { numeric: true }).compare;
    this.names = names.length > 0 ? names.slice(0, NAMES_MAX) : [...used].sort(order).slice(0, NAMES_MAX);
    this.pairs = new Map(pairs.map((pair) => [pair.key, pair]));
    this.measure = measure;
    this.draw();
  }

  draw() {
    const count = this.names.length;
    const room = Math.max(200, Math.min(this.canvas.parentElement.clientWidth, this.canvas.parentElement.clientHeight) - LABEL - 24);
    this.size = Math.max(1, Math.min(CELL_MAX, Math.floor(room / Math.max(1, count))));
    this.left = this.size >= LABELS_FROM ? LABEL : 16;
    const side = this.left + count * this.size + 12;
    this.canvas.style.width = this.canvas.style.height = `${side}px`;
    const context = prepare(this.canvas, side, side);
    const colour = colours();
    context.font = FONT;
    context.textBaseline = "middle";
    if (count > 0) this.drawGrid(context, colour, count);
    const places = new Map(this.names.map((name, at) => [name, at]));
    const most = Math.max(1, ...[...this.pairs.values()].map((pair) => pair[this.measure]));
    for (const pair of this.pairs.values()) {
      const [row, column] = [places.get(pair.from), places.get(pair.to)];
      if (row === undefined || column === undefined) continue;
      // The logarithm: few messages are to be seen beside many.
      const strength = 0.15 + (0.85 * Math.log1p(pair[this.measure])) / Math.log1p(most);
      context.fillStyle = `rgba(${colour.heat}, ${strength})`;
      const gap = this.size > 4 ? 1 : 0;
      context.fillRect(this.left + column * this.size + gap, this.left + row * this.size + gap, this.size - gap, this.size - gap);
    }
    if (this.at) this.mark(context, colour);
  }

  drawGrid(context, colour, count) {
    const side = count * this.size;
    context.strokeStyle = colour.line;
    context.strokeRect(this.left + 0.5, this.left + 0.5, side, side);
    if (this.size < LABELS_FROM) return;
    context.fillStyle = colour.quiet;
    context.beginPath();
    this.names.forEach((name, at) => {
      const middle = this.left + (at + 0.5) * this.size;
      const text = fit(context, name, LABEL - 14);
      context.textAlign = "right";
      context.fillText(text, this.left - 6, middle);
      context.save();
      context.translate(middle, this.left - 6);
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(text, 0, 0);
      context.restore();
      const edge = this.left + at * this.size + 0.5;
      context.moveTo(this.left, edge);
      context.lineTo(this.left + side, edge);
      context.moveTo(edge, this.left);
      context.lineTo(edge, this.left + side);
    });
    context.stroke();
  }

  mark(context, colour) {
    const [row, column] = this.at;
    context.strokeStyle = colour.select;
    context.lineWidth = 2;
    context.strokeRect(this.left + column * this.size, this.left + row * this.size, this.size, this.size);
    context.lineWidth = 1;
  }

  point(x, y) {
    const [column, row] = [x, y].map((place) => Math.floor((place - this.left) / this.size));
    this.select(row, column);
  }

  key(event) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    event.preventDefault();
    const [row, column] = this.at ?? [0, -1];
    this.select(row + step[0], column + step[1]);
  }

  select(row, column) {
    const isIn = (at) => at >= 0 && at < this.names.length;
    if (!isIn(row) || !isIn(column)) return;
    this.at = [row, column];
    const [from, to] = [this.names[row], this.names[column]];
    const pair = this.pairs.get(`${from}\n${to}`);
    const what = pair ? `${show.counted(pair.messages, "message")}, ${show.bytes(pair.bytes)}` : "no message";
    this.cell.textContent = `${from} → ${to}: ${what}`;
    this.draw();
  }
}
