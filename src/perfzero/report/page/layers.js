/* Layers, operators, kernels and lines of a look: a tree to enter and tables to sort and search. */

let unpackedLayers = null;

function layersOf(place) {
  unpackedLayers ??= inflated('data-layers').then((bytes) => JSON.parse(new TextDecoder().decode(bytes)));
  return unpackedLayers.then((looks) => looks[place]);
}

/** The look that tells of `gpu`: the busiest of those that used it, else the busiest there is. */
function lookOf(gpu) {
  const own = found.looks.findIndex((look) => look.gpus.includes(gpu.index));
  return own >= 0 ? own : found.looks.length ? 0 : -1;
}

function layersSection(gpu) {
  const place = lookOf(gpu);
  if (place < 0) return section('layers', el('p', { class: 'why' }, coded(say('no_layers'))), false);
  const node = section('layers', [], false);
  const body = node.querySelector('.body');
  const show = (at) => {
    const look = found.looks[at];
    const choice = found.looks.length > 1 && el('p', { class: 'tools' }, found.looks.map((other, i) =>
      el('button', { type: 'button', 'aria-pressed': String(i === at), onclick: () => { show(i); page.showRoofline?.(i); body.querySelectorAll('.tools button')[i].focus(); } },
        other.gpus.length ? say('look_of', other.gpus.join(', ')) : other.file)));
    const parts = el('div', { style: { 'min-height': '20rem' } });
    body.replaceChildren(...[el('p', { class: 'lead' }, say('look_seen', look.seen, duration(look.busy_ns / 1e9))), choice,
      look.sampled && el('p', { class: 'lead' }, look.sampled), look.overlap && el('p', { class: 'lead' }, look.overlap), parts].filter(Boolean));
    unpackedIn(parts, parts, async () => {
      const rows = await layersOf(at);
      parts.style.removeProperty('min-height');
      const table = new Rows(rows.views, look);
      parts.replaceChildren(new Icicle(rows.tree, look).node, table.node);
      node.layers = { table, rows, look };
    });
  };
  show(place);
  return node;
}

/* Columns of the tables: how a value is written, and which way it is sorted at first. */
const CELLS = {
  name: { text: (v) => v, wide: true },
  kind: { text: (v) => v },
  count: { text: (v) => (v > 1 ? `×${v}` : ''), number: true },
  share: { text: percent, number: true, bar: true },
  per_step_ns: { text: (v) => duration(v / 1e9), number: true },
  launches: { text: (v) => v.toLocaleString('en'), number: true },
  bytes: { text: (v) => amount(v, 'B'), number: true },
  read_share: { text: percent, number: true, bar: true },
  sm: { text: percent, number: true },
  tensor: { text: percent, number: true },
  l2_hit: { text: percent, number: true },
  intensity: { text: (v) => (v === 0 ? '0' : plain(v, 2)), number: true },
  roof: { text: percent, number: true, bar: true },
  limit: { text: (v) => (v ? say(`limit_${v}`) : '') },
  reuse: { text: (v) => (v ? say(`reuse_${v.replace(' ', '_')}`) : '') },
  given: { text: (v) => v },
  source: { text: (v) => v },
};
const ROW = 34;
const MARGIN = 12;

/** A table of any length: only the rows in sight are there. */
class Rows {
  constructor(views, look) {
    Object.assign(this, { views, look, wanted: '', sort: { column: 'share', down: true } });
    this.names = ['layers', 'operators', 'kernels', 'lines'].filter((name) => views[name].rows > 0);
    this.tabs = el('div', { class: 'tabs', role: 'tablist', onkeydown: (event) => this.#walk(event) }, this.names.map((name) => el('button', {
      type: 'button', role: 'tab', id: `view-${name}`, 'data-view': name, 'aria-controls': 'view-rows', onclick: () => this.choose(name) }, say(`view_${name}`), ' ', el('small', {}, views[name].rows.toLocaleString('en')))));
    this.search = el('input', { type: 'search', placeholder: say('search'), 'aria-label': say('search'),
      oninput: () => { this.wanted = this.search.value.trim().toLowerCase(); this.#arrange(); } });
    this.head = el('tr', {});
    this.rows = el('tbody', {});
    this.table = el('table', {}, el('thead', {}, this.head), this.rows);
    this.box = el('div', { class: 'rows', tabindex: 0, role: 'tabpanel', id: 'view-rows', onscroll: () => this.#draw() }, this.table);
    this.count = el('output', {});
    this.node = el('div', { class: 'filter' }, el('div', { class: 'tools' }, this.tabs, el('span', { class: 'space' }), this.count, this.search), this.box);
    if (this.names.length) this.choose(this.names.includes(look.first) ? look.first : this.names[0]);
    else this.node.replaceChildren(el('p', { class: 'why' }, say('no_rows')));
  }

  /** Arrow keys choose the view beside the one that is chosen. */
  #walk(event) {
    const at = this.names.indexOf(this.name), n = this.names.length;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: n - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.choose(this.names[(to + n) % n]);
    this.tabs.children[(to + n) % n].focus();
  }

  choose(name) {
    this.view = this.views[name];
    this.name = name;
    if (!this.view.columns[this.sort.column]) this.sort = { column: 'share', down: true };
    for (const tab of this.tabs.children) {
      tab.setAttribute('aria-selected', String(tab.dataset.view === name));
      tab.tabIndex = tab.dataset.view === name ? 0 : -1;
    }
    this.box.setAttribute('aria-labelledby', `view-${name}`);
    this.columns = Object.keys(CELLS).filter((c) => this.view.columns[c] && !(c === 'count' && this.#all(1, c)) && !(!CELLS[c].number && this.#all('', c)));
    this.most = Object.fromEntries(this.columns.filter((c) => CELLS[c].bar).map((c) => [c, this.view.columns[c].reduce((most, v) => Math.max(most, v ?? 0), 0)]));
    this.head.replaceChildren(...this.columns.map((c) => el('th', { scope: 'col', class: CELLS[c].number ? 'num' : null },
      explained(el('button', { type: 'button', onclick: () => this.#by(c) }, say(`layer_${c}`)), say(`layer_${c}_means`)))));
    this.#arrange();
  }

  /** Show only the rows that hold `words`. */
  find(words) {
    this.search.value = words;
    this.wanted = words.toLowerCase();
    this.#arrange();
  }

  #all(value, column) {
    for (let i = 0; i < this.view.rows; i++) if (this.value(i, column) !== value) return false;
    return true;
  }

  /** A cell's value; a text is a place among the names. */
  value(row, column) {
    const value = this.view.columns[column]?.[row] ?? null;
    return value !== null && ['name', 'kind', 'limit', 'reuse', 'given', 'source'].includes(column) ? this.view.names[value] : value;
  }

  #by(column) {
    const { sort } = this;
    this.sort = { column, down: sort.column === column ? !sort.down : !!CELLS[column].number };
    this.#arrange();
  }

  #arrange() {
    const { column, down } = this.sort;
    const order = [];
    for (let i = 0; i < this.view.rows; i++) if (this.#wanted(i)) order.push(i);
    const key = order.length ? Object.fromEntries(order.map((i) => [i, this.value(i, column)])) : {};
    order.sort((a, b) => {
      const x = key[a], y = key[b];
      if (x === null || y === null) return (x === null) - (y === null) || a - b;  // what is unknown comes last
      const less = typeof x === 'string' ? x.localeCompare(y) : x - y;
      return (down ? -less : less) || a - b;
    });
    this.order = order;
    this.columns.forEach((c, i) => {
      const cell = this.head.children[i];
      if (c === column) cell.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      else cell.removeAttribute('aria-sort');
    });
    this.count.textContent = say('rows_of', order.length.toLocaleString('en'), this.view.rows.toLocaleString('en'));
    this.table.setAttribute('aria-rowcount', String(order.length + 1));
    this.box.scrollTop = 0;
    this.drawn = null;
    this.#draw();
  }

  #wanted(row) {
    if (!this.wanted) return true;
    return ['name', 'kind', 'given', 'source'].some((c) => String(this.value(row, c) ?? '').toLowerCase().includes(this.wanted));
  }

  #draw() {
    const height = this.box.clientHeight || 600;
    const first = Math.max(0, Math.floor(this.box.scrollTop / ROW) - MARGIN);
    const last = Math.min(this.order.length, Math.ceil((this.box.scrollTop + height) / ROW) + MARGIN);
    if (this.drawn === `${first} ${last}`) return;
    this.drawn = `${first} ${last}`;
    const space = (n) => n > 0 && el('tr', { 'aria-hidden': 'true', class: 'space' }, el('td', { colspan: this.columns.length, style: { height: `${n * ROW}px` } }));
    const rows = this.order.slice(first, last).map((row, i) => el('tr', { 'aria-rowindex': first + i + 2 }, this.columns.map((c) => this.#cell(row, c))));
    this.rows.replaceChildren(...[space(first), ...rows, space(this.order.length - last)].filter(Boolean));
  }

  #cell(row, column) {
    const value = this.value(row, column);
    const how = CELLS[column];
    const words = value === null ? (how.number ? NONE : '') : how.text(value);
    const cell = el('td', { class: how.number ? 'num' : null, title: how.number ? null : words }, words);
    if (how.bar && value) {
      cell.classList.add('barred');
      const whole = column === 'roof' ? 1 : this.most[column] || 1;
      cell.style.setProperty('--part', `${Math.min(1, Math.max(0, value / whole)) * 100}%`);
    }
    return cell;
  }
}

const TIER = Math.round(28 * TYPE);

/* Tiers that are drawn below and above the one that is entered; what is deeper shows once one goes there. */
const DEEP = 40, OUTSIDE = 8;

/** The tree of a look as an icicle: below each node its parts, as wide as their time. A click enters one. */
class Icicle {
  constructor(tree, look) {
    Object.assign(this, { tree, look, at: 0, chosen: 0 });
    const n = tree.parent.length;
    this.children = Array.from({ length: n }, () => []);
    for (let i = 1; i < n; i++) this.children[tree.parent[i]].push(i);
    this.weight = tree.ns;
    this.#order();
    this.canvas = el('canvas', { tabindex: 0, role: 'img', 'aria-label': say('icicle') });
    this.told = el('output', { class: 'path', 'aria-live': 'polite' });
    const up = el('button', { type: 'button', onclick: () => this.enter(Math.max(0, tree.parent[this.at])) }, say('icicle_up'));
    const keys = ['forward', 'backward', 'optimizer', 'other'].map((phase, i) =>
      el('span', { class: 'legend' }, el('i', { class: 'key', style: { background: `var(--c${i})`, border: '0', width: '.8rem', height: '.8rem', margin: '0' } }), say(`part_${phase}`)));
    this.ways = tree.bytes?.length > 0 && el('span', { class: 'tabs', role: 'group' }, [['ns', 'by_time'], ['bytes', 'by_bytes']].map(([column, words]) =>
      el('button', { type: 'button', 'data-by': column, 'aria-pressed': String(column === 'ns'), onclick: () => this.by(column) }, say(words))));
    this.node = el('div', { class: 'icicle' }, el('div', { class: 'tools' }, this.ways, up, this.told), this.canvas, el('p', { class: 'marks' }, keys, el('span', {}, say('icicle_keys'))));
    this.canvas.addEventListener('click', (event) => { const hit = this.#hit(event); if (hit) this.enter(hit.node); });
    this.canvas.addEventListener('pointermove', (event) => {
      const hit = this.#hit(event);
      this.canvas.style.cursor = hit ? 'pointer' : '';
      if (hit) tooltipAt(event.clientX, event.clientY, this.#words(hit.node)); else hideTooltip();
    });
    this.canvas.addEventListener('pointerleave', hideTooltip);
    this.canvas.addEventListener('keydown', (event) => this.#key(event));
    new ResizeObserver(() => this.draw()).observe(this.node);
    page.redraw.add(() => this.draw());
    // One node that holds nearly everything, as the model does, is where to begin.
    this.enter(0);
  }

  /** Make boxes as wide as their time, or as the bytes they move. */
  by(column) {
    this.weight = this.tree[column];
    for (const way of this.ways.children) way.setAttribute('aria-pressed', String(way.dataset.by === column));
    this.#order();
    this.enter(0);
  }

  /** Parts in order, the heaviest first; what has no weight is left out. */
  #order() {
    for (const parts of this.children) parts.sort((a, b) => (this.weight[b] ?? 0) - (this.weight[a] ?? 0));
  }

  /** What a node is of the whole. */
  #share(node) {
    return this.weight === this.tree.ns ? this.tree.ns[node] / this.look.busy_ns : this.weight[node] / this.weight[0];
  }

  enter(node) {
    this.at = node;
    this.chosen = node;
    hideTooltip();
    this.draw();
  }

  name(node) {
    if (node === 0) return say('icicle_all');
    const { tree } = this;
    const name = tree.names[tree.name[node]];
    return tree.kinds[tree.kind[node]] === 'part' ? found.words[`part_${name}`] ?? name : name;
  }

  #words(node) {
    const { tree, look } = this;
    const ns = tree.ns[node];
    const step = look.steps ? ` · ${say('each_step', duration(ns / 1e9 / look.steps))}` : '';
    const moved = this.weight === tree.ns ? '' : ` · ${amount(this.weight[node], 'B')}`;
    return `${this.name(node)}\n${percent(this.#share(node))}${moved}${step}`;
  }

  #key(event) {
    const { tree } = this;
    const above = tree.parent[this.chosen];
    const beside = above >= 0 ? this.children[above] : [0];
    const place = beside.indexOf(this.chosen);
    const to = { ArrowUp: above, ArrowDown: this.children[this.chosen][0], ArrowLeft: beside[place - 1], ArrowRight: beside[place + 1] }[event.key];
    if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); this.enter(this.chosen); return; }
    if (event.key === 'Escape' && this.at) { this.enter(tree.parent[this.at]); return; }
    if (to === undefined || to < 0) return;
    event.preventDefault();
    this.chosen = to;
    // What is chosen has to be in sight.
    let node = to;
    while (node > 0 && node !== this.at) node = tree.parent[node];
    if (node !== this.at) this.at = to;
    this.draw();
  }

  #hit(event) {
    const { offsetX: x, offsetY: y } = event;
    return this.boxes.findLast((box) => x >= box.x && x < box.x + box.w && y >= box.y && y < box.y + TIER);
  }

  draw() {
    const { tree } = this;
    const width = Math.max(120, this.node.clientWidth);
    const boxes = [];
    const above = [];
    for (let node = this.at; node > 0; node = tree.parent[node]) above.unshift(tree.parent[node]);
    above.splice(0, above.length - OUTSIDE);
    above.forEach((node, i) => boxes.push({ node, x: 0, y: i * TIER, w: width, faint: true }));
    const lay = (node, x, w, tier) => {
      boxes.push({ node, x, y: tier * TIER, w });
      let left = x;
      if (tier >= above.length + DEEP) return;
      const scale = w / Math.max(1, this.weight[node] ?? 0);
      for (const part of this.children[node]) {
        const its = (this.weight[part] ?? 0) * scale;
        if (its < 0.6 || left >= x + w) break;  // the lightest come last
        lay(part, left, Math.min(its, x + w - left), tier + 1);
        left += its;
      }
    };
    lay(this.at, 0, width, above.length);
    this.boxes = boxes;
    const height = Math.max(...boxes.map((b) => b.y)) + TIER;
    const ratio = devicePixelRatio || 1;
    Object.assign(this.canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    this.canvas.style.cssText = `width:${width}px;height:${height}px`;
    const brush = this.canvas.getContext('2d');
    brush.scale(ratio, ratio);
    brush.font = `${12.5 * TYPE}px ${getComputedStyle(document.body).fontFamily}`;
    brush.textBaseline = 'middle';
    const phases = ['forward', 'backward', 'optimizer', 'other'];
    const inks = { ink: colour('ink'), soft: colour('soft'), wash: colour('wash'), card: colour('paper'), line: colour('line'), on: colour('on-dark'), accent: colour('accent') };
    const fills = phases.map((_, i) => colour(`c${i}`));
    for (const box of boxes) {
      const phase = phases.indexOf(tree.kinds[tree.kind[box.node]]);
      const kernel = phase >= 0;
      brush.fillStyle = kernel ? fills[phase] : tree.kinds[tree.kind[box.node]] === 'operator' ? inks.line : inks.wash;
      brush.globalAlpha = box.faint ? 0.55 : 1;
      brush.fillRect(box.x, box.y, Math.max(box.w - 1, 0.5), TIER - 1);
      brush.globalAlpha = 1;
      if (box.node === this.chosen && document.activeElement === this.canvas) {
        brush.strokeStyle = inks.accent;
        brush.lineWidth = 2;
        brush.strokeRect(box.x + 1, box.y + 1, Math.max(2, box.w - 3), TIER - 3);
      }
      if (box.w < 34) continue;
      brush.fillStyle = kernel ? inks.on : box.faint ? inks.soft : inks.ink;
      const words = fitting(brush, `${this.name(box.node)}  ${percent(this.#share(box.node))}`, box.w - 12);
      brush.fillText(words, box.x + 6, box.y + TIER / 2);
    }
    this.told.textContent = this.#words(this.chosen).replace('\n', ' · ');
    this.canvas.dataset.at = String(this.at);
  }
}

/** As much of `words` as fits. */
function fitting(brush, words, width) {
  if (brush.measureText(words).width <= width) return words;
  let low = 0, high = words.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (brush.measureText(`${words.slice(0, middle)}…`).width <= width) low = middle; else high = middle - 1;
  }
  return low > 1 ? `${words.slice(0, low)}…` : '';
}
