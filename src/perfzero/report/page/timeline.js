/* The timeline: all tracks on one axis. What is drawn is made anew for each view, a value per pixel. */

const LEFT = Math.round(56 * TYPE), RIGHT = 10;
const FIRST = new Set(['busy', 'memory', 'memory_share', 'pcie', 'launches', 'host', 'power', 'clock']);
const FINEST_S = 5e-5;
const CLASSES = ['tensor', 'fma', 'memory', 'communication', 'copy', 'small_grid', 'latency', 'idle'];

function timelineSection(gpu, place) {
  const node = section('timeline', el('div', {}), true);
  node.classList.add('timeline');
  const body = node.querySelector('.body');
  if (!gpu.tracks.length) {
    body.append(el('p', { class: 'why' }, say('no_samples')));
  } else {
    body.style.setProperty('min-height', '30rem');
    unpackedIn(node, body, async () => {
      const tables = await tablesOf(place);
      if (node.isConnected) new Timeline(gpu, tables, body);
    });
  }
  return node;
}

class Timeline {
  constructor(gpu, tables, body) {
    Object.assign(this, { gpu, tables, body, plots: [], pending: false });
    page.timeline = this;
    this.whole = { from: 0, to: Math.max(gpu.duration_s, 1e-3) };
    this.view = { ...this.whole };
    this.sync = uPlot.sync(`timeline-${gpu.index}`);
    this.box = el('div', { class: 'plots wide', tabindex: 0, role: 'group', 'aria-label': say('sec_timeline') });
    this.range = el('output', { 'aria-live': 'off' });
    this.overview = el('canvas', { class: 'lanes overview', height: 44, 'aria-hidden': 'true' });
    this.classes = el('canvas', { class: 'lanes', height: 46, 'aria-hidden': 'true' });
    this.classes.hidden = !tables.classes;
    this.lanes = el('canvas', { class: 'lanes', height: 40, 'aria-hidden': 'true' });
    body.style.removeProperty('min-height');
    body.append(this.#tools(), this.box, this.#legend());
    this.box.append(this.overview, this.lanes, this.classes);
    this.#tracks(false);
    this.#gestures();
    new ResizeObserver(() => this.#resize()).observe(this.box);
    page.redraw.add(() => { for (const { u } of this.plots) u.redraw(false, true); this.#draw(); });
    addEventListener('beforeprint', () => this.#resize());
  }

  /* What stands around the plots */

  #tools() {
    const button = (label, title, act) => el('button', { type: 'button', title, 'aria-label': title, onclick: act }, label);
    const steady = this.gpu.marks.find((m) => m.kind === 'judged');
    const fine = this.gpu.marks.filter((m) => m.kind === 'zoom' && m.end > m.start).at(-1);
    const rest = this.gpu.tracks.some((t) => !FIRST.has(t.name));
    const more = rest && el('button', { type: 'button', 'aria-expanded': 'false', onclick: () => {
      const open = more.getAttribute('aria-expanded') === 'false';
      more.setAttribute('aria-expanded', String(open));
      more.textContent = say(open ? 'fewer_tracks' : 'more_tracks');
      this.#tracks(open);
    } }, say('more_tracks'));
    return el('div', { class: 'tools wide' },
      button('+', say('zoom_in'), () => this.zoom(0.5)), button('−', say('zoom_out'), () => this.zoom(2)),
      el('button', { type: 'button', onclick: () => this.show(this.whole) }, say('zoom_all')),
      steady && el('button', { type: 'button', onclick: () => this.show({ from: steady.start, to: steady.end }) }, say('zoom_steady')),
      fine && el('button', { type: 'button', onclick: () => this.show({ from: fine.start, to: fine.end }) }, say('zoom_fine')),
      el('span', { class: 'space' }), this.range, more);
  }

  #legend() {
    const present = new Set(this.gpu.marks.map((m) => m.kind));
    const merged = this.tables.pm?.merged ?? 1;
    return el('p', { class: 'marks wide' },
      ['window', 'zoom', 'gap', 'warm_up'].filter((k) => present.has(k)).map((k) =>
        el('span', {}, el('i', { class: `key m-${k}` }), say(`mark_${k}`))),
      this.tables.classes && CLASSES.filter((k) => this.gpu.time.some((c) => c.class === k)).map((k) =>
        el('span', {}, el('i', { class: `key k-${k}` }), this.gpu.class_names[k])),
      el('span', {}, say('band')), merged > 1 && el('span', {}, say('mean_of', merged)));
  }

  /* Plots */

  #tracks(all) {
    for (const { u, node } of this.plots) { u.destroy(); node.remove(); }
    const tracks = this.gpu.tracks.filter((t) => all || FIRST.has(t.name));
    this.plots = tracks.map((track, i) => this.#plot(track, i === tracks.length - 1));
    this.#draw();
  }

  #plot(track, last) {
    const node = el('div', { class: 'plot' });
    const columns = [...new Set(track.lines.map((l) => l.column))];
    const outputs = [];
    const head = el('header', {}, el('b', {}, track.title), el('em', {}, track.unit),
      track.lines.map((line, i) => {
        const output = el('output', {}, '');
        outputs[i] = output;
        if (line.faint) return null;
        const mark = el('i', { class: columns.indexOf(line.column) === 3 ? 'dash' : null });
        const paint = () => mark.style.setProperty('border-color', colour(`c${columns.indexOf(line.column) % 4}`));
        paint();
        page.redraw.add(paint);
        return el('span', { class: 'legend' }, mark, line.label, output);
      }),
      track.roof_label && el('span', { class: 'legend' }, el('i', { class: 'dash' }), track.roof_label));
    node.append(head);
    this.box.append(node);
    const height = Math.round(((track.name === 'busy' ? 156 : 90) + (last ? 34 : 0)) * TYPE);
    const alone = (u, si) => isolated(u.data[si]);
    const lines = [];
    const series = [{}];
    const bands = [];
    track.lines.forEach((line) => {
      const name = `c${columns.indexOf(line.column) % 4}`;
      const stroke = () => (line.faint ? `${colour(name)}70` : colour(name));
      const at = series.length;
      series.push(
        { scale: 'y', points: { show: true, size: 3.5, width: 0, fill: stroke, filter: alone }, stroke,
          width: line.faint ? 1 : 1.5, dash: columns.indexOf(line.column) === 3 ? [5, 3] : undefined },
        { scale: 'y', points: { show: false }, stroke: () => 'transparent', width: 0 },
        { scale: 'y', points: { show: false }, stroke: () => 'transparent', width: 0 });
      if (!line.faint) bands.push({ series: [at + 2, at + 1], fill: () => `${colour(name)}2e` });
      lines.push(line);
    });
    const axis = { stroke: () => colour('faint'), font: axisFont(), ticks: { show: false } };
    const top = track.top ?? this.#highest(track) * 1.06;
    const u = new uPlot({
      width: this.#width(), height, padding: [6, RIGHT, last ? 0 : 7, 0], legend: { show: false }, bands,
      cursor: { sync: { key: this.sync.key, setSeries: false }, y: false, drag: { x: true, y: false, setScale: false, dist: 4 },
        points: { show: false }, bind: { dblclick: () => () => { this.show(this.whole); return null; } } },
      scales: { x: { time: false }, y: { range: [0, top || 1] } },
      axes: [
        { ...axis, show: last, size: 34 * TYPE, space: 70 * TYPE, grid: { stroke: () => colour('grid'), width: 1 },
          values: (_, ticks, axis, space, step) => ticks.map((s) => figureAt(s, step)) },
        { ...axis, size: LEFT, space: 26 * TYPE, grid: { stroke: () => colour('grid'), width: 1 },
          values: (_, ticks) => ticks.map((v) => figure(v)) },
      ],
      series,
      hooks: {
        setSelect: [(self) => this.#selected(self)],
        setCursor: [(self) => this.#pointed(self, outputs, lines)],
        draw: [(self) => drawRoof(self, track.roof)],
      },
    }, empty(series.length), node);
    this.sync.sub(u);
    return { track, u, node, lines, height };
  }

  #highest(track) {
    let most = track.roof ?? 0;
    for (const line of track.lines) {
      for (const table of line.tables) {
        const column = this.gpu.samples[table]?.columns[line.column];
        if (column) most = Math.max(most, column.high * track.scale);
      }
    }
    return most;
  }

  #width() {
    const style = getComputedStyle(this.box);
    return Math.max(200, this.box.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
  }

  #resize() {
    const width = this.#width();
    for (const { u, height } of this.plots) u.setSize({ width, height });
    this.#draw();
  }

  /* The view */

  show({ from, to }) {
    const least = Math.min(this.whole.to, FINEST_S);
    let length = Math.min(Math.max(to - from, least), this.whole.to);
    const start = Math.min(Math.max(0, (from + to - length) / 2), this.whole.to - length);
    this.view = { from: start, to: start + length };
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.#draw(); });
  }

  zoom(factor, at = (this.view.from + this.view.to) / 2) {
    const { from, to } = this.view;
    this.show({ from: at - (at - from) * factor, to: at + (to - at) * factor });
  }

  pan(share) {
    const { from, to } = this.view;
    const by = (to - from) * share;
    const held = Math.min(Math.max(by, -from), this.whole.to - to);
    this.show({ from: from + held, to: to + held });
  }

  #draw() {
    const { from, to } = this.view;
    const n = Math.max(50, Math.round(this.#width() - LEFT - RIGHT));
    const at = Array.from({ length: n }, (_, i) => from + (i + 0.5) * (to - from) / n);
    for (const { track, u, lines } of this.plots) {
      const data = [at];
      for (const line of lines) data.push(...this.#summed(line, track.scale, from, to, n));
      u.batch(() => { u.setData(data, false); u.setScale('x', { min: from, max: to }); });
    }
    this.range.textContent = `${moment(from, to - from)} – ${moment(to, to - from)}`;
    this.#drawOverview();
    this.#drawLanes();
    if (this.tables.classes) this.#drawClasses();
    this.body.dataset.view = `${from} ${to}`;
  }

  #summed(line, scale, from, to, n) {
    const nothing = () => new Array(n).fill(null);
    const mean = nothing(), low = nothing(), high = nothing();
    for (const table of line.tables) this.tables[table]?.line(line.column)?.fill(from, to, mean, low, high, scale);
    return [mean, low, high];
  }

  #pointed(u, outputs, lines) {
    const { idx } = u.cursor;
    lines.forEach((line, i) => {
      const value = idx === null || idx === undefined ? null : u.data[1 + 3 * i][idx];
      // A sampled value takes the place of GPM's under one label.
      const shown = lines.findIndex((l) => l.column === line.column && !l.faint);
      if (line.faint) {
        const exact = idx === null || idx === undefined ? null : u.data[1 + 3 * shown][idx];
        if (exact === null) outputs[shown].textContent = value === null ? '' : figure(value);
      } else outputs[i].textContent = value === null || value === undefined ? '' : figure(value);
    });
    // A faint line stands before its exact one: write it after that has had its turn.
    lines.forEach((line, i) => {
      if (!line.faint) return;
      const shown = lines.findIndex((l) => l.column === line.column && !l.faint);
      const value = idx === null || idx === undefined ? null : u.data[1 + 3 * i][idx];
      if (outputs[shown].textContent === '' && value !== null && value !== undefined) outputs[shown].textContent = `${figure(value)} ~`;
    });
  }

  #selected(u) {
    const { left, width } = u.select;
    if (width < 4) return;
    const from = u.posToVal(left, 'x'), to = u.posToVal(left + width, 'x');
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.show({ from, to });
  }

  /* Gestures: wheel, pinch, Shift and drag, keys */

  #timeAt(clientX) {
    const box = this.lanes.getBoundingClientRect();
    const share = (clientX - box.left - LEFT) / Math.max(1, box.width - LEFT - RIGHT);
    return this.view.from + Math.min(1, Math.max(0, share)) * (this.view.to - this.view.from);
  }

  #gestures() {
    const { box } = this;
    box.addEventListener('wheel', (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) {
        event.preventDefault();
        this.zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) / 100), this.#timeAt(event.clientX));
      } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        this.pan((event.deltaX || event.deltaY) / this.#width());
      }
    }, { passive: false });
    box.addEventListener('keydown', (event) => {
      const act = { '+': () => this.zoom(0.5), '=': () => this.zoom(0.5), '-': () => this.zoom(2), '0': () => this.show(this.whole),
        ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2), Home: () => this.pan(-1e9), End: () => this.pan(1e9),
      }[event.key];
      if (!act || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      act();
    });
    // Before uPlot sees it: with Shift, or with two fingers, it is no selection.
    box.addEventListener('mousedown', (event) => {
      if (!event.shiftKey || event.target === this.overview) return;
      event.stopPropagation();
      event.preventDefault();
      let last = event.clientX;
      const move = (e) => { this.pan((last - e.clientX) / (this.#width() - LEFT - RIGHT)); last = e.clientX; };
      addEventListener('mousemove', move);
      addEventListener('mouseup', () => removeEventListener('mousemove', move), { once: true });
    }, { capture: true });
    const fingers = new Map();
    box.addEventListener('pointerdown', (e) => { if (e.pointerType === 'touch' && e.target !== this.overview) fingers.set(e.pointerId, e.clientX); });
    box.addEventListener('pointermove', (e) => {
      if (!fingers.has(e.pointerId)) return;
      const before = [...fingers.values()];
      const times = before.map((x) => this.#timeAt(x));
      fingers.set(e.pointerId, e.clientX);
      const now = [...fingers.values()];
      if (now.length === 1) this.pan((before[0] - now[0]) / (this.#width() - LEFT - RIGHT));
      else if (now.length === 2) {
        const apart = Math.abs(now[0] - now[1]);
        if (apart > 8) this.zoom(Math.abs(before[0] - before[1]) / apart, (times[0] + times[1]) / 2);
      }
    });
    for (const kind of ['pointerup', 'pointercancel', 'pointerleave']) box.addEventListener(kind, (e) => fingers.delete(e.pointerId));
    const jump = (event) => {
      const rect = this.overview.getBoundingClientRect();
      const share = (event.clientX - rect.left - LEFT) / Math.max(1, rect.width - LEFT - RIGHT);
      const half = (this.view.to - this.view.from) / 2;
      const middle = Math.min(Math.max(share * this.whole.to, half), this.whole.to - half);
      this.show({ from: middle - half, to: middle + half });
    };
    this.overview.addEventListener('pointerdown', (event) => { this.overview.setPointerCapture(event.pointerId); jump(event); });
    this.overview.addEventListener('pointermove', (event) => { if (event.buttons) jump(event); });
    this.lanes.addEventListener('pointermove', (event) => this.#explainLane(event));
    this.classes.addEventListener('pointermove', (event) => this.#explainClasses(event));
    for (const lane of [this.lanes, this.classes]) lane.addEventListener('pointerleave', hideTooltip);
  }

  /* Lanes */

  #surface(canvas, height) {
    const width = this.#width(), ratio = devicePixelRatio || 1;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    const brush = canvas.getContext('2d');
    brush.scale(ratio, ratio);
    brush.clearRect(0, 0, width, height);
    brush.font = axisFont();
    return { brush, width: width - LEFT - RIGHT };
  }

  #drawOverview() {
    const { brush, width } = this.#surface(this.overview, 44);
    const line = this.gpu.tracks[0].lines;
    const n = Math.round(width);
    const first = line.filter((l) => l.column === line[0].column);
    const mean = new Array(n).fill(null), low = new Array(n).fill(null), high = new Array(n).fill(null);
    for (const part of [...first].reverse()) {
      for (const table of part.tables) this.tables[table]?.line(part.column)?.fill(0, this.whole.to, mean, low, high, 1);
    }
    const top = this.#highest(this.gpu.tracks[0]) / this.gpu.tracks[0].scale || 1;
    brush.fillStyle = `${colour('c0')}66`;
    for (let i = 0; i < n; i++) if (mean[i] !== null) brush.fillRect(LEFT + i, 36 - 32 * mean[i] / top, 1, 32 * mean[i] / top);
    const from = LEFT + this.view.from / this.whole.to * width, to = LEFT + this.view.to / this.whole.to * width;
    brush.fillStyle = `${colour('paper')}b0`;
    brush.fillRect(LEFT, 0, from - LEFT, 38);
    brush.fillRect(to, 0, LEFT + width - to, 38);
    brush.strokeStyle = colour('soft');
    brush.lineWidth = 1.5;
    brush.strokeRect(from, 1, Math.max(3, to - from), 36);
  }

  #drawLanes() {
    const { brush, width } = this.#surface(this.lanes, 40);
    const { from, to } = this.view;
    const x = (s) => LEFT + (s - from) / (to - from) * width;
    brush.save();
    brush.beginPath();
    brush.rect(LEFT, 0, width, 40);
    brush.clip();
    const styles = { window: `${colour('c0')}59`, gap: colour('bad'), zoom: colour('k-small_grid') };
    const bar = (mark, y, height, style, least = 1) => {
      brush.fillStyle = style;
      brush.fillRect(x(mark.start), y, Math.max(least, x(mark.end) - x(mark.start)), height);
    };
    for (const kind of ['warm_up', 'window', 'zoom', 'gap']) {
      for (const mark of this.gpu.marks) {
        if (mark.kind !== kind || mark.end < from || mark.start > to) continue;
        bar(mark, 4, 13, kind === 'warm_up' ? hatched(brush) : styles[kind], kind === 'zoom' ? 2 : 1);
      }
    }
    for (const mark of this.gpu.marks) {
      if (mark.kind === 'rare') bar(mark, 4, 13, `${colour('c1')}cc`, 3);
      if (mark.kind === 'judged') bar(mark, 18, 2, colour('ink'));
      if (mark.kind !== 'stage') continue;
      const shade = Math.round(40 + 150 * Math.min(1, mark.level ?? 0)).toString(16).padStart(2, '0');
      bar(mark, 23, 13, `${colour('c2')}${shade}`);
      brush.fillStyle = colour('card');
      brush.fillRect(x(mark.end) - 0.75, 23, 1.5, 13);
    }
    brush.restore();
    brush.fillStyle = colour('faint');
    brush.textAlign = 'right';
    brush.textBaseline = 'middle';
    brush.fillText(say('lane_windows'), LEFT - 8, 11);
    if (this.gpu.marks.some((m) => m.kind === 'stage')) brush.fillText(say('lane_stages'), LEFT - 8, 30);
  }

  /** What the time was, pixel by pixel, as a stack of classes; what is idle stays empty. */
  #drawClasses() {
    const { brush, width } = this.#surface(this.classes, 46);
    const { from, to } = this.view;
    const n = Math.max(1, Math.round(width)), top = 2, height = 40;
    this.parts = CLASSES.map((name) => {
      const nothing = () => new Array(n).fill(null);
      const mean = nothing();
      const low = nothing(), high = nothing();
      for (const table of ['fine_classes', 'classes']) this.tables[table]?.line(`time_${name}`)?.fill(from, to, mean, low, high, 1);
      return { name, mean };
    });
    const base = new Array(n).fill(top + height);
    brush.fillStyle = `${colour('hatch')}30`;
    this.parts.at(-1).mean.forEach((value, i) => { if (value !== null) brush.fillRect(LEFT + i, top, 1, height); });
    for (const { name, mean } of this.parts) {
      if (name === 'idle') continue;
      brush.fillStyle = colour(`k-${name}`);
      for (let i = 0; i < n; i++) {
        if (!mean[i]) continue;
        const part = mean[i] * height;
        base[i] -= part;
        brush.fillRect(LEFT + i, base[i], 1, part);
      }
    }
    brush.fillStyle = colour('faint');
    brush.textAlign = 'right';
    brush.textBaseline = 'middle';
    brush.fillText(say('lane_classes'), LEFT - 8, top + height / 2);
  }

  #explainClasses(event) {
    const place = Math.floor(event.offsetX - LEFT);
    const parts = (this.parts ?? []).map(({ name, mean }) => [name, mean[place]]).filter(([, share]) => share >= 0.005).sort((a, b) => b[1] - a[1]);
    if (!parts.length) { hideTooltip(); return; }
    tooltipAt(event.clientX, event.clientY, parts.map(([name, share]) => `${this.gpu.class_names[name]} ${percent(share)}`).join('\n'));
  }

  #explainLane(event) {
    const at = this.#timeAt(event.clientX);
    const near = (this.view.to - this.view.from) / this.#width() * 3;
    const lower = event.offsetY > 20;
    const mark = this.gpu.marks.filter((m) => (m.kind === 'stage' || m.kind === 'judged') === lower && m.kind !== 'judged'
      && at >= m.start - near && at <= m.end + near).sort((a, b) => (a.end - a.start) - (b.end - b.start))[0];
    if (!mark) { hideTooltip(); return; }
    const words = mark.kind === 'stage'
      ? say('mark_stage', mark.label + 1, mark.level === null ? '–' : `${figure(mark.level * 100)} %`) : mark.kind === 'rare' ? say('mark_rare', mark.name) : say(`mark_${mark.kind}`);
    const span = Math.max(mark.end - mark.start, 1e-6);
    tooltipAt(event.clientX, event.clientY, `${words} · ${moment(mark.start, span)} – ${moment(mark.end, span)}`);
  }
}

/** Places of values with no neighbour, which no line would show. */
function isolated(values) {
  const found = [];
  for (let i = 0; i < values.length; i++) {
    if (values[i] !== null && (values[i - 1] ?? null) === null && (values[i + 1] ?? null) === null) found.push(i);
  }
  return found;
}

const empty = (n) => Array.from({ length: n }, () => [0]);
const axisFont = () => `${11 * TYPE}px ${getComputedStyle(document.body).fontFamily}`;

/** A tick of an axis whose ticks are `step` apart, with the digits that these need. */
function figureAt(seconds, step) {
  let digits = 0;
  while (digits < 9 && Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-6) digits++;
  return seconds.toFixed(digits);
}

function drawRoof(u, roof) {
  if (roof === null || roof === undefined || roof > u.scales.y.max) return;
  const y = u.valToPos(roof, 'y', true);
  const { ctx } = u;
  ctx.save();
  ctx.strokeStyle = colour('faint');
  ctx.setLineDash([6, 4]);
  ctx.lineWidth = devicePixelRatio;
  ctx.beginPath();
  ctx.moveTo(u.bbox.left, y);
  ctx.lineTo(u.bbox.left + u.bbox.width, y);
  ctx.stroke();
  ctx.restore();
}

function hatched(brush) {
  const tile = document.createElement('canvas');
  tile.width = tile.height = 6;
  const pen = tile.getContext('2d');
  pen.strokeStyle = colour('hatch');
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(-1, 7);
  pen.lineTo(7, -1);
  pen.stroke();
  return brush.createPattern(tile, 'repeat');
}
