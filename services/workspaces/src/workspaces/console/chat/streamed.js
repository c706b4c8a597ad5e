// The text of an answer while it arrives, rendered at most once for each frame.
import { signal } from "../lib.js";
import { continued } from "./markdown.js";

/** @typedef {{attempt: number, offset: number, text: string}} Piece `offset` in characters of Unicode */

export class Streamed {
  /** The blocks so far. @type {import("../lib.js").Signal<string[]>} */
  html = signal([]);
  attempt = 0;
  length = 0;
  waiting = "";
  /** @type {import("./markdown.js").Blocks} */
  known = { html: [], rest: "" };
  frame = 0;

  /** @param {Piece} piece */
  add({ attempt, offset, text }) {
    if (attempt < this.attempt) return;
    if (attempt > this.attempt || (offset === 0 && this.length > 0)) this.clear();
    this.attempt = attempt;
    const characters = Array.from(text);
    if (offset > this.length) this.waiting += "\n\n…\n\n"; // some got lost; the answer itself will have them
    this.waiting += characters.slice(Math.max(0, this.length - offset)).join("");
    this.length = Math.max(this.length, offset + characters.length);
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
