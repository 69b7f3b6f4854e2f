/* The page is built here: the first screen at once, the rest when the browser has drawn it. */

function partsOf(gpu, place) {
  return [stepsSection(gpu), timeSection(gpu), timelineSection(gpu, place), stepSection(gpu), layersSection(gpu), rooflineSection(gpu),
    timesSection(gpu, place), clocksSection(gpu), hostSection(gpu), qualitySection(gpu), numbersSection(gpu)].filter(Boolean);
}

function navigation(sections) {
  return [['verdict', say('nav_verdict')], ...sections.map((s) => [s.id, say(`nav_${s.id}`)])];
}

function build() {
  const main = el('main', { id: 'main', tabindex: -1 });
  const nav = el('nav', { 'aria-label': say('contents') });
  const bar = el('header', { class: 'bar' }, el('a', { class: 'name', href: '#verdict' }, 'perfzero'), nav, themeButton());
  bar.addEventListener('click', (event) => { if (event.target.closest('a')) setTimeout(land); });
  let shown = 0;
  page.show = (place) => {
    page.gpu = place;
    page.redraw.clear();
    const gpu = found.gpus[place];
    const turn = ++shown;
    const chosen = document.activeElement?.dataset.gpu !== undefined;
    main.replaceChildren(briefing(gpu));
    if (chosen) main.querySelector(`[data-gpu="${place}"]`).focus();
    const rest = () => {
      if (turn !== shown) return;  // another one has been asked for since
      const parts = gpu ? partsOf(gpu, place) : [];
      main.append(...parts, el('footer', {}, el('p', {}, `${say('made_by', found.version)} · ${found.recording}`), el('p', {}, say('footer'))));
      nav.replaceChildren(...navigation(parts).map(([id, name]) => el('a', { href: `#${id}` }, name)));
      spying(main, nav);
      document.documentElement.dataset.ready = 'yes';
      if (turn === 1) land();
    };
    delete document.documentElement.dataset.ready;
    requestAnimationFrame(() => setTimeout(rest));
  };
  page.show(0);
  // Only now: until here the headline stands there, and stays where this goes wrong.
  document.getElementById('page').replaceChildren(
    el('a', { class: 'skip', href: '#main', onclick: () => main.focus() }, say('skip')), bar, main);
  explaining();
}

/* How long a section is held in its place while those above it are drawn. */
const LANDING_MS = 3000;

/** Go to the section that the address names, and stay there while others grow, until the reader moves. */
function land() {
  const target = document.getElementById(location.hash.slice(1));
  if (!target || target.id === 'main') return;
  const watcher = new ResizeObserver(() => target.scrollIntoView({ behavior: 'instant' }));
  watcher.observe(document.getElementById('main'));
  const stop = () => watcher.disconnect();
  for (const kind of ['wheel', 'touchstart', 'keydown', 'pointerdown']) addEventListener(kind, stop, { once: true, passive: true });
  setTimeout(stop, LANDING_MS);
}

/** Mark in the bar which section is read. */
function spying(main, nav) {
  page.spy?.disconnect();
  page.spy = new IntersectionObserver((seen) => {
    for (const { target, isIntersecting } of seen) {
      if (!isIntersecting) continue;
      for (const link of nav.children) {
        if (link.hash === `#${target.id}`) link.setAttribute('aria-current', 'true');
        else link.removeAttribute('aria-current');
      }
    }
  }, { rootMargin: '-20% 0px -70% 0px' });
  for (const part of main.querySelectorAll('section')) page.spy.observe(part);
}

/* For tests, and for whoever looks closer from the console. */
window.perfzero = { tablesOf, Line, Icicle, Rows, percent, duration, amount, figureAt, axisFont, lookOf, placed, held, actions, found };

build();
