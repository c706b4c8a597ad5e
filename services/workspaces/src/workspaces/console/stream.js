// Server-sent events by fetch: with a status, the last event's id, and an end when nothing is heard any more.
import { REACHED } from "./api.js";
import { csrf, expire, session } from "./state.js";

const SILENCE_MS = 40_000; // the server sends something every 15 s
const LONGEST_PAUSE_MS = 15_000;
const QUICK_TRIES = 6; // a service that is started again is back within seconds

/**
 * @typedef {object} Follower
 * @property {() => string} url asked again for each connection
 * @property {(kind: string, data: any) => void} onEvent
 * @property {(state: "connecting" | "open" | "waiting") => void} [onState] waiting: the server is away
 */

/**
 * Follow a stream until the returned function is called. Connections that end are made anew, behind the last event's id.
 * @param {Follower} follower
 * @returns {() => void}
 */
export function followStream(follower) {
  const ended = new AbortController();
  void keepReading(follower, ended.signal);
  return () => ended.abort();
}

/** @param {Follower} follower @param {AbortSignal} ended */
async function keepReading(follower, ended) {
  const reader = new StreamReader(follower);
  for (let failures = 0; !ended.aborted && session.value; failures++) {
    reader.opened = false;
    try {
      await reader.read(ended);
    } catch {
      // the server is away, or said nothing for too long: tried again below
    }
    if (ended.aborted) return;
    if (reader.opened) failures = 0;
    else follower.onState?.("waiting");
    const pause = reader.opened ? 100 : Math.min(LONGEST_PAUSE_MS, 400 * 2 ** Math.max(0, failures - QUICK_TRIES));
    await (reader.opened ? passed : untilReached)(pause * (0.5 + Math.random()));
  }
}

/** Wait so long, or until a request succeeded: then the server is back. @param {number} longest in milliseconds */
const untilReached = (longest) => new Promise((resolve) => {
  const done = () => {
    clearTimeout(timer);
    removeEventListener(REACHED, done);
    resolve(undefined);
  };
  const timer = setTimeout(done, longest);
  addEventListener(REACHED, done);
});

/** @param {number} time in milliseconds */
const passed = (time) => new Promise((resolve) => setTimeout(resolve, time));

class StreamReader {
  lastId = "";
  opened = false;

  /** @param {Follower} follower */
  constructor(follower) {
    this.follower = follower;
  }

  /** Read one connection to its end. @param {AbortSignal} ended */
  async read(ended) {
    const silent = new AbortController();
    let timer = setTimeout(() => silent.abort(), SILENCE_MS);
    try {
      const headers = { Accept: "text/event-stream", "X-CSRF-Token": csrf(), ...(this.lastId && { "Last-Event-ID": this.lastId }) };
      const response = await fetch(this.follower.url(), { headers, signal: AbortSignal.any([ended, silent.signal]) });
      if (response.status === 401) expire();
      if (!response.ok || !response.body) throw new Error(`the server answered ${response.status}`);
      this.opened = true;
      this.follower.onState?.("open");
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let rest = ""; ; ) {
        const { done, value } = await reader.read();
        if (done || ended.aborted) return;
        clearTimeout(timer);
        timer = setTimeout(() => silent.abort(), SILENCE_MS);
        if (!value.includes("\n")) {
          rest += value; // of a long event, which would be searched again and again
          continue;
        }
        const blocks = (rest + value).replaceAll("\r\n", "\n").split("\n\n");
        rest = blocks.pop() ?? "";
        for (const block of blocks) if (this.take(block) === "bye") return void reader.cancel();
      }
    } finally {
      clearTimeout(timer);
    }
  }

  /** @param {string} block @returns {string} the kind of the event */
  take(block) {
    let kind = "message";
    /** @type {string[]} */
    const data = [];
    for (const line of block.split("\n")) {
      const [, field, value = ""] = /^(\w+): ?(.*)$/s.exec(line) ?? [];
      if (field === "event") kind = value;
      else if (field === "data") data.push(value);
      else if (field === "id") this.lastId = value;
    }
    if (data.length) this.follower.onEvent(kind, JSON.parse(data.join("\n")));
    return data.length ? kind : "";
  }
}
