// The tab's one event stream. It is closed while the tab is hidden, and goes on behind the last event it had.
import { signal } from "./lib.js";
import { session } from "./state.js";

const SILENCE_MS = 40_000; // the server sends something every 15 s
const LONGEST_PAUSE_MS = 15_000;

/** closed: nobody wants it, or the tab is hidden. @type {import("./lib.js").Signal<"closed" | "connecting" | "open" | "waiting">} */
export const streamState = signal("closed");

/** @typedef {(data: any) => void} Listener */
/** @type {Map<string, Set<Listener>>} */
const listeners = new Map();
let conversation = "";
let lastId = "";
let wanted = false;
let wasOpen = false;
/** @type {AbortController | null} */
let running = null;

/**
 * Call `listener` with the data of each event of a kind: message, progress, text, conversation, conversation_deleted,
 * instance, workspace, agents, health, hooks, resync. Besides, `resumed` after every interruption: what has no id may
 * have been missed, so load again what is small.
 * @param {string} kind
 * @param {Listener} listener
 * @returns {() => void} ends it
 */
export function on(kind, listener) {
  const set = listeners.get(kind) ?? new Set();
  listeners.set(kind, set.add(listener));
  return () => void set.delete(listener);
}

/** Open the stream, until `stopEvents`. */
export function startEvents() {
  wanted = true;
  connect();
}

export function stopEvents() {
  wanted = false;
  connect();
}

/**
 * Bring events of this conversation as well; "" for none. The stream is opened anew.
 * @param {string} id
 * @param {number} [after] messages with a greater revision are sent first
 */
export function follow(id, after = 0) {
  if (id === conversation) return;
  conversation = id;
  lastId = id ? String(after) : "";
  wasOpen = false;
  connect();
}

document.addEventListener("visibilitychange", connect);
addEventListener("online", () => streamState.value === "waiting" && connect());

function connect() {
  running?.abort();
  running = null;
  if (!wanted || document.hidden) {
    streamState.value = "closed";
    return;
  }
  running = new AbortController();
  void run(running.signal);
}

/** @param {AbortSignal} ended */
async function run(ended) {
  for (let failures = 0; !ended.aborted; failures++) {
    if (streamState.value !== "waiting") streamState.value = "connecting";
    try {
      await read(ended, () => (failures = -1));
    } catch {
      // the server is away, or said nothing for too long: tried again below
    }
    if (ended.aborted || !session.value) return;
    // -1: it was open before, so the server drains or the line broke; then at once
    const pause = failures < 0 ? 100 : Math.min(LONGEST_PAUSE_MS, 500 * 2 ** failures);
    if (failures >= 0) streamState.value = "waiting";
    await new Promise((resolve) => setTimeout(resolve, pause * (0.5 + Math.random())));
  }
}

/** @param {AbortSignal} ended @param {() => void} onOpen */
async function read(ended, onOpen) {
  const silent = new AbortController();
  let timer = setTimeout(() => silent.abort(), SILENCE_MS);
  try {
    const query = new URLSearchParams(conversation ? { conversation, after: lastId || "0" } : {});
    /** @type {Record<string, string>} */
    const headers = { Accept: "text/event-stream" };
    if (lastId) headers["Last-Event-ID"] = lastId;
    const response = await fetch(`/api/v1/events?${query}`, { headers, signal: AbortSignal.any([ended, silent.signal]) });
    if (response.status === 401) session.value = null;
    if (!response.ok || !response.body) throw new Error(`the server answered ${response.status}`);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => silent.abort(), SILENCE_MS);
      const blocks = (rest + value).split(/\r?\n\r?\n/);
      rest = blocks.pop() ?? "";
      for (const block of blocks) if (take(block, onOpen) === "bye") return void reader.cancel();
    }
  } finally {
    clearTimeout(timer);
  }
}

/** @param {string} block @param {() => void} onOpen @returns {string} the kind of the event */
function take(block, onOpen) {
  let kind = "message";
  let data = "";
  for (const line of block.split(/\r?\n/)) {
    const [, field, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (field === "event") kind = value ?? "";
    else if (field === "data") data += value;
    else if (field === "id") lastId = value ?? "";
  }
  if (!data) return "";
  if (kind === "ready") {
    onOpen();
    streamState.value = "open";
    if (wasOpen) tell("resumed", {});
    wasOpen = true;
  }
  tell(kind, JSON.parse(data));
  return kind;
}

/** @param {string} kind @param {any} data */
function tell(kind, data) {
  for (const listener of listeners.get(kind) ?? []) listener(data);
}
