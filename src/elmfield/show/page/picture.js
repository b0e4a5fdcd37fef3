// The picture: layers of tiles under OpenSeadragon, which moves and zooms. Places are told in
// squares from the top left corner (see plane.py), or as indices of the field's axes.

"use strict";

let layers = 0;

/** One look, tile by tile, with its numbers at hand. */
class Layer {
  constructor(picture, look, name) {
    Object.assign(this, { picture, look, name, id: ++layers, tiles: new Map(), drafts: new Set(), item: null });
  }

  source() {
    const { facts } = this.picture, plane = facts.plane;
    const finest = this.picture.finest(this.look), scale = 2 ** (plane.finest - finest);
    const [height, width] = plane.pixels.map((n) => Math.ceil(n * scale));
    const source = new window.OpenSeadragon.TileSource({
      width, height, tileSize: plane.tile, tileOverlap: 0, minLevel: 0, maxLevel: plane.coarsest - finest,
    });
    const level = (l) => plane.coarsest - l;
    source.getTileUrl = (l, x, y) => this.picture.address(this.look, level(l), y, x);
    source.getTileHashKey = (l, x, y) => `${this.id}/${l}/${x}/${y}`;
    source.hasTransparency = () => this.name === "regions";
    source.downloadTileStart = (job) => {
      const { level: l, x, y } = job.tile;
      job.userData.abort = new AbortController();
      this.load(level(l), y, x, job.userData.abort.signal).then(
        (made) => job.finish(made.context, null, "context2d"),
        (error) => {
          if (error.name !== "AbortError") this.picture.failed(error);
          job.fail(error.message, null);
        });
    };
    source.downloadTileAbort = (job) => job.userData.abort?.abort();
    return source;
  }

  async load(level, row, column, signal) {
    const tile = await fetchTile(this.picture.address(this.look, level, row, column), signal);
    const canvas = document.createElement("canvas");
    canvas.width = tile.columns;
    canvas.height = tile.rows;
    const made = { level, row, column, tile, context: canvas.getContext("2d", { willReadFrequently: true }) };
    this.tiles.set(`${level}/${row}/${column}`, made);
    if (tile.draft) this.drafts.add(made);
    paint(made.context, tile, this.picture.colours);
    this.picture.loaded();
    return made;
  }

  repaint() {
    for (const made of this.tiles.values()) paint(made.context, made.tile, this.picture.colours);
  }

  /** Ask again for tiles that were first looks; whether some still are. */
  async better() {
    for (const made of [...this.drafts]) {
      let tile = null;
      try { tile = await fetchTile(this.picture.address(this.look, made.level, made.row, made.column)); } catch { /* asked for again when it is seen */ }
      if (tile) {
        made.tile = tile;
        paint(made.context, tile, this.picture.colours);
        this.picture.viewer.forceRedraw();
      }
      if (!tile?.draft) this.drafts.delete(made);
    }
    return this.drafts.size > 0;
  }

  /** Numbers at a place, from the closest tile at hand. */
  at(v, h) {
    const { plane } = this.picture.facts;
    for (let level = plane.finest; level <= plane.coarsest; level++) {
      const size = 2 ** level, j = Math.floor(h / size), i = Math.floor(v / size);
      const made = this.tiles.get(`${level}/${Math.floor(i / plane.tile)}/${Math.floor(j / plane.tile)}`);
      if (!made) continue;
      const { rows, columns, channels, values } = made.tile;
      const r = Math.min(rows - 1, i % plane.tile), c = Math.min(columns - 1, j % plane.tile);
      const start = (r * columns + c) * channels;
      return { level, values: Array.from(values.subarray(start, start + channels)) };
    }
    return null;
  }
}

class Picture {
  /** `told` has opened(), changed(), loaded(), failed(error), clicked(place), moved(place). */
  constructor(element, facts, told) {
    Object.assign(this, { facts, told, colours: null, slots: {}, split: 0.5 });
    [this.height, this.width] = facts.plane.size;
    this.viewer = window.OpenSeadragon({
      element, drawer: "canvas", showNavigationControl: false, showNavigator: false,
      minZoomImageRatio: 0.7, maxZoomPixelRatio: facts.exported ? 4 : 1, visibilityRatio: 0.35, minPixelRatio: 0.71, preserveImageSizeOnResize: true,
      animationTime: 0.5, springStiffness: 9, zoomPerScroll: 1.35, imageLoaderLimit: 6, timeout: 120000,
      maxImageCacheCount: 260, immediateRender: false, blendTime: 0, drawerOptions: { canvas: {} },
      gestureSettingsMouse: { clickToZoom: false, dblClickToZoom: true, flickEnabled: true },
      gestureSettingsTouch: { clickToZoom: false, dblClickToZoom: true, pinchRotate: false },
    });
    this.viewer.addHandler("update-viewport", () => { this.clip(); this.told.changed(); });
    this.viewer.addHandler("canvas-click", (e) => {
      if (e.quick && !e.originalEvent.shiftKey) this.told.clicked(this.place(e.position.x, e.position.y));
    });
    this.viewer.addHandler("canvas-key", (e) => { e.preventDefaultAction = true; });
    this.viewer.addHandler("tile-unloaded", ({ tile, tiledImage }) => {
      const layer = Object.values(this.slots).find((l) => l?.item === tiledImage);
      const key = `${facts.plane.coarsest - tile.level}/${tile.y}/${tile.x}`;
      layer?.tiles.delete(key);
    });
    element.addEventListener("pointermove", (e) => {
      const box = element.getBoundingClientRect();
      this.told.moved(this.place(e.clientX - box.left, e.clientY - box.top));
    });
  }

  address(look, level, row, column) {
    if (this.facts.exported) return `tiles/${look.quantity}-${look.method}/${level}/${row}_${column}.js`;
    return `tile/${level}/${row}/${column}?${asked(look)}`;
  }

  finest(look) {
    const own = this.facts.exported?.layers[`${look.quantity}-${look.method}`];
    return own ? own.finest : this.facts.plane.finest;
  }

  // --- layers -----------------------------------------------------------------------------------

  /** Show a look in a slot ("field", "beside", "regions"); null for nothing. */
  show(slot, look) {
    const old = this.slots[slot];
    if (!look) {
      if (old?.item) this.viewer.world.removeItem(old.item);
      this.slots[slot] = null;
      this.viewer.forceRedraw();
      return Promise.resolve();
    }
    if (old && JSON.stringify(old.look) === JSON.stringify(look)) return Promise.resolve();
    const layer = (this.slots[slot] = new Layer(this, look, slot));
    return new Promise((resolve) => {
      this.viewer.addTiledImage({
        tileSource: layer.source(), x: 0, y: 0, width: 1, index: this.position(slot, old),
        success: ({ item }) => {
          layer.item = item;
          if (!this.isOpen) { this.isOpen = true; this.told.opened(); }
          const stale = this.slots[slot] !== layer;
          if (stale) { this.viewer.world.removeItem(item); resolve(); return; }
          this.clip();
          const done = () => {
            if (old?.item && this.viewer.world.getIndexOfItem(old.item) >= 0) this.viewer.world.removeItem(old.item);
            resolve();
          };
          if (item.getFullyLoaded()) done();
          else {
            item.addOnceHandler("fully-loaded-change", done);
            setTimeout(done, 6000);
          }
        },
      });
    });
  }

  position(slot, old) {
    const { world } = this.viewer, order = ["field", "beside", "regions"];
    if (old?.item) return world.getIndexOfItem(old.item) + 1;
    let index = 0;
    for (const name of order.slice(0, order.indexOf(slot))) {
      const item = this.slots[name]?.item;
      if (item) index = Math.max(index, world.getIndexOfItem(item) + 1);
    }
    return Math.min(index, world.getItemCount());
  }

  recolour(colours) {
    this.colours = colours;
    for (const layer of Object.values(this.slots)) layer?.repaint();
    this.viewer.forceRedraw();
  }

  loaded() {
    this.told.loaded();
    const drafts = Object.values(this.slots).some((l) => l?.drafts.size);
    if (drafts && !this.waiting) this.waiting = setTimeout(() => this.refresh(), 250);
  }

  async refresh() {
    let more = false;
    for (const layer of Object.values(this.slots)) more = (layer && (await layer.better())) || more;
    this.waiting = more ? setTimeout(() => this.refresh(), 400) : null;
    this.viewer.forceRedraw();
    this.told.loaded();
  }

  get isDraft() { return Object.values(this.slots).some((l) => l?.drafts.size); }

  get isLoaded() {
    return Object.values(this.slots).every((l) => !l || (l.item && l.item.getFullyLoaded())) && !this.isDraft;
  }

  failed(error) { this.told.failed(error); }

  /** Show nothing any more; what is on its way is dropped. */
  close() {
    clearTimeout(this.waiting);
    this.slots = {};
    this.told = { opened() {}, changed() {}, loaded() {}, failed() {}, clicked() {}, moved() {} };
    this.viewer.destroy();
    this.viewer.forceRedraw = () => {};
  }

  /** The spline is seen to the left of the divider. */
  clip() {
    const item = this.slots.beside?.item;
    if (!item) return;
    const size = item.getContentSize(), box = this.viewer.viewport.getContainerSize();
    const at = this.viewer.viewport.pointFromPixel(new window.OpenSeadragon.Point(this.split * box.x, 0), true);
    const x = Math.max(0, Math.min(1, at.x)) * size.x;
    item.setClip(new window.OpenSeadragon.Rect(0, 0, Math.max(x, 0.001), size.y));
    item.setOpacity(x > 0.01 ? 1 : 0);
  }

  // --- places -----------------------------------------------------------------------------------

  /** A place under a pixel of the stage: {v, h, row, column, inside}. */
  place(x, y) {
    const p = this.viewer.viewport.pointFromPixel(new window.OpenSeadragon.Point(x, y), true);
    const h = p.x * this.width, v = p.y * this.width;
    const inside = h >= 0 && v >= 0 && h <= this.width && v <= this.height;
    return { v, h, row: this.index(0, v), column: this.index(1, h), inside };
  }

  index(side, squares) {
    const { flipped, squares: size, low, high } = this.facts.plane, at = squares / size[side];
    return flipped[side] ? high[side] - at : low[side] + at;
  }

  squares(side, index) {
    const { flipped, squares: size, low, high } = this.facts.plane;
    return (flipped[side] ? high[side] - index : index - low[side]) * size[side];
  }

  /** The pixel of the stage at indices of row and column. */
  pixel(row, column) {
    const h = this.squares(1, column), v = this.squares(0, row);
    const P = window.OpenSeadragon.Point;
    return this.viewer.viewport.pixelFromPoint(new P(h / this.width, v / this.width), true);
  }

  /** Screen pixels to a square. */
  get zoom() {
    const { viewport } = this.viewer;
    return (viewport.getZoom(true) * viewport.getContainerSize().x) / this.width;
  }

  get view() {
    const c = this.viewer.viewport.getCenter(false);
    const { viewport } = this.viewer;
    return {
      x: this.index(1, c.x * this.width), y: this.index(0, c.y * this.width),
      zoom: (viewport.getZoom(false) * viewport.getContainerSize().x) / this.width,
    };
  }

  go({ x, y, zoom }, immediately = true) {
    const { viewport } = this.viewer, P = window.OpenSeadragon.Point;
    viewport.zoomTo((zoom * this.width) / viewport.getContainerSize().x, null, immediately);
    viewport.panTo(new P(this.squares(1, x) / this.width, this.squares(0, y) / this.width), immediately);
  }

  closer(factor) { this.viewer.viewport.zoomBy(factor).applyConstraints(); }

  move(right, down) {
    const { viewport } = this.viewer, box = viewport.getBounds();
    viewport.panBy(new window.OpenSeadragon.Point(right * box.width, down * box.height)).applyConstraints();
  }

  home() {
    const P = window.OpenSeadragon.Rect;
    this.viewer.viewport.fitBounds(new P(0, 0, 1, this.height / this.width));
  }

  /** Indices of what the stage shows, inside the field: {rows: [a, b], columns: [a, b]}. */
  get window() {
    const box = this.viewer.viewport.getContainerSize();
    const a = this.place(0, 0), b = this.place(box.x, box.y), { low, high } = this.facts.plane;
    const part = (p, q, k) => [Math.min(p, q), Math.max(p, q)].map((t) => Math.max(low[k], Math.min(high[k], t)));
    return { rows: part(a.row, b.row, 0), columns: part(a.column, b.column, 1) };
  }
}

/** A look as the words of a question. */
function asked(look) {
  const words = new URLSearchParams({ quantity: look.quantity, method: look.method ?? "field", channels: look.channels.join(",") });
  if (look.part) words.set("part", look.part);
  if (look.plane) words.set("plane", look.plane.join(","));
  if (look.at?.length) words.set("at", look.at.map((v) => +v.toFixed(6)).join(","));
  return words.toString().replaceAll("%2C", ",");
}
