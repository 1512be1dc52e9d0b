// The page of the gateway: a chat and a live view of the cluster.  Text of models becomes text nodes, never HTML.  It
// talks to its own origin alone.
"use strict";

const $ = (id) => document.getElementById(id);
const SETTINGS = ["system", "temperature", "top_p", "max_tokens", "seed", "tools"];

// ---- state: conversations and settings in the browser, the key until the tab is closed ----

function load(name, otherwise) {
  try {
    return JSON.parse(localStorage.getItem(name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

function save() {
  try {
    localStorage.setItem("ingot.conversations", JSON.stringify(conversations));
    localStorage.setItem("ingot.settings", JSON.stringify(settings));
  } catch {
    notice("The browser has no room for more conversations: delete some.");
  }
}

let conversations = load("ingot.conversations", []);
let settings = load("ingot.settings", {});
let current = conversations[0] ?? begin();
let running = null; // the AbortController of the answer that comes
let model = "";

function begin() {
  const fresh = { title: "New conversation", messages: [] };
  conversations.unshift(fresh);
  return fresh;
}

// ---- the gateway ----

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

function askKey() {
  return new Promise((done) => {
    $("key-text").value = "";
    $("key").addEventListener("close", () => done($("key-text").value), { once: true });
    $("key").showModal();
  });
}

// A request with the key; asks for one where the server wants it.
async function request(path, options = {}) {
  for (;;) {
    const key = sessionStorage.getItem("ingot.key");
    const headers = { ...options.headers, ...(key ? { authorization: `Bearer ${key}` } : {}) };
    const reply = await fetch(path, { ...options, headers });
    if (reply.status !== 401)
      return reply;
    const given = await askKey();
    if (!given)
      return reply;
    sessionStorage.setItem("ingot.key", given);
  }
}

async function errorOf(reply) {
  try {
    return (await reply.json()).error.message;
  } catch {
    return `HTTP status ${reply.status}`;
  }
}

async function findModel() {
  try {
    const reply = await request("v1/models");
    if (!reply.ok)
      throw new Error(await errorOf(reply));
    model = (await reply.json()).data[0].id;
    $("model").textContent = model;
    notice("");
  } catch (e) {
    notice(`The server does not answer: ${e.message}`);
    setTimeout(findModel, 2000);
  }
}

// ---- drawing ----

function element(name, className, text) {
  const e = document.createElement(name);
  e.className = className;
  if (text !== undefined)
    e.textContent = text;
  return e;
}

function button(text, label, action) {
  const b = element("button", "", text);
  b.type = "button";
  b.ariaLabel = label;
  b.addEventListener("click", action);
  return b;
}

function drawMessage(m) {
  const box = element("article", `message ${m.role}`);
  box.append(element("h3", "", m.role === "user" ? "You" : model || "Answer"));
  if (m.reasoning) {
    const d = element("details", "reasoning");
    d.open = !m.content;
    d.append(element("summary", "", "Reasoning"), m.reasoning);
    box.append(d);
  }
  box.append(element("div", "body", m.content));
  for (const call of m.calls ?? [])
    box.append(element("pre", "call", `${call.name}(${call.arguments})`));
  if (m.note)
    box.append(element("p", m.fault ? "fault" : "weak", m.note));
  return box;
}

function drawMessages() {
  $("messages").replaceChildren(...current.messages.map(drawMessage));
  $("messages").scrollTop = $("messages").scrollHeight;
}

// The last message alone, once a frame: it grows.
let due = false;
function drawLast() {
  if (due)
    return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    const log = $("messages"), atEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
    const last = current.messages.at(-1);
    if (!last || !log.lastElementChild)
      return;
    log.lastElementChild.replaceWith(drawMessage(last));
    if (atEnd)
      log.scrollTop = log.scrollHeight;
  });
}

function drawButtons() {
  const last = current.messages.at(-1);
  $("send").hidden = !!running;
  $("stop").hidden = !running;
  $("again").hidden = !!running || !last || last.role !== "assistant";
}

function drawList() {
  $("conversations").replaceChildren(...conversations.map((c) => {
    const item = document.createElement("li");
    const open = button(c.title, `Open: ${c.title}`, () => show(c));
    open.ariaCurrent = c === current ? "true" : "false";
    item.append(open, button("\u00d7", `Delete: ${c.title}`, () => remove(c)));
    return item;
  }));
}

function draw() {
  drawList();
  drawMessages();
  drawButtons();
}

function show(c) {
  running?.abort();
  current = c;
  draw();
  $("text").focus();
}

function remove(c) {
  conversations = conversations.filter((other) => other !== c);
  save();
  show(c === current ? conversations[0] ?? begin() : current);
}

// ---- an answer ----

function body() {
  const messages = settings.system ? [{ role: "system", content: settings.system }] : [];
  for (const m of current.messages.slice(0, -1))
    messages.push({ role: m.role, content: m.content });
  const out = { model, messages, stream: true };
  for (const name of ["temperature", "top_p", "max_tokens", "seed"])
    if (settings[name] !== undefined && settings[name] !== "")
      out[name] = Number(settings[name]);
  if (settings.tools)
    out.tools = JSON.parse(settings.tools);
  return out;
}

function takeDelta(answer, delta) {
  answer.reasoning = (answer.reasoning ?? "") + (delta.reasoning_content ?? "");
  answer.content += delta.content ?? "";
  for (const call of delta.tool_calls ?? []) {
    answer.calls ??= [];
    const at = (answer.calls[call.index] ??= { name: "", arguments: "" });
    at.name += call.function?.name ?? "";
    at.arguments += call.function?.arguments ?? "";
  }
}

// Reads the events to their end; false: the connection ended before.
async function readEvents(reply, answer) {
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done)
      return false;
    text += value;
    for (let at; (at = text.indexOf("\n\n")) >= 0; text = text.slice(at + 2)) {
      const event = text.slice(0, at);
      if (!event.startsWith("data: "))
        continue;
      if (event === "data: [DONE]")
        return true;
      const part = JSON.parse(event.slice(6));
      if (part.error)
        throw new Error(part.error.message);
      const choice = part.choices[0];
      if (choice)
        takeDelta(answer, choice.delta);
      if (choice?.finish_reason === "length")
        answer.note = "The limit of tokens was reached.";
      drawLast();
    }
  }
}

async function answerNow() {
  const mine = current, answer = { role: "assistant", content: "" }, stop = new AbortController();
  mine.messages.push(answer);
  running = stop;
  draw();
  try {
    const reply = await request("v1/chat/completions", {
      method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body()), signal: stop.signal,
    });
    if (!reply.ok)
      throw new Error(await errorOf(reply));
    if (!await readEvents(reply, answer))
      throw new Error("the connection was lost before the answer was complete");
  } catch (e) {
    answer.fault = !stop.signal.aborted;
    answer.note = answer.fault ? `Failed: ${e.message}` : "Stopped.";
  }
  if (running === stop)
    running = null;
  save();
  draw();
}

function ask(event) {
  event?.preventDefault();
  const text = $("text").value;
  if (running || !text.trim())
    return;
  $("text").value = "";
  current.messages.push({ role: "user", content: text });
  if (current.messages.length === 1)
    current.title = text.slice(0, 40);
  answerNow();
}

function again() {
  if (running || current.messages.at(-1)?.role !== "assistant")
    return;
  current.messages.pop();
  answerNow();
}

// ---- the live view ----

let timer = null, before = null;

// {name: [{labels, value}]} of Prometheus's text, without the prefix of the names.
function readMetrics(text) {
  const found = {};
  for (const line of text.split("\n")) {
    const m = /^(?:ingot_|vllm:)?([a-z0-9_:]+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!m)
      continue;
    const labels = Object.fromEntries([...(m[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)].map((l) => [l[1], l[2]]));
    (found[m[1]] ??= []).push({ labels, value: Number(m[3]) });
  }
  return found;
}

function drawFigures(found) {
  const one = (name, label, value) => (found[name] ?? []).find((x) => !label || x.labels[label] === value)?.value ?? 0;
  const now = performance.now(), tokens = one("generation_tokens_total");
  const rate = before && tokens >= before.tokens ? (tokens - before.tokens) / (now - before.at) * 1000 : 0;
  before = { at: now, tokens };
  const blocks = (found.kv_blocks ?? []).reduce((n, x) => n + x.value, 0);
  const groups = found.group_ranks ?? [];
  const rows = [["Running", one("num_requests_running")], ["Waiting", one("num_requests_waiting")],
    ["Tokens a second", rate.toFixed(0)], ["Tokens generated", tokens],
    ["KV blocks held", `${one("kv_blocks", "state", "held")} of ${blocks}`],
    ["KV blocks cached", one("kv_blocks", "state", "cached")], ["Recoveries", one("recoveries_total")],
    ["Ranks", groups.filter((g) => g.labels.role === "active").reduce((n, g) => n + g.value, 0)]];
  $("state").textContent = one("up") ? one("ready") ? "Ready" : "Waiting for workers" : "The coordinator does not answer";
  $("figures").replaceChildren(...rows.map(([name, value]) => {
    const d = element("div", "");
    d.append(element("dt", "", name), element("dd", "", String(value)));
    return d;
  }));
  $("groups").replaceChildren(...groups.map((g) => {
    const of = (name) => (found[name] ?? []).find((x) => x.labels.group === g.labels.group)?.value ?? 0;
    const count = of("step_seconds_count"), step = count ? `${(of("step_seconds_sum") / count * 1000).toFixed(1)} ms` : "";
    const row = document.createElement("tr");
    for (const text of [g.labels.group, g.labels.role, g.value, g.labels.backend, g.labels.coll, step])
      row.append(element("td", "", String(text)));
    return row;
  }));
}

async function look() {
  try {
    const reply = await request("metrics");
    if (!reply.ok)
      throw new Error(await errorOf(reply));
    drawFigures(readMetrics(await reply.text()));
    notice("");
  } catch (e) {
    notice(`The server does not answer: ${e.message}`);
  }
  if (!$("live").hidden)
    timer = setTimeout(look, 1000);
}

function view(live) {
  $("chat").hidden = live;
  $("live").hidden = !live;
  $("show-chat").ariaPressed = String(!live);
  $("show-live").ariaPressed = String(live);
  clearTimeout(timer);
  before = null;
  if (live)
    look();
}

// ---- events ----

for (const name of SETTINGS) {
  $(name).value = settings[name] ?? "";
  $(name).addEventListener("change", () => {
    settings[name] = $(name).value;
    save();
  });
}
$("ask").addEventListener("submit", ask);
$("text").addEventListener("keydown", (e) => {
  if (e.key === "Enter" && !e.shiftKey && !e.isComposing)
    ask(e);
});
document.addEventListener("keydown", (e) => {
  if (e.key === "Escape")
    running?.abort();
});
$("stop").addEventListener("click", () => running?.abort());
$("again").addEventListener("click", again);
$("new").addEventListener("click", () => {
  show(begin());
  save();
});
$("show-chat").addEventListener("click", () => view(false));
$("show-live").addEventListener("click", () => view(true));
draw();
findModel();
