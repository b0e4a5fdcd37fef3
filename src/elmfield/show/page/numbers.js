// Tiles: fetched, unpacked, coloured. Numbers stay at hand, so that colours change at once.

"use strict";

const GONE = 65535;

/** Numbers of a packed tile: {rows, columns, channels, values, draft, mask}. */
function unpack(buffer) {
  const head = new DataView(buffer);
  const kind = head.getUint8(4), channels = head.getUint8(5);
  const rows = head.getUint16(8, true), columns = head.getUint16(10, true);
  const low = head.getFloat32(12, true), high = head.getFloat32(16, true);
  const n = rows * columns * channels;
  let values;
  if (kind === 0) values = new Float32Array(buffer, 20, n);
  else if (kind === 2) values = new Uint8Array(buffer, 20, n);
  else {
    const bytes = new Uint8Array(buffer, 20), whole = new Uint16Array(n), step = (high - low) / (GONE - 1);
    for (let i = 0; i < n; i++) { const z = bytes[i] | (bytes[n + i] << 8); whole[i] = (z >> 1) ^ -(z & 1); }
    for (let times = head.getUint8(7); times > 0; times--) { // sums of differences, row by row
      for (let r = 0, i = 0; r < rows; r++) {
        i += channels;
        for (const end = (r + 1) * columns * channels; i < end; i++) whole[i] += whole[i - channels];
      }
    }
    values = new Float32Array(n);
    for (let i = 0; i < n; i++) values[i] = whole[i] === GONE ? NaN : low + whole[i] * step;
  }
  return { rows, columns, channels, values, draft: head.getUint8(6) === 1, mask: kind === 2 };
}

/** What a server says went wrong, as an Error. */
async function asError(response) {
  let text = `${response.status} ${response.statusText}`;
  try { text = (await response.json()).error || text; } catch { /* no words of its own */ }
  const error = new Error(text);
  error.status = response.status;
  return error;
}

/** A tile from the server, or from a script beside the page. */
async function fetchTile(url, signal) {
  if (url.endsWith(".js")) return loadTile(url, signal);
  const response = await fetch(url, { signal });
  if (!response.ok) throw await asError(response);
  return unpack(await response.arrayBuffer());
}

/** A tile of an exported page: browsers load scripts beside a page that was opened as a file, but refuse to fetch there. */
async function loadTile(url, signal) {
  const script = document.createElement("script");
  script.src = url;
  await new Promise((done, failed) => {
    script.onload = done;
    script.onerror = () => failed(new Error(`${url} cannot be read`));
    document.head.append(script);
  }).finally(() => script.remove());
  signal?.throwIfAborted();
  const data = Uint8Array.from(atob(script.data), (c) => c.charCodeAt(0));
  const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("gzip"));
  return unpack(await new Response(stream).arrayBuffer());
}

/** 1024 colours between the stops of a map, as bytes. */
function table(stops, reversed = false) {
  const n = 1024, out = new Uint8Array(3 * n), last = stops.length - 1;
  for (let i = 0; i < n; i++) {
    const t = (reversed ? n - 1 - i : i) / (n - 1) * last;
    const k = Math.min(last - 1, Math.floor(t)), f = t - k;
    for (let c = 0; c < 3; c++) out[3 * i + c] = Math.round(stops[k][c] * (1 - f) + stops[k + 1][c] * f);
  }
  return out;
}

/** Missing: a quiet checkerboard, which no colour map has. */
function missing(pixels, i, at, width) {
  const x = at % width, y = (at / width) | 0, dark = ((x >> 3) + (y >> 3)) & 1;
  pixels[i] = pixels[i + 1] = pixels[i + 2] = dark ? 112 : 128;
  pixels[i + 3] = 255;
}

/** Paint a tile's numbers on its canvas. `colours` is {table, low, high, log}. */
function paint(context, tile, colours) {
  const { rows, columns, channels, values } = tile;
  const image = context.createImageData(columns, rows), pixels = image.data;
  const n = rows * columns;
  if (tile.mask) {
    for (let k = 0, i = 0; k < n; k++, i += 4) {
      if (values[k]) { pixels[i] = 255; pixels[i + 1] = 210; pixels[i + 2] = 63; pixels[i + 3] = 215; }
    }
  } else if (channels >= 3) {
    const span = 255 / (colours.high - colours.low || 1);
    for (let k = 0, i = 0, j = 0; k < n; k++, i += 4, j += channels) {
      if (values[j] === Infinity) continue;
      if (Number.isNaN(values[j])) { missing(pixels, i, k, columns); continue; }
      for (let c = 0; c < 3; c++) pixels[i + c] = (values[j + c] - colours.low) * span + 0.5;
      pixels[i + 3] = 255;
    }
  } else {
    const { table: t, low } = colours, span = 1023 / (colours.high - low || 1);
    for (let k = 0, i = 0, j = 0; k < n; k++, i += 4, j += channels) {
      const v = values[j];
      if (v === Infinity) continue; // not yet
      if (Number.isNaN(v)) { missing(pixels, i, k, columns); continue; }
      let at = (v - low) * span + 0.5 | 0;
      at = 3 * (at < 0 ? 0 : at > 1023 ? 1023 : at);
      pixels[i] = t[at]; pixels[i + 1] = t[at + 1]; pixels[i + 2] = t[at + 2]; pixels[i + 3] = 255;
    }
  }
  context.putImageData(image, 0, 0);
}
