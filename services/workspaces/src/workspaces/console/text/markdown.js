// Markdown of agents and people as clean HTML, in blocks. Nobody who writes it is trusted.
import { DOMPurify, Marked } from "../vendor/text.js";
import { highlighted } from "./highlight.js";

/** @typedef {import("../vendor/text.js").Tokens.TableCell} TableCell */

const INLINE_HTML = /^<\/?(br|sub|sup|kbd)\s*\/?>$/i; // models write these, in tables above all

const markdown = new Marked({
  gfm: true,
  breaks: true,
  renderer: {
    // Other HTML is shown as what it is.
    html: ({ text }) => (INLINE_HTML.test(text.trim()) ? text : escaped(text)),
    // Foreign images are not loaded: their hosts would learn who reads.
    image: ({ href, text }) => `<a href="${escaped(href)}" class="image-link">${escaped(text || "Image")}</a>`,
    code: ({ text, lang }) => {
      const name = escaped((lang ?? "").split(/\s/, 1)[0] ?? "");
      return `<div class="code"><div class="code-head"><span>${name || "text"}</span>
        <button type="button" class="copy-code">Copy</button></div>
        <pre tabindex="0"><code>${highlighted(text, name, escaped)}</code></pre></div>`;
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

/** Longer texts, and wide runs of spaces, of which each costs its square (as does each level of a list), stop the page. */
const LONGEST = 1_000_000;
const WIDE = /[ \t]{400}/;

/** @param {string} text */
const lexed = (text) => {
  if (text.length > LONGEST || WIDE.test(text)) throw new RangeError("too much for Markdown");
  return markdown.lexer(text);
};

/** What cannot be read as Markdown, as quotes in 10,000 levels cannot either. @param {string} text */
const plain = (text) => `<p>${escaped(text).replace(/\n/g, "<br>")}</p>`;

/**
 * The blocks as clean HTML. They are cleaned together, which takes a third of the time.
 * @param {import("../vendor/text.js").Token[]} tokens
 */
function rendered(tokens) {
  const blocks = tokens.filter((token) => token.type !== "space" && token.type !== "def").map((token) => `<div>${markdown.parser([token])}</div>`);
  const clean = DOMPurify.sanitize(blocks.join(""), { ...ALLOWED, RETURN_DOM_FRAGMENT: true });
  return Array.from(clean.children, (block) => block.innerHTML);
}

/** @typedef {{html: string[], rest: string}} Blocks the blocks that are final, and the text behind them */

/**
 * The whole text, one string of HTML for each block.
 * @param {string} text
 * @returns {string[]}
 */
export function blocksOf(text) {
  try {
    return rendered(lexed(text));
  } catch {
    return [plain(text)];
  }
}

/** The text without its marks, on one line, to be read aloud. @param {string} text */
export function spokenOf(text) {
  const page = new DOMParser().parseFromString(blocksOf(text).join(" "), "text/html");
  for (const head of page.querySelectorAll(".code-head")) head.remove();
  return (page.body.textContent ?? "").replace(/\s+/g, " ").trim();
}

/**
 * What `known` becomes with more text behind it. Only the last block may still change, so only it is rendered again.
 * @param {Blocks} known
 * @param {string} more
 * @returns {{known: Blocks, html: string[]}} `html` has the unfinished block as well
 */
export function continued(known, more) {
  const rest = known.rest + more;
  try {
    return further(known, rest);
  } catch {
    return { known: { html: known.html, rest }, html: [...known.html, plain(rest)] };
  }
}

/** @param {Blocks} known @param {string} rest @returns {{known: Blocks, html: string[]}} */
function further(known, rest) {
  const tokens = lexed(rest);
  const last = tokens.findLastIndex((token) => token.type !== "space");
  const final = rendered(tokens.slice(0, Math.max(0, last)));
  const behind = tokens.slice(0, Math.max(0, last)).reduce((sum, token) => sum + token.raw.length, 0);
  const html = final.length ? [...known.html, ...final] : known.html;
  const open = tokens[last];
  return { known: { html, rest: rest.slice(behind) }, html: open ? [...html, ...rendered([open])] : html };
}
