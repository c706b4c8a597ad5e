// The tab's one event stream. It is closed while the tab is hidden and nobody waits, and goes on behind the last message it had.
import { signal } from "./lib.js";
import { followStream } from "./stream.js";

/** closed: nobody wants it, or the tab is hidden. @type {import("./lib.js").Signal<"closed" | "connecting" | "open" | "waiting">} */
export const streamState = signal("closed");

/** @typedef {(data: any) => void} Listener */
/** @type {Map<string, Set<Listener>>} */
const listeners = new Map();
/** The stream stays open although the tab is hidden, as somebody waits for an answer. */
export const awake = signal(false);
let conversation = "";
let revision = 0;
let wanted = false;
let interrupted = false;
let stop = () => {};

/**
 * Call `listener` with the data of each event of a kind: message, progress, text, conversation, conversation_deleted,
 * instance, workspace, agents, health, resync. Besides, `resumed` after every interruption: what has no id may
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
  if (wanted) return;
  wanted = true;
  connect();
}

export function stopEvents() {
  wanted = interrupted = false;
  connect();
}

/**
 * Bring events of this conversation as well; "" for none. The stream is opened anew.
 * @param {string} id
 * @param {number} [after] messages with a greater revision are sent first
 */
export function follow(id, after = 0) {
  if (id === conversation && after <= revision) return;
  [conversation, revision] = [id, after];
  connect();
}

/**
 * A stream besides that, for as long as a view needs it.
 * @param {string} path below /api/v1
 * @param {Record<string, Listener>} kinds
 * @returns {() => void} closes it
 */
export const openStream = (path, kinds) =>
  followStream({ url: () => `/api/v1${path}`, onEvent: (kind, data) => kinds[kind]?.(data) });

document.addEventListener("visibilitychange", () => {
  if (document.hidden && awake.value) return;
  if (document.hidden) interrupted = true;
  connect();
});
for (const change of ["online", "offline"]) addEventListener(change, connect);

function connect() {
  stop();
  stop = () => {};
  if (!wanted || (document.hidden && !awake.value)) return void (streamState.value = "closed");
  interrupted ||= streamState.value === "open";
  if (streamState.value !== "waiting") streamState.value = "connecting";
  stop = followStream({
    url: () => `/api/v1/events${conversation ? `?conversation=${encodeURIComponent(conversation)}&after=${revision}` : ""}`,
    onEvent: take,
    onState: (state) => {
      interrupted ||= state === "waiting" || streamState.value === "open";
      streamState.value = state;
    },
  });
}

/** @param {string} kind @param {any} data */
function take(kind, data) {
  if (kind === "message") revision = Math.max(revision, data.revision);
  if (kind === "ready" && interrupted) {
    interrupted = false;
    tell("resumed", {});
  }
  tell(kind, data);
}

/** @param {string} kind @param {any} data */
function tell(kind, data) {
  for (const listener of [...(listeners.get(kind) ?? [])]) listener(data);
}
