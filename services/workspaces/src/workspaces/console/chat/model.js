// One conversation as it is shown: its messages, the pages before them, and what the event stream brings.
import { batch, computed, signal } from "../lib.js";
import { ApiError, get, path, post, sentence } from "../api.js";
import { follow, on } from "../events.js";
import { later } from "./conversations.js";
import { Streamed } from "./streamed.js";

/** @typedef {import("../answers").MessageView} MessageView */
/** @typedef {import("../answers").MessagePage} MessagePage */
/** @typedef {MessageView & {progress?: import("../answers").ProgressView}} Shown */
/**
 * `since`: when it was seen to begin, in milliseconds.
 * @typedef {{id: string, view: import("../lib.js").Signal<Shown>, text: Streamed, since: number}} Item
 */

export const PAGE = 50;

/** An agent is at work on it. @param {MessageView} view */
export const running = (view) => view.role === "assistant" && (view.status === "sending" || view.status === "asking");

export class Chat {
  /** In order. Their array changes only when messages come or go. @type {import("../lib.js").Signal<Item[]>} */
  items = signal([]);
  /** @type {import("../lib.js").Signal<import("../answers").ConversationView | null>} */
  conversation = signal(null);
  /** Whether its last page was loaded. What it is called may be known before. */
  loaded = signal(false);
  /** Asks for the page of older ones; null: there is none. @type {import("../lib.js").Signal<number | null>} */
  before = signal(null);
  /** This conversation and its other branches; empty if it has none. @type {import("../lib.js").Signal<readonly import("../answers").BranchView[]>} */
  branches = signal(/** @type {import("../answers").BranchView[]} */ ([]));
  error = signal("");
  /** There is no such conversation. */
  missing = signal(false);
  last = computed(() => this.items.value.at(-1)?.view.value ?? null);
  /** The reply that an agent is at work on. */
  running = computed(() => (this.last.value && running(this.last.value) ? this.last.value.id : ""));
  /** `seq` of the message where the memory of the latest reply begins; 0: it has everything. */
  remembersFrom = computed(() => {
    const reply = this.items.value.findLast((item) => item.view.peek().role === "assistant");
    return reply?.view.value.remembers_from ?? 0;
  });
  /** Whether that leaves an answer out. Exchanges without an answer are never sent. */
  forgets = computed(() => this.before.value !== null || this.items.value.some(({ view: { value: { role, status, seq } } }) =>
    role === "assistant" && status === "answered" && seq < this.remembersFrom.value));
  /** @type {Map<string, Item>} */
  byId = new Map();
  loadingOlder = false;
  closed = false;

  /** @param {string} id */
  constructor(id) {
    this.id = id;
    this.ends = [
      on("message", (view) => view.conversation_id === id && this.put([view])),
      on("progress", ({ message_id, ...progress }) => this.change(message_id, { progress })),
      on("text", (piece) => this.byId.get(piece.message_id)?.text.add(piece)),
      on("conversation", (view) => view.id === id && (this.conversation.value = view)),
      on("resumed", () => void this.refresh()),
      on("resync", () => void this.load()),
    ];
  }

  close() {
    this.closed = true;
    for (const end of this.ends) end();
    follow("");
  }

  /** Load the last page, and follow what comes. */
  async load() {
    try {
      const page = /** @type {MessagePage} */ (await get(`${path`/conversations/${this.id}`}?limit=${PAGE}`));
      if (this.closed) return;
      const [first] = this.items.value;
      const gap = first && page.messages[0] && page.messages[0].seq > (this.items.value.at(-1)?.view.value.seq ?? 0) + 1;
      batch(() => {
        if (gap) this.clear();
        if (gap || !first) this.before.value = page.before;
        this.conversation.value = later(page.conversation, this.conversation.value);
        this.branches.value = page.branches;
        this.loaded.value = true;
        this.error.value = "";
        this.put(page.messages);
      });
      follow(this.id, Math.max(0, ...page.messages.map((view) => view.revision)));
    } catch (fault) {
      if (this.closed) return;
      this.missing.value = fault instanceof ApiError && (fault.status === 404 || fault.status === 422);
      this.error.value = sentence(fault);
    }
  }

  /** Ask what the conversation itself is like: unlike messages, an event about it is not sent again. */
  async refresh() {
    try {
      const page = /** @type {MessagePage} */ (await get(`${path`/conversations/${this.id}`}?limit=1`));
      if (!this.closed) this.conversation.value = later(page.conversation, this.conversation.value);
    } catch {
      // The stream was open a moment ago: its next interruption asks again.
    }
  }

  clear() {
    this.byId.clear();
    this.items.value = [];
  }

  /** Load the page before the first message. Its failure is thrown. */
  async loadOlder() {
    if (this.before.value === null || this.loadingOlder) return;
    this.loadingOlder = true;
    try {
      const page = /** @type {MessagePage} */ (await get(`${path`/conversations/${this.id}`}?before=${this.before.value}&limit=${PAGE}`));
      if (this.closed) return;
      batch(() => {
        this.put(page.messages);
        this.before.value = page.before;
      });
    } finally {
      this.loadingOlder = false;
    }
  }

  /** Take these messages, unless newer states of them are there. @param {MessageView[]} views */
  put(views) {
    /** @type {Item[]} */
    const fresh = [];
    let moved = false;
    for (const view of views) {
      const item = this.byId.get(view.id);
      if (!item) {
        const begun = { id: view.id, view: signal(/** @type {Shown} */ (view)), text: new Streamed(), since: Date.parse(view.created_at) };
        this.byId.set(view.id, begun);
        fresh.push(begun);
      } else if (view.revision >= item.view.value.revision) {
        if (!running(item.view.value)) {
          item.text.begin(view.attempt);
          if (running(view)) item.since = Date.now();
        }
        moved ||= view.seq !== item.view.value.seq;
        item.view.value = view;
      }
    }
    if (!fresh.length && !moved) return;
    this.items.value = [...this.items.value, ...fresh].sort((a, b) => a.view.value.seq - b.view.value.seq);
  }

  /** Change some fields, without a new revision. @param {string} id @param {Partial<Shown>} fields */
  change(id, fields) {
    const item = this.byId.get(id);
    if (item) item.view.value = { ...item.view.value, ...fields };
  }

  /** Cancel the answer that an agent is at work on. */
  async cancel() {
    const view = /** @type {MessageView | undefined} */ (await post(path`/messages/${this.running.value}/cancel`));
    if (view) this.put([view]);
  }

  /** @param {string} id */
  drop(id) {
    this.byId.delete(id);
    this.items.value = this.items.value.filter((item) => item.id !== id);
  }
}
