// Values for people.

export function tid(number) {
  return number > 0 ? "t" + number.toString(16) : "–";
}

export function percent(thousandths) {
  return thousandths === undefined || thousandths === null ? "–" : (thousandths / 10).toFixed(thousandths < 100 ? 1 : 0) + " %";
}

export function bytes(count) {
  if (count === undefined || count === null) return "–";
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let unit = 0;
  while (count >= 1000 && unit < units.length - 1) {
    count /= 1000;
    unit += 1;
  }
  return (unit > 0 && count < 100 ? count.toFixed(1) : Math.round(count)) + " " + units[unit];
}

export function load(hundredths) {
  return hundredths === undefined ? "–" : (hundredths / 100).toFixed(2);
}

export function count(number) {
  return number.toLocaleString("en-US");
}

export function counted(number, what) {
  return count(number) + " " + what + (number === 1 ? "" : what.endsWith("ch") ? "es" : "s");
}

function two(number) {
  return String(number).padStart(2, "0");
}

// Of milliseconds since 1970.
export function clock(ms) {
  const date = new Date(ms);
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

// Of microseconds since 1970, with as many digits as a step between such times needs.
export function moment(us, step = 1) {
  const digits = step >= 1e6 ? 0 : step >= 1e3 ? 3 : 6;
  const text = clock(Math.floor(us / 1000));
  return digits === 0 ? text : text + "." + String(Math.floor(us % 1e6)).padStart(6, "0").slice(0, digits);
}

// Of microseconds.
export function span(us) {
  const short = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)).replace(/\.0+$/, "");
  if (Math.abs(us) < 1e3) return short(us) + " µs";
  if (Math.abs(us) < 1e6) return short(us / 1e3) + " ms";
  return us < 120e6 ? short(us / 1e6) + " s" : short(us / 60e6) + " min";
}

export function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  return `${Math.floor(seconds / 3600)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
}

export function baseName(path) {
  return path === "" ? "–" : path.slice(path.lastIndexOf("/") + 1);
}
