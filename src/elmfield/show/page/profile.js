// A plot of values along a line: curves, with samples as dots. Also what a series is drawn with.

"use strict";

const CURVES = { // [channels, red green blue alpha], seen on either ground
  dark: [["#5ec9a5", "#ef8f6b", "#7aa2ff", "#e0b84c"], ["#ff7b7b", "#5ec97a", "#7aa2ff", "#c0c6d2"]],
  light: [["#0c7a58", "#b4481e", "#2f5fd0", "#8a6400"], ["#c62828", "#1f7a34", "#2f5fd0", "#5a6270"]],
};

/** Draw on a canvas, sized to it: {x, curves, marks, bands, ticks, colours}; x from 0 to 1. */
function plot(canvas, { x, curves, names = [], bands = null, marks = [], off = [], dots = [], ticks = [], unit = "", picture = false, limits = null }) {
  const ratio = window.devicePixelRatio || 1, box = canvas.getBoundingClientRect();
  canvas.width = Math.max(1, box.width * ratio);
  canvas.height = Math.max(1, box.height * ratio);
  const g = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  const ink = style.getPropertyValue("--ink"), quiet = style.getPropertyValue("--quiet"), line = style.getPropertyValue("--line");
  g.scale(ratio, ratio);
  const left = 68, right = 20, top = 16, bottom = 26, w = box.width - left - right, h = box.height - top - bottom;
  let [low, high] = limits ?? range([...curves, ...dots, ...(bands ? [...bands.low, ...bands.high] : [])]);
  if (!(high > low)) { low -= 0.5; high += 0.5; }
  const pad = limits ? 0 : 0.06 * (high - low);
  low -= pad; high += pad;
  const X = (t) => left + t * w, Y = (v) => top + (1 - (v - low) / (high - low)) * h;
  g.font = "12px system-ui, sans-serif";
  g.textBaseline = "middle";
  g.lineWidth = 1;
  const step = round((high - low) / Math.max(2, h / 46));
  g.textAlign = "right";
  for (let k = Math.ceil(low / step); k * step <= high; k++) {
    g.strokeStyle = line; g.beginPath(); g.moveTo(left, Y(k * step)); g.lineTo(left + w, Y(k * step)); g.stroke();
    g.fillStyle = quiet; g.fillText(number(k * step, step), left - 8, Y(k * step));
  }
  g.textAlign = "center";
  for (const { t, text } of ticks) {
    g.strokeStyle = line; g.beginPath(); g.moveTo(X(t), top); g.lineTo(X(t), top + h); g.stroke();
    g.fillStyle = quiet; g.fillText(text, Math.min(Math.max(X(t), left + 20), left + w - 20), top + h + 14);
  }
  if (unit) { g.textAlign = "left"; g.fillStyle = quiet; g.fillText(unit, 8, 10); }
  const colours = CURVES[document.documentElement.dataset.theme === "light" ? "light" : "dark"][picture ? 1 : 0];
  g.save();
  g.beginPath(); g.rect(left, top - 2, w, h + 4); g.clip();
  curves.forEach((values, c) => {
    const colour = colours[c % colours.length];
    if (bands) {
      g.fillStyle = colour + "44"; g.beginPath();
      x.forEach((t, i) => { if (bands.high[c][i] !== null) g.lineTo(X(t), Y(bands.high[c][i])); });
      for (let i = x.length - 1; i >= 0; i--) if (bands.low[c][i] !== null) g.lineTo(X(x[i]), Y(bands.low[c][i]));
      g.fill();
    }
    g.strokeStyle = colour; g.lineWidth = 1.8; g.lineJoin = "round"; g.beginPath();
    let pen = false;
    x.forEach((t, i) => {
      if (values[i] === null || Number.isNaN(values[i])) { pen = false; return; }
      if (pen) g.lineTo(X(t), Y(values[i])); else g.moveTo(X(t), Y(values[i]));
      pen = true;
    });
    g.stroke();
    g.fillStyle = colour; g.strokeStyle = style.getPropertyValue("--panel");
    (dots[c] ?? []).forEach((v, i) => {
      if (v === null) return;
      g.beginPath(); g.arc(X(marks[i]), Y(v), marks.length > 120 ? 2 : 3.6, 0, 7);
      g.globalAlpha = 1 - 1.3 * (off[i] ?? 0); // the farther from the line, the fainter
      g.fill(); g.lineWidth = 1; g.stroke(); g.globalAlpha = 1;
    });
  });
  g.restore();
  if (names.length > 1) {
    g.textAlign = "left";
    names.forEach((name, c) => { g.fillStyle = colours[c % colours.length]; g.fillText(name, left + 8 + 92 * c, top + 2); });
  }
  return { X, Y, left, w, low, high, ink };
}

function range(lists) {
  let low = Infinity, high = -Infinity;
  for (const list of lists) for (const v of list) if (v !== null && Number.isFinite(v)) { if (v < low) low = v; if (v > high) high = v; }
  return [low, high];
}
