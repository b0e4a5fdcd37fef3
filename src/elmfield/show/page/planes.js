// Volumes: which plane is shown, the two planes across it, letters of a patient, windows of scans.

"use strict";

/** Level and width of usual windows of a CT, in Hounsfield units. */
const CT = { brain: [40, 80], "soft tissue": [40, 400], liver: [60, 160], lung: [-600, 1500], bone: [400, 1800] };
const AIR = -900; // a scan without a modality that reaches this is taken for a CT

/** Ranges of values of a scan by name: the file's own, and those of a CT. */
function windowsOf(facts, quantiles) {
  const own = facts.windows.map((ends, k) => [facts.windows.length > 1 ? `file ${k + 1}` : "file", ends]);
  const isCT = facts.modality === "CT" || /^(HU|hounsfield)/i.test(facts.units) || (facts.scan && !facts.modality && quantiles?.[0][0] <= AIR);
  const usual = isCT ? Object.entries(CT).map(([name, [level, width]]) => [name, [level - width / 2, level + width / 2]]) : [];
  return Object.fromEntries([...own, ...usual]);
}

/** The two planes that share one more axis with a plane; none where there is no such axis. */
function across(facts, plane) {
  const isPatient = Boolean(plane.letters), long = plane.others.filter((k) => facts.axes[k].size > 1 && (!isPatient || k < 3));
  const third = long[long.length - 1];
  return plane.axes.slice().reverse().map((k) => facts.planes.find((p) => p.axes.includes(k) && p.axes.includes(third))).filter(Boolean);
}

/** Letters of a patient at the four sides of a picture, as far as they are seen. */
function drawLetters(g, picture, w, h) {
  const { letters, low, high, flipped } = picture.facts.plane;
  if (!letters) return;
  const ends = (k) => (flipped[k] ? [high[k], low[k]] : [low[k], high[k]]);
  const a = picture.pixel(ends(0)[0], ends(1)[0]), b = picture.pixel(ends(0)[1], ends(1)[1]), inside = (v, least, most) => Math.max(least, Math.min(most, v));
  const top = inside(a.y + 16, 18, h), bottom = inside(b.y - 16, 0, h - 40), left = inside(a.x + 16, 78, w), right = inside(b.x - 16, 0, w - 60);
  if (bottom < top || right < left) return;
  g.save();
  g.font = "bold 15px system-ui, sans-serif"; g.textAlign = "center"; g.textBaseline = "middle";
  const x = (left + right) / 2, y = (top + bottom) / 2;
  [[x, top], [x, bottom], [left, y], [right, y]].forEach(([u, v], k) => halo(g, letters[k], u, v));
  g.restore();
}

/** Lines through a place, along rows and columns of a picture; open around the place itself. */
function drawCross(g, picture, index, w, h) {
  const [r, c] = picture.facts.plane.axes, p = picture.pixel(index[r], index[c]), open = 14;
  g.strokeStyle = "#5ec9a5d0"; g.lineWidth = 1; g.beginPath();
  for (const [x0, y0, x1, y1] of [[0, p.y, p.x - open, p.y], [p.x + open, p.y, w, p.y], [p.x, 0, p.x, p.y - open], [p.x, p.y + open, p.x, h]]) { g.moveTo(x0, y0); g.lineTo(x1, y1); }
  g.stroke();
}

/** A canvas as large as it is seen, cleared: its context, width and height. */
function cleared(canvas) {
  const ratio = window.devicePixelRatio || 1, w = canvas.clientWidth, h = canvas.clientHeight;
  if (canvas.width !== Math.round(w * ratio) || canvas.height !== Math.round(h * ratio)) { canvas.width = Math.round(w * ratio); canvas.height = Math.round(h * ratio); }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, w, h);
  g.lineJoin = "round";
  return [g, w, h];
}

/** The planes across the one that is shown, each with its own picture; a click moves all of them. */
class Panes {
  /** `told` has failed(error), clicked(axes, row, column), chosen(plane), drawn(). */
  constructor(box, told) { Object.assign(this, { box, told, panes: [] }); }

  open(facts, planes) {
    this.close();
    this.panes = planes.map((plane) => {
      const picture = element("div", { className: "pane-picture" }), canvas = element("canvas", { "aria-hidden": "true" });
      const button = element("button", { type: "button", textContent: `${plane.name} ⤢`, title: `Show ${plane.name} large`, onclick: () => this.told.chosen(plane) });
      this.box.append(element("div", { className: "pane", role: "group", "aria-label": plane.name }, picture, canvas, button));
      const draw = () => this.draw();
      const shown = new Picture(picture, { ...facts, plane }, {
        opened: draw, changed: draw, loaded: draw, failed: this.told.failed, moved: () => {},
        clicked: (p) => p.inside && this.told.clicked(plane.axes, p.row, p.column),
      });
      return { plane, canvas, picture: shown };
    });
    this.box.hidden = !this.panes.length;
  }

  close() {
    for (const { picture } of this.panes) picture.close();
    this.panes = [];
    this.box.replaceChildren();
    this.box.hidden = true;
  }

  show(look, index) {
    this.index = index;
    const shown = this.panes.map(({ plane, picture }) => picture.show("field", { ...look, plane: plane.axes, at: plane.others.map((k) => index[k]) }));
    return Promise.all(shown).then(() => this.draw());
  }

  recolour(colours) { for (const { picture } of this.panes) picture.recolour(colours); }

  draw() {
    for (const { canvas, picture } of this.panes) {
      if (!picture.isOpen || !this.index) continue;
      const [g, w, h] = cleared(canvas);
      drawCross(g, picture, this.index, w, h);
      drawLetters(g, picture, w, h);
    }
  }
}
