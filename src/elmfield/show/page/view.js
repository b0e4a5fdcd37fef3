// The page: controls, keys, the address; what is drawn over the picture.

"use strict";

const $ = (id) => document.getElementById(id);
const NAMES = { value: "Value", gradient: "Gradient", laplacian: "Laplacian", std: "Deviation", error: "Error" };
const USUAL = { value: "viridis", gradient: "magma", laplacian: "balance", std: "magma", error: "error" };
const SURE = ["#8c7bff", "#d765c4", "#ff7c6b", "#ffae42", "#fff07a"]; // from 0 to 1
const TITLES = { field: "none", nearest: "nearest", linear: "linear", cubic: "cubic" };

let facts, axes, picture, panes, series, quantiles = null, playing = null, chosenMap = false;
const state = {
  quantity: "value", beside: "field", map: null, reversed: false, percent: null, low: null, high: null, part: null,
  plane: null, planes: null, cross: null, at: [], channels: [0], regions: false, directions: false, split: 0.5, line: null, point: null,
};

// --- small things ---------------------------------------------------------------------------------

async function ask(url) {
  const response = await fetch(url);
  if (!response.ok) throw await asError(response);
  return response.json();
}

function fail(error) {
  const gone = error instanceof TypeError; // fetch found nobody
  $("error-text").textContent = gone ? "The server is gone. Start it again, then reload this page." : error.message;
  $("error").hidden = false;
}

function toast(text, seconds = 1.8) {
  $("toast").textContent = text;
  $("toast").classList.add("on");
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => $("toast").classList.remove("on"), 1000 * seconds);
}

function element(tag, given = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [k, v] of Object.entries(given)) if (k in made) made[k] = v; else made.setAttribute(k, v);
  made.append(...inside);
  return made;
}

/** Buttons of which one is pressed; arrows go from one to the next. */
function choices(id, words, chosen, choose) {
  const box = $(id);
  box.replaceChildren(...Object.entries(words).map(([key, text]) => element("button", {
    type: "button", role: "radio", "aria-checked": String(key === chosen), textContent: text, tabIndex: key === chosen ? 0 : -1,
    "data-key": key, onclick: () => choose(key),
  })));
  box.onkeydown = (e) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key], keys = Object.keys(words);
    if (!step) return;
    e.preventDefault();
    e.stopPropagation();
    const now = keys.indexOf(box.querySelector('[aria-checked="true"]').dataset.key);
    choose(keys[(now + step + keys.length) % keys.length]);
    box.querySelector('[aria-checked="true"]').focus();
  };
}

function mark(id, chosen) {
  for (const b of $(id).children) {
    b.setAttribute("aria-checked", String(b.dataset.key === chosen));
    b.tabIndex = b.dataset.key === chosen ? 0 : -1;
  }
}

// --- what is shown --------------------------------------------------------------------------------

const look = (more = {}) => ({
  quantity: state.quantity, method: "field", channels: state.channels, part: state.part, at: state.at,
  ...(facts.plane && facts.plane !== facts.planes[0] ? { plane: facts.plane.axes } : {}), ...more,
});

const isColour = () => state.channels.length >= 3;

async function showLooks() {
  if (series) return series.show(look());
  const waits = [picture.show("field", look())];
  const spline = state.quantity === "value" && state.beside !== "field";
  waits.push(picture.show("beside", spline ? look({ method: state.beside }) : null));
  waits.push(picture.show("regions", state.regions ? look({ quantity: "regions", channels: [0] }) : null));
  waits.push(panes.show(look(), cross()));
  layDivider();
  $("beside-hint").hidden = !spline;
  return Promise.all(waits);
}

async function readRange() {
  try {
    quantiles = facts.exported?.quantiles ? facts.exported.quantiles[state.quantity]
      : facts.exported ? null : await ask(`quantiles?${asked(look())}`);
  } catch (error) { fail(error); }
  listWindows();
  if (quantiles && state.percent !== "typed") setPercent();
}

/** Windows of a scan, after the shares of its values. */
function listWindows() {
  const known = state.quantity === "value" && !isColour() ? windowsOf(facts, quantiles) : {};
  for (const old of $("percent").querySelectorAll("[data-window]")) old.remove();
  $("percent").append(...Object.keys(known).map((name) => element("option", { value: name, textContent: `${name} window`, "data-window": name })));
  if (state.percent === null) state.percent = usualRange();
  if (!$("percent").querySelector(`[value="${CSS.escape(state.percent)}"]`)) state.percent = "0";
  return known;
}

/** The range a value begins with: a scan's own window, or without its brightest spots. */
const usualRange = () => (facts.windows.length ? Object.keys(windowsOf(facts, quantiles))[0] : facts.scan && facts.grey ? "1" : "0");

function setPercent() {
  const named = listWindows()[state.percent];
  if (named) { Object.assign(state, { low: named[0], high: named[1] }); return; }
  const p = Number(state.percent);
  let low = Math.min(...quantiles.map((q) => q[p])), high = Math.max(...quantiles.map((q) => q[100 - p]));
  if (state.quantity === "value" && facts.top && p === 0) { low = 0; high = facts.top; }
  if (state.quantity === "laplacian" || (state.map ?? "") === "balance") { high = Math.max(Math.abs(low), Math.abs(high)); low = -high; }
  if (["gradient", "std", "error"].includes(state.quantity)) low = 0;
  if (!(high > low)) high = low + 1;
  Object.assign(state, { low, high });
}

function recolour() {
  const map = state.map ?? usualMap();
  const stops = facts.maps[map] ?? facts.maps.viridis;
  const colours = { table: table(stops, state.reversed), low: state.low ?? 0, high: state.high ?? 1 };
  $("low").value = number(colours.low).replace("−", "-");
  $("high").value = number(colours.high).replace("−", "-");
  $("map").value = map;
  $("window-width").hidden = !facts.scan || isColour() || state.quantity !== "value";
  $("window-width").textContent = `window ${number(+(colours.high - colours.low).toPrecision(4))}, level ${number(+((colours.low + colours.high) / 2).toPrecision(4))}`;
  $("percent").value = state.percent;
  $("map-row").hidden = $("reversed-row").hidden = isColour();
  const g = $("bar").getContext("2d"), n = ($("bar").width = 512);
  for (let i = 0; i < n; i++) {
    const k = 3 * Math.round((i / (n - 1)) * 1023);
    g.fillStyle = isColour() ? `rgb(${255 * i / n},${255 * i / n},${255 * i / n})` : `rgb(${colours.table[k]},${colours.table[k + 1]},${colours.table[k + 2]})`;
    g.fillRect(i, 0, 1, 14);
  }
  picture?.recolour(colours);
  panes?.recolour(colours);
}

function usualMap() {
  if (state.part === "phase") return "phase";
  return state.quantity === "value" && facts.grey ? "grey" : USUAL[state.quantity];
}

async function change(more, { range = false } = {}) {
  Object.assign(state, more);
  mark("quantities", state.quantity);
  mark("beside", state.beside);
  $("regions").checked = state.regions;
  $("directions").checked = state.directions;
  $("sure").hidden = !state.directions || !facts.directions;
  if (range) { await readRange(); recolour(); }
  await showLooks();
  if (state.line && !series) drawProfile();
  keepAddress();
  overlay();
}

function choose(quantity) {
  if (facts.lacks[quantity]) return toast(facts.lacks[quantity], 8);
  if (quantity === state.quantity) return;
  const typed = state.percent === "typed";
  change({ quantity, map: chosenMap ? state.map : null, percent: quantity === "value" ? usualRange() : typed ? "0" : "1" }, { range: true });
}

// --- the address ----------------------------------------------------------------------------------

function keepAddress() {
  clearTimeout(keepAddress.timer);
  keepAddress.timer = setTimeout(() => history.replaceState(null, "", address()), 120);
}

function address() {
  const told = { ...state };
  if (state.percent !== "typed") delete told.low, delete told.high;
  if (state.beside === "field") delete told.beside, delete told.split;
  if (facts.plane === facts.planes[0]) delete told.plane;
  if (!isThree()) delete told.cross;
  if (facts.planes.length < 3) delete told.planes;
  if (series) Object.assign(told, { x: series.low, y: series.high });
  else Object.assign(told, picture.view);
  return write(told);
}

function follow(hash) {
  const told = read(hash), n = facts.channels.length;
  const plane = facts.planes.find((p) => String(p.axes) === String(told.plane)) ?? facts.planes[0];
  if (plane) usePlane(plane);
  delete told.plane;
  if (told.cross?.length === facts.axes.length) state.cross = told.cross;
  delete told.cross;
  if (!["one", "three"].includes(told.planes)) delete told.planes;
  if (!facts.quantities.includes(told.quantity)) delete told.quantity;
  if (!facts.methods.includes(told.beside)) delete told.beside;
  if (!(told.map in facts.maps)) delete told.map;
  if (told.at?.length !== facts.others.length) told.at = facts.others.map((k) => state.cross[k]);
  if (told.line?.length !== 4) delete told.line;
  if (told.point?.length !== facts.axes.length) delete told.point;
  if (told.channels && !told.channels.every((c) => Number.isInteger(c) && c >= 0 && c < n)) delete told.channels;
  chosenMap = "map" in told;
  const { x, y, zoom, ...rest } = told;
  Object.assign(state, rest);
  return told;
}

// --- over the picture -----------------------------------------------------------------------------

const halo = (g, text, x, y) => { g.lineWidth = 3.5; g.strokeStyle = "#000b"; g.strokeText(text, x, y); g.fillStyle = "#fff"; g.fillText(text, x, y); };

function overlay() {
  if (series) return;
  const [g, w, h] = cleared($("overlay"));
  g.font = "12px system-ui, sans-serif";
  if (isThree() && picture.isOpen) drawCross(g, picture, cross(), w, h);
  drawDirections(g);
  drawTicks(g, w, h);
  drawBar(g, w, h);
  if (picture.isOpen) drawLetters(g, picture, w, h);
  drawLine(g);
  drawPoint(g);
}

function drawTicks(g, w, h) {
  const { rows, columns } = picture.window, [r, c] = facts.plane.axes;
  g.textBaseline = "middle"; g.textAlign = "left";
  for (const { index, text } of axes[r].ticks(rows[0], rows[1], Math.max(2, h / 110))) {
    const { y } = picture.pixel(index, columns[0]);
    if (y < 40 || y > h - 52) continue;
    g.strokeStyle = "#000b"; g.lineWidth = 3; g.beginPath(); g.moveTo(0, y); g.lineTo(7, y); g.stroke();
    g.strokeStyle = "#fff"; g.lineWidth = 1.2; g.stroke();
    halo(g, text, 11, y);
  }
  g.textAlign = "center";
  for (const { index, text } of axes[c].ticks(columns[0], columns[1], Math.max(2, w / 150))) {
    const { x } = picture.pixel(rows[0], index);
    if (x < 50 || x > w - 70) continue;
    g.strokeStyle = "#000b"; g.lineWidth = 3; g.beginPath(); g.moveTo(x, h); g.lineTo(x, h - 7); g.stroke();
    g.strokeStyle = "#fff"; g.lineWidth = 1.2; g.stroke();
    halo(g, text, x, h - 16);
  }
}

/** A bar of a round length, in the unit of the columns. */
function drawBar(g, w, h) {
  const axis = axes[facts.plane.axes[1]], pixels = picture.zoom * facts.plane.squares[1];
  const each = axis.isDate || axis.listed || axis.counted ? 1 : Math.abs(axis.step);
  const length = round((110 / pixels) * each), wide = (length / each) * pixels;
  const unit = axis.isDate || axis.listed || axis.counted ? (length === 1 ? " sample" : " samples") : axis.unit === "°" ? "°" : axis.unit ? ` ${axis.unit}` : "";
  const x = w - 64 - wide, y = h - 40;
  if (!(wide > 0 && wide < w)) return;
  g.strokeStyle = "#000b"; g.lineWidth = 5; g.beginPath(); g.moveTo(x, y - 4); g.lineTo(x, y); g.lineTo(x + wide, y); g.lineTo(x + wide, y - 4); g.stroke();
  g.strokeStyle = "#fff"; g.lineWidth = 2; g.stroke();
  g.textAlign = "center"; g.textBaseline = "bottom";
  halo(g, number(length, length < 1 ? length : 0) + unit, x + wide / 2, y - 4);
}

function drawLine(g) {
  if (!state.line) return;
  const a = picture.pixel(state.line[0], state.line[1]), b = picture.pixel(state.line[2], state.line[3]);
  g.lineCap = "round";
  g.strokeStyle = "#000a"; g.lineWidth = 5; g.beginPath(); g.moveTo(a.x, a.y); g.lineTo(b.x, b.y); g.stroke();
  g.strokeStyle = "#ffd23f"; g.lineWidth = 2; g.stroke();
  for (const p of [a, b]) { g.fillStyle = "#ffd23f"; g.beginPath(); g.arc(p.x, p.y, 4.5, 0, 7); g.fill(); g.lineWidth = 1.5; g.strokeStyle = "#000a"; g.stroke(); }
  if (overlay.t !== undefined && overlay.t !== null) {
    const x = a.x + overlay.t * (b.x - a.x), y = a.y + overlay.t * (b.y - a.y);
    g.fillStyle = "#fff"; g.beginPath(); g.arc(x, y, 5, 0, 7); g.fill(); g.stroke();
  }
}

function drawPoint(g) {
  if (!state.point) return;
  const [r, c] = facts.plane.axes, p = picture.pixel(state.point[r], state.point[c]);
  for (const [colour, wide] of [["#000a", 4.5], ["#fff", 1.8]]) {
    g.strokeStyle = colour; g.lineWidth = wide; g.beginPath(); g.arc(p.x, p.y, 7, 0, 7);
    for (const [x, y] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) { g.moveTo(p.x + 7 * x, p.y + 7 * y); g.lineTo(p.x + 13 * x, p.y + 13 * y); }
    g.stroke();
  }
}

let lines = null;
async function fetchDirections() {
  lines = null;
  if (!state.directions || series) return overlay();
  const { rows, columns } = picture.window;
  try { lines = await ask(`directions?window=${[...rows, ...columns].map((v) => v.toFixed(3)).join(",")}`); } catch (error) { fail(error); }
  overlay();
}

function drawDirections(g) {
  if (!state.directions || !lines) return;
  const draw = (some, colour, wide) => {
    g.strokeStyle = colour; g.lineWidth = wide; g.lineCap = "round"; g.beginPath();
    for (const [r0, c0, r1, c1] of some) {
      const a = picture.pixel(r0, c0), b = picture.pixel(r1, c1);
      g.moveTo(a.x, a.y); g.lineTo(b.x, b.y);
    }
    g.stroke();
  };
  draw(lines, "#000a", 4);
  const step = (sure) => Math.min(SURE.length - 1, Math.floor(sure * SURE.length));
  SURE.forEach((colour, k) => draw(lines.filter((l) => step(l[4]) === k), colour, 2));
}

// --- divider --------------------------------------------------------------------------------------

function layDivider() {
  const on = state.beside !== "field" && state.quantity === "value" && !series;
  for (const id of ["divider", "left-label", "right-label"]) $(id).hidden = !on;
  if (!on) return;
  const w = $("stage").clientWidth, x = state.split * w;
  picture.split = state.split;
  $("divider").style.left = `${x}px`;
  $("divider").setAttribute("aria-valuenow", Math.round(100 * state.split));
  $("left-label").textContent = state.beside;
  $("right-label").textContent = "field";
  $("left-label").style.right = `${w - x + 12}px`;
  $("right-label").style.left = `${x + 12}px`;
  picture.clip();
  picture.viewer.forceRedraw();
}

function divide(split) {
  state.split = Math.max(0.02, Math.min(0.98, split));
  layDivider();
  keepAddress();
}

function prepareDivider() {
  const d = $("divider");
  d.addEventListener("pointerdown", (e) => { d.setPointerCapture(e.pointerId); e.preventDefault(); d.focus(); });
  d.addEventListener("pointermove", (e) => {
    if (!d.hasPointerCapture(e.pointerId)) return;
    const box = $("stage").getBoundingClientRect();
    divide((e.clientX - box.left) / box.width);
  });
  d.addEventListener("keydown", (e) => {
    const step = { ArrowLeft: -0.02, ArrowRight: 0.02 }[e.key];
    if (step) { e.preventDefault(); e.stopPropagation(); divide(state.split + step); }
  });
}

// --- profile and point ----------------------------------------------------------------------------

function prepareProfile() {
  const pen = $("pen"), button = $("profile");
  const set = (on) => { button.setAttribute("aria-pressed", String(on)); pen.classList.toggle("on", on); };
  button.onclick = () => set(button.getAttribute("aria-pressed") !== "true");
  addEventListener("keydown", (e) => { if (e.key === "Shift") pen.classList.add("on"); });
  addEventListener("keyup", (e) => { if (e.key === "Shift" && button.getAttribute("aria-pressed") !== "true") pen.classList.remove("on"); });
  let from = null;
  const place = (e) => { const box = pen.getBoundingClientRect(); return picture.place(e.clientX - box.left, e.clientY - box.top); };
  pen.addEventListener("pointerdown", (e) => { from = place(e); pen.setPointerCapture(e.pointerId); });
  pen.addEventListener("pointermove", (e) => {
    pointer(place(e));
    if (!from) return;
    const to = place(e), { low, high } = facts.plane, inside = (v, k) => Math.max(low[k], Math.min(high[k], v));
    state.line = [inside(from.row, 0), inside(from.column, 1), inside(to.row, 0), inside(to.column, 1)];
    overlay();
    if (!$("profile-panel").hidden) drawProfile(); // else it opens at the end: nothing jumps under the pen
  });
  pen.addEventListener("pointerup", (e) => {
    if (from && state.line) drawProfile();
    from = null;
    set(false);
    if (!e.shiftKey) pen.classList.remove("on");
    keepAddress();
  });
  $("profile-close").onclick = () => { state.line = null; $("profile-panel").hidden = true; keepAddress(); overlay(); };
  $("profile-plot").addEventListener("pointermove", (e) => {
    const box = $("profile-plot").getBoundingClientRect();
    overlay.t = Math.max(0, Math.min(1, (e.clientX - box.left - 68) / (box.width - 88)));
    const [a, b, c, d] = state.line ?? [];
    if (state.line) pointer(at(a + overlay.t * (c - a), b + overlay.t * (d - b)));
    overlay();
  });
  $("profile-plot").addEventListener("pointerleave", () => { overlay.t = null; overlay(); });
}

const at = (row, column) => ({ row, column, v: picture.squares(0, row), h: picture.squares(1, column), inside: true });

async function drawProfile() {
  if (drawProfile.busy) { drawProfile.again = true; return; }
  drawProfile.busy = true;
  try {
    const [a, b, c, d] = state.line;
    const data = facts.exported ? alongTiles(a, b, c, d) : await ask(`profile?${asked(look())}&line=${[a, b, c, d].map((v) => v.toFixed(6)).join(",")}`);
    $("profile-panel").hidden = false;
    const [r, k] = facts.plane.axes, wide = Math.abs(d - b) * facts.plane.squares[1] >= Math.abs(c - a) * facts.plane.squares[0];
    const axis = wide ? axes[k] : axes[r], [low, high] = wide ? [b, d] : [a, c];
    const ticks = low === high ? [] : axis.ticks(low, high, 8).map(({ index, text }) => ({ t: (index - low) / (high - low), text }));
    const spline = state.quantity === "value" ? "" : ` (${NAMES[state.quantity].toLowerCase()})`;
    plot($("profile-plot"), {
      x: data.t, curves: data.values, marks: data.marks, off: data.off, dots: data.samples, ticks, unit: facts.units + spline,
      names: state.channels.map((i) => facts.channels[i]), picture: isColour(),
    });
    drawProfile.data = data;
    const n = data.marks.length;
    $("profile-plot").setAttribute("aria-label", `Values along the line, with ${n} samples marked`);
  } catch (error) { fail(error); }
  drawProfile.busy = false;
  if (drawProfile.again && state.line) { drawProfile.again = false; drawProfile(); }
}

/** Without a server, the profile is read from the tiles at hand. */
function alongTiles(a, b, c, d) {
  const t = Array.from({ length: 400 }, (_, i) => i / 399), values = state.channels.map(() => []);
  for (const s of t) {
    const row = a + s * (c - a), column = b + s * (d - b);
    const found = picture.slots.field.at(picture.squares(0, row), picture.squares(1, column));
    state.channels.forEach((_, i) => values[i].push(found ? found.values[i] : null));
  }
  return { t, values, marks: [], samples: [] };
}

async function showPoint(index) {
  state.point = index;
  keepAddress();
  overlay();
  if (facts.exported) return;
  try {
    const p = await ask(`point?index=${index.map((v) => v.toFixed(6)).join(",")}`), unit = facts.units ? ` ${facts.units}` : "";
    const rows = facts.axes.map((a, k) => [a.name, axes[k].words(p.coords[k])]);
    const plain = (v) => (Array.isArray(v) ? `${number(v[0])} + ${number(v[1])} i` : number(v));
    facts.channels.slice(0, 8).forEach((name, c) => {
      const own = facts.channels.length > 1 ? name : "value";
      rows.push([own, p.missing ? "missing" : plain(p.value[c]) + unit]);
      if (state.channels.includes(c)) facts.axes.forEach((a, k) => {
        if (a.size > 1) rows.push([`∂ ${a.name}`, plain(p.gradient[c][k])]);
      });
    });
    rows.push(["Laplacian", plain(p.laplacian[state.channels[0]])]);
    if (p.nearest) rows.push(["nearest sample", `${plain(p.nearest[state.channels[0]])} at ${p.sample.join(", ")}`]);
    else rows.push(["nearest sample", `number ${p.sample.join(", ")}`]);
    rows.push(["region", String(p.region)]);
    $("point").replaceChildren(...rows.flatMap(([k, v]) => [element("dt", { textContent: k }), element("dd", { textContent: v })]));
    $("point-section").hidden = false;
  } catch (error) { fail(error); }
}

function fullIndex(row, column) {
  const index = new Array(facts.axes.length).fill(0);
  facts.others.forEach((k, i) => { index[k] = state.at[i]; });
  index[facts.plane.axes[0]] = row;
  index[facts.plane.axes[1]] = column;
  return index;
}

function pointer(p) {
  if (!p.inside) { $("where").textContent = " "; $("value").textContent = ""; return; }
  const [r, c] = facts.plane.axes, fine = 1 / Math.max(1, picture.zoom);
  const words = (axis, index) => axis.words(axis.coordinate(index), Math.abs(axis.step) * Math.min(1, fine));
  $("where").textContent = `${facts.axes[r].name} ${words(axes[r], p.row)}   ${facts.axes[c].name} ${words(axes[c], p.column)}`;
  const x = state.split * $("stage").clientWidth, left = !$("divider").hidden && picture.pixel(p.row, p.column).x < x;
  const found = picture.slots[left ? "beside" : "field"]?.at(p.v, p.h);
  const unit = facts.units && state.quantity !== "laplacian" && state.quantity !== "gradient" ? ` ${facts.units}` : "";
  $("value").textContent = found ? found.values.map((v) => number(v)).join("  ") + (Number.isNaN(found.values[0]) ? "" : unit) : "";
}

// --- planes of a volume ---------------------------------------------------------------------------

const isThree = () => !series && state.planes === "three" && !facts.exported && across(facts, facts.plane).length === 2;

/** All indices of where planes cross: sliders say some, the last click the others. */
function cross() {
  facts.others.forEach((k, i) => { state.cross[k] = state.at[i]; });
  return state.cross;
}

function usePlane(plane) {
  Object.assign(facts, { plane, others: plane.others });
  Object.assign(state, { plane: plane.axes, at: plane.others.map((k) => state.cross[k]) });
}

function preparePlanes() {
  const n = facts.planes.length;
  $("plane-section").hidden = n < 2;
  $("three-row").hidden = n < 3;
  $("plane").replaceChildren(...facts.planes.map((p, k) => element("option", { value: k, textContent: p.name })));
  $("plane").onchange = () => choosePlane(facts.planes[$("plane").value]);
  $("three").onchange = async () => { state.planes = $("three").checked ? "three" : "one"; layPanes(); await change({}); picture.home(); };
  panes = new Panes($("planes"), {
    failed: fail, chosen: choosePlane,
    clicked: ([r, c], row, column) => {
      const index = [...cross()];
      index[r] = row; index[c] = column;
      go(index);
    },
  });
}

/** Let all planes go through a place. */
function go(index) {
  state.cross = index;
  state.at = facts.others.map((k) => index[k]);
  prepareSliders();
  showPoint([...index]);
  return change({});
}

function layPanes() {
  $("plane").value = facts.planes.indexOf(facts.plane);
  $("three").checked = isThree();
  panes.open(facts, isThree() ? across(facts, facts.plane) : []);
  if (picture?.colours) panes.recolour(picture.colours);
}

async function choosePlane(plane) {
  if (plane === facts.plane) return;
  cross();
  usePlane(plane);
  state.line = null;
  $("profile-panel").hidden = true;
  openPicture();
  prepareSliders();
  await change({});
}

/** A picture of the plane that is chosen, in place of the one before. */
function openPicture(told = {}) {
  const colours = picture?.colours;
  layPanes(); // first: the picture fits what they leave
  picture?.close();
  const inner = element("div", { className: "pane-picture" });
  $("picture").replaceChildren(inner);
  picture = new Picture(inner, facts, {
    opened: () => { if (Number.isFinite(told.zoom)) picture.go(told); moved(); },
    changed: moved, loaded: busy, failed: fail, moved: pointer,
    clicked: (p) => { if (p.inside) { const index = fullIndex(p.row, p.column); if (isThree()) go(index); else showPoint(index); } },
  });
  picture.colours = colours ?? null;
}

// --- controls -------------------------------------------------------------------------------------

function prepareSliders() {
  playing = null;
  $("sliders").replaceChildren();
  $("sliders").hidden = !facts.others.length || Boolean(facts.exported);
  facts.others.forEach((k, i) => {
    if (facts.axes[k].size < 2) return;
    const out = element("output"), input = element("input", {
      type: "range", min: 0, max: facts.axes[k].size - 1, step: 0.25, value: state.at[i], "aria-label": facts.axes[k].name, id: `slider-${i}`,
    });
    const say = () => { out.textContent = axes[k].words(axes[k].coordinate(state.at[i]), Math.abs(axes[k].step) / 4); input.value = state.at[i]; input.setAttribute("aria-valuetext", out.textContent); };
    const go = (value) => { const next = [...state.at]; next[i] = value; state.at = next; say(); return change({}); };
    input.oninput = () => go(Number(input.value));
    const play = element("button", { type: "button", textContent: "▶", "aria-label": `Play ${facts.axes[k].name}`, id: `play-${i}` });
    play.onclick = () => {
      if (playing) { playing = null; return; }
      playing = { i };
      play.textContent = "❚❚";
      const mine = playing;
      const next = async () => {
        if (playing !== mine) { play.textContent = "▶"; return; }
        const began = performance.now(), top = facts.axes[k].size - 1;
        await go(state.at[i] + 0.25 > top ? 0 : state.at[i] + 0.25);
        setTimeout(next, Math.max(0, 70 - (performance.now() - began)));
      };
      next();
    };
    $("sliders").append(element("div", { className: "slider" },
      element("div", { className: "row" }, element("h2", { textContent: facts.axes[k].name }), out),
      element("div", { className: "row" }, play, input)));
    say();
  });
}

function prepareChannels() {
  const n = facts.channels.length;
  $("channel-section").hidden = (n < 2 && !facts.parts.length) || Boolean(facts.exported);
  if (n > 1) {
    const single = element("select", { id: "channel", "aria-label": "Channel" });
    if (n >= 3) single.append(element("option", { value: "rgb", textContent: "three as colours" }));
    facts.channels.forEach((name, c) => single.append(element("option", { value: c, textContent: name })));
    const three = ["red", "green", "blue"].map((name, i) => {
      const s = element("select", { "aria-label": `Channel shown as ${name}` });
      facts.channels.forEach((label, c) => s.append(element("option", { value: c, textContent: label })));
      s.onchange = () => change({ channels: three.map((t) => Number(t.value)) }, { range: true });
      s.value = state.channels[i] ?? Math.min(i, n - 1);
      return s;
    });
    const rows = element("div", { className: "row" }, ...three);
    single.value = state.channels.length >= 3 ? "rgb" : state.channels[0];
    rows.hidden = single.value !== "rgb" || facts.picture;
    single.onchange = () => {
      rows.hidden = single.value !== "rgb" || facts.picture;
      const channels = single.value === "rgb" ? three.map((t) => Number(t.value)) : [Number(single.value)];
      change({ channels, percent: state.percent === "typed" ? "0" : state.percent }, { range: true });
    };
    $("channel-row").append(element("label", { className: "row", style: "flex:1" }, "Show ", single));
    $("channel-section").append(rows);
  }
  if (facts.parts.length) {
    $("part-row").hidden = false;
    $("part").append(...facts.parts.map((p) => element("option", { value: p, textContent: p })));
    $("part").value = state.part;
    $("part").onchange = () => change({ part: $("part").value, percent: "0" }, { range: true });
  }
}

function prepareColours() {
  $("map").append(...Object.keys(facts.maps).map((m) => element("option", { value: m, textContent: m })));
  $("map").onchange = () => { chosenMap = true; state.map = $("map").value; recolour(); keepAddress(); };
  $("reversed").checked = state.reversed;
  $("reversed").onchange = () => { state.reversed = $("reversed").checked; recolour(); keepAddress(); };
  $("percent").onchange = () => { state.percent = $("percent").value; if (quantiles && state.percent !== "typed") setPercent(); recolour(); keepAddress(); };
  for (const id of ["low", "high"]) $(id).onchange = () => {
    const v = parseFloat($(id).value.replace("−", "-").replace(",", "."));
    if (Number.isFinite(v)) Object.assign(state, { [id]: v, percent: "typed" });
    recolour();
    keepAddress();
  };
}

function prepareDownloads() {
  if (!facts.formats.length || series) return;
  $("download-section").hidden = false;
  const names = { ".png": "PNG", ".nc": "NetCDF", ".tif": "GeoTIFF", ".npy": "NumPy" };
  $("formats").append(...facts.formats.map((f) => element("button", {
    type: "button", textContent: names[f] ?? f, "data-format": f,
    onclick: async () => {
      try {
        const response = await fetch(downloadAddress(f));
        if (!response.ok) throw await asError(response);
        const name = decodeURIComponent(/filename\*=UTF-8''(\S+)/.exec(response.headers.get("Content-Disposition"))[1]);
        const link = element("a", { href: URL.createObjectURL(await response.blob()), download: name });
        link.click();
        setTimeout(() => URL.revokeObjectURL(link.href), 10000);
        toast(`${name} is yours`);
      } catch (error) { fail(error); }
    },
  })));
  $("scale").oninput = saySize;
}

function downloadAddress(format) {
  const { rows, columns } = picture.window, limits = [state.low, state.high].map((v) => v.toPrecision(9)).join(",");
  return `download?${asked(look())}&format=${format}&window=${[...rows, ...columns].map((v) => v.toFixed(6)).join(",")}`
    + `&scale=${Number($("scale").value)}&colours=${state.map ?? usualMap()}&limits=${limits}`;
}

function saySize() {
  if (series || !facts.formats.length) return;
  const { rows, columns } = picture.window, s = Number($("scale").value) || 0;
  $("size").textContent = `What is seen now: ${Math.max(1, Math.round((rows[1] - rows[0]) * s))} × ${Math.max(1, Math.round((columns[1] - columns[0]) * s))}`;
}

function prepareButtons() {
  $("closer").onclick = () => (series ? series.scale(0.5) : picture.closer(2));
  $("farther").onclick = () => (series ? series.scale(2) : picture.closer(0.5));
  $("home").onclick = () => (series ? series.go(...series.ends) : picture.home());
  $("regions").onchange = () => change({ regions: $("regions").checked });
  $("directions").onchange = async () => { await change({ directions: $("directions").checked }); fetchDirections(); };
  $("error-close").onclick = () => { $("error").hidden = true; };
  $("help").onclick = () => $("keys").showModal();
  $("theme").onclick = () => theme(document.documentElement.dataset.theme === "light" ? "dark" : "light");
  $("link").onclick = async () => {
    history.replaceState(null, "", address());
    try { await navigator.clipboard.writeText(location.href); toast("Address copied"); } catch { toast("The address bar has it"); }
  };
  $("panel-button").onclick = () => {
    const closed = $("controls").classList.toggle("closed");
    $("panel-button").setAttribute("aria-expanded", String(!closed));
  };
  if (innerWidth <= 720) $("panel-button").onclick();
}

function theme(name) {
  document.documentElement.dataset.theme = name;
  try { localStorage.setItem("elmfield-theme", name); } catch { /* a private window */ }
  if (state.line && !series) drawProfile();
  series?.draw();
}

function key(e) {
  if (e.ctrlKey || e.metaKey || e.altKey || /INPUT|SELECT|TEXTAREA/.test(e.target.tagName) || $("keys").open) return;
  const next = (list, now) => list[(list.indexOf(now) + 1) % list.length];
  const nudge = (step) => {
    const i = facts.others.findIndex((k) => facts.axes[k].size > 1), input = i < 0 ? null : $(`slider-${i}`);
    if (input) { input.value = Number(input.value) + step; input.oninput(); }
  };
  const moves = { ArrowLeft: [-0.2, 0], ArrowRight: [0.2, 0], ArrowUp: [0, -0.2], ArrowDown: [0, 0.2] };
  const acts = {
    "+": () => $("closer").onclick(), "=": () => $("closer").onclick(), "-": () => $("farther").onclick(), "0": () => $("home").onclick(),
    c: () => !series && change({ beside: next(facts.methods, state.beside) }), p: () => $("profile").onclick(),
    m: () => { chosenMap = true; state.map = next(Object.keys(facts.maps), state.map ?? usualMap()); recolour(); keepAddress(); },
    r: () => !series && change({ regions: !state.regions }), d: () => facts.directions && $("directions").click(),
    "[": () => nudge(-1), "]": () => nudge(1), " ": () => document.querySelector("[id^=play-]")?.onclick(),
    v: () => !series && choosePlane(next(facts.planes, facts.plane)), x: () => facts.planes.length > 2 && $("three").click(),
    l: () => $("link").onclick(), t: () => $("theme").onclick(), "?": () => $("keys").showModal(),
    Enter: () => { if (!series && e.target.tagName !== "BUTTON") { const v = picture.view; showPoint(fullIndex(v.y, v.x)); } },
  };
  if (/BUTTON|A/.test(e.target.tagName) && (e.key === " " || e.key === "Enter")) return;
  if (moves[e.key]) {
    const [x, y] = moves[e.key];
    if (series) series.go(series.low + x * (series.high - series.low), series.high + x * (series.high - series.low));
    else picture.move(x, y);
  } else if (/^[1-5]$/.test(e.key) && offered()[e.key - 1]) choose(offered()[e.key - 1]);
  else if (acts[e.key]) acts[e.key]();
  else return;
  e.preventDefault();
}

// --- begin ----------------------------------------------------------------------------------------

function moved() {
  overlay();
  const z = picture.zoom / Math.max(...facts.plane.squares);
  $("zoom").textContent = z >= 1 ? `${number(+z.toPrecision(3))} pixels to a sample` : `${number(+(1 / z).toPrecision(3))} samples to a pixel`;
  clearTimeout(moved.timer);
  moved.timer = setTimeout(() => { keepAddress(); saySize(); if (state.directions) fetchDirections(); describe(); }, 160);
}

function describe() {
  const { rows, columns } = picture.window, [r, c] = facts.plane.axes, say = (k, ends) => `${facts.axes[k].name} ${ends.map((v) => axes[k].words(axes[k].coordinate(v))).join(" to ")}`;
  $("picture").setAttribute("aria-label", `${NAMES[state.quantity]} of ${facts.title}: ${say(r, rows)}, ${say(c, columns)}`);
}

function busy() { $("busy").hidden = !picture.isDraft || picture.zoom > 1; }

/** Quantities, and after them those of which the page says why they are not there. */
const offered = () => [...facts.quantities, ...Object.keys(facts.lacks)];

function introduce() {
  document.title = `${facts.title} · elmfield`;
  $("title").textContent = facts.title;
  const sizes = facts.axes.map((a) => a.size).join(" × ");
  $("about").textContent = [facts.name && facts.name !== facts.title ? facts.name : "", sizes + (facts.channels.length > 1 ? `, ${facts.channels.length} channels` : ""), facts.units].filter(Boolean).join(" · ");
  $("n-regions").textContent = `(${facts.regions.toLocaleString("en")})`;
  $("foot").textContent = `${facts.coefficients.toLocaleString("en")} coefficients · ${facts.settings}`;
  $("directions-row").hidden = !facts.directions;
  $("sure").querySelector("i").style.background = `linear-gradient(90deg, ${SURE.map((c, k) => `${c} ${20 * k}% ${20 * k + 20}%`).join(", ")})`;
  choices("quantities", Object.fromEntries(offered().map((q) => [q, NAMES[q]])), state.quantity, choose);
  for (const b of $("quantities").children) {
    const why = facts.lacks[b.dataset.key];
    if (why) { b.title = why; b.setAttribute("aria-disabled", "true"); }
  }
  choices("beside", Object.fromEntries(facts.methods.map((m) => [m, TITLES[m]])), state.beside, (beside) => change({ beside }));
}

async function begin() {
  let kept = null;
  try { kept = localStorage.getItem("elmfield-theme"); } catch { /* a private window */ }
  document.documentElement.dataset.theme = kept ?? (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark");
  facts = window.exportedFacts ?? await ask("facts.json");
  axes = facts.axes.map((a) => new Axis(a));
  state.cross = [...facts.cross];
  state.at = facts.others.map((k) => state.cross[k]);
  state.planes = facts.scan ? "three" : "one";
  state.channels = facts.exported?.channels ?? (facts.picture ? [0, 1, 2] : [0]);
  state.part = facts.parts[0] ?? null;
  const told = follow(location.hash);
  introduce();
  prepareColours();
  prepareButtons();
  prepareChannels();
  preparePlanes();
  prepareSliders();
  addEventListener("keydown", key);
  if (facts.series) beginSeries(told); else beginPicture(told);
  recolour();
  const first = state.low === null ? readRange().then(recolour) : readRange();
  await Promise.all([first, showLooks()]);
  if (state.line && !series) drawProfile();
  if (state.point) showPoint(state.point);
  if (state.directions) fetchDirections();
  change({});
}

function beginSeries(told) {
  for (const id of ["picture", "overlay", "profile", "compare-section", "overlay-section"]) $(id).hidden = true;
  $("bar").closest("section").hidden = true;
  series = new Series($("series"), facts, {
    failed: fail,
    loaded: () => { $("zoom").textContent = series.zoomWords; keepAddress(); },
    clicked: (i) => { const index = facts.axes.map(() => 0); index[facts.along] = i; facts.others.forEach((k, j) => { index[k] = state.at[j]; }); state.point = index; showPoint(index); },
    moved: (i) => {
      $("where").textContent = `${series.axis.name} ${series.axis.words(series.axis.coordinate(i))}`;
      $("value").textContent = (series.value(i) ?? []).map((v) => number(v)).join("  ") + (facts.units ? ` ${facts.units}` : "");
    },
  });
  if (Number.isFinite(told.x) && told.y > told.x) { series.low = told.x; series.high = told.y; }
}

function beginPicture(told) {
  openPicture(told);
  prepareDivider();
  prepareProfile();
  prepareDownloads();
  new ResizeObserver(() => { layDivider(); overlay(); if (state.line) drawProfile(); }).observe($("stage"));
  $("picture").addEventListener("pointerleave", () => pointer({ inside: false }));
}

addEventListener("hashchange", () => {
  const before = facts.plane, told = follow(location.hash);
  if (picture && facts.plane !== before) { openPicture(told); prepareSliders(); }
  else if (picture) { layPanes(); if (Number.isFinite(told.zoom)) picture.go(told); }
  change({}, { range: true });
});

// For tests and for the curious.
window.elmfield = { state, get facts() { return facts; }, get picture() { return picture; }, get panes() { return panes; }, get series() { return series; } };

begin().catch(fail);
