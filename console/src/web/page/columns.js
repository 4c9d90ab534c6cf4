// The columns of the tables: `value` is what rows are sorted by, `text` what is shown.
import * as show from "./format.js";

const text = (id, title, width, more = {}) => ({ id, title, width, value: (row) => row[id] ?? "", ...more });
const number = (id, title, width, format = show.count, more = {}) => ({
  id, title, width, kind: "number", value: (row) => row[id] ?? -1,
  text: (row) => (row[id] === undefined || row[id] === null ? "–" : format(row[id])), ...more,
});
const tid = (id, title) => ({ id, title, width: 90, kind: "mono", value: (row) => row[id], text: (row) => show.tid(row[id]) });

function progress(row) {
  const part = (count) => (row.total > 0 ? `${(100 * count) / row.total}%` : "0%");
  return { "--a": part(row.done), "--b": part(row.done + row.failed), "--c": part(row.done + row.failed + row.running) };
}

const bar = {
  id: "progress", title: "Progress", width: 220, kind: "progress", value: (row) => (row.total > 0 ? row.done / row.total : 0),
  text: (row) => `${show.count(row.done)} of ${show.count(row.total)}`, style: progress,
};
const share = (of) => ({ kind: "number part", style: (row) => ({ "--part": `${Math.min(100, of(row) ?? 0)}%` }) });

export const hosts = [
  text("name", "Host", 140),
  { id: "state", title: "State", width: 132, value: (row) => row.state,
    text: (row) => (row.state === "gone" ? `gone ${show.clock(row.since)}` : row.state),
    mark: (row) => ({ gone: "bad", up: "good" })[row.state] ?? "warn" },
  number("tasks", "Tasks", 70),
  number("cpu", "CPU", 85, show.percent, share((row) => row.cpu / 10)),
  number("others", "Others’ CPU", 108, show.percent, share((row) => row.others / 10)),
  number("messages", "Messages/s", 108),
  number("used", "Memory in use", 128, show.bytes, share((row) => (100 * row.used) / row.memory)),
  number("memory", "Memory", 90, show.bytes),
  number("one", "Load 1 min", 112, show.load),
  number("five", "5 min", 66, show.load),
  number("fifteen", "15 min", 72, show.load),
  number("speed", "Speed", 74),
  text("arch", "Architecture", 112),
  tid("tid", "Tid"),
];

export const tasks = [
  tid("tid", "Tid"),
  text("program", "Program", 220, { hint: (row) => row.path }),
  text("host", "Host", 150),
  text("team", "Team", 150, { text: (row) => row.team || "–" }),
  text("state", "State", 140, { mark: (row) => (row.state === "running" ? "good" : "warn") }),
  number("cpu", "CPU", 100, show.percent, share((row) => row.cpu / 10)),
  number("messages", "Messages/s", 108),
  tid("parent", "Parent"),
  number("pid", "Process", 90, String),
];

export const teams = [
  text("name", "Team", 220),
  number("tasks", "Tasks", 90),
  number("hosts", "Hosts", 90),
  number("running", "Has the turn on", 140, (count) => show.counted(count, "host")),
  number("cpu", "CPU", 110, show.percent),
  number("slowdown", "Slowdown", 110, (value) => value.toFixed(2)),
];

// A team of a row: on which hosts, if they are few.
function place({ name, processes, hosts }) {
  const where = hosts.length > 4 ? show.counted(hosts.length, "host") : hosts.join(", ");
  return `${name} (${show.counted(processes, "task")} on ${where})`;
}

export const rows = [
  number("row", "Row", 70, String),
  { id: "now", title: "Slice", width: 110, value: (row) => (row.isNow ? 1 : 0), text: (row) => (row.isNow ? "has it" : "–"), mark: (row) => (row.isNow ? "good" : undefined) },
  number("idle", "Idle", 90, show.percent, share((row) => row.idle / 10)),
  { id: "places", title: "Teams", width: 640, value: (row) => row.places.map(place).join("; "), text: (row) => row.places.map(place).join("; ") || "–",
    hint: (row) => row.places.map(({ name, hosts }) => `${name}: ${hosts.join(", ")}`).join("; ") },
];

export const batches = [
  { id: "id", title: "Batch", width: 90, kind: "mono", value: (row) => row.id, text: (row) => (row.id ? row.id.toString(16) : "spawn") },
  text("program", "Program", 180),
  bar,
  number("waiting", "Waiting", 90),
  number("running", "Running", 90),
  number("failed", "Failed", 80),
  number("restarts", "Restarts", 90),
  text("policy", "Policy", 140),
  tid("parent", "Parent"),
];

const JOB_MARKS = { done: "good", running: "good", failed: "bad", cancelled: "warn", held: "warn" };

export const jobs = [
  number("id", "Job", 70, String),
  text("name", "Name", 160),
  text("user", "User", 100),
  text("queue", "Queue", 100),
  text("state", "State", 100, { mark: (row) => JOB_MARKS[row.state] }),
  bar,
  number("waiting", "Waiting", 85),
  number("running", "Running", 85),
  number("failed", "Failed", 75),
  number("time", "Time", 90, show.duration),
  text("reason", "Remark", 220, { text: (row) => row.reason || "–", hint: (row) => row.reason }),
];

export const queues = [
  text("name", "Queue", 160),
  text("open", "State", 100, { text: (row) => (row.open ? "open" : "closed"), mark: (row) => (row.open ? "good" : "warn") }),
  number("waiting", "Jobs that wait", 130),
  number("running", "Slots in use", 120),
  number("priority", "Priority", 100),
  number("hosts", "Hosts", 90, (count) => (count === 0 ? "all" : show.count(count))),
];

export const pairs = [
  text("from", "From", 92),
  text("to", "To", 92),
  number("messages", "Messages", 104),
  number("bytes", "Bytes", 79, show.bytes),
];
