/* The document, elements made of it, and what all parts share: words, theme, explanations. */

const found = JSON.parse(document.getElementById('document').textContent);
const page = { gpu: 0, redraw: new Set() };

/* How large type is: 1 on a desk, 1.5 on a 4K screen. What is drawn grows with it. */
const TYPE = parseFloat(getComputedStyle(document.documentElement).fontSize) / 16;

/** The phrase of `key`, each %s replaced by an argument. */
function say(key, ...filled) {
  const phrase = found.words[key];
  if (phrase === undefined) throw new Error(`no phrase ${key}`);
  let place = 0;
  return phrase.replace(/%s/g, () => String(filled[place++] ?? ''));
}

function made(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'style') for (const [k, v] of Object.entries(value)) node.style.setProperty(k, v);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === '') continue;
    node.append(child instanceof Node ? child : node.closest('code') ? String(child) : bound(String(child)));
  }
  return node;
}

/** `words` in which no line breaks between a number and its unit. */
function bound(words) {
  return words.replace(/(\d) (?=%|°C|×|[kMGTPmµn]?(?:B|FLOP|Hz|W|s|h)\b|min\b|points\b)/g, '$1\u00a0').replace(/([<>≤≥]) (?=\d)/g, '$1\u00a0');
}

/** `words` whose parts in backticks are code. */
function coded(words) {
  return words.split('`').map((part, i) => (i % 2 ? el('code', {}, part) : part));
}

/** An element; whatever is no node becomes text, never markup. */
const el = (tag, attributes, ...children) => made(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  made(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes, children);

/** A colour of the theme that holds now. */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** Whether the page is dark now. */
function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

function themed() {
  for (const redraw of page.redraw) redraw();
}

function themeButton() {
  for (const media of ['(prefers-color-scheme: dark)', 'print']) matchMedia(media).addEventListener('change', themed);
  const half = svg('svg', { viewBox: '0 0 20 20', 'aria-hidden': 'true' },
    svg('circle', { cx: 10, cy: 10, r: 7, fill: 'none', stroke: 'currentColor', 'stroke-width': 1.8 }),
    svg('path', { d: 'M10 3a7 7 0 0 1 0 14z', fill: 'currentColor' }));
  return el('button', {
    class: 'theme', type: 'button', 'aria-label': say('theme'), title: say('theme'),
    onclick: () => { document.documentElement.dataset.theme = dark() ? 'light' : 'dark'; themed(); },
  }, half);
}

/** Explain `node` in `words` where it is pointed at, reached by keyboard, or tapped. */
function explained(node, words) {
  if (!words) return node;
  node.classList.add('tip');
  node.tabIndex = 0;
  node.dataset.explained = words;
  return node;
}

/** An explanation that follows what is drawn: shown at a place on the screen. */
function tooltipAt(x, y, words) {
  const tooltip = document.getElementById('tooltip');
  tooltip.textContent = words;
  tooltip.hidden = false;
  const box = tooltip.getBoundingClientRect();
  const left = Math.max(8, Math.min(x - box.width / 2, innerWidth - box.width - 8));
  const top = y + 14 + box.height > innerHeight ? y - box.height - 12 : y + 14;
  tooltip.style.left = `${left + scrollX}px`;
  tooltip.style.top = `${Math.max(4, top) + scrollY}px`;
}

function hideTooltip() {
  document.getElementById('tooltip').hidden = true;
}

function explaining() {
  const tooltip = el('div', { id: 'tooltip', role: 'tooltip', hidden: true });
  document.body.append(tooltip);
  const open = (event) => {
    const node = event.target.closest?.('[data-explained]');
    if (!node) return;
    const box = node.getBoundingClientRect();
    node.setAttribute('aria-describedby', 'tooltip');
    tooltipAt(box.left + Math.min(box.width, 200) / 2, box.bottom - 8, node.dataset.explained);
  };
  const close = (event) => {
    const node = event.target.closest?.('[data-explained]');
    if (!node) return;
    node.removeAttribute('aria-describedby');
    hideTooltip();
  };
  document.addEventListener('pointerover', open);
  document.addEventListener('focusin', open);
  document.addEventListener('click', open);
  document.addEventListener('pointerout', close);
  document.addEventListener('focusout', close);
  document.addEventListener('keydown', (event) => { if (event.key === 'Escape') hideTooltip(); });
}

/** A section with its heading; `body` is made when it is first near the screen. */
function section(id, body, lead = true) {
  const place = el('div', { class: 'body' });
  const heading = el('h2', { id: `${id}-h` }, say(`sec_${id}`));
  const words = lead ? el('p', { class: 'lead' }, say(`sec_${id}_lead`)) : null;
  const node = el('section', { id, 'aria-labelledby': `${id}-h` }, heading, words, place);
  place.append(...[body].flat().filter(Boolean));
  return node;
}

/** Call `then` once `node` comes near the screen, or the page is printed. */
function whenNear(node, then) {
  let done = false;
  const once = () => { if (!done) { done = true; watcher.disconnect(); then(); } };
  const watcher = new IntersectionObserver((seen) => { if (seen.some((s) => s.isIntersecting)) once(); },
    { rootMargin: '600px' });
  watcher.observe(node);
  addEventListener('beforeprint', once, { once: true });
}

/** Once `node` comes near, fill `body` with what `act` unpacks and draws; where that fails, say so. */
function unpackedIn(node, body, act) {
  if (!('DecompressionStream' in window)) { body.replaceChildren(el('p', { class: 'why' }, say('too_old'))); return; }
  whenNear(node, () => act().catch((error) => body.replaceChildren(broken(error))));
}

function broken(error) {
  return el('p', { class: 'why' }, say('broken_data', error.message || error.name));
}

/** Keep in `body` what `make(width)` draws, once it comes near the screen, anew when its width changes. */
function drawnIn(body, make) {
  let width = 0;
  whenNear(body, () => new ResizeObserver(() => {
    const now = Math.max(280, Math.floor(body.clientWidth));
    if (now === width) return;
    width = now;
    try { body.replaceChildren(...[make(width)].flat()); } catch (error) { body.replaceChildren(broken(error)); }
  }).observe(body));
  return body;
}

/** A round number at or a little above `value`, for the end of an axis. */
function roundUp(value) {
  const size = 10 ** Math.floor(Math.log10(value));
  return [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((n) => n * size >= value * 0.999) * size;
}

/** A table of `rows` of cells (text or nodes) with a heading for each column; `numeric` are flush right. */
function tableOf(headings, rows, numeric = []) {
  const cell = (tag, place, child, extra) =>
    el(tag, { class: numeric.includes(place) ? 'num' : null, ...extra }, child);
  return el('table', {},
    el('thead', {}, el('tr', {}, headings.map((h, i) => cell('th', i, h, { scope: 'col' })))),
    el('tbody', {}, rows.map((row) => el('tr', {}, row.map((c, i) => cell('td', i, c))))));
}
