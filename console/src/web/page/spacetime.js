// The space–time view: a row per task, time to the right, a line per message.
import { after } from "./trace.js";
import { colours, fit, FONT, prepare } from "./canvas.js";
import * as show from "./format.js";

const NAMES = 190;
const AXIS = 26;
const SPAN_MIN = 50;
const SPAN_MAX = 6 * 3600e6;
const ZOOM = 1.6;
// How near to a line a click is on it, in pixels.
const NEAR = 6;
// Events arrive up to this late, in microseconds: the live edge is that much behind.
const DELAY = 400000;
const STATES = ["", "computing", "waits", "sending", "calling"];

export class SpaceTime {
  constructor(canvas, trace, { hostName, taskName, selected, changed }) {
    Object.assign(this, { canvas, trace, hostName, taskName, selected, changed });
    this.span = 10e6;
    this.end = 0;
    this.isFollowing = true;
    this.isShown = false;
    this.height = 18;
    this.top = 0;
    this.lines = [];
    this.listen();
    new ResizeObserver(() => this.request()).observe(canvas);
  }

  listen() {
    const { canvas } = this;
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => this.press(event));
    canvas.addEventListener("pointermove", (event) => this.move(event));
    canvas.addEventListener("pointerup", (event) => this.release(event));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  setShown(isShown) {
    this.isShown = isShown;
    this.request();
  }

  setRowHeight(height) {
    this.height = height;
    this.request();
  }

  pause(isPaused) {
    if (this.isFollowing) this.end = this.liveEnd();
    this.isFollowing = !isPaused;
    this.changed();
    this.request();
  }

  liveEnd() {
    return this.trace.now() - DELAY;
  }

  // Zooms so that the time at this place, a part of the width, stays where it is.
  zoom(factor, part = 1) {
    const span = Math.min(SPAN_MAX, Math.max(SPAN_MIN, this.span * factor));
    if (!this.isFollowing) this.end += (span - this.span) * (1 - part);
    this.span = span;
    this.changed();
    this.request();
  }

  fitAll() {
    if (this.trace.begin === Infinity) return;
    this.span = Math.min(SPAN_MAX, Math.max(SPAN_MIN, 1.03 * (this.liveEnd() - this.trace.begin)));
    this.end = this.liveEnd();
    this.changed();
    this.request();
  }

  request() {
    if (this.requested || !this.isShown) return;
    this.requested = true;
    requestAnimationFrame(() => {
      this.requested = false;
      this.draw();
      if (this.isFollowing) this.request();
    });
  }

  draw() {
    const [width, height] = [this.canvas.clientWidth, this.canvas.clientHeight];
    if (width === 0) return;
    if (this.isFollowing) this.end = this.liveEnd();
    this.begin = this.end - this.span;
    this.scale = (width - NAMES) / this.span;
    const context = prepare(this.canvas, width, height);
    const colour = colours();
    context.font = FONT;
    context.textBaseline = "middle";
    this.arrange(height);
    this.drawAxis(context, colour, width, height);
    context.save();
    context.beginPath();
    context.rect(0, AXIS, width, height - AXIS);
    context.clip();
    for (const line of this.visible(height)) this.drawLine(context, colour, line, width);
    this.drawMessages(context, colour, width, height);
    context.restore();
    Object.assign(this.canvas.dataset, { span: Math.round(this.span), end: Math.round(this.end), rows: this.rowCount });
  }

  x(time) {
    return NAMES + (time - this.begin) * this.scale;
  }

  // The lines of the drawing: a head per host, and below it its tasks.
  arrange(height) {
    const key = `${this.trace.version} ${this.height} ${this.isFollowing ? 0 : this.begin}`;
    if (key !== this.arranged) {
      this.arranged = key;
      this.lines = [];
      this.places = new Map();
      let [host, y] = [undefined, 0];
      const rows = this.trace.alive(this.begin);
      for (const row of rows) {
        if (row.host !== host) {
          host = row.host;
          this.lines.push({ host, y, height: 20 });
          y += 20;
        }
        this.lines.push({ row, y, height: this.height });
        this.places.set(row.tid, y + this.height / 2);
        y += this.height;
      }
      this.rowCount = rows.length;
      this.full = y;
    }
    this.top = Math.max(0, Math.min(this.top, this.full - (height - AXIS)));
  }

  visible(height) {
    const bottoms = this.lines.map((line) => line.y + line.height);
    const first = after(bottoms, this.top);
    const last = this.lines.findIndex((line, at) => at >= first && line.y > this.top + height - AXIS);
    return this.lines.slice(first, last < 0 ? undefined : last);
  }

  y(place) {
    return AXIS + place - this.top;
  }

  drawAxis(context, colour, width, height) {
    const step = niceStep(this.span / Math.max(2, (width - NAMES) / 130));
    context.strokeStyle = colour.line;
    context.fillStyle = colour.quiet;
    context.textAlign = "left";
    context.beginPath();
    for (let time = Math.ceil(this.begin / step) * step; time <= this.end; time += step) {
      const x = Math.round(this.x(time)) + 0.5;
      context.moveTo(x, 0);
      context.lineTo(x, height);
      if (x + 90 < width) context.fillText(show.moment(time, step), x + 5, AXIS / 2);
    }
    context.moveTo(0, AXIS - 0.5);
    context.lineTo(width, AXIS - 0.5);
    context.moveTo(NAMES - 0.5, 0);
    context.lineTo(NAMES - 0.5, height);
    context.stroke();
    context.fillText(`${show.span(this.span)} wide`, 10, AXIS / 2);
  }

  drawLine(context, colour, { row, host, y, height }, width) {
    const top = this.y(y);
    if (host !== undefined) {
      context.fillStyle = colour.head;
      context.fillRect(0, top, width, height);
      context.fillStyle = colour.text;
      context.font = `600 ${FONT}`;
      context.fillText(fit(context, this.hostName(host), NAMES - 20), 10, top + height / 2);
      context.font = FONT;
      return;
    }
    this.drawBars(context, colour, row, top, height);
    if (height < 12) return;
    context.fillStyle = colour.quiet;
    context.fillText(fit(context, this.taskName(row.tid), NAMES - 30), 20, top + height / 2);
  }

  drawBars(context, colour, { times, states }, top, height) {
    const thick = height > 6 ? height - 4 : Math.max(1, height - 1);
    const inset = (height - thick) / 2;
    const right = this.x(this.end);
    let at = Math.max(0, after(times, this.begin) - 1);
    let drawn = NAMES - 1;
    for (; at < times.length && times[at] < this.end; at += 1) {
      const name = STATES[states[at]];
      const from = Math.max(NAMES, this.x(times[at]));
      const to = at + 1 < times.length ? Math.min(right, this.x(times[at + 1])) : right;
      // Of what lies within one pixel, the first is drawn.
      if (!name || to <= drawn) continue;
      context.fillStyle = colour[name];
      const begin = Math.max(from, drawn);
      drawn = Math.max(to, begin + 1);
      context.fillRect(begin, top + inset, drawn - begin, thick);
    }
  }

  // The ends of a message in the drawing; none if it is not in it.
  ends({ from, to, sent, received }) {
    if (sent === undefined || received < this.begin || sent > this.end) return undefined;
    const [one, other] = [this.places.get(from), this.places.get(to)];
    if (one === undefined || other === undefined) return undefined;
    return [this.x(sent), this.y(one), this.x(received), this.y(other)];
  }

  drawMessages(context, colour, width, height) {
    context.save();
    context.beginPath();
    context.rect(NAMES, AXIS, width - NAMES, height - AXIS);
    context.clip();
    context.strokeStyle = colour.message;
    context.fillStyle = colour.message;
    context.beginPath();
    const heads = [];
    for (const message of this.trace.messages) {
      const ends = this.ends(message);
      if (!ends || Math.max(ends[1], ends[3]) < AXIS || Math.min(ends[1], ends[3]) > height) continue;
      context.moveTo(ends[0], ends[1]);
      context.lineTo(ends[2], ends[3]);
      heads.push(ends);
    }
    // Many lines are drawn faintly, and without heads: the bars are to be seen, too.
    context.globalAlpha = Math.max(0.12, Math.min(0.85, 160 / heads.length));
    context.lineWidth = heads.length > 1000 ? 0.5 : 1;
    context.stroke();
    if (heads.length <= 300) for (const ends of heads) drawHead(context, ends);
    const chosen = this.message && this.ends(this.message);
    if (chosen) {
      context.globalAlpha = 1;
      context.strokeStyle = context.fillStyle = colour.select;
      context.lineWidth = 3;
      context.beginPath();
      context.moveTo(chosen[0], chosen[1]);
      context.lineTo(chosen[2], chosen[3]);
      context.stroke();
      drawHead(context, chosen);
    }
    context.restore();
  }

  // The message whose line is nearest to a place, if one is near.
  messageAt(x, y) {
    let [best, nearest] = [undefined, NEAR];
    for (const message of this.trace.messages) {
      const ends = this.ends(message);
      if (!ends) continue;
      const distance = distanceTo(x, y, ends);
      if (distance < nearest) [best, nearest] = [message, distance];
    }
    return best;
  }

  select(message) {
    this.message = message;
    this.selected(message);
    this.request();
  }

  // The next or the previous message in the order of reception; it is brought into view.
  step(by) {
    const known = this.trace.messages.filter((message) => message.sent !== undefined).sort((a, b) => a.received - b.received);
    if (known.length === 0) return;
    const at = known.indexOf(this.message);
    const next = at < 0 ? known.length - 1 : Math.max(0, Math.min(known.length - 1, at + by));
    const message = known[next];
    if (!this.ends(message)) {
      this.pause(true);
      this.end = (message.sent + message.received) / 2 + this.span / 2;
    }
    this.select(message);
  }

  wheel(event) {
    event.preventDefault();
    if (event.offsetX < NAMES || event.shiftKey) {
      this.top += event.deltaY || event.deltaX;
      this.request();
    } else {
      const part = (event.offsetX - NAMES) / (this.canvas.clientWidth - NAMES);
      this.zoom(Math.pow(ZOOM, Math.sign(event.deltaY)), part);
    }
  }

  press(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = { x: event.offsetX, y: event.offsetY, moved: false };
  }

  move(event) {
    const { offsetX: x, offsetY: y } = event;
    if (!this.drag) {
      this.canvas.classList.toggle("over", x > NAMES && this.messageAt(x, y) !== undefined);
      return;
    }
    const [right, down] = [x - this.drag.x, y - this.drag.y];
    if (!this.drag.moved && Math.abs(right) + Math.abs(down) < 4) return;
    this.canvas.classList.add("dragged");
    // What has moved in time does not follow any more.
    if (Math.abs(right) > 0 && this.isFollowing) this.pause(true);
    this.end -= right / this.scale;
    this.top -= down;
    this.drag = { x, y, moved: true };
    this.request();
  }

  release(event) {
    const drag = this.drag;
    this.drag = undefined;
    this.canvas.classList.remove("dragged");
    if (drag && !drag.moved) this.select(this.messageAt(event.offsetX, event.offsetY));
  }

  key(event) {
    const act = {
      "+": () => this.zoom(1 / ZOOM, 0.5),
      "=": () => this.zoom(1 / ZOOM, 0.5),
      "-": () => this.zoom(ZOOM, 0.5),
      " ": () => this.pause(this.isFollowing),
      End: () => this.pause(false),
      ArrowLeft: () => this.shift(-0.1),
      ArrowRight: () => this.shift(0.1),
      ArrowUp: () => this.scroll(-3 * this.height),
      ArrowDown: () => this.scroll(3 * this.height),
      PageUp: () => this.scroll(-0.8 * this.canvas.clientHeight),
      PageDown: () => this.scroll(0.8 * this.canvas.clientHeight),
      n: () => this.step(1),
      p: () => this.step(-1),
    }[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  }

  shift(part) {
    if (this.isFollowing) this.pause(true);
    this.end += part * this.span;
    this.request();
  }

  scroll(by) {
    this.top += by;
    this.request();
  }
}

// 1, 2 or 5 times a power of ten, or of minutes, at least this.
function niceStep(least) {
  for (const step of [60e6, 120e6, 300e6, 600e6, 1800e6, 3600e6]) if (least > 50e6 && step >= least) return step;
  const power = Math.pow(10, Math.floor(Math.log10(least)));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= least);
}

function drawHead(context, [x1, y1, x2, y2]) {
  const angle = Math.atan2(y2 - y1, x2 - x1);
  context.beginPath();
  context.moveTo(x2, y2);
  for (const side of [-0.4, 0.4]) context.lineTo(x2 - 8 * Math.cos(angle + side), y2 - 8 * Math.sin(angle + side));
  context.fill();
}

function distanceTo(x, y, [x1, y1, x2, y2]) {
  const [wide, high] = [x2 - x1, y2 - y1];
  const length = wide * wide + high * high;
  const part = length === 0 ? 0 : Math.max(0, Math.min(1, ((x - x1) * wide + (y - y1) * high) / length));
  return Math.hypot(x - x1 - part * wide, y - y1 - part * high);
}
