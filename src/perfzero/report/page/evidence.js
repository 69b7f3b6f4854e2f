/* The evidence in words and bars: four questions, where the time goes, quality, every number. */

function stepsSection(gpu) {
  if (!gpu.steps.length) return section('steps', el('p', { class: 'why' }, say('no_steps', gpu.because || gpu.headline)), false);
  return section('steps', el('ol', { class: 'steps' }, gpu.steps.map((step) => el('li', {},
    el('span', { class: 'n', 'aria-hidden': 'true' }, step.number),
    el('div', {}, el('p', { class: 'q' }, step.question),
      el('p', { class: `a status ${step.status}` }, step.answer)),
    el('div', { class: 'e' }, el('p', {}, step.text), step.facts.length > 0 && el('details', {},
      el('summary', {}, say('evidence')), el('div', { class: 'scroll' }, factTable(step.facts)))),
    el('div', { class: `h ${step.status}` }, held(step))))));
}

function held(step) {
  if (!step.held) return null;
  const { name, threshold, points, off } = step.held;
  const limit = `${name} ${threshold}`.trim();
  return [
    step.scale && el('div', { class: 'gauge', 'aria-hidden': 'true' },
      el('i', { style: { width: `${Math.min(1, Math.max(0, step.scale.value)) * 100}%` } }),
      el('u', { style: { left: `${Math.min(1, step.scale.limit) * 100}%` } })),
    el('p', { class: 'held' }, off ? say('healthy', limit) : limit,
      points && ` · ${off ? say('short_by', points) : say('to_spare', points)}`),
  ];
}

function factTable(facts) {
  return tableOf([say('col_metric'), say('col_value'), say('col_threshold'), say('col_status')],
    facts.map((fact) => [
      explained(el('code', {}, fact.name), [fact.made, fact.note].filter(Boolean).join(' ')),
      fact.value, fact.threshold, fact.status === 'info' ? '' : el('span', { class: `status ${fact.status}` }, say(`status_${fact.status}`)),
    ]), [1]);
}

function timeSection(gpu) {
  if (!gpu.time.length) return section('time', el('p', { class: 'why' }, coded(say('no_time'))), false);
  const steps = gpu.time.some((c) => c.per_step);
  const bar = el('div', { class: 'stack', role: 'img', 'aria-label': gpu.time.map((c) => `${c.name} ${c.text}`).join(', ') },
    gpu.time.map((c) => el('div', { class: `k-${c.class}`, style: { flex: `${c.share} 1 0` }, title: `${c.name} ${c.text}` },
      c.share >= 0.07 && el('span', {}, el('b', {}, c.text), c.name))));
  const rows = gpu.time.map((c) => [
    el('span', {}, el('i', { class: `key k-${c.class}` }), c.name, el('small', {}, say(`class_${c.class}`))),
    c.text, c.interval, ...(steps ? [c.per_step] : []),
  ]);
  const headings = [say('col_class'), say('col_share'), say('col_interval'), ...(steps ? [say('col_step')] : [])];
  return section('time', [bar, el('div', { class: 'shares scroll' }, tableOf(headings, rows, [1, 2, 3]))]);
}

function qualitySection(gpu) {
  const pairs = (rows) => el('dl', { class: 'pairs' }, rows.map(([label, words]) => [el('dt', {}, label), el('dd', {}, words)]));
  const said = [...new Set([...found.doubts, ...gpu.doubts])];
  return section('quality', el('div', { class: 'columns' },
    el('div', {}, el('h3', {}, say('quality_data')), pairs(gpu.quality),
      gpu.gaps.length > 0 && el('ul', { class: 'plain', style: { 'margin-top': '0.8rem' } },
        gpu.gaps.map((g) => el('li', {}, `${g.source}: ${g.length}, ${g.at}: ${g.reason}`)), gpu.more_gaps && el('li', {}, say('more_gaps', gpu.more_gaps)))),
    el('div', {}, el('h3', {}, say('quality_cost')), pairs(found.cost)),
    el('div', {}, el('h3', {}, say('quality_doubts')),
      said.length ? el('ul', { class: 'plain' }, said.map((d) => el('li', {}, d))) : el('p', { class: 'why' }, say('no_doubts')))), false);
}

function numbersSection(gpu) {
  const body = el('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': say('sec_numbers') });
  const fill = (wanted) => body.replaceChildren(factTable(gpu.facts.filter((f) => f.name.toLowerCase().includes(wanted))));
  fill('');
  const node = section('numbers', [
    el('input', { type: 'search', placeholder: say('search'), 'aria-label': say('search'),
      oninput: (event) => fill(event.target.value.trim().toLowerCase()) }), body], false);
  node.classList.add('numbers');
  node.querySelector('h2').after(el('p', { class: 'lead' }, say('numbers_lead')));
  return node;
}

function clocksSection(gpu) {
  if (!gpu.clocks.length) return null;
  return section('clocks', el('ul', { class: 'bars' }, gpu.clocks.map((bar) => el('li', {},
    el('div', { class: 'row' }, el('span', {}, bar.label), el('b', {}, bar.text)),
    bar.share !== null && el('div', { class: 'track', 'aria-hidden': 'true' }, bar.share > 0 && el('div', { class: `fill ${bar.status}`, style: { width: `${Math.min(1, bar.share) * 100}%` } })),
    el('small', {}, bar.note)))), false);
}

function hostSection(gpu) {
  const { host } = gpu;
  if (!host) return section('host', el('p', { class: 'why' }, coded(say('no_host'))), false);
  const rows = host.causes.map((cause) => el('li', {},
    el('div', { class: 'row' }, el('span', {}, explained(el('code', { class: 'where' }, cause.place), cause.path.join(' ← ')), ' ', el('code', {}, cause.text)), el('b', {}, cause.share_text)),
    el('div', { class: 'track', 'aria-hidden': 'true' }, el('div', { class: 'fill', style: { width: `${Math.min(1, cause.share) * 100}%` } }),
      known(cause.low) && el('i', { class: 'whisker', style: { left: `${Math.min(1, cause.low) * 100}%`, right: `${100 - Math.min(1, cause.high) * 100}%` } })),
    el('small', {}, cause.words)));
  return section('host', [
    rows.length > 0 && el('p', { class: 'lead', style: { 'margin-bottom': '1rem' } }, say('host_lead', host.idle, host.moments, host.watched), host.overlap && ` ${say('host_overlap')}`),
    rows.length ? el('ul', { class: 'bars' }, rows) : el('p', { class: 'why' }, host.reason || say('host_nothing'))], false);
}
