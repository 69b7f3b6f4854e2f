/* The first screen: what is wrong, how sure that is, what to do, and what nvidia-smi would have said. */

/* Characters of a command from which on it is shown as one block: nobody reads a longer one. */
const LONG = 2000;

function cut(words, most) {
  return words.length > most ? `${words.slice(0, most)}…` : words;
}

const DOTS = { sure: 3, likely: 2, unsure: 1, no_verdict: 0 };

function briefing(gpu) {
  const node = el('section', { class: 'verdict', id: 'verdict', 'aria-label': say('nav_verdict') });
  const several = found.gpus.length > 1;
  made(node, {}, [
    el('p', { class: 'eyebrow' },
      gpu && el('span', {}, `${say('gpu', gpu.index)} · ${gpu.name}`),
      el('span', {}, say('watched_for', found.watched)),
      found.recorded && el('span', {}, say('recorded', found.recorded)),
      found.command && el('code', { title: found.command }, cut(found.command, LONG))),
    several && gpuRow(),
  ]);
  const headline = el('h1', {}, gpu ? gpu.headline : found.headline);
  if (!gpu) return made(node, {}, [headline, doubts(found.doubts)]);
  return made(node, {}, [
    el('div', { class: 'first' },
      el('div', {}, headline, sureness(gpu), gpu.because && el('p', { class: 'because' }, gpu.because), actions(gpu)),
      truth(gpu)),
    also(gpu),
    doubts([...found.doubts, ...gpu.doubts]),
  ]);
}

function gpuRow() {
  return el('div', { class: 'gpus', role: 'group', 'aria-label': say('all_gpus') },
    found.gpus.map((gpu, place) => el('button', {
      type: 'button', 'aria-pressed': String(place === page.gpu), title: gpu.headline, 'data-gpu': place,
      onclick: () => page.show(place),
    }, el('b', { class: `status ${severity(gpu)}` }, say('gpu', gpu.index)), el('span', {}, gpu.headline))));
}

function severity(gpu) {
  return { bad: 'bad', watch: 'watch', info: 'ok' }[gpu.severity] ?? 'unknown';
}

function sureness(gpu) {
  const dots = DOTS[gpu.sure];
  return el('p', { class: 'sure' },
    el('span', { class: 'meter', 'aria-hidden': 'true' }, [1, 2, 3].map((n) => el('i', { class: n <= dots ? 'on' : null }))),
    el('b', {}, gpu.sure_text),
    gpu.confidence && el('span', {}, `${say('confidence')} ${gpu.confidence}`));
}

function actions(gpu) {
  const list = el('dl', { class: 'action' });
  const add = (label, className, ...what) =>
    list.append(el('dt', {}, label), el('dd', { class: className }, ...what));
  if (gpu.healthy) add(say('do'), 'main', gpu.healthy);
  if (gpu.undecided) add(say('but'), null, gpu.undecided);
  const [first, second, ...more] = gpu.healthy ? [] : gpu.remedies;
  if (first) add(say('do'), 'main', way(first, first.gain ?? gpu.gain, true));
  if (second) add(say('or'), 'or', way(second, second.gain, false));
  if (more.length) {
    add('', null, el('details', {}, el('summary', { class: 'seen' }, say('more_ways')),
      more.map((r) => el('div', { class: 'or', style: { 'margin-top': '0.8rem' } }, way(r, r.gain, false)))));
  }
  if (gpu.next && !gpu.healthy) add(say('then'), null, say('next_limit', gpu.next));
  const judged = gpu.severity !== 'none';
  if (found.check && (first || !judged)) {  // without a remedy there is nothing to check
    add(say('check'), null, command(found.check), first?.verify && el('p', { class: 'verify' }, say('verify_by', first.verify)));
  } else if (first?.verify) add(say('check'), null, say('verify_by', first.verify));
  if (!list.children.length && judged) return null;
  if (!list.children.length) add(say('do'), 'main', el('code', {}, 'perfzero doctor'));
  return el('div', { class: 'card actions' }, list);
}

function way(remedy, gain, main) {
  return [
    el('div', { class: 'way' },
      el('div', {}, el('p', {}, remedy.text),
        remedy.needs.length > 0 && el('p', { class: 'needs' }, say('provided', remedy.needs.join('; '))),
        remedy.seen && el('p', { class: 'seen' }, remedy.seen),
        remedy.next && el('p', { class: 'seen' }, say('then_next_limit', remedy.next))),
      gain && el('p', { class: 'gain' }, el('small', {}, say('expect'), ' '), gain.times,
        main && gain.assumption && explained(el('small', {}, say('faster')), say('assuming', gain.assumption)))),
    main && remedy.snippet.length > 0 && diff(remedy.snippet),
  ];
}

function diff(lines) {
  const kinds = { '+': 'add', '-': 'del', ' ': 'keep' };
  return el('pre', { class: 'snippet', tabindex: 0, title: say('sketch') },
    lines.map(([sign, code]) => el('code', { class: kinds[sign] }, `${sign} ${code}`)));
}

function command(line) {
  const button = el('button', { type: 'button' }, say('copy'));
  // A line breaks between arguments only, not at their hyphens.
  const code = el('code', {}, line.length > LONG ? line : line.match(/[^ ]* ?/g).map((part) => el('span', {}, part)));
  button.addEventListener('click', async () => {
    try {
      await navigator.clipboard.writeText(line);
    } catch {  // not allowed for a file in some browsers: select it, so that Ctrl-C does it
      const range = document.createRange();
      range.selectNodeContents(code);
      getSelection().removeAllRanges();
      getSelection().addRange(range);
      document.execCommand('copy');
    }
    button.textContent = say('copied');
    setTimeout(() => { button.textContent = say('copy'); }, 1600);
  });
  return el('div', { class: 'command' }, code, button);
}

function truth(gpu) {
  return el('figure', { class: 'card truth' }, el('h3', {}, say('myth')),
    el('ul', {}, gpu.truth.map((bar) => el('li', { class: bar.key },
      el('div', { class: 'row' }, el('span', {}, bar.label), el('b', {}, bar.text)),
      el('div', { class: 'track', 'aria-hidden': 'true' },
        bar.value !== null && el('div', { class: 'fill', style: { width: `${Math.min(1, bar.value) * 100}%` } })),
      el('small', {}, bar.note)))),
    gpu.roofs && el('small', {}, gpu.roofs));
}

function also(gpu) {
  if (!gpu.also.length) return null;
  return el('ul', { class: 'also' }, gpu.also.map((other) => el('li', {}, el('details', {},
    el('summary', {}, `${say('also')}: `, el('b', {}, other.title), ` ${other.sure_text}`),
    el('div', {}, el('p', {}, other.because),
      other.remedies.map((r) => el('p', { class: 'seen' }, `${say('do')}: ${r.text}`, r.gain && ` ${say('expect')} ${r.gain.times}`)))))));
}

function doubts(words) {
  const said = [...(found.complete ? [] : [say('cut_short')]), ...new Set(words)];
  return said.length ? el('div', { class: 'doubt', role: 'note' }, said.map((d) => el('p', {}, d))) : null;
}
