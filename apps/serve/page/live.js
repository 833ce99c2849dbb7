// Draws live.json once a second. Series are lists of one value per second, the latest last.
"use strict";

const SECONDS = 300;
const SVG = "http://www.w3.org/2000/svg";
const WIDTH = 460, HEIGHT = 150, LEFT = 46, RIGHT = 8, TOP = 10, BOTTOM = 20;

const CHARTS = [
  {title: "Requests", unit: "", lines: [["running", "running"], ["waiting", "waiting"]]},
  {title: "KV cache in use", unit: "%", max: 100, scale: 100, lines: [["kv_usage", "used"]]},
  {title: "Tokens per second", unit: "", lines: [["decode_tokens", "decode"], ["prefill_tokens", "prefill"]]},
  {title: "Time to first token", unit: "ms", scale: 1000, lines: [["first_token_p50", "p50"], ["first_token_p99", "p99"]]},
  {title: "Inter-token latency", unit: "ms", scale: 1000, lines: [["token_gap_p50", "p50"], ["token_gap_p99", "p99"]]},
  {title: "Batch", unit: "", lines: [["batch_requests", "requests per step"], ["steps", "steps per second"]]},
];

function element(name, parent, attributes, text) {
  const created = name.startsWith("svg:")
    ? document.createElementNS(SVG, name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) created.setAttribute(key, value);
  if (text !== undefined) created.textContent = text;
  if (parent) parent.append(created);
  return created;
}

function short(value) {
  if (value === null || value === undefined) return "–";
  if (value >= 1e6) return (value / 1e6).toFixed(1) + " M";
  if (value >= 1e4) return (value / 1e3).toFixed(1) + " k";
  if (value >= 100 || Number.isInteger(value)) return value.toFixed(0);
  return value.toPrecision(3);
}

// The smallest of 1, 2, 5 times a power of ten that is not below the value.
function ceiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const digit of [1, 2, 5, 10]) if (digit * power >= value) return digit * power;
  return 10 * power;
}

function linePath(values, max) {
  let path = "", drawn = false;
  values.forEach((value, i) => {
    if (value === null) { drawn = false; return; }
    const age = values.length - 1 - i;
    const x = WIDTH - RIGHT - age / (SECONDS - 1) * (WIDTH - LEFT - RIGHT);
    const y = HEIGHT - BOTTOM - Math.min(1, value / max) * (HEIGHT - TOP - BOTTOM);
    path += (drawn ? "L" : "M") + x.toFixed(1) + " " + y.toFixed(1);
    if (!drawn) path += "h0.01";  // a lone value is a dot
    drawn = true;
  });
  return path;
}

function drawChart(parent, chart, state) {
  const figure = element("figure", parent);
  const caption = element("figcaption", figure);
  element("strong", caption, {}, chart.title + (chart.unit ? " in " + chart.unit : ""));
  const series = chart.lines.map(([name]) => state[name].map(
    value => value === null ? null : value * (chart.scale || 1)));
  const max = chart.max || ceiling(Math.max(...series.flat().filter(value => value !== null), 0));
  const svg = element("svg:svg", figure, {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
    "aria-label": chart.title, preserveAspectRatio: "none"});
  for (const share of [0, 0.5, 1]) {
    const y = HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM);
    element("svg:line", svg, {class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y, y2: y});
    element("svg:text", svg, {x: LEFT - 5, y: y + 4, "text-anchor": "end"}, short(share * max));
  }
  for (const [minutes, anchor] of [[5, "start"], [2.5, "middle"], [0, "end"]]) {
    const x = WIDTH - RIGHT - minutes / 5 * (WIDTH - LEFT - RIGHT);
    element("svg:text", svg, {x, y: HEIGHT - 5, "text-anchor": anchor},
      minutes === 0 ? "now" : `-${minutes} min`);
  }
  series.forEach((values, i) => {
    const style = i === 0 ? "first" : "second";
    const latest = values[values.length - 1];
    element("span", caption, {class: "key " + style}, `${chart.lines[i][1]} ${short(latest)}`);
    element("svg:path", svg, {class: style, d: linePath(values, max)});
  });
}

function latest(values) { return values.length ? values[values.length - 1] : null; }
function recent(values) {  // the latest value that there is, of the last ten seconds
  return values.slice(-10).reverse().find(value => value !== null);
}

function draw(state) {
  document.getElementById("served").textContent =
    `${state.model} · policy ${state.policy}` +
    (state.replicas > 1 ? ` · ${state.replicas} replicas` : "") +
    (state.emulated ? ` · emulated${state.speed === 1 ? "" : `, ${state.speed} times as fast`}` : "");
  const numbers = document.getElementById("numbers");
  numbers.replaceChildren();
  const milliseconds = value => value === undefined ? "–" : short(value * 1000) + " ms";
  for (const [label, value] of [
    ["running", short(latest(state.running))],
    ["waiting", short(latest(state.waiting))],
    ["KV cache in use", short((latest(state.kv_usage) || 0) * 100) + " %"],
    ["decode tokens/s", short(latest(state.decode_tokens))],
    ["time to first token, p50", milliseconds(recent(state.first_token_p50))],
    ["inter-token latency, p50", milliseconds(recent(state.token_gap_p50))],
    [`KV blocks of ${state.block_size}`, short(state.blocks)],
  ]) {
    const box = element("div", numbers, {class: "number"});
    element("b", box, {}, value);
    element("span", box, {}, label);
  }
  const charts = document.getElementById("charts");
  charts.replaceChildren();
  for (const chart of CHARTS) drawChart(charts, chart, state);
  const config = document.getElementById("config");
  if (config.textContent !== state.config) config.textContent = state.config;
}

async function refresh() {
  const status = document.getElementById("status");
  try {
    const response = await fetch("live.json", {cache: "no-store"});
    if (!response.ok) throw new Error(`live.json: status ${response.status}`);
    draw(await response.json());
    status.textContent = "live";
    status.className = "";
  } catch (error) {
    status.textContent = `no connection (${error.message})`;
    status.className = "lost";
  }
  setTimeout(refresh, 1000);
}
refresh();
