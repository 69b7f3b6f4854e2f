/* One step of the program, folded; and how the lengths of steps scatter. */

const WORK = { idle: 'k-idle', copy: 'k-copy', collective: 'k-communication', gemm: 'k-tensor', attention: 'k-tensor pale', fp32_gemm: 'k-fma',
  fp64: 'k-fma', memory: 'k-memory', elementwise: 'k-memory pale', optimizer: 'k-copy', tiny_kernels: 'k-small_grid', small_grids: 'k-small_grid', mixed: 'k-latency', unknown: 'k-idle' };

const PROFILE_LEFT = Math.round(46 * TYPE);

function stepSection(gpu) {
  if (!gpu.phases) {
    return gpu.no_phases ? section('step', el('p', { class: 'why' }, say('no_map', gpu.no_phases)), false) : null;
  }
  const { phases } = gpu;
  const shown = el('div', { class: 'phase', 'aria-live': 'polite' });
  const band = el('div', { class: 'stack phases', role: 'group', 'aria-label': say('sec_step') }, phases.phases.map((phase, i) => el('button', {
    type: 'button', class: WORK[phase.kind], style: { flex: `${phase.end - phase.start} 1 0` }, 'aria-pressed': 'false',
    title: `${phase.name} ${phase.length}`, onclick: () => choose(i), onfocus: () => choose(i), onpointerenter: () => choose(i),
  }, phase.end - phase.start > 0.08 && el('span', {}, el('b', {}, phase.length), phase.name))));
  const choose = (place) => {
    [...band.children].forEach((node, i) => node.setAttribute('aria-pressed', String(i === place)));
    const phase = phases.phases[place];
    shown.replaceChildren(el('p', {}, el('b', {}, phase.name), ` · ${phase.length} · ${phase.share} · ${phase.sure_text}`, phase.because.length > 0 && `: ${phase.because.join(', ')}`),
      el('p', { class: 'lead' }, phase.made_of.map((part) => `${part.name} ${part.text}`).join(' · ')));
  };
  const longest = phases.phases.reduce((best, p, i, all) => (p.end - p.start > all[best].end - all[best].start ? i : best), 0);
  const node = section('step', [
    el('dl', { class: 'facts' }, pair(say('step_length'), gpu.rhythm.step ?? phases.step), gpu.rhythm.interval && pair(say('step_interval'), gpu.rhythm.interval),
      gpu.rhythm.jitter && pair(say('step_jitter'), gpu.rhythm.jitter), pair(say('step_laid'), phases.steps), pair(say('step_left_out'), phases.left_out),
      gpu.rhythm.micro && pair(say('step_micro'), gpu.rhythm.micro)),
    band, shown, gpu.profile && drawnIn(el('div', { class: 'profiles' }), (width) => gpu.profile.map((track) => profile(track, phases.phases, width))),
    gpu.profile && el('p', { class: 'marks' }, say('profile_band'))]);
  choose(longest);
  return node;
}

function pair(label, words) {
  return el('div', {}, el('dt', {}, label), el('dd', {}, words));
}

function profile(track, phases, w) {
  const h = 116, left = PROFILE_LEFT, bottom = 6;
  const top = track.top ?? roundUp(Math.max(...track.lines.flatMap((line) => [...line.high, ...line.mean].filter(known)), 1e-9));
  const x = (share) => left + share * (w - left);
  const y = (value) => h - bottom - Math.min(1, value / top) * (h - bottom - 8);
  const picture = svg('svg', { viewBox: `0 0 ${w} ${h}`, width: w, height: h, class: 'drawing', role: 'img', 'aria-label': track.title });
  for (const value of [0, top / 2, top]) picture.append(svg('line', { class: 'grid', x1: left, x2: w, y1: y(value), y2: y(value) }),
    svg('text', { class: 'tick', x: left - 6, y: y(value) + 4, 'text-anchor': 'end' }, figure(value)));
  for (const phase of phases.slice(1)) picture.append(svg('line', { class: 'edge', x1: x(phase.start), x2: x(phase.start), y1: 0, y2: h }));
  track.lines.forEach((line, i) => {
    const bins = line.mean.length;
    const at = (place) => x((place + 0.5) / bins);
    const stretch = (values) => values.map((v, b) => (known(v) ? `${at(b).toFixed(1)},${y(v).toFixed(1)}` : null)).filter(Boolean);
    picture.append(svg('polygon', { points: [...stretch(line.high), ...stretch(line.low).reverse()].join(' '), fill: `var(--c${i % 4})`, opacity: 0.14 }),
      svg('polyline', { points: stretch(line.mean).join(' '), fill: 'none', stroke: `var(--c${i % 4})`, 'stroke-width': 2 }));
  });
  return el('figure', {}, el('figcaption', {}, el('b', {}, track.title), ` ${track.unit} `, track.lines.map((line, i) =>
    el('span', { class: 'legend' }, el('i', { style: { 'border-color': `var(--c${i % 4})` } }), line.label))), picture);
}

/* The lengths of steps: over time, and how many are how long. */

function timesSection(gpu, place) {
  // That there are no steps has been said of the map already.
  if (!gpu.step_times && gpu.no_phases) return null;
  if (!gpu.step_times) {
    return section('times', el('p', { class: 'why' }, gpu.rhythm.why ? say('no_step_times', gpu.rhythm.why) : say('no_step_times_at_all')), false);
  }
  const node = section('times', [
    el('dl', { class: 'facts' }, gpu.step_times.figures.map(([label, words]) => pair(label, words))),
    el('div', { class: 'scatter' }),
    gpu.rhythm.events.length > 0 && el('ul', { class: 'plain' }, gpu.rhythm.events.map((event) => el('li', {},
      el('b', {}, event.nature), `: ${say('event_seen', event.count, event.share)}`, event.length && `, ${say('event_each', event.length)}`,
      event.period && `, ${say('event_every', event.period)}`, event.steps && ` (${say('event_steps', event.steps)})`)))], false);
  const body = node.querySelector('.scatter');
  unpackedIn(body, body, async () => {
    const { steps } = await tablesOf(place);
    if (steps) scatter(gpu, steps, body);
  });
  return node;
}

function scatter(gpu, steps, body) {
  const { start, end } = steps;
  const lengths = Array.from(start, (s, i) => end[i] - s);
  const sorted = [...lengths].sort((a, b) => a - b);
  const quantile = (share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
  const { usual } = gpu.step_times;
  const low = Math.min(sorted[0], usual * 0.98), high = Math.max(quantile(1), usual * 1.02);
  const canvas = el('canvas', { role: 'img', 'aria-label': say('scatter') });
  body.replaceChildren(canvas);
  let spots = [];
  const draw = () => {
    const width = Math.max(240, body.clientWidth), height = 240, ratio = devicePixelRatio || 1;
    const left = 64 * TYPE, right = Math.min(160, width * 0.25), top = 10, bottom = 26 * TYPE;
    Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    canvas.style.cssText = `width:${width}px;height:${height}px`;
    const brush = canvas.getContext('2d');
    brush.scale(ratio, ratio);
    brush.font = axisFont();
    const x = (s) => left + s / gpu.duration_s * (width - left - right - 14);
    const y = (v) => height - bottom - (v - low) / (high - low || 1) * (height - top - bottom);
    const ink = { faint: colour('faint'), grid: colour('grid'), dot: colour('c0'), odd: colour('bad') };
    brush.textBaseline = 'middle';
    for (let i = 0; i <= 4; i++) {
      const value = low + (high - low) * i / 4;
      brush.fillStyle = ink.grid;
      brush.fillRect(left, y(value), width - left, 1);
      brush.fillStyle = ink.faint;
      brush.textAlign = 'right';
      brush.fillText(duration(value, 3), left - 8, y(value));
    }
    brush.textAlign = 'center';
    for (const s of [0, gpu.duration_s / 2, gpu.duration_s]) brush.fillText(`${figure(s)} s`, Math.max(x(s), left + 8), height - 10);
    spots = lengths.map((v, i) => ({ x: x(start[i]), y: y(v), v, at: start[i], odd: v >= usual * 1.5 }));
    brush.globalAlpha = lengths.length > 2000 ? 0.35 : 0.7;
    for (const spot of spots) {
      brush.fillStyle = spot.odd ? ink.odd : ink.dot;
      if (spot.odd) brush.fillRect(spot.x - 3, spot.y - 3, 6, 6);
      else { brush.beginPath(); brush.arc(spot.x, spot.y, 2.2, 0, 7); brush.fill(); }
    }
    brush.globalAlpha = 1;
    const bars = 48, counts = new Array(bars).fill(0);
    for (const v of lengths) counts[Math.min(bars - 1, Math.floor((v - low) / (high - low || 1) * bars))]++;
    const most = Math.max(...counts);
    brush.fillStyle = `${ink.dot}99`;
    counts.forEach((n, i) => {
      if (!n) return;
      const from = y(low + (high - low) * (i + 1) / bars), to = y(low + (high - low) * i / bars);
      brush.fillRect(width - right, from + 0.5, Math.max(1.5, n / most * right), Math.max(1, to - from - 1));
    });
  };
  const near = (event) => spots.reduce((best, spot) => {
    const d = Math.hypot(spot.x - event.offsetX, spot.y - event.offsetY);
    return d < 14 && (!best || d < best.d) ? { ...spot, d } : best;
  }, null);
  canvas.addEventListener('pointermove', (event) => {
    const spot = near(event);
    canvas.style.cursor = spot ? 'pointer' : '';
    if (spot) tooltipAt(event.clientX, event.clientY, say('scatter_step', duration(spot.v, 3), moment(spot.at, 1))); else hideTooltip();
  });
  canvas.addEventListener('pointerleave', hideTooltip);
  canvas.addEventListener('click', (event) => {
    const spot = near(event);
    if (spot && page.timeline) {
      page.timeline.show({ from: spot.at - spot.v, to: spot.at + 2 * spot.v });
      document.getElementById('timeline').scrollIntoView();
    }
  });
  new ResizeObserver(draw).observe(body);
  page.redraw.add(draw);
}
