// The text of an answer while it arrives, rendered at most once for each frame.
import { signal } from "../lib.js";
import { continued } from "../text/markdown.js";

/**
 * `offset` counts UTF-16 code units; each restart of an attempt begins at 0 again.
 * @typedef {{attempt: number, restarts?: number, offset: number, text: string}} Piece
 */

export class Streamed {
  /** The blocks so far. @type {import("../lib.js").Signal<string[]>} */
  html = signal([]);
  attempt = 0;
  restarts = 0;
  length = 0;
  waiting = "";
  /** @type {import("../text/markdown.js").Blocks} */
  known = { html: [], rest: "" };
  frame = 0;

  /** @param {Piece} piece */
  add({ attempt, restarts = 0, offset, text }) {
    if (attempt < this.attempt || (attempt === this.attempt && restarts < this.restarts)) return;
    if (attempt > this.attempt || restarts > this.restarts) this.clear();
    this.attempt = attempt;
    this.restarts = restarts;
    const more = text.slice(this.length - offset);
    if (offset > this.length || !more) return; // one got lost, or it is known; the message itself will have all
    this.waiting += more;
    this.length += more.length;
    this.frame ||= requestAnimationFrame(() => this.render());
  }

  render() {
    this.frame = 0;
    const { known, html } = continued(this.known, this.waiting);
    this.waiting = "";
    this.known = known;
    this.html.value = html;
  }

  clear() {
    cancelAnimationFrame(this.frame);
    this.frame = this.length = 0;
    this.waiting = "";
    this.known = { html: [], rest: "" };
    if (this.html.value.length) this.html.value = [];
  }
}
