// Markdown of agents and people as clean HTML, in blocks. Nobody who writes it is trusted.
import { DOMPurify, Marked } from "../vendor/text.js";
import { highlighted } from "./highlight.js";

/** @typedef {import("../vendor/text.js").Token} Token */
/** @typedef {import("../vendor/text.js").Tokens.TableCell} TableCell */

const INLINE_HTML = /^<\/?(br|sub|sup|kbd)\s*\/?>$/i; // models write these, in tables above all

/** Formulas are shown as they are written, so that no sign of theirs becomes a mark, and footnotes keep their text. @type {import("marked").TokenizerAndRendererExtension[]} */
const EXTENSIONS = [
  {
    name: "formula", level: "inline",
    start: (text) => text.indexOf("$"),
    tokenizer(text) {
      const [raw, block, inline] = /^\$\$([^$]{1,2000}?)\$\$|^\$(?![\s\d])([^$\n]{0,500}?[^\s\\$])\$(?!\d)/.exec(text) ?? [];
      return raw ? { type: "formula", raw, text: (block ?? inline ?? "").trim() } : undefined;
    },
    renderer: ({ text }) => `<code>${escaped(text)}</code>`,
  },
  {
    name: "note", level: "inline",
    start: (text) => text.indexOf("[^"),
    tokenizer(text) {
      const [raw, name] = /^\[\^([\w-]{1,40})\]/.exec(text) ?? [];
      return raw ? { type: "note", raw, text: name } : undefined;
    },
    renderer: ({ text }) => `<sup>${text}</sup>`,
  },
  {
    name: "footnote", level: "block",
    start: (text) => /^\[\^/m.exec(text)?.index,
    tokenizer(text) {
      const [raw, name, said] = /^\[\^([\w-]{1,40})\]:[ \t]*([^\n]*)(?:\n+|$)/.exec(text) ?? [];
      return raw ? { type: "footnote", raw, text: name, tokens: this.lexer.inlineTokens(said ?? "") } : undefined;
    },
    renderer({ text, tokens }) {
      return `<p><sup>${text}</sup> ${this.parser.parseInline(tokens ?? [])}</p>`;
    },
  },
];

const markdown = new Marked({
  gfm: true,
  breaks: true,
  extensions: EXTENSIONS,
  renderer: {
    // Other HTML is shown as what it is.
    html: ({ text }) => (INLINE_HTML.test(text.trim()) ? text : escaped(text)),
    // Foreign images are not loaded: their hosts would learn who reads.
    image: ({ href, text }) => `<a href="${escaped(href)}" class="image-link">${escaped(text || "Image")}</a>`,
    code: ({ text, lang }) => {
      const name = escaped((lang ?? "").split(/\s/, 1)[0] ?? "");
      return `<div class="code"><div class="code-head"><span>${name || "text"}</span>
        <button type="button" class="copy-code">Copy</button></div>
        <pre tabindex="0"><code>${text.length > LONGEST_COLOURED ? escaped(text) : highlighted(text, name, escaped)}</code></pre></div>`;
    },
    table(token) {
      const cell = (/** @type {"th" | "td"} */ tag, /** @type {TableCell} */ { align, tokens }) =>
        `<${tag}${align ? ` align="${align}"` : ""}>${this.parser.parseInline(tokens)}</${tag}>`;
      const row = (/** @type {"th" | "td"} */ tag, /** @type {TableCell[]} */ cells) =>
        `<tr>${cells.map((each) => cell(tag, each)).join("")}</tr>`;
      const rows = token.rows.map((cells) => row("td", cells)).join("");
      return `<div class="md-table" tabindex="0">
        <table><thead>${row("th", token.header)}</thead><tbody>${rows}</tbody></table></div>`;
    },
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

const ALLOWED = {
  ALLOWED_TAGS: ["p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "strong", "em", "del", "code", "pre", "blockquote", "ul", "ol", "li",
    "a", "table", "thead", "tbody", "tr", "th", "td", "div", "span", "button", "sub", "sup", "kbd"],
  ALLOWED_ATTR: ["href", "title", "class", "align", "start", "tabindex", "type"],
  ADD_URI_SAFE_ATTR: ["align", "start", "tabindex", "type"], // which the next line would check as addresses
  ALLOWED_URI_REGEXP: /^(?:https?:\/\/|mailto:)/i,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
};

DOMPurify.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName !== "A") return;
  node.setAttribute("rel", "noopener noreferrer");
  node.setAttribute("target", "_blank");
});

/** @param {string} text */
const escaped = (text) => text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);

/** Characters that are rendered at a time. */
const SLICE = 4_000;
/** A block that is longer is shown as several. Code costs less. */
const [LONGEST, LONGEST_TABLE, LONGEST_CODE] = [2 * SLICE, 4 * SLICE, 16 * SLICE];
const LONGEST_COLOURED = 4 * SLICE;
const MOST_LINKS = 200;

/** Wide runs of spaces, of which each costs its square, and many levels of quotes and lists stop the page. */
const HARD = /[ \t]{400}|^(?:[ \t]*(?:>|(?:[-+*]|\d+[.)])[ \t])){50}/m;

/** What cannot be read as Markdown. @param {string} text */
const plain = (text) => `<p>${escaped(text).replace(/\n/g, "<br>")}</p>`;

/**
 * The blocks as clean HTML. They are cleaned together, which takes a third of the time.
 * @param {Token[]} tokens
 */
function cleaned(tokens) {
  const blocks = tokens.filter((token) => token.type !== "space" && token.type !== "def").map((token) => `<div>${markdown.parser([token])}</div>`);
  const clean = DOMPurify.sanitize(blocks.join(""), { ...ALLOWED, RETURN_DOM_FRAGMENT: true });
  return Array.from(clean.children, (block) => block.innerHTML);
}

/** The beginning of a text, if possible up to the end of a line or at least of a word. @param {string} text @param {number} size */
function beginning(text, size) {
  if (text.length <= size) return text;
  const piece = text.slice(0, size);
  // Not in the first half: what is cut off must be longer than what is repeated before the rest.
  const end = ["\n", " "].map((sign) => piece.lastIndexOf(sign) + 1).find((at) => at > size / 2);
  return end ? piece.slice(0, end) : piece.replace(/[\uD800-\uDBFF]$/, "");
}

/** As much of a block as can be cut off: up to a line that begins something, if there is one. @param {string} block */
function head(block) {
  let at = block.length;
  do at = block.lastIndexOf("\n", at - 1);
  while (at > block.length / 2 && !/\S/.test(block[at + 1] ?? ""));
  return at > block.length / 2 ? block.slice(0, at + 1) : block;
}

/** The line of the fence or the head of the table, to be repeated before the rest of a block that was cut. @param {Token} token @param {string} block */
function opening({ type }, block) {
  const found = type === "code" ? /^ {0,3}(?:`{3,}|~{3,}).*\n/.exec(block) : type === "table" ? /^.*\n.*\n/.exec(block) : null;
  return found && found[0].length < SLICE / 2 ? found[0] : "";
}

/** A text that becomes blocks of clean HTML, in steps that take about the same time whatever it is, and however long. */
export class Rendering {
  /** The blocks that are final, in groups. Only the last group is replaced. @type {string[][]} */
  parts = [];
  /** The text behind them. */
  rest = "";
  /** Characters of the last group. */
  size = SLICE;
  /** The block that may still change. @type {Token[]} */
  open = [];

  /** @param {string} text */
  constructor(text = "") {
    this.add(text);
    // What a slice refers to may be defined in another one.
    const defined = text.length > SLICE ? (this.rest.match(/^ {0,3}\[[^\]\n]{1,200}\]:.{1,500}$/gm) ?? []) : [];
    this.links = markdown.lexer(defined.slice(0, MOST_LINKS).join("\n\n")).links;
  }

  /** More of the text. @param {string} text */
  add(text) {
    const broken = this.rest.endsWith("\r") || text.includes("\r");
    this.rest += text;
    if (broken) this.rest = this.rest.replace(/\r\n|\r(?!$)/g, "\n");
  }

  /**
   * Render one slice. The last block of a text that is not `whole` may still change, and is left.
   * @param {boolean} whole
   * @returns {boolean} false: there is no more to do for now
   */
  step(whole) {
    this.open = [];
    for (let size = SLICE; this.rest; size *= 2) {
      const piece = beginning(this.rest, size);
      const goesOn = piece.length < this.rest.length;
      const tokens = this.lexed(piece);
      const last = tokens.findLastIndex((token) => token.type !== "space");
      if (whole && !goesOn) return this.take(tokens, piece.length);
      if (last > 0) return this.take(tokens.slice(0, last), tokens.slice(0, last).reduce((sum, { raw }) => sum + raw.length, 0));
      if (!goesOn) {
        this.open = tokens;
        return false;
      }
      const open = tokens[last];
      if (!open || open.type === "plain") return this.take(tokens, piece.length);
      const cut = head(piece);
      // An item that has no end here may have a fence, which must not be cut.
      const isWhole = open.type === "code" || (open.type === "list" && cut === piece);
      if (size < (isWhole ? LONGEST_CODE : open.type === "table" ? LONGEST_TABLE : LONGEST)) continue;
      this.take(this.lexed(cut), cut.length);
      this.rest = opening(open, cut) + this.rest;
      return true;
    }
    return false;
  }

  /** All groups, with the block that may still change. @returns {string[][]} */
  shown() {
    const open = this.html(this.open);
    return open.length ? [...this.parts.slice(0, -1), [...(this.parts.at(-1) ?? []), ...open]] : [...this.parts];
  }

  /** The text is replaced by what is behind its first blocks. @param {Token[]} tokens @param {number} length their characters */
  take(tokens, length) {
    const blocks = this.html(tokens);
    this.rest = this.rest.slice(length);
    if (!blocks.length) return true;
    if (this.size + length > SLICE) {
      this.parts.push([]);
      this.size = 0;
    }
    this.parts.push([...(this.parts.pop() ?? []), ...blocks]);
    this.size += length;
    return true;
  }

  /** @param {string} text @returns {Token[]} one of type "plain": it cannot be read as Markdown */
  lexed(text) {
    const lexer = new markdown.Lexer(markdown.defaults);
    Object.assign(lexer.tokens.links, this.links);
    try {
      if (!HARD.test(text)) return lexer.lex(text);
    } catch {
      // it is too deep
    }
    return [{ type: "plain", raw: text }];
  }

  /** @param {Token[]} tokens */
  html(tokens) {
    try {
      if (tokens[0]?.type !== "plain") return cleaned(tokens);
    } catch {
      // it is too deep
    }
    return [plain(tokens.map(({ raw }) => raw).join(""))];
  }
}

/** The beginning of a text without its marks, on one line, to be read aloud. @param {string} text */
export function spokenOf(text) {
  const rendering = new Rendering(text);
  rendering.step(true);
  const page = new DOMParser().parseFromString(rendering.shown().flat().join(" "), "text/html");
  for (const head of page.querySelectorAll(".code-head")) head.remove();
  return (page.body.textContent ?? "").replace(/\s+/g, " ").trim();
}
