// What traced tasks did, and their messages, as far as they are kept. Times are microseconds since 1970.

const CHANGES_MAX = 400000;
const MESSAGES_MAX = 60000;

export const ENDED = 0;

export class Trace {
  constructor() {
    this.clear();
    this.tracer = "off";
    this.ahead = 0;
    this.version = 0;
  }

  clear() {
    this.rows = new Map();
    this.messages = [];
    this.changes = 0;
    this.begin = Infinity;
  }

  // A frame of the server: all that it keeps, or what is new.
  apply(frame) {
    if (frame.all) this.clear();
    this.tracer = frame.tracer;
    this.ahead = frame.now - performance.now() * 1000;
    for (const [tid, host, name] of frame.rows) {
      const row = this.row(tid, host);
      if (name) row.name = name;
    }
    const { changes, messages } = frame;
    for (let at = 0; at < changes.length; at += 3) this.change(changes[at], changes[at + 1], changes[at + 2]);
    for (let at = 0; at < messages.length; at += 6) {
      const [from, to, tag, bytes, sent, received] = messages.slice(at, at + 6);
      this.messages.push({ from, to, tag, bytes, sent: sent < 0 ? undefined : sent, received });
    }
    this.changes += changes.length / 3;
    this.forget();
    this.version += 1;
  }

  row(tid, host = tid & ~0x3ffff) {
    let row = this.rows.get(tid);
    if (!row) this.rows.set(tid, (row = { tid, host, name: "", times: [], states: [] }));
    return row;
  }

  change(tid, time, state) {
    const { times, states } = this.row(tid);
    // Events of a daemon may be overtaken by those of the task.
    let at = times.length;
    while (at > 0 && times[at - 1] > time) at -= 1;
    times.splice(at, 0, time);
    states.splice(at, 0, state);
    this.begin = Math.min(this.begin, time);
  }

  // The oldest half goes when there is too much.
  forget() {
    if (this.messages.length > MESSAGES_MAX) this.messages.splice(0, this.messages.length - MESSAGES_MAX / 2);
    if (this.changes <= CHANGES_MAX) return;
    this.changes = 0;
    this.begin = Infinity;
    for (const [tid, row] of this.rows) {
      const drop = row.times.length >> 1;
      row.times.splice(0, drop);
      row.states.splice(0, drop);
      this.changes += row.times.length;
      if (row.times.length === 1 && row.states[0] === ENDED) this.rows.delete(tid);
      else if (row.times.length > 0) this.begin = Math.min(this.begin, row.times[0]);
    }
  }

  // The server's time now.
  now() {
    return performance.now() * 1000 + this.ahead;
  }

  // Tasks that lived in this time, grouped by host.
  alive(from) {
    const rows = [...this.rows.values()].filter(({ times, states }) => {
      const last = times.length - 1;
      return last < 0 || states[last] !== ENDED || times[last] >= from;
    });
    return rows.sort((a, b) => a.host - b.host || a.tid - b.tid);
  }
}

// The first place in sorted numbers that is greater than a value.
export function after(numbers, value) {
  let [low, high] = [0, numbers.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] > value) high = middle;
    else low = middle + 1;
  }
  return low;
}
