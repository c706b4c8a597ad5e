// Sending a message: it is shown at once, and not any more if it was refused.
import { ApiError, path, post } from "../api.js";

/** @typedef {import("../answers").AgentView} AgentView */
/** @typedef {import("../answers").MessageView} MessageView */
/** @typedef {{id: string, text: string, pictures: import("./images.js").Picture[]}} Message */

/**
 * Fails if it was refused, or if there is no agent any more, as when its team was detached a moment ago.
 * @param {import("./model.js").Chat} chat
 * @param {AgentView | null} agent
 * @param {Message} message
 */
export async function sendMessage(chat, agent, message) {
  if (!agent) throw noAgent();
  const { id, text, pictures } = message;
  const seq = (chat.items.value.at(-1)?.view.value.seq ?? 0) + 1;
  const shown = pictures.map(({ url, mime_type, bytes }) => ({ id: url, mime_type, bytes }));
  chat.put([unsent(chat.id, agent, { id, seq, role: "user", status: "answered", content: text, images: shown })]);
  try {
    const sent = await sendTo(chat.id, agent, message);
    if (!chat.byId.has(sent.reply_id)) chat.put([unsent(chat.id, agent, { id: sent.reply_id, seq: seq + 1 })]);
  } catch (error) {
    if (chat.byId.get(id)?.view.value.revision === 0) chat.drop(id);
    throw error;
  }
}

/**
 * Make a conversation with its first message, whose id is its own, too: sent again, it is the same one. If the message is
 * refused, there is none.
 * @param {string} workspace
 * @param {AgentView | null} agent
 * @param {Message} message
 */
export async function sendFirst(workspace, agent, message) {
  if (!agent) throw noAgent();
  await sendTo(message.id, agent, message, { workspace_id: workspace });
}

/**
 * Ask from a message on in a branch: something else, or the same again. Returns its conversation, which has this `id`: asked
 * again, it is the same one.
 * @param {string} id
 * @param {string} message that of the person, or a reply
 * @param {{agent_instance_id: string | null, agent_server_id: string | null}} agent
 * @param {{text?: string, confirmed?: boolean}} [asked]
 */
export async function sendBranch(id, message, agent, asked = {}) {
  const { agent_instance_id, agent_server_id } = agent;
  const body = { id, agent_instance_id, agent_server_id, ...asked };
  return /** @type {import("../answers").Sent} */ (await post(path`/messages/${message}/branch`, body)).conversation_id;
}

const noAgent = () => new ApiError(409, { error: "There is no agent that could answer.", code: "no_agent" });

/** @param {string} conversation @param {AgentView} agent @param {Message} message @param {object} [more] @returns {Promise<import("../answers").Sent>} */
function sendTo(conversation, agent, { id, text, pictures }, more) {
  const images = pictures.map(({ data, mime_type }) => ({ data, mime_type }));
  const body = { id, text, images, agent_instance_id: agent.instance_id, agent_server_id: agent.server_id, ...more };
  return post(path`/conversations/${conversation}/messages`, body);
}

/**
 * A message that the server has not sent yet: revision 0.
 * @param {string} conversation
 * @param {AgentView} agent
 * @param {Pick<MessageView, "id" | "seq"> & Partial<MessageView>} fields
 * @returns {MessageView}
 */
const unsent = (conversation, agent, fields) => ({
  conversation_id: conversation, revision: 0, role: "assistant", content: "", status: "sending",
  created_at: new Date().toISOString(), ended_at: null, images: [], agent_instance_id: agent.instance_id,
  agent_server_id: agent.server_id, agent_title: agent.label, error_code: null, error: null, turn_id: null,
  question: null, remembers_from: null, attempt: 0, ...fields,
});
