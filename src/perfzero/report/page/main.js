/* The page is built here: the first screen at once, the rest when the browser has drawn it. */

function partsOf(gpu, place) {
  return [stepsSection(gpu), timeSection(gpu), timelineSection(gpu, place), stepSection(gpu), layersSection(gpu), rooflineSection(gpu),
    timesSection(gpu, place), clocksSection(gpu), hostSection(gpu), qualitySection(gpu), numbersSection(gpu)].filter(Boolean);
}

function navigation(sections) {
  return [['verdict', say('nav_verdict')], ...sections.map((s) => [s.id, say(`nav_${s.id}`)])];
}

function build() {
  const main = el('main', { id: 'main' });
  const nav = el('nav', { 'aria-label': say('contents') });
  document.getElementById('page').append(
    el('header', { class: 'bar' }, el('a', { class: 'name', href: '#verdict' }, 'perfzero'), nav, themeButton()), main);
  explaining();
  page.show = (place) => {
    page.gpu = place;
    page.redraw.clear();
    const gpu = found.gpus[place];
    main.replaceChildren(briefing(gpu));
    const rest = () => {
      const parts = gpu ? partsOf(gpu, place) : [];
      main.append(...parts, el('footer', {}, el('p', {}, `${say('made_by', found.version)} · ${found.recording}`), el('p', {}, say('footer'))));
      nav.replaceChildren(...navigation(parts).map(([id, name]) => el('a', { href: `#${id}` }, name)));
      spying(main, nav);
      document.documentElement.dataset.ready = 'yes';
    };
    delete document.documentElement.dataset.ready;
    requestAnimationFrame(() => setTimeout(rest));
  };
  page.show(0);
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
window.perfzero = { tablesOf, Line, Icicle, Rows, percent, duration, amount, figureAt };

build();
