// The page: its tabs, and what the server sends brought to the views.
import * as columns from "./columns.js";
import * as show from "./format.js";
import { decode } from "./model.js";
import { Feed } from "./feed.js";
import { Matrix, tally } from "./matrix.js";
import { SpaceTime } from "./spacetime.js";
import { Table } from "./table.js";
import { Trace } from "./trace.js";

const byId = (id) => document.getElementById(id);

function table(id, shown, options) {
  return new Table(byId(`table-${id}`), shown, options);
}

export const tables = {
  hosts: table("hosts", columns.hosts, { name: "Hosts", none: "No host is known yet." }),
  tasks: table("tasks", columns.tasks, { name: "Tasks", none: "No task runs." }),
  teams: table("teams", columns.teams, { name: "Teams", none: "No tasks." }),
  rows: table("rows", columns.rows, { name: "Rows", none: "Teams do not take turns by rows: PVM_COSCHEDULING=dasic at the master makes them, and turns = \"rows\" of a queue." }),
  batches: table("batches", columns.batches, { name: "Batches", none: "No batch is queued or runs." }),
  queues: table("queues", columns.queues, { name: "Queues", none: "There are no queues." }),
  jobs: table("jobs", columns.jobs, { name: "Jobs", sort: "id", down: true, none: "No job has been submitted." }),
  pairs: table("pairs", columns.pairs, { name: "Busiest pairs", sort: "messages", down: true, none: "No messages." }),
};

let model;
let isOld = {};
const hostNames = new Map();
let programs = new Map();
const hostName = (tid) => hostNames.get(tid) ?? show.tid(tid);
export const trace = new Trace();
// A traced task says what it runs; others are in the list of tasks.
function taskName(tid) {
  const name = trace.row(tid).name || programs.get(tid) || "–";
  return name === "–" ? show.tid(tid) : `${show.tid(tid)} ${name}`;
}
export const spacetime = new SpaceTime(byId("chart"), trace, { hostName, taskName, selected: showMessage, changed: showControls });
const matrix = new Matrix(byId("matrix"), byId("cell"));

// The tab whose view is shown.
let current = "hosts";

const views = {
  hosts: () => {
    tables.hosts.update([...model.hosts, ...model.gone]);
    const gone = model.gone.length > 0 ? `, ${show.count(model.gone.length)} gone` : "";
    byId("count-hosts").textContent = show.counted(model.hosts.length, "host") + gone;
  },
  tasks: () => {
    tables.tasks.update(model.tasks);
    countTasks();
  },
  teams: () => {
    tables.teams.update(model.teams);
    byId("count-teams").textContent = show.counted(model.teams.length, "team");
    tables.rows.update(model.rows);
    byId("count-rows").textContent = model.hasRows ? `(${show.count(model.rows.length)})` : "";
  },
  work: () => {
    for (const name of ["batches", "queues", "jobs"]) {
      tables[name].update(model[name]);
      byId(`count-${name}`).textContent = `(${show.count(model[name].length)})`;
    }
    if (model.jobsLeft > 0) byId("count-jobs").textContent = `(the first ${show.count(model.jobs.length)}; ${show.count(model.jobsLeft)} more)`;
  },
  messages: showMatrix,
  spacetime: () => {},
};

// Shows a snapshot of the server.
export function showSnapshot(raw) {
  model = decode(raw);
  for (const { tid, name } of [...model.gone, ...model.hosts]) hostNames.set(tid, name);
  programs = new Map(model.tasks.map(({ tid, program }) => [tid, program]));
  const used = model.hosts.reduce((sum, host) => sum + (host.used ?? 0), 0);
  const memory = model.hosts.reduce((sum, host) => sum + (host.memory ?? 0), 0);
  const known = model.hosts.filter((host) => host.cpu !== undefined);
  const cpu = known.reduce((sum, host) => sum + host.cpu, 0) / known.length;
  byId("total-hosts").textContent = show.count(model.hosts.length);
  byId("total-tasks").textContent = show.count(model.tasks.length);
  byId("total-cpu").textContent = known.length > 0 ? show.percent(cpu) : "–";
  byId("total-memory").textContent = memory > 0 ? `${show.bytes(used)} of ${show.bytes(memory)}` : "–";
  byId("total-jobs").textContent = show.count(model.jobs.filter((job) => !job.ended).length + model.jobsLeft);
  document.title = `PVM: ${show.counted(model.hosts.length, "host")}, ${show.counted(model.tasks.length, "task")}`;
  isOld = Object.fromEntries(Object.keys(views).map((name) => [name, true]));
  refresh();
}

// Shows a part of a trace.
export function showTrace(frame) {
  trace.apply(frame);
  byId("chart-empty").hidden = trace.rows.size > 0;
  const notes = { taken: "Another program is the machine’s tracer, so nothing is reported here.", on: "Tasks that started while this view was open are shown.", off: "" };
  for (const note of document.querySelectorAll(".note.tracer")) note.textContent = notes[trace.tracer];
  spacetime.request();
}

function refresh() {
  if (model && isOld[current]) {
    isOld[current] = false;
    views[current]();
  }
}

function countTasks() {
  const [shown, all] = [tables.tasks.rows.length, tables.tasks.all.length];
  byId("count-tasks").textContent = shown === all ? show.counted(all, "task") : `${show.count(shown)} of ${show.counted(all, "task")}`;
}

function showMatrix() {
  const [between, measure, seconds] = ["between", "measure", "window"].map((name) => byId(`matrix-${name}`).value);
  const isHosts = between === "hosts";
  const nameOf = isHosts ? (tid) => hostName(trace.row(tid).host) : taskName;
  const since = seconds === "0" ? 0 : trace.now() - Number(seconds) * 1e6;
  const pairs = tally(trace.messages, since, nameOf);
  matrix.update(pairs, isHosts && model ? model.hosts.map((host) => host.name) : [], measure);
  tables.pairs.update(pairs.sort((a, b) => b[measure] - a[measure]).slice(0, 100));
}

function showMessage(message) {
  const place = byId("message");
  if (!message) {
    place.textContent = "Click on a line between two tasks.";
    return;
  }
  const list = document.createElement("dl");
  const who = (tid) => `${taskName(tid)} on ${hostName(trace.row(tid).host)}`;
  const data = {
    From: who(message.from), To: who(message.to), Tag: message.tag, Bytes: show.count(message.bytes),
    "Sent at": show.moment(message.sent), "Received at": show.moment(message.received), "On its way": show.span(message.received - message.sent),
  };
  for (const [name, value] of Object.entries(data)) {
    list.appendChild(document.createElement("dt")).textContent = name;
    list.appendChild(document.createElement("dd")).textContent = value;
  }
  place.replaceChildren(list);
}

function showControls() {
  const button = byId("pause");
  button.textContent = spacetime.isFollowing ? "Pause" : "Resume";
  button.setAttribute("aria-pressed", String(!spacetime.isFollowing));
}

function showState(name, text) {
  const status = byId("status");
  status.dataset.state = name;
  const live = model && name === "live" ? `Live · ${show.clock(model.time)}` : name === "live" ? "Live" : "";
  status.textContent = text || live;
}

const feed = new Feed({
  snapshot: (raw) => {
    showSnapshot(raw);
    showState("live", "");
    Object.assign(byId("status").dataset, { number: raw.n, viewers: raw.viewers });
  },
  trace: showTrace,
  state: showState,
});

export function open(name) {
  current = name;
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const isCurrent = tab.getAttribute("aria-controls") === name;
    tab.setAttribute("aria-selected", String(isCurrent));
    tab.tabIndex = isCurrent ? 0 : -1;
  }
  for (const panel of document.querySelectorAll("[role=tabpanel]")) panel.hidden = panel.id !== name;
  history.replaceState(null, "", `#${name}`);
  spacetime.setShown(name === "spacetime");
  feed.setTracing(name === "spacetime" || name === "messages");
  refresh();
}

function listen() {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  tabs.forEach((tab, at) => {
    tab.addEventListener("click", () => open(tab.getAttribute("aria-controls")));
    tab.addEventListener("keydown", ({ key }) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[key];
      if (!step) return;
      const next = tabs[(at + step + tabs.length) % tabs.length];
      next.focus();
      next.click();
    });
  });
  for (const name of ["hosts", "tasks"]) {
    byId(`filter-${name}`).addEventListener("input", ({ target }) => {
      tables[name].setFilter(target.value);
      if (name === "tasks") countTasks();
    });
  }
  for (const name of ["between", "measure", "window"]) byId(`matrix-${name}`).addEventListener("change", showMatrix);
  byId("pause").addEventListener("click", () => spacetime.pause(spacetime.isFollowing));
  byId("zoom-in").addEventListener("click", () => spacetime.zoom(1 / 2, 0.5));
  byId("zoom-out").addEventListener("click", () => spacetime.zoom(2, 0.5));
  byId("fit").addEventListener("click", () => spacetime.fitAll());
  byId("rows").addEventListener("change", ({ target }) => spacetime.setRowHeight(Number(target.value)));
}

listen();
// A reload shows the same view again.
const wanted = location.hash.slice(1);
open(wanted in views ? wanted : "hosts");
