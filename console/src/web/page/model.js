// A snapshot of the server, whose rows are arrays, as objects.
import { baseName } from "./format.js";

const STATES = { r: "running", w: "waits for its turn", s: "starting", e: "enrolling", l: "leaving" };

export function decode(raw) {
  const hosts = raw.hosts.map(([tid, name, arch, speed, means, messages, owner, cpu, others, memory, free, one, five, fifteen]) => ({
    key: tid, tid, name, arch, speed, means, messages, cpu, others, memory, used: memory === undefined ? undefined : memory - free,
    one, five, fifteen, tasks: 0, state: owner ? "owner is there" : "up",
  }));
  const tasks = raw.tasks.map(([tid, parent, at, program, team, state, cpu, pid, messages]) => {
    const host = hosts[at];
    if (host) host.tasks += 1;
    const path = raw.programs[program];
    return { key: tid, tid, parent, host: host ? host.name : "?", path, program: baseName(path), team, state: STATES[state] ?? state, cpu, pid, messages };
  });
  const gone = raw.gone.map(([name, tid, since]) => ({
    key: tid, tid, name, arch: "", speed: undefined, means: "", tasks: 0, state: "gone", since,
  }));
  const teams = raw.teams.map(([name, count, places, running, cpu, waited]) => ({
    key: name, name, tasks: count, hosts: places, running, cpu, slowdown: cpu > 0 ? (cpu + waited) / cpu : undefined,
  }));
  const batches = raw.batches.map(([id, parent, path, policy, total, waiting, running, done, failed, cancelled, restarts]) => ({
    key: `${id} ${parent} ${path}`, id, parent, program: baseName(path), policy, total, waiting, running, done, failed: failed + cancelled, restarts,
  }));
  const jobs = raw.jobs.map(([id, name, user, queue, state, reason, total, waiting, running, done, failed, cancelled, submitted, started, ended]) => ({
    key: id, id, name, user, queue, state, reason, total, waiting, running, done, failed: failed + cancelled, submitted, started, ended,
    time: started ? (ended ?? raw.time) - started : undefined,
  }));
  const queues = raw.queues.map(([name, priority, open, waiting, running, places]) => ({
    key: name, name, priority, open, waiting, running, hosts: places,
  }));
  const cores = raw.rows.hosts.reduce((sum, [, count]) => sum + count, 0);
  const rows = raw.rows.rows.map(([isNow, teams], at) => {
    const used = teams.reduce((sum, [, processes]) => sum + processes, 0);
    const places = teams.map(([name, processes, list]) => ({ name, processes, hosts: list.map((host) => raw.rows.hosts[host]?.[0] ?? "?") }));
    return { key: at, row: at, isNow, idle: cores > 0 ? Math.max(0, (1000 * (cores - used)) / cores) : 0, places };
  });
  return { number: raw.n, time: raw.time, viewers: raw.viewers, hosts, gone, tasks, teams, batches, jobs, jobsLeft: raw.jobs_left, queues, rows, hasRows: raw.rows.on };
}
