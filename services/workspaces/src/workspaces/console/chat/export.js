// A conversation as a Markdown file.
import { get, path } from "../api.js";
import { titleOf } from "./conversations.js";

/** @typedef {import("../answers").MessagePage} MessagePage */

const PAGE = 200;

/** Load the whole conversation, and have the browser save it. @param {import("../answers").ConversationView} view */
export async function exportConversation(view) {
  /** @type {import("../answers").MessageView[]} */
  const messages = [];
  for (let before = /** @type {number | null} */ (null), more = true; more; more = before !== null) {
    const page = /** @type {MessagePage} */ (await get(`${path`/conversations/${view.id}`}?limit=${PAGE}${before === null ? "" : `&before=${before}`}`));
    messages.unshift(...page.messages);
    before = page.before;
  }
  const text = [`# ${titleOf(view)}`, ...messages.map(markdownOf)].join("\n\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text, "\n"], { type: "text/markdown" }));
  link.download = `${titleOf(view).replace(/[^\p{L}\p{N} _-]+/gu, "").trim().slice(0, 60) || "conversation"}.md`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** @param {import("../answers").MessageView} view */
function markdownOf(view) {
  const who = view.role === "user" ? "You" : (view.agent_title ?? "Agent");
  const images = view.images.length ? [`*${view.images.length === 1 ? "An image" : `${view.images.length} images`}*`] : [];
  const end = view.status === "failed" ? [`*Failed: ${view.error ?? "no answer"}*`] : view.status === "cancelled" ? ["*Cancelled*"] : [];
  return [`## ${who}, ${new Date(view.created_at).toLocaleString()}`, ...images, view.content, ...end].filter(Boolean).join("\n\n");
}
