// The text of an answer while it arrives, rendered at most once for each frame.
import { signal } from "../lib.js";
import { Rendering } from "../text/markdown.js";

/** How long it may render in a frame. */
const BUDGET_MS = 8;

/**
 * `offset` counts UTF-16 code units; each restart of an attempt begins at 0 again.
 * @typedef {{attempt: number, restarts?: number, offset: number, text: string}} Piece
 */

export class Streamed {
  /** The blocks so far, in groups. @type {import("../lib.js").Signal<string[][]>} */
  parts = signal([]);
  attempt = 0;
  restarts = 0;
  length = 0;
  rendering = new Rendering();
  frame = 0;

  /** @param {Piece} piece */
  add({ attempt, restarts = 0, offset, text }) {
    if (attempt < this.attempt || (attempt === this.attempt && restarts < this.restarts)) return;
    if (attempt > this.attempt || restarts > this.restarts) this.clear();
    this.attempt = attempt;
    this.restarts = restarts;
    const more = text.slice(this.length - offset);
    if (offset > this.length || !more) return; // one got lost, or it is known; the message itself will have all
    this.rendering.add(more);
    this.length += more.length;
    this.frame ||= requestAnimationFrame(() => this.render());
  }

  render() {
    const ends = performance.now() + BUDGET_MS;
    let more;
    do more = this.rendering.step(false);
    while (more && performance.now() < ends);
    this.frame = more ? requestAnimationFrame(() => this.render()) : 0;
    this.parts.value = this.rendering.shown();
  }

  /** Forget the text of earlier attempts. @param {number} attempt */
  begin(attempt) {
    if (attempt <= this.attempt) return;
    this.clear();
    this.attempt = attempt;
  }

  clear() {
    cancelAnimationFrame(this.frame);
    this.frame = this.length = 0;
    this.rendering = new Rendering();
    if (this.parts.value.length) this.parts.value = [];
  }
}
