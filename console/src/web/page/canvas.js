// What both drawings need: sharp lines on every screen, and the page's colours.

// Gives the canvas as many pixels as it covers; returns its context in units of the page.
export function prepare(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

let known;

export function colours() {
  if (!known) {
    const style = getComputedStyle(document.documentElement);
    known = new Proxy({}, { get: (cache, name) => (cache[name] ??= style.getPropertyValue(`--${name}`).trim()) });
  }
  return known;
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  known = undefined;
});

export const FONT = "12px system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', Arial, sans-serif";

// The text, cut so that it fits.
export function fit(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && context.measureText(text.slice(0, end) + "…").width > width) end -= 1;
  return text.slice(0, end) + "…";
}
