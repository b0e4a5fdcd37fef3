// A series, or sound: a curve one can zoom into; far out the mean, and a band from lowest to highest.

"use strict";

class Series {
  constructor(canvas, facts, told) {
    Object.assign(this, { canvas, facts, told, look: null, data: null, colours: null });
    this.axis = new Axis(facts.axes[facts.along]);
    this.ends = [-0.5, this.axis.size - 0.5];
    this.low = this.ends[0];
    this.high = this.ends[1];
    canvas.hidden = false;
    canvas.addEventListener("wheel", (e) => {
      e.preventDefault();
      this.scale(1.25 ** Math.sign(e.deltaY), this.at(e));
    }, { passive: false });
    let from = null;
    canvas.addEventListener("pointerdown", (e) => { from = { x: e.clientX, low: this.low, high: this.high, moved: false }; canvas.setPointerCapture(e.pointerId); });
    canvas.addEventListener("pointermove", (e) => {
      told.moved(this.index(e));
      if (!from) return;
      const shift = ((from.x - e.clientX) / this.frame.w) * (from.high - from.low);
      from.moved ||= Math.abs(from.x - e.clientX) > 3;
      if (from.moved) this.go(from.low + shift, from.high + shift);
    });
    canvas.addEventListener("pointerup", (e) => { if (from && !from.moved) told.clicked(this.index(e)); from = null; });
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  at(e) {
    const box = this.canvas.getBoundingClientRect();
    return (e.clientX - box.left - this.frame.left) / this.frame.w;
  }

  index(e) { return this.low + Math.max(0, Math.min(1, this.at(e))) * (this.high - this.low); }

  get frame() {
    const box = this.canvas.getBoundingClientRect();
    return { left: 68, w: Math.max(1, box.width - 88) };
  }

  scale(factor, t = 0.5) {
    const span = Math.min(this.ends[1] - this.ends[0], Math.max(1, (this.high - this.low) * factor));
    const fixed = this.low + t * (this.high - this.low);
    this.go(fixed - t * span, fixed + (1 - t) * span);
  }

  go(low, high) {
    const span = Math.min(high - low, this.ends[1] - this.ends[0]);
    this.low = Math.max(this.ends[0], Math.min(low, this.ends[1] - span));
    this.high = this.low + span;
    this.draw();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.load(), 40);
  }

  async show(look) { this.look = look; await this.load(); }

  async load() {
    this.abort?.abort();
    this.abort = new AbortController();
    try {
      if (this.facts.exported) this.data = this.facts.exported.series;
      else {
        const n = Math.round(Math.min(4000, Math.max(200, this.frame.w)));
        const margin = 0; // what is drawn is what is asked for
        const url = `series?${asked(this.look)}&between=${this.low - margin},${this.high + margin}&n=${n}`;
        const response = await fetch(url, { signal: this.abort.signal });
        if (!response.ok) throw await asError(response);
        this.data = await response.json();
      }
      this.draw();
      this.told.loaded();
    } catch (error) { if (error.name !== "AbortError") this.told.failed(error); }
  }

  /** Value of the first channel at an index, from what is drawn. */
  value(index) {
    if (!this.data) return null;
    const { at, values } = this.data;
    let a = 0, b = at.length - 1;
    while (b - a > 1) { const m = (a + b) >> 1; if (at[m] <= index) a = m; else b = m; }
    return values.map((v) => v[index - at[a] < at[b] - index ? a : b]);
  }

  draw() {
    if (!this.data) return;
    const t = (i) => (i - this.low) / (this.high - this.low), { data } = this;
    const inside = data.at.map((i, k) => (i >= this.low - 1 && i <= this.high + 1 ? k : -1)).filter((k) => k >= 0);
    const pick = (list) => inside.map((k) => list[k]);
    const some = data.samples ? data.samples.at.map((i, k) => (i >= this.low && i <= this.high ? k : -1)).filter((k) => k >= 0) : [];
    const coarse = data.at.length > 1 && data.at[1] - data.at[0] > 1.001;
    plot(this.canvas, {
      x: pick(data.at).map(t), curves: data.values.map(pick), picture: false, names: this.look.channels.map((c) => this.facts.channels[c]),
      bands: coarse ? { low: data.low.map(pick), high: data.high.map(pick) } : null,
      marks: some.map((k) => t(data.samples.at[k])), dots: data.samples ? data.samples.values.map((v) => some.map((k) => v[k])) : [],
      ticks: this.axis.ticks(this.low, this.high, 7).map(({ index, text }) => ({ t: t(index), text })), unit: this.facts.units,
    });
    this.canvas.setAttribute("aria-label", `${this.facts.title} from ${this.axis.words(this.axis.coordinate(this.low))} to ${this.axis.words(this.axis.coordinate(this.high))}`);
  }

  get zoomWords() {
    const z = this.frame.w / (this.high - this.low);
    return z >= 1 ? `${number(+z.toPrecision(3))} pixels to a sample` : `${number(+(1 / z).toPrecision(3))} samples to a pixel`;
  }
}
