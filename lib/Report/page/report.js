// SPDX-License-Identifier: Apache-2.0
'use strict';
// Draws the page from the one JSON object in it; docs/simulator.md has the schema.

const steps = JSON.parse(document.getElementById('data').textContent).steps;
const ACTIVITIES = ['compute', 'optimizer', 'inter gather', 'inter reduce', 'intra gather', 'intra reduce', 'host store',
  'host load'];
const MEMORY_COLORS = { optimizer: 'optimizer-state' };
const LINKS = { inter: 'between nodes', intra: 'within a node', d2h: 'to host memory', h2d: 'from host memory' };

// --- Words and numbers ---

function number(value) {
  return Number(value.toPrecision(4)).toLocaleString('en');
}

function scaled(value, base, units) {
  let unit = 0;
  for (; value >= base && unit + 1 < units.length; ++unit) value /= base;
  return `${number(value)} ${units[unit]}`;
}

const bytes = (value) => scaled(value, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']);

function seconds(value) {
  const size = Math.abs(value);
  if (size >= 1 || size === 0) return `${number(value)} s`;
  return size >= 1e-3 ? `${number(value * 1e3)} ms` : `${number(value * 1e6)} µs`;
}

const percent = (part, whole) => (whole > 0 ? `${(100 * part / whole).toFixed(1)} %` : '-');
const sum = (values) => values.reduce((a, b) => a + b, 0);
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const nameOf = (step) => steps.some((other) => other !== step && other.strategy === step.strategy) ?
  `${step.strategy}, ${step.input}` : step.strategy;

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

// --- Summary ---

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

const SUMMARY = [
  ['Step', (step) => seconds(step.seconds) + (step.ranks ? `, ranks from ${seconds(step.ranks.least)} on` : '')],
  ['Eight of ten times', (step) => (step.low ? `${seconds(step.low)} to ${seconds(step.high)}` : '-')],
  ['Beside the best', (step) => beside(step.compared)],
  ['Tokens a second', (step) => (step.tokens ? number(step.tokens.per_second) : '-')],
  ['MFU', (step) => percent(step.flops.mfu, 1)],
  ['HFU', (step) => percent(step.flops.hfu, 1)],
  ['Exposed', (step) => percent(sum(Object.values(step.exposed)), step.seconds)],
  ['Least of any order', (step) => {
    const [name, most] = Object.entries(step.bounds).reduce((a, b) => (b[1] > a[1] ? b : a));
    return `${seconds(most)}: ${name}`;
  }],
  ['Device memory', (step) => fit(step.device_memory)],
  ['Reserved of a device', (step) => reserved(step.device_memory)],
  ['Fullest at', (step) => place(step.device_memory)],
  ['Host memory of a node', (step) => fit(step.host_memory)],
];

function fillSummary() {
  document.getElementById('summary').append(
    make('thead', {}, make('tr', {}, make('th'), ...steps.map((step) => make('th', {}, nameOf(step))))),
    make('tbody', {}, ...SUMMARY.map(([name, cell]) =>
      make('tr', {}, make('th', { scope: 'row' }, name), ...steps.map((step) => make('td', {}, cell(step)))))));
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
  const labels = new Map();
  for (const step of steps) {
    const bar = make('div', { class: 'bar' });
    for (const [name, label, value] of partsOf(step)) {
      const segment = make('span', { title: `${label}: ${seconds(value)}, ${percent(value, step.seconds)}` });
      segment.style.cssText = `background:var(--${name});width:${100 * value / longest}%`;
      bar.append(segment);
      if (value >= step.seconds / 1000) labels.set(label, name);
    }
    document.getElementById('bars').append(make('div', { class: 'row' },
      make('div', { class: 'name' }, make('span', {}, nameOf(step)), make('span', {}, seconds(step.seconds))), bar));
  }
  fillLegend('time-legend', [...labels].map(([label, name]) => [name, label]));
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
      'aria-label': `Streams and memory of a step with ${nameOf(step)}` });
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
  window.matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
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

function bucketRow(bucket) {
  const again = (name) => (bucket.choices[name] ? seconds(bucket.choices[name].seconds) : '-');
  const cells = [bytes(bucket.bytes), bucket.residency, bucket.carry, bucket.accumulation || 'frozen',
    ...['full', 'node', 'host', 'drop'].map(again)];
  return make('tr', {}, make('td', { class: 'words' }, bucket.unit || bucket.name),
    ...cells.map((cell) => make('td', {}, cell)), make('td', { class: 'words' }, bucket.why));
}

function fillBuckets() {
  const heads = ['unit', 'gathered', 'residency', 'until the next micro-batch', 'gradients', 'again from full', 'node', 'host',
    'drop'];
  for (const step of steps) {
    const table = make('table', {},
      make('thead', {}, make('tr', {}, ...heads.map((name) => make('th', {}, name)), make('th', { class: 'words' }, 'why'))),
      make('tbody', {}, ...step.buckets.map(bucketRow)));
    const details = make('details', {}, make('summary', {}, `${nameOf(step)}: ${step.buckets.length} buckets`),
      make('div', { class: 'scroll' }, table));
    details.open = steps.length === 1;
    document.getElementById('buckets').append(details);
  }
}

// --- Page ---

function fillHead() {
  const step = steps[0], inputs = [...new Set(steps.map((other) => other.input))];
  const title = `${inputs.join(', ')} on ${step.cluster}`;
  document.title = title;
  document.getElementById('title').textContent = title;
  document.getElementById('subtitle').textContent =
    `${step.nodes} nodes of ${step.ranks_per_node} ranks, ${step.micro_batches} micro-batches a step; predicted by fcdp-sim`;
}

fillHead();
fillSummary();
fillBars();
fillTimeline();
fillTraffic();
fillBuckets();
