// An agent with the TypeScript SDK of the handshake era: sessions, questions within a call, `notifications/cancelled`.
// The first line of its output is its port; then one line says when a call is cancelled, and `forget` ends all sessions.
import http from "node:http";
import { randomUUID } from "node:crypto";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { UrlElicitationRequiredError } from "@modelcontextprotocol/sdk/types.js";
import { z } from "zod";

const text = (said) => ({ content: [{ type: "text", text: said }] });
const sessions = new Map();
let visited = false;

function makeServer() {
  const server = new McpServer({ name: "infra", version: "1.0.0" });
  server.registerTool("get_health", { description: "Health" }, async () =>
    text(JSON.stringify({ status: "ok", timestamp: new Date().toISOString() })),
  );
  const inputSchema = { message: z.string(), history: z.array(z.any()).optional() };
  server.registerTool("infra", { description: "Shell access", inputSchema }, async ({ message, history }, extra) => {
    const token = extra._meta?.progressToken;
    for (let step = 1; token !== undefined && step <= 3; step += 1) {
      const params = { progressToken: token, progress: step, message: `infra step ${step} (tool)` };
      await extra.sendNotification({ method: "notifications/progress", params });
    }
    if (message.startsWith("ask")) {
      const requestedSchema = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
      const asked = { message: `Who? (${message})`, requestedSchema };
      // Without `relatedRequestId` the question comes on the stream that belongs to no call.
      const options = message === "ask aside" ? {} : { relatedRequestId: extra.requestId };
      const reply = await server.server.elicitInput(asked, options);
      return text(`${reply.action}: hello ${reply.content?.name}`);
    }
    if (message === "visit" && !visited) {
      visited = true;
      const page = { mode: "url", elicitationId: "1", url: "https://example.org/login", message: "Log in there" };
      throw new UrlElicitationRequiredError([page]);
    }
    if (message === "hang") {
      await new Promise((_, reject) => {
        extra.signal.addEventListener("abort", () => {
          console.log("cancelled");
          reject(new Error("cancelled"));
        });
      });
    }
    return text(`echo: ${message} after ${history?.length ?? 0}, token ${typeof token}`);
  });
  return server;
}

async function open() {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, transport),
    onsessionclosed: (id) => sessions.delete(id),
  });
  await makeServer().connect(transport);
  return transport;
}

const server = http.createServer(async (request, response) => {
  const id = request.headers["mcp-session-id"];
  const known = sessions.get(id);
  if (id !== undefined && known === undefined) {
    const error = { code: -32001, message: "Session not found" };
    response.writeHead(404, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", id: null, error }));
    return;
  }
  await (known ?? (await open())).handleRequest(request, response);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.on("data", () => sessions.clear());
