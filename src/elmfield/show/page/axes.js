// Coordinates: from index to the axis's own unit and into words; round places for ticks and bars.

"use strict";

const DEGREES = { degrees_north: ["°N", "°S"], degrees_east: ["°E", "°W"] };
const ROUND = [15, 30, 45, 60, 90, 180];
const SHORT = { degrees_north: "°", degrees_east: "°", degrees: "°", meters: "m", metres: "m", kelvin: "K" };

class Axis {
  constructor(facts) { Object.assign(this, facts); }

  /** Coordinate, in the axis's unit, of an index. */
  coordinate(index) {
    if (!this.listed) return this.origin + this.step * index;
    return between(this.listed.index, this.listed.coords, index);
  }

  /** Index of a coordinate. */
  index(coordinate) {
    if (!this.listed) return (coordinate - this.origin) / this.step;
    const { index, coords } = this.listed;
    return coords[0] < coords[coords.length - 1]
      ? between(coords, index, coordinate)
      : between([...coords].reverse(), [...index].reverse(), coordinate);
  }

  get isDate() { return this.epoch !== null; }

  get unit() { return SHORT[this.units] ?? this.units; }

  /** A coordinate in words; `step` says how fine. */
  words(coordinate, step = Math.abs(this.step) / 64) {
    if (this.isDate) return date(this.epoch + coordinate, step);
    const signs = DEGREES[this.units];
    if (signs) {
      const value = this.units === "degrees_east" ? ((coordinate + 180) % 360 + 360) % 360 - 180 : coordinate;
      return number(Math.abs(value), step) + (Math.abs(value) < step / 2 ? "°" : signs[value < 0 ? 1 : 0]);
    }
    return number(coordinate, step) + (this.unit ? ` ${this.unit}` : "");
  }

  /** Round coordinates between two indices, about `count` of them: [{index, text}]. */
  ticks(low, high, count) {
    const a = this.coordinate(low), b = this.coordinate(high);
    const [first, last] = a < b ? [a, b] : [b, a];
    if (!(last > first)) return [];
    const rough = (last - first) / count;
    const step = this.isDate ? roundTime(rough) : DEGREES[this.units] && rough > 10 ? ROUND.find((s) => s >= rough) ?? 180 : round(rough);
    const offset = this.isDate ? this.epoch % step : 0;
    const found = [];
    for (let k = Math.ceil((first + offset) / step); k * step - offset <= last + 1e-9 * step; k++) {
      const c = k * step - offset;
      found.push({ index: this.index(c), text: this.words(c, step) });
      if (found.length > 50) break;
    }
    return found;
  }
}

function between(x, y, at) {
  let a = 0, b = x.length - 1;
  while (b - a > 1) { const m = (a + b) >> 1; if (x[m] <= at) a = m; else b = m; }
  const t = (at - x[a]) / (x[b] - x[a] || 1);
  return y[a] + t * (y[b] - y[a]);
}

/** The next round number: 1, 2 or 5 times a power of ten. */
function round(value) {
  const p = 10 ** Math.floor(Math.log10(value)), m = value / p;
  return (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10) * p;
}

const TIMES = [1, 5, 15, 30, 60, 300, 900, 1800, 3600, 10800, 21600, 43200, 86400, 2 * 86400,
  7 * 86400, 14 * 86400, 30 * 86400, 91 * 86400, 182 * 86400, 365.25 * 86400];

function roundTime(value) {
  const found = TIMES.find((t) => t >= value);
  return value < 1 ? round(value) : found ?? round(value / 31557600) * 31557600;
}

/** A number with as many digits as a step needs. */
function number(value, step = 0) {
  if (value === Infinity) return "not yet";
  if (value === null || !Number.isFinite(value)) return "missing";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-4 && !(step >= 1e-6)) return value.toExponential(3).replaceAll("-", "−");
  const digits = step ? Math.max(0, Math.min(8, -Math.floor(Math.log10(step) + 1e-9)))
    : Math.max(0, 5 - Math.max(0, Math.ceil(Math.log10(size))));
  const text = value.toFixed(digits);
  return (!step && text.includes(".") ? text.replace(/\.?0+$/, "") : text).replace("-", "−").replace(/^−0(\.0*)?$/, "0");
}

function date(seconds, step) {
  const text = new Date(seconds * 1000).toISOString();
  if (step >= 86400) return text.slice(0, 10);
  return step >= 60 ? text.slice(0, 16).replace("T", " ") : text.slice(0, step >= 1 ? 19 : 23).replace("T", " ");
}
