// An agent with the TypeScript SDK of revision 2026-07-28, which serves older clients statelessly.
// The first line of its output is its port; then one line says when a call is cancelled.
import http from "node:http";
import { Readable } from "node:stream";
import { McpServer, acceptedContent, createMcpHandler, inputRequired } from "@modelcontextprotocol/server";
import { z } from "zod";

const text = (said) => ({ content: [{ type: "text", text: said }] });
const name = z.object({ name: z.string() });

async function research({ message, history }, ctx) {
  const token = ctx.mcpReq._meta?.progressToken;
  for (let step = 1; token !== undefined && step <= 3; step += 1) {
    const params = { progressToken: token, progress: step, message: `research step ${step} (llm)` };
    await ctx.mcpReq.notify({ method: "notifications/progress", params });
  }
  if (message === "ask") {
    const given = acceptedContent(ctx.mcpReq.inputResponses, "name", name);
    if (given === undefined) {
      const asked = inputRequired.elicit({ message: "Who?", requestedSchema: name });
      return inputRequired({ inputRequests: { name: asked }, requestState: "asked" });
    }
    return text(`hello ${given.name}`);
  }
  if (message === "visit") {
    const visited = ctx.mcpReq.inputResponses?.page?.action;
    const page = inputRequired.elicitUrl({ message: "Log in there", url: "https://example.org/login" });
    return visited ? text(`visited: ${visited}`) : inputRequired({ inputRequests: { page } });
  }
  if (message === "hang") {
    await new Promise((_, reject) => {
      ctx.mcpReq.signal.addEventListener("abort", () => {
        console.log("cancelled");
        reject(new Error("cancelled"));
      });
    });
  }
  return text(`echo: ${message} after ${history?.length ?? 0}, token ${typeof token}`);
}

const handler = createMcpHandler(() => {
  const server = new McpServer({ name: "research", version: "1.0.0" });
  server.registerTool("get_health", { description: "Health", inputSchema: z.object({}).strict() }, async () =>
    text(JSON.stringify({ status: "degraded", timestamp: new Date().toISOString(), message: "slow index" })),
  );
  const inputSchema = z.object({ message: z.string(), history: z.array(z.any()).optional() }).strict();
  server.registerTool("research", { description: "Researches", inputSchema }, research);
  return server;
});

const server = http.createServer(async (incoming, outgoing) => {
  const left = new AbortController();
  outgoing.on("close", () => left.abort());
  const body = ["GET", "HEAD"].includes(incoming.method) ? undefined : Readable.toWeb(incoming);
  const request = new Request(`http://${incoming.headers.host}${incoming.url}`, {
    method: incoming.method, headers: incoming.headers, body, duplex: "half", signal: left.signal,
  });
  const answer = await handler.fetch(request);
  outgoing.writeHead(answer.status, Object.fromEntries(answer.headers));
  if (!answer.body) return outgoing.end();
  const sent = Readable.fromWeb(answer.body);
  sent.on("error", () => outgoing.destroy());
  outgoing.on("close", () => sent.destroy());
  return sent.pipe(outgoing);
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
