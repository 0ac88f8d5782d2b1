// SPDX-License-Identifier: Apache-2.0
'use strict';
// Draws the page from the one JSON object in it; docs/simulator.md has the schema.

const steps = JSON.parse(document.getElementById('data').textContent).steps;
const ACTIVITIES = ['compute', 'optimizer', 'inter gather', 'inter reduce', 'intra gather', 'intra reduce', 'host store',
  'host load', 'host issue'];
// The work that compute waits for, in a sentence.
const WAITS = { inter_gather: 'gathers between nodes', inter_reduce: 'reductions between nodes',
  intra_gather: 'gathers within a node', intra_reduce: 'reductions within a node', host_store: 'copies to host memory',
  host_load: 'copies from host memory', host_issue: 'the host, which issues operations', optimizer: 'the optimizer',
  compute: 'computation on other streams', bubble: 'nothing that runs on this rank' };
const MEMORY_COLORS = { optimizer: 'optimizer-state' };
const LINKS = { inter: 'between nodes', intra: 'within a node', d2h: 'to host memory', h2d: 'from host memory' };

// --- Words and numbers ---

function number(value) {
  return Number(value.toPrecision(4)).toLocaleString('en');
}

function scaled(value, base, units) {
  let unit = 0;
  for (; value >= base && unit + 1 < units.length; ++unit) value /= base;
  return `${number(value)}\u00a0${units[unit]}`;
}

const bytes = (value) => scaled(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']);

function seconds(value) {
  const size = Math.abs(value);
  if (size >= 1 || size === 0) return `${number(value)}\u00a0s`;
  return size >= 1e-3 ? `${number(value * 1e3)}\u00a0ms` : `${number(value * 1e6)}\u00a0µs`;
}

const percent = (part, whole) => (whole > 0 ? `${(100 * part / whole).toFixed(1)}\u00a0%` : '-');
const sum = (values) => values.reduce((a, b) => a + b, 0);
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const plural = (count, one, several = `${one}s`) => `${number(count)} ${count === 1 ? one : several}`;

/// Returns an input's name without its folder, unless another input has the same name.
function inputOf(step) {
  const base = (path) => path.replace(/^.*\//, '');
  const isUnique = steps.every((other) => other.input === step.input || base(other.input) !== base(step.input));
  return isUnique ? step.input.replace(/\S*\//, '') : step.input;
}

const nameOf = (step) => steps.some((other) => other !== step && other.strategy === step.strategy) ?
  `${step.strategy}, ${inputOf(step)}` : step.strategy;

// --- Elements ---

function make(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

function swatch(name) {
  const element = make('i');
  element.style.background = `var(--${name})`;
  return element;
}

function fillLegend(id, entries) {
  document.getElementById(id).append(...entries.map(([name, label]) => make('li', {}, swatch(name), label)));
}

// --- In short ---

const isMeasured = (step) => Boolean(step.ranks);
const fits = (step) => step.device_memory.fits && step.host_memory.fits;
const waited = (step) => sum(Object.values(step.exposed)) + step.bubble;
const code = (text) => make('code', {}, text);

/// Returns the waits of a step as [key, seconds], the longest first, without those below a thousandth of the step.
function waitsOf(step) {
  return Object.entries({ ...step.exposed, bubble: step.bubble }).filter(([, value]) => value >= step.seconds / 1000)
    .sort((a, b) => b[1] - a[1]);
}

/// Returns the step that the page answers for first: the measured one, or else the fastest that fits.
function firstChoice() {
  const byRate = steps.every((step) => step.tokens);
  const cost = (step) => (byRate ? 1 / step.tokens.per_second : step.seconds);
  const isBetter = (a, b) => (fits(a) !== fits(b) ? fits(a) : cost(a) < cost(b));
  return steps.find(isMeasured) || steps.reduce((best, step) => (isBetter(step, best) ? step : best));
}

function howLong(step) {
  const notes = [];
  if (step.low) notes.push(`${seconds(step.low)} to ${seconds(step.high)} in eight of ten cases`);
  if (isMeasured(step)) {
    notes.push(`Measured, rank ${step.ranks.shown} of ${step.ranks.count}; ranks took ${seconds(step.ranks.least)} to ${seconds(step.ranks.most)}`);
    const predicted = steps.find((other) => !isMeasured(other) && other.strategy === step.strategy);
    if (predicted) notes.push(`Predicted: ${seconds(predicted.seconds)}`);
  }
  if (step.compared) {
    const { is_best: isBest, best, ratio, told_apart: isApart } = step.compared;
    const shown = steps.filter((other) => other.compared && other.input === step.input);
    const fastest = !fits(step) || shown.every(fits) ? 'The fastest' : 'The fastest that fits,';
    notes.push(isBest ? `${fastest} of ${shown.length} strategies` :
      `${number(ratio)} times as long as ${best}${isApart ? '' : ', which is within the uncertainty'}`);
  }
  if (step.tokens) notes.push(`${number(step.tokens.per_second)} tokens a second, MFU ${percent(step.flops.mfu, 1)}`);
  return [seconds(step.seconds), '', notes];
}

function waitsFor(step) {
  const waits = waitsOf(step), share = waited(step) / step.seconds;
  if (share < .01) return ['Nothing', 'good', ['Compute waits for less than 1\u00a0% of the step.']];
  const notes = waits.slice(0, 3).map(([key, value]) => `${percent(value, step.seconds)} for ${WAITS[key]}`);
  if (waits.length > 3) notes.push(`${percent(sum(waits.slice(3).map((wait) => wait[1])), step.seconds)} for other work`);
  return [`${percent(waited(step), step.seconds)} of the step`, share < .05 ? 'good' : '', notes];
}

function doesFit(step) {
  const note = (memory, place) => `${place}: ${bytes(memory.bytes)} of ${bytes(memory.capacity)}${memory.fits ? '' :
    `, ${bytes(memory.bytes - memory.capacity)} too many`}`;
  return [fits(step) ? 'Yes' : 'No', fits(step) ? 'good' : 'bad',
    [note(step.device_memory, 'Each device'), note(step.host_memory, 'Host memory of a node')]];
}

/// Returns advice for a step that needs too much memory.
function memoryAdvice(step) {
  const advice = [], { device_memory: device, host_memory: host } = step;
  const [use] = Object.entries(device.in_use).reduce((a, b) => (b[1] > a[1] ? b : a), ['', 0]);
  const shard = step.buckets.some((bucket) => bucket.sharding !== 'world') &&
    ['Shard states over all ranks, for example with ', code('--strategy=fcdp'), '.'];
  const remedies = {
    activations: ['Recompute activations with ', code('--remat=unit'), ', or export a smaller micro-batch.'],
    gathered: step.buckets.some((bucket) => bucket.residency === 'full' || bucket.residency === 'node') ?
      ['Keep gathered copies in host memory with ', code('--strategy=fcdp'), '.'] :
      ['Have fewer gathered copies at once with ', code('--prefetch=0'), ' or ', code('--wrap=module'), '.'],
    gradients: ['Accumulate gradients in host memory with ', code('--accumulate=node_host'), '.'],
    optimizer: shard || ['Use more ranks, or a smaller optimizer state, such as ', code('--optimizer=adamw8bit'), '.'],
    shards: shard || ['Use more ranks.'],
    scratch: ['Reduce fewer gradients at once with ', code('--reductions=1'), '.'],
    inputs: ['Export a smaller micro-batch.'],
  };
  if (!device.fits && remedies[use])
    advice.push([`Most of the device memory is in use by ${use} (${bytes(device.in_use[use])}). `, ...remedies[use]]);
  if (!host.fits)
    advice.push(['Keep no copies in host memory: take ', code('--strategy=hpz'), ' or ', code('--strategy=zero3'), '.']);
  if (step.strategy !== 'auto') advice.push(['Or look for a plan that fits, with ', code('--strategy=auto'), '.']);
  return advice;
}

/// Returns the share of gathered bytes whose bucket has the property.
function shareOf(step, hasProperty) {
  const size = (buckets) => sum(buckets.map((bucket) => bucket.bytes));
  return size(step.buckets.filter(hasProperty)) / Math.max(1, size(step.buckets));
}

const computeMore = () => ['ompute more in that time: a larger batch, or more ', code('--micro-batches'), '.'];

/// Returns advice for a step whose compute waits most for the work `key`.
function waitAdvice(step, key) {
  const several = step.micro_batches > 1;
  switch (key) {
    case 'inter_gather':
      if (shareOf(step, (bucket) => bucket.residency === 'drop' && bucket.sharding === 'world') > .5)
        return ['Keep gathered copies between their uses: ', code('--strategy=fcdp'), ' gathers each bucket between nodes once a step.'];
      if (several && shareOf(step, (bucket) => bucket.carry === 'drop' && bucket.sharding === 'world') > .5)
        return ['Keep gathered copies from one micro-batch to the next, with ', code('--strategy=fcdp'), '.'];
      return ['Each bucket is gathered between nodes once a step already. C', ...computeMore()];
    case 'inter_reduce':
      if (several && shareOf(step, (bucket) => bucket.accumulation === 'sharded') > .5)
        return ['Reduce gradients between nodes once a step, and not in each micro-batch: ', code('--accumulate=node'), '.'];
      return ['Send gradients in half the bytes with ', code('--reduce-dtype=bf16'), ', unless they are in bfloat16 already. Or c', ...computeMore()];
    case 'intra_gather':
    case 'intra_reduce':
      return ['Give the link within a node more computation to overlap with: a larger micro-batch.'];
    case 'host_store':
    case 'host_load': {
      const slices = step.host_memory.bytes / step.ranks_per_node, room = step.device_memory.capacity - step.device_memory.bytes;
      return slices <= room ?
        ['Keep the copies on the devices, which have room for them: ', code('--strategy=hpz'), '.'] :
        ['Keep as many copies on the devices as they have room for: ', code('--strategy=auto'), '.'];
    }
    case 'host_issue':
      return ['The device is faster than the host issues operations. Use a larger micro-batch or, on GPUs, ', code('fcdp-run --cuda-graphs=auto'), '.'];
    case 'bubble':
      return ['Look at the other ranks and at the data loader: nothing runs on this rank in that time.'];
  }
  return null;
}

/// Returns the advice to take the fastest of several strategies.
function takeThis(step) {
  const others = steps.filter((one) => one.compared && one.input === step.input && one !== step);
  const next = others.reduce((a, b) => (b.compared.ratio < a.compared.ratio ? b : a)), { ratio, told_apart: isApart } = next.compared;
  if (ratio < 1) return ['Take ', code(`--strategy=${step.strategy}`), `: ${next.strategy} is faster, and does not fit.`];
  return ['Take ', code(`--strategy=${step.strategy}`), isApart ? `: ${next.strategy}, the next one, takes ${number(ratio)} times as long.` :
    `, or ${next.strategy} if its memory suits you better: their times cannot be told apart.`];
}

function whatToChange(step) {
  const advice = fits(step) ? [] : memoryAdvice(step), { compared } = step;
  const other = compared && !compared.is_best && steps.find((one) => one.input === step.input && one.compared?.is_best);
  if (other && fits(other))
    advice.push(compared.told_apart && compared.ratio > 1 ?
      ['Take ', code(other.strategy), `: this step takes ${number(compared.ratio)} times as long.`] :
      ['The times of this step and of ', code(other.strategy), ' cannot be told apart. Choose by memory.']);
  if (compared && compared.is_best && fits(step)) advice.push(takeThis(step));
  const share = waited(step) / step.seconds;
  if (share >= .05) {
    advice.push(waitAdvice(step, waitsOf(step)[0][0]) || []);
    if (fits(step) && step.strategy !== 'auto' && !steps.some((one) => one.strategy === 'auto'))
      advice.push(['See whether a plan that no preset has is faster, with ', code(`--compare=${step.strategy},auto`), '.']);
  } else {
    const room = step.device_memory.capacity - step.device_memory.bytes, repeated = step.flops.hfu / step.flops.mfu - 1;
    advice.push([`Nothing about communication: compute works in ${percent(step.seconds - waited(step), step.seconds)} of the step.`]);
    if (repeated > .05 && room > step.device_memory.capacity / 10)
      advice.push([`${bytes(room)} of each device are free, and ${percent(repeated, 1)} of the operations are repeated: try less `, code('--remat'), '.']);
  }
  const [resource, least] = Object.entries(step.bounds).reduce((a, b) => (b[1] > a[1] ? b : a));
  const notes = advice.filter((parts) => parts.length);
  const gain = 1 - least / step.seconds;
  notes.push([`No order of the same operations takes less than ${seconds(least)} (${RESOURCES[resource]})${gain > .001 ? `, ${percent(gain, 1)} less` : ''}.`]);
  return ['', '', notes];
}

const RESOURCES = { compute: 'computation', inter: 'the link between nodes', intra: 'the link within a node',
  h2d: 'copies from host memory', d2h: 'copies to host memory' };
const QUESTIONS = [['How long is a step?', howLong], ['What does it wait for?', waitsFor], ['Does it fit?', doesFit],
  ['What should I change?', whatToChange]];

function showAnswers(step) {
  document.getElementById('answers').replaceChildren(...QUESTIONS.map(([question, answer]) => {
    const [short, look, notes] = answer(step);
    return make('div', {}, make('dt', {}, question), make('dd', {},
      ...(short ? [make('strong', look ? { class: look } : {}, short)] : []),
      make('ul', {}, ...notes.map((note) => make('li', {}, ...[note].flat())))));
  }));
  for (const button of document.querySelectorAll('#choices button'))
    button.setAttribute('aria-pressed', String(steps[Number(button.value)] === step));
}

function fillAnswers() {
  const choices = document.getElementById('choices');
  if (steps.length === 1) choices.remove();
  else steps.forEach((step, index) => {
    const button = make('button', { type: 'button', value: String(index) }, nameOf(step));
    button.addEventListener('click', () => showAnswers(step));
    choices.append(button);
  });
  showAnswers(firstChoice());
}

// --- Figures ---

function fit(memory) {
  const text = `${bytes(memory.bytes)} of ${bytes(memory.capacity)}`;
  return make('span', { class: memory.fits ? 'good' : 'bad' }, `${text}: ${memory.fits ? 'fits' : 'does not fit'}`);
}

function beside(compared) {
  if (!compared) return '-';
  if (compared.is_best) return 'the best';
  const ratio = `${number(compared.ratio)} times ${compared.best}`;
  return compared.told_apart ? ratio : `${ratio}: cannot be told apart`;
}

function reserved(memory) {
  return Object.entries(memory.reserved).map(([name, value]) => `${name} ${bytes(value)}`).join(', ') || '-';
}

function place(memory) {
  if (!memory.at) return '-';
  const { operation, function: name, module } = memory.at;
  return make('span', { class: 'name' }, `${operation} in ${name}${module ? `, ${module}` : ''}`);
}

const FIGURES = [
  ['Step', (step) => seconds(step.seconds) + (step.ranks ? `, ranks from ${seconds(step.ranks.least)} on` : '')],
  ['Eight of ten times', (step) => (step.low ? `${seconds(step.low)} to ${seconds(step.high)}` : '-')],
  ['Beside the best', (step) => beside(step.compared)],
  ['Tokens a second', (step) => (step.tokens ? number(step.tokens.per_second) : '-')],
  ['MFU', (step) => percent(step.flops.mfu, 1)],
  ['HFU', (step) => percent(step.flops.hfu, 1)],
  ['Waiting', (step) => percent(waited(step), step.seconds)],
  ['Least of any order', (step) => {
    const [name, most] = Object.entries(step.bounds).reduce((a, b) => (b[1] > a[1] ? b : a));
    return `${seconds(most)}: ${name}`;
  }],
  ['Device memory', (step) => fit(step.device_memory)],
  ['Reserved of a device', (step) => reserved(step.device_memory)],
  ['Fullest at', (step) => place(step.device_memory)],
  ['Host memory of a node', (step) => fit(step.host_memory)],
];

function fillFigures() {
  document.getElementById('figures').append(
    make('thead', {}, make('tr', {}, make('td'), ...steps.map((step) => make('th', { scope: 'col' }, nameOf(step))))),
    make('tbody', {}, ...FIGURES.map(([name, cell]) => [name, steps.map(cell)])
      .filter(([, cells]) => cells.some((cell) => cell !== '-'))
      .map(([name, cells]) => make('tr', {}, make('th', { scope: 'row' }, name), ...cells.map((cell) => make('td', {}, cell))))));
}

// --- Where the time goes ---

/// Returns the parts of a step in order, each as [colour, label, seconds].
function partsOf(step) {
  const part = (prefix, [key, value]) => [key.replace('_', '-'), `${prefix}${key.replace('_', ' ')}`, value];
  return [...Object.entries(step.on_compute_stream).map((entry) => part('', entry)),
    ...Object.entries(step.exposed).map((entry) => part('exposed ', entry)),
    ...(step.bubble > 0 ? [['bubble', 'bubble', step.bubble]] : [])];
}

function fillBars() {
  const longest = Math.max(...steps.map((step) => step.seconds));
  for (const step of steps) {
    const bar = make('div', { class: 'bar', 'aria-hidden': 'true' }), list = make('ul', { class: 'legend' });
    for (const [name, label, value] of partsOf(step)) {
      const segment = make('span', { title: `${label}: ${seconds(value)}, ${percent(value, step.seconds)}` });
      segment.style.cssText = `background:var(--${name});width:${100 * value / longest}%`;
      bar.append(segment);
      if (value >= step.seconds / 1000) list.append(make('li', {}, swatch(name), `${label} ${percent(value, step.seconds)}`));
    }
    document.getElementById('bars').append(make('div', { class: 'row' },
      make('div', { class: 'name' }, make('span', {}, nameOf(step)), make('span', {}, seconds(step.seconds))), bar, list));
  }
}

// --- Timeline ---

const whole = { from: Math.min(...steps.map((step) => step.timeline.begin)),
  to: Math.max(...steps.map((step) => step.timeline.end)) };
const view = { ...whole };
const panels = [];

function setView(from, to) {
  const least = (whole.to - whole.from) * 1e-6;
  const width = Math.min(Math.max(to - from, least), whole.to - whole.from);
  view.from = Math.min(Math.max(from, whole.from), whole.to - width);
  view.to = view.from + width;
  for (const panel of panels) panel.draw();
}

function zoom(factor, at = (view.from + view.to) / 2) {
  setView(at - (at - view.from) * factor, at + (view.to - at) * factor);
}

/// Returns a distance between marks: 1, 2 or 5 times a power of ten.
function roundDistance(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find((step) => step * power >= value);
}

const LANE = 20, GAP = 4, AXIS = 22, MEMORY = 130, GUTTER = 92;

/// Draws the streams of one step above its memory in use, on one time axis.
class Panel {
  constructor(step) {
    this.step = step;
    this.lanes = step.timeline.streams.filter((stream) => stream.spans.length > 0);
    this.memory = step.timeline.memory;
    this.totals = this.memory.points.map((point) => sum(point.slice(1)));
    this.peak = Math.max(1, ...this.totals);
    this.memoryTop = this.lanes.length * (LANE + GAP) + AXIS + 8;
    this.canvas = make('canvas', { tabindex: '0', role: 'img',
      'aria-label': `Streams and memory of a step with ${nameOf(step)}. Arrow keys move, plus and minus zoom.` });
    document.getElementById('panels').append(make('h3', {}, nameOf(step)), this.canvas);
    this.listen();
  }

  get width() { return this.canvas.clientWidth; }
  toX(time) { return GUTTER + (time - view.from) / (view.to - view.from) * (this.width - GUTTER); }
  toTime(x) { return view.from + (x - GUTTER) / (this.width - GUTTER) * (view.to - view.from); }

  draw() {
    const height = this.memoryTop + MEMORY, ratio = window.devicePixelRatio || 1;
    this.canvas.style.height = `${height}px`;
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.context = this.canvas.getContext('2d');
    this.context.scale(ratio, ratio);
    this.context.font = '12px system-ui, sans-serif';
    this.context.textBaseline = 'middle';
    this.drawAxis();
    this.drawLanes();
    this.drawMemory();
    this.drawLabels();
  }

  drawAxis() {
    const { context } = this, axis = this.lanes.length * (LANE + GAP);
    const distance = roundDistance((view.to - view.from) / Math.max(2, (this.width - GUTTER) / 90));
    context.textAlign = 'center';
    for (let mark = Math.ceil(view.from / distance); mark * distance <= view.to; ++mark) {
      const x = this.toX(mark * distance);
      context.fillStyle = color('line');
      context.fillRect(x, 0, 1, this.memoryTop + MEMORY);
      context.fillStyle = color('quiet');
      const half = context.measureText(seconds(mark * distance)).width / 2;
      if (x + half <= this.width)
        context.fillText(seconds(mark * distance), Math.max(x, GUTTER + half), axis + AXIS / 2);
    }
    context.fillStyle = color('text');
    for (const border of [0, ...this.step.timeline.functions.map((entry) => entry.end)])
      context.fillRect(this.toX(border), 0, 1, axis);
  }

  drawLanes() {
    const colors = ACTIVITIES.map((name) => color(name.replace(' ', '-')));
    this.lanes.forEach((lane, row) => {
      for (const [begin, end, activity] of lane.spans) {
        if (end < view.from || begin > view.to) continue;
        const x = Math.max(GUTTER, this.toX(begin));
        this.context.fillStyle = colors[activity];
        this.context.fillRect(x, row * (LANE + GAP) + GAP, Math.max(.5, this.toX(end) - x - .3), LANE);
      }
    });
  }

  drawMemory() {
    const { context, memory } = this, bottom = this.memoryTop + MEMORY, scale = (MEMORY - 14) / this.peak;
    memory.points.forEach((point, index) => {
      const end = index + 1 < memory.points.length ? memory.points[index + 1][0] : this.step.seconds;
      if (end < view.from || point[0] > view.to) return;
      const x = Math.max(GUTTER, this.toX(point[0])), width = Math.max(.5, this.toX(end) - x + .3);
      let y = bottom;
      memory.names.forEach((name, part) => {
        const height = point[part + 1] * scale;
        context.fillStyle = color(MEMORY_COLORS[name] || name);
        context.fillRect(x, y - height, width, height);
        y -= height;
      });
    });
  }

  /// Draws over what the lanes have drawn to the left of the axis.
  drawLabels() {
    const { context } = this;
    context.fillStyle = color('raised');
    context.fillRect(0, 0, GUTTER - 2, this.memoryTop + MEMORY);
    context.fillStyle = color('text');
    context.textAlign = 'left';
    this.lanes.forEach((lane, row) => context.fillText(lane.name, 6, row * (LANE + GAP) + GAP + LANE / 2));
    context.fillText('memory', 6, this.memoryTop + 20);
    context.fillStyle = color('quiet');
    context.fillText(bytes(this.peak), 6, this.memoryTop + 36);
  }

  /// Describes what is under a point of the canvas; empty if there is nothing.
  describe(x, y) {
    const time = this.toTime(x);
    if (x < GUTTER) return '';
    if (y > this.memoryTop) return this.describeMemory(time);
    const lane = this.lanes[Math.floor(y / (LANE + GAP))];
    // At least half a pixel wide, as it is drawn.
    const slack = (view.to - view.from) / (this.width - GUTTER) / 2;
    const span = lane && lane.spans.find(([begin, end]) => begin - slack <= time && time <= end + slack);
    if (!span) return '';
    const [begin, end, activity, label, count] = span;
    const what = count > 1 ? `${count} operations from ${this.step.timeline.labels[label]} on` :
      this.step.timeline.labels[label];
    return `${what}\n${ACTIVITIES[activity]}, ${seconds(end - begin)} from ${seconds(begin)} on`;
  }

  describeMemory(time) {
    const { names, points } = this.memory;
    const index = points.findLastIndex((point) => point[0] <= time);
    if (index < 0 || time > this.step.seconds) return '';
    const parts = names.map((name, part) => [name, points[index][part + 1]]).filter(([, value]) => value > 0);
    return [`${bytes(this.totals[index])} in use`, ...parts.map(([name, value]) => `${name} ${bytes(value)}`)].join('\n');
  }

  listen() {
    const { canvas } = this, pointers = new Map();
    const show = (event) => showTip(this.describe(event.offsetX, event.offsetY), event);
    canvas.addEventListener('pointerdown', (event) => {
      pointers.set(event.pointerId, event.offsetX);
      canvas.setPointerCapture(event.pointerId);
      show(event);
    });
    canvas.addEventListener('pointermove', (event) => {
      show(event);
      if (!pointers.has(event.pointerId)) return;
      const before = [...pointers.values()];
      pointers.set(event.pointerId, event.offsetX);
      this.follow(before, [...pointers.values()]);
    });
    for (const name of ['pointerup', 'pointercancel'])
      canvas.addEventListener(name, (event) => pointers.delete(event.pointerId));
    canvas.addEventListener('pointerleave', () => showTip(''));
    canvas.addEventListener('wheel', (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(Math.exp(event.deltaY / 300), this.toTime(event.offsetX));
    }, { passive: false });
    canvas.addEventListener('keydown', onKey);
  }

  /// One pointer moves the view; two pointers zoom it.
  follow(before, after) {
    if (before.length === 2) {
      const stretch = Math.abs(before[0] - before[1]) / Math.max(1, Math.abs(after[0] - after[1]));
      zoom(stretch, this.toTime((after[0] + after[1]) / 2));
      return;
    }
    const moved = this.toTime(before[0]) - this.toTime(after[0]);
    setView(view.from + moved, view.to + moved);
  }
}

function onKey(event) {
  const step = (view.to - view.from) / 10;
  const actions = { ArrowLeft: () => setView(view.from - step, view.to - step),
    ArrowRight: () => setView(view.from + step, view.to + step), '+': () => zoom(.5), '-': () => zoom(2) };
  if (!actions[event.key]) return;
  event.preventDefault();
  actions[event.key]();
}

function showTip(text, event) {
  const tip = document.getElementById('tip');
  tip.hidden = !text;
  if (!text) return;
  tip.textContent = text;
  const { width, height } = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, document.documentElement.clientWidth - width - 4))}px`;
  tip.style.top = `${event.clientY + 16 + height < window.innerHeight ? event.clientY + 16 : event.clientY - height - 12}px`;
}

function fillTimeline() {
  const used = new Set(steps.flatMap((step) => step.timeline.streams.flatMap((stream) => stream.spans.map((span) => span[2]))));
  fillLegend('activity-legend', ACTIVITIES.filter((_, index) => used.has(index)).map((name) => [name.replace(' ', '-'), name]));
  fillLegend('memory-legend', steps[0].timeline.memory.names.map((name) => [MEMORY_COLORS[name] || name, `memory: ${name}`]));
  for (const step of steps) panels.push(new Panel(step));
  document.getElementById('zoom-in').addEventListener('click', () => zoom(.5));
  document.getElementById('zoom-out').addEventListener('click', () => zoom(2));
  document.getElementById('zoom-all').addEventListener('click', () => setView(whole.from, whole.to));
  const draw = () => setView(view.from, view.to);
  window.addEventListener('resize', draw);
  for (const media of ['(prefers-color-scheme: dark)', 'print']) window.matchMedia(media).addEventListener('change', draw);
  draw();
}

// --- Traffic ---

function fillTraffic() {
  const most = Math.max(1, ...steps.flatMap((step) => Object.values(step.bytes.step)));
  const list = document.getElementById('traffic');
  for (const [link, label] of Object.entries(LINKS)) {
    list.append(make('h3', {}, `${link}: ${label}`));
    for (const step of steps) {
      const value = step.bytes.step[link], bar = make('div', { class: 'bar' }), fill = make('span');
      fill.style.cssText = `background:var(--compute);width:${100 * value / most}%`;
      bar.append(fill);
      list.append(make('div', { class: 'row' },
        make('div', { class: 'name' }, make('span', {}, nameOf(step)), make('span', {}, bytes(value))), bar));
    }
  }
}

// --- Buckets ---

const HEADS = ['unit', 'buckets', 'gathered', 'residency', 'until the next micro-batch', 'gradients', 'again from full', 'node',
  'host', 'drop', 'why'];

/// Returns lists of buckets that have the same figures, in the order of their first buckets.
function alike(buckets) {
  const groups = new Map();
  for (const bucket of buckets) {
    const { name, unit, ...figures } = bucket, key = JSON.stringify(figures);
    groups.set(key, [...(groups.get(key) || []), bucket]);
  }
  return [...groups.values()];
}

const unitOf = (bucket) => bucket.unit || bucket.name;

/// Returns numbers in rising order as text, such as `0-3, 7`.
function ranges(numbers) {
  const parts = [];
  for (const value of numbers) {
    const last = parts[parts.length - 1];
    if (last && last[1] + 1 === value) last[1] = value;
    else parts.push([value, value]);
  }
  return parts.map(([from, to]) => (from === to ? `${from}` : `${from}-${to}`)).join(', ');
}

/// Returns a name for several units. Units that differ by one number are named once: `layers.[0-31].mlp`.
function nameUnits(units) {
  if (units.length === 1) return units[0];
  const pieces = units.map((unit) => unit.split(/(\d+)/)), [first] = pieces;
  const differs = first.map((_, place) => pieces.some((other) => other.length !== first.length || other[place] !== first[place]));
  const place = differs.indexOf(true);
  if (place % 2 === 1 && differs.filter(Boolean).length === 1) {
    const numbers = pieces.map((other) => Number(other[place])).sort((a, b) => a - b);
    return [...first.slice(0, place), `[${ranges(numbers)}]`, ...first.slice(place + 1)].join('');
  }
  return units.length <= 3 ? units.join(', ') : `${units[0]} and ${units.length - 1} others`;
}

/// Returns a name that may break after dots and underscores.
const breakable = (name) => name.split(/(?<=[._])/).flatMap((part) => [part, make('wbr')]);

function bucketRow(group) {
  const bucket = group[0], units = group.map(unitOf);
  const again = (name) => (bucket.choices[name] ? seconds(bucket.choices[name].seconds) : '-');
  const cells = [number(group.length), bytes(bucket.bytes), bucket.residency, bucket.carry, bucket.accumulation || 'frozen',
    ...['full', 'node', 'host', 'drop'].map(again)];
  return make('tr', {}, make('th', { scope: 'row', class: 'words', ...(units.length > 1 ? { title: units.join('\n') } : {}) },
    ...breakable(nameUnits(units))),
  ...cells.map((cell) => make('td', { class: 'number' }, cell)), make('td', { class: 'words' }, bucket.why));
}

function fillBuckets() {
  for (const step of steps) {
    const groups = alike(step.buckets);
    const table = make('table', {},
      make('thead', {}, make('tr', {}, ...HEADS.map((name) =>
        make('th', { scope: 'col', ...(name === 'why' || name === 'unit' ? { class: 'words' } : {}) }, name)))),
      make('tbody', {}, ...groups.map(bucketRow)));
    const title = `${nameOf(step)}: ${plural(step.buckets.length, 'bucket')}`;
    const details = make('details', {}, make('summary', {}, title),
      make('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': title }, table));
    details.open = steps.length === 1;
    document.getElementById('buckets').append(details);
  }
  // A closed part would be missing on paper.
  window.addEventListener('beforeprint', () => {
    for (const details of document.querySelectorAll('details')) details.open = true;
  });
}

// --- Page ---

function fillHead() {
  const step = steps[0], inputs = [...new Set(steps.map(inputOf))];
  const title = `${inputs.join(', ')} on ${step.cluster}`;
  document.title = title;
  document.getElementById('title').textContent = title;
  document.getElementById('subtitle').textContent =
    `${plural(step.nodes, 'node')} of ${plural(step.ranks_per_node, 'rank')}, ${plural(step.micro_batches, 'micro-batch', 'micro-batches')} a step; predicted by fcdp-sim`;
}

fillHead();
fillAnswers();
fillBars();
fillFigures();
fillTimeline();
fillTraffic();
fillBuckets();
