// What is shown, as an address that can be shared.

"use strict";

const NUMBERS = ["x", "y", "zoom", "low", "high", "split"];
const LISTS = ["plane", "cross", "at", "channels", "line", "point"];
const WORDS = ["planes", "quantity", "beside", "map", "part", "percent"];
const FLAGS = ["regions", "directions", "reversed"];

/** The state that an address says, over what it leaves out. */
function read(hash) {
  const found = {}, given = new URLSearchParams(hash.replace(/^#/, ""));
  for (const k of NUMBERS) if (Number.isFinite(parseFloat(given.get(k)))) found[k] = parseFloat(given.get(k));
  for (const k of LISTS) {
    if (!given.has(k)) continue;
    const list = given.get(k).split(",").map(Number);
    if (list.every(Number.isFinite)) found[k] = list;
  }
  for (const k of WORDS) if (given.has(k)) found[k] = given.get(k);
  for (const k of FLAGS) if (given.has(k)) found[k] = given.get(k) === "1";
  return found;
}

/** The address's part after #. */
function write(state) {
  const out = new URLSearchParams();
  for (const k of WORDS) if (state[k]) out.set(k, state[k]);
  for (const k of NUMBERS) if (Number.isFinite(state[k])) out.set(k, +state[k].toPrecision(9));
  for (const k of LISTS) if (state[k]?.length) out.set(k, state[k].map((v) => +v.toPrecision(9)).join(","));
  for (const k of FLAGS) if (state[k]) out.set(k, "1");
  return "#" + out.toString().replaceAll("%2C", ",");
}
