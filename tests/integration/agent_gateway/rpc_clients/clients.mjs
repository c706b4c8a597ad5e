// What clients of others make of /rpc: node clients.mjs ADDRESS AGENT. Prints one JSON object.
// Each client calls a function that answers and one that does not exist.
import { createRequire } from "node:module";
import { HTTPTransport, RequestManager, Client } from "@open-rpc/client-js";

const require = createRequire(import.meta.url);
const jayson = require("jayson");
const { JSONRPCClient } = require("json-rpc-2.0");
const { AbstractMessageReader, AbstractMessageWriter, createMessageConnection } = require("vscode-jsonrpc/node");

const [address, agent] = process.argv.slice(2);

const params = (name) => ({
  agent_id: agent,
  function: name,
  input: { text: "AAPL" },
  meta: { task_id: "task_001", timestamp: "2025-05-28T15:00:00Z" },
});

const post = async (body) => {
  const response = await fetch(address, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return response.status === 202 ? undefined : response.json();
};

const withJayson = () => {
  const client = jayson.Client.http(address);
  return (method, given) =>
    new Promise((resolve, reject) =>
      client.request(method, given, (broken, error, result) => {
        if (broken || error) reject(broken ?? error);
        else resolve(result);
      }),
    );
};

const withJsonRpc2 = () => {
  const client = new JSONRPCClient(async (request) => client.receive(await post(request)));
  return (method, given) => client.request(method, given);
};

const withVscode = () => {
  let receive;
  class Reader extends AbstractMessageReader {
    listen(callback) {
      receive = callback;
      return { dispose() {} };
    }
  }
  class Writer extends AbstractMessageWriter {
    async write(message) {
      receive(await post(message));
    }
    end() {}
  }
  const connection = createMessageConnection(new Reader(), new Writer());
  connection.listen();
  return (method, given) => connection.sendRequest(method, given);
};

const withOpenRpc = () => {
  const client = new Client(new RequestManager([new HTTPTransport(address)]));
  return (method, given) => client.request({ method, params: given });
};

const outcome = async (call) => {
  try {
    return { result: await call };
  } catch (error) {
    return { code: error.code, message: error.message, data: error.data };
  }
};

const clients = { "jayson": withJayson, "json-rpc-2.0": withJsonRpc2, "vscode-jsonrpc": withVscode, "open-rpc": withOpenRpc };
const found = {};
for (const [name, make] of Object.entries(clients)) {
  const request = make();
  found[name] = {
    answered: await outcome(request("agent.execute", params("say"))),
    unknown: await outcome(request("agent.execute", params("fly"))),
    document: await outcome(request("rpc.discover", {})),
  };
}
const schemas = {
  "https://meta.open-rpc.org/": require("@open-rpc/meta-schema").openrpcDocument,
  "https://meta.json-schema.tools/": require("@json-schema-tools/meta-schema").jsonSchema,
};
console.log(JSON.stringify({ found, schemas }));
