// A notification when an answer is done while nobody looks. It has to be asked for, once in each browser.
import { effect, html, signal } from "../lib.js";
import { awake } from "../events.js";
import { IconButton } from "../parts/basic.js";
import { titleOf } from "./conversations.js";

const able = "Notification" in globalThis && isSecureContext;
const permission = signal(able ? Notification.permission : "denied");

/** A button that asks for the permission, where it has not been decided. */
export const NoticeButton = () => permission.value === "default" && html`<${IconButton} icon="bell" label="Notify me when it is done"
  onClick=${() => Notification.requestPermission().then((given) => (permission.value = given))} />`;

/** Tell of the chat's answers while the tab is hidden, until the returned function is called. @param {import("./model.js").Chat} chat */
export function tellOfAnswers(chat) {
  let was = "";
  const end = effect(() => {
    const [running, last] = [chat.running.value, chat.last.value];
    awake.value = running !== "" && permission.value === "granted";
    if (was && !running && document.hidden && permission.value === "granted" && last?.id === was) {
      const title = chat.conversation.peek();
      const shown = new Notification(`${last.agent_title ?? "The agent"} ${last.status === "answered" ? "has answered" : "did not answer"}`, { body: title ? titleOf(title) : "", tag: chat.id });
      shown.onclick = () => (window.focus(), shown.close());
    }
    was = running;
  });
  return () => {
    end();
    awake.value = false;
  };
}
