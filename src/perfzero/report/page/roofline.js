/* The roofline: what layers compute for each byte they move, against what the GPU can do at most. */

const AREA = { left: 74 * TYPE, right: 16, top: 18, bottom: 52 * TYPE };

function rooflineSection(gpu) {
  const first = lookOf(gpu);
  if (first < 0) return null;
  const node = section('roofline', [], found.looks.some((look) => look.counted && look.ceilings));
  const body = node.querySelector('.body');
  /** Show the look at `place`, here and in the tree and tables alike. */
  page.showRoofline = (place) => {
    const look = found.looks[place];
    if (!look.counted || !look.ceilings) { body.replaceChildren(el('p', { class: 'why' }, say('no_roofline'))); return; }
    const drawing = el('div', { style: { 'min-height': '20rem' } });
    body.replaceChildren(drawing);
    unpackedIn(drawing, drawing, async () => {
      const { views } = await layersOf(place);
      drawnIn(drawing, (width) => roofline(views, look, width));
    });
  };
  page.showRoofline(first);
  return node;
}

/** Rows with a place: they compute something, and their bytes were counted. */
function placed(view) {
  const { names, columns } = view;
  const rows = [];
  for (let i = 0; i < view.rows; i++) {
    const flops = columns.flops?.[i], intensity = columns.intensity?.[i], ns = columns.ns?.[i];
    if (flops > 0 && intensity > 0 && ns > 0) {
      rows.push({ name: names[columns.name[i]], kind: names[columns.kind?.[i]] ?? '', share: columns.share[i] ?? 0, intensity,
        rate: flops / ns * 1e9, roof: columns.roof?.[i], limit: names[columns.limit?.[i]] ?? '', count: columns.count?.[i] ?? 1 });
    }
  }
  return rows.sort((a, b) => b.share - a.share);
}

function roofline(views, look, w) {
  const view = ['layers', 'operators', 'kernels'].find((name) => placed(views[name]).length);
  if (!view) return el('p', { class: 'why' }, say('no_points'));
  const rows = placed(views[view]).slice(0, 400);
  const dram = look.ceilings.dram;
  const best = Math.max(...rows.map((r) => r.rate));
  const peaks = Object.entries(look.ceilings.flops).filter(([type, rate]) => rate && type !== 'fp64' && (type !== 'fp8' || best > 0.95 * look.ceilings.flops.bf16));
  const lines = new Map();
  for (const [type, rate] of peaks) lines.set(rate, [...(lines.get(rate) ?? []), type]);
  const top = Math.max(...lines.keys(), best) * 1.8;
  const xs = rows.map((r) => r.intensity);
  const from = Math.min(...xs, Math.min(...lines.keys()) / dram) / 2.5, to = Math.max(...xs, Math.max(...lines.keys()) / dram) * 2.5;
  const bottom = Math.min(...rows.map((r) => r.rate), from * dram) / 2;
  const { left, right, top: up, bottom: down } = AREA;
  const h = Math.round(Math.min(560, Math.max(340, w * 0.46)));
  const x = (v) => left + (Math.log(v) - Math.log(from)) / (Math.log(to) - Math.log(from)) * (w - left - right);
  const y = (v) => h - down - (Math.log(v) - Math.log(bottom)) / (Math.log(top) - Math.log(bottom)) * (h - up - down);
  const picture = svg('svg', { viewBox: `0 0 ${w} ${h}`, width: w, height: h, role: 'img', 'aria-label': say('sec_roofline'), class: 'drawing' });
  for (const v of decades(from, to)) picture.append(svg('line', { class: 'grid', x1: x(v), x2: x(v), y1: up, y2: h - down }), svg('text', { class: 'tick', x: x(v), y: h - down + 18 * TYPE, 'text-anchor': 'middle' }, figure(v)));
  for (const v of decades(bottom, top)) picture.append(svg('line', { class: 'grid', x1: left, x2: w - right, y1: y(v), y2: y(v) }), svg('text', { class: 'tick', x: left - 8, y: y(v) + 4, 'text-anchor': 'end' }, amount(v, '')));
  const highest = Math.max(...lines.keys());
  picture.append(svg('line', { class: 'roof', x1: x(from), y1: y(Math.max(bottom, from * dram)), x2: x(highest / dram), y2: y(highest) }));
  const slope = Math.atan2(y(highest) - y(from * dram), x(highest / dram) - x(from)) * 180 / Math.PI;
  const label = Math.sqrt(from * highest / dram) * 0.8;
  picture.append(svg('text', { class: 'label', transform: `translate(${x(label)} ${y(label * dram) - 8}) rotate(${slope})` }, say('roof_dram', amount(dram, 'B/s'))));
  for (const [rate, types] of lines) {
    picture.append(svg('line', { class: 'roof', x1: x(rate / dram), x2: w - right, y1: y(rate), y2: y(rate) }),
      svg('text', { class: 'label', x: w - right, y: y(rate) - 6, 'text-anchor': 'end' }, `${types.join(', ')} ${amount(rate, 'FLOP/s')}`));
  }
  picture.append(svg('text', { class: 'tick', x: w - right, y: h - 12, 'text-anchor': 'end' }, say('roof_x')),
    svg('text', { class: 'tick', x: 14, y: up + 4, transform: `rotate(-90 14 ${up + 4})`, 'text-anchor': 'end' }, say('roof_y')));
  for (const row of rows) {
    const words = [`${row.name} ${row.kind}`.trim() + (row.count > 1 ? ` ×${row.count}` : ''), percent(row.share), `${plain(row.intensity, 2)} FLOP/B`,
      amount(row.rate, 'FLOP/s'), known(row.roof) ? say('roof_place', percent(row.roof)) : ''].filter(Boolean).join(' · ');
    picture.append(explained(svg('circle', { class: `dot ${row.limit || 'open'}`, cx: x(row.intensity), cy: y(row.rate), r: 4 + Math.sqrt(Math.max(0, row.share)) * 34,
      role: 'img', 'aria-label': words }), words));
  }
  const told = [];
  for (const row of rows.slice(0, 6)) {
    const [cx, cy] = [x(row.intensity), y(row.rate) - 8 - Math.sqrt(Math.max(0, row.share)) * 34];
    if (told.some(([a, b]) => Math.abs(a - cx) < row.name.length * 7 + 12 && Math.abs(b - cy) < 18)) continue;
    told.push([cx, cy]);
    picture.append(svg('text', { class: 'name', x: cx, y: cy, 'text-anchor': 'middle' }, row.name));
  }
  return el('figure', {}, picture, el('figcaption', { class: 'marks' },
    el('span', {}, el('i', { class: 'key', style: { background: 'var(--k-memory)' } }), say('limit_dram')),
    el('span', {}, el('i', { class: 'key', style: { background: 'var(--c0)' } }), say('limit_compute')),
    rows.some((r) => !['dram', 'compute'].includes(r.limit)) && el('span', {}, el('i', { class: 'key', style: { background: 'var(--faint)' } }), say('limit_open')),
    el('span', {}, say('roof_size'))));
}

function decades(from, to) {
  const found = [];
  for (let e = Math.ceil(Math.log10(from)); e <= Math.floor(Math.log10(to)); e++) found.push(10 ** e);
  return found;
}
