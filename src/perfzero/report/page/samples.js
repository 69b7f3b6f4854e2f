/* Samples: unpacked when they are needed, and summed up for the pixels of a plot. */

const unpacked = new Map();

/** Bytes of a base64 text. */
function bytesOf(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

async function inflated(id) {
  const node = document.getElementById(id);
  const stream = new Blob([bytesOf(node.textContent)]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** The tables of GPU number `place` by name: { start, end, line(column) }, times in seconds. */
function tablesOf(place) {
  if (!unpacked.has(place)) unpacked.set(place, unpack(place));
  return unpacked.get(place);
}

async function unpack(place) {
  const directory = found.gpus[place].samples;
  const bytes = await inflated(`data-samples-${place}`);
  const tables = {};
  for (const [name, entry] of Object.entries(directory)) {
    const { rows } = entry;
    const start = new Float64Array(rows);
    const end = new Float64Array(rows);
    let at = entry.first_us;
    for (let i = 0; i < rows; i++) {
      at += number(bytes, entry.at, rows, i, TIME_BYTES);
      start[i] = at / 1e6;
      end[i] = (at + number(bytes, entry.at + TIME_BYTES * rows, rows, i, TIME_BYTES)) / 1e6;
    }
    const lines = new Map();
    const line = (column) => {
      if (!lines.has(column) && entry.columns[column]) {
        lines.set(column, new Line(start, end, valuesOf(bytes, entry.columns[column], rows)));
      }
      return lines.get(column);
    };
    tables[name] = { start, end, line, merged: entry.merged };
  }
  return tables;
}

/** Number `i` of `rows` that lie in planes of bytes, the highest first. */
function number(bytes, at, rows, i, width) {
  let value = 0;
  for (let plane = 0; plane < width; plane++) value = value * 256 + bytes[at + plane * rows + i];
  return value;
}

const TIME_BYTES = 6;
const STEPS = 1000;
const MISSING = 0xffff;

function valuesOf(bytes, column, rows) {
  const values = new Float32Array(rows);
  const step = (column.high - column.low) / STEPS;
  for (let i = 0; i < rows; i++) {
    const count = number(bytes, column.at, rows, i, 2);
    values[i] = count === MISSING ? NaN : column.low + count * step;
  }
  return values;
}

const FAN = 16;

/**
 * A column with sums over blocks of 16, 256, 4096... samples: a plot of a million samples
 * reads some tens of them for each pixel, at any zoom.
 */
class Line {
  constructor(start, end, values) {
    Object.assign(this, { start, end, values });
    this.levels = [];
    let below = { n: values.length, sum: null };
    for (let size = FAN; size <= values.length; size *= FAN) {
      below = this.#level(size, below);
      this.levels.unshift(below);
    }
  }

  #level(size, below) {
    const n = Math.floor(this.values.length / size);
    const level = { size, n, sum: new Float64Array(n), seconds: new Float64Array(n),
      low: new Float32Array(n), high: new Float32Array(n) };
    for (let block = 0; block < n; block++) {
      let sum = 0, seconds = 0, low = Infinity, high = -Infinity;
      for (let k = block * FAN; k < (block + 1) * FAN; k++) {
        if (below.sum) {
          sum += below.sum[k]; seconds += below.seconds[k];
          low = Math.min(low, below.low[k]); high = Math.max(high, below.high[k]);
        } else {
          const value = this.values[k];
          if (value !== value) continue;
          const length = this.end[k] - this.start[k];
          sum += value * length; seconds += length;
          low = Math.min(low, value); high = Math.max(high, value);
        }
      }
      level.sum[block] = sum; level.seconds[block] = seconds;
      level.low[block] = low; level.high[block] = high;
    }
    return level;
  }

  /** The first sample that ends after `time`. */
  #after(time) {
    let low = 0, high = this.end.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end[middle] <= time) low = middle + 1; else high = middle;
    }
    return low;
  }

  /**
   * Fill mean, low and high where they are null: for each of their places, which share
   * [from, to) evenly, the samples that lie in it, weighted by time.
   */
  fill(from, to, mean, low, high, scale) {
    const n = mean.length, width = (to - from) / n;
    const { start, end, values, levels } = this;
    let first = this.#after(from);
    for (let place = 0; place < n && first < values.length; place++) {
      const left = from + place * width, right = left + width;
      while (first < values.length && end[first] <= left) first++;
      if (mean[place] !== null) continue;
      let sum = 0, seconds = 0, least = Infinity, most = -Infinity, j = first;
      next: while (j < values.length && start[j] < right) {
        for (const level of levels) {
          const block = j / level.size;
          if (Number.isInteger(block) && block < level.n && end[j + level.size - 1] <= right && start[j] >= left) {
            sum += level.sum[block]; seconds += level.seconds[block];
            least = Math.min(least, level.low[block]); most = Math.max(most, level.high[block]);
            j += level.size;
            continue next;
          }
        }
        const value = values[j];
        if (value === value) {
          const part = Math.min(right, end[j]) - Math.max(left, start[j]);
          sum += value * part; seconds += part;
          least = Math.min(least, value); most = Math.max(most, value);
        }
        j++;
      }
      if (seconds > 0) {
        mean[place] = sum / seconds * scale; low[place] = least * scale; high[place] = most * scale;
      }
      if (j - 1 > first) first = j - 1;
    }
  }
}
