// What was typed and not sent, for each conversation, until the tab is closed.

/** `id`: what the message will be called, so that sending it twice makes one. @typedef {{id: string, text: string}} Draft */

/** The images of drafts, which are too large for the storage of the tab: they end with the page. @type {Map<string, import("./images.js").Picture[]>} */
export const draftPictures = new Map();

/** What a conversation that was just made begins with, until it is loaded. @type {Map<string, string>} */
export const firstTexts = new Map();

/** @param {string} place @returns {Draft} */
export function draftOf(place) {
  try {
    const found = JSON.parse(sessionStorage.getItem(`pallas.draft.${place}`) ?? "null");
    if (found && typeof found.text === "string" && typeof found.id === "string") return found;
  } catch {
    // storage is switched off, or not ours
  }
  return newDraft();
}

/** @param {string} text @returns {Draft} */
export const newDraft = (text = "") => ({ id: uuid(), text });

/** @param {string} place @param {Draft} draft */
export function keepDraft(place, draft) {
  try {
    if (draft.text) sessionStorage.setItem(`pallas.draft.${place}`, JSON.stringify(draft));
    else sessionStorage.removeItem(`pallas.draft.${place}`);
  } catch {
    // storage is full or switched off: the draft ends with the page
  }
}

/** Characters of a message, as the server counts them. */
const LONGEST = 200_000;

/** Why a text cannot be pasted into a message, or "": browsers take long to show one that could never be sent. @param {string} typed @param {string} pasted */
export function faultOfPaste(typed, pasted) {
  const [length, longest] = [typed.length + pasted.length, LONGEST].map((count) => count.toLocaleString("en"));
  return typed.length + pasted.length > LONGEST ? `With this text the message would have ${length} characters; it may have ${longest}.` : "";
}

/** `crypto.randomUUID` is missing where the page came by plain HTTP from another machine. */
function uuid() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const text = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return [text.slice(0, 8), text.slice(8, 12), text.slice(12, 16), text.slice(16, 20), text.slice(20)].join("-");
}
