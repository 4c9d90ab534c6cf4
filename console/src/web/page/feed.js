// The connection to the server: events as they come, and what the reader is told of it.

const RETRY = 2000;
// A page that nobody sees keeps its place for so long: browsers have few connections to one server.
const HIDDEN = 30000;
const LATE = 5000;

export class Feed {
  constructor({ snapshot, trace, state }) {
    this.onSnapshot = snapshot;
    this.onTrace = trace;
    this.onState = state;
    this.isTracing = false;
    this.hasEnded = false;
    this.last = performance.now();
    document.addEventListener("visibilitychange", () => this.seen());
    // Or the connections of pages that are kept for "back" stay open.
    addEventListener("pagehide", () => this.close());
    addEventListener("pageshow", () => this.open());
    setInterval(() => this.watch(), 1000);
    this.open();
  }

  setTracing(wanted) {
    if (wanted === this.isTracing) return;
    this.isTracing = wanted;
    this.close();
    this.open();
  }

  open() {
    if (this.source || this.hasEnded) return;
    const source = new EventSource(this.isTracing ? "events?trace" : "events");
    const take = (name, use) =>
      source.addEventListener(name, (event) => {
        if (source !== this.source) return;
        this.last = performance.now();
        use(JSON.parse(event.data));
      });
    take("snapshot", (data) => {
      this.state("live");
      this.onSnapshot(data);
    });
    take("trace", (data) => this.onTrace(data));
    take("end", ({ reason }) => {
      this.hasEnded = true;
      this.close();
      this.state("ended", reason === "machine" ? "The virtual machine has ended" : "“pvm web” has ended");
    });
    source.addEventListener("error", () => source === this.source && this.failed());
    this.source = source;
  }

  close() {
    this.source?.close();
    this.source = undefined;
  }

  failed() {
    this.state("lost", "Connection lost, retrying…");
    if (this.source.readyState !== EventSource.CLOSED) return;
    // The server has answered, but not with events; the browser does not try again by itself.
    this.close();
    setTimeout(() => this.again(), RETRY);
  }

  async again() {
    try {
      const answer = await fetch("style.css", { cache: "no-store" });
      if (answer.status === 401) this.state("lost", "This address is no longer valid: open the one that “pvm web” has printed");
      else if (answer.ok) this.state("lost", "Too many viewers, retrying…");
    } catch {
      this.state("lost", "Connection lost, retrying…");
    }
    if (!document.hidden) this.open();
  }

  seen() {
    clearTimeout(this.leaving);
    if (document.hidden) this.leaving = setTimeout(() => this.close(), HIDDEN);
    else this.open();
  }

  watch() {
    const age = performance.now() - this.last;
    if (this.current === "live" && age > LATE) this.late = true;
    if (this.late && this.source) this.state("late", `No data for ${Math.round(age / 1000)} s: a host does not answer`);
  }

  state(name, text = "") {
    if (name !== "late") this.late = false;
    this.current = name;
    this.onState(name, text);
  }
}
