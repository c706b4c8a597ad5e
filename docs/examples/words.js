// A data agent with one function, written from the contract alone: node words.js [URL]
const WebSocket = require("ws");

const url = process.argv[2] ?? "ws://127.0.0.1:23069/rpc";
const functions = {
  count_words: ({ text }) => ({ words: text.split(/\s+/).filter(Boolean).length }),
};
const registration = {
  agent_id: "words",
  tools: ["count_words"],
  schema: { count_words: { input: { text: "string" }, output: { words: "int" } } },
  heartbeat_interval: 60,
};
const alive = { agent_id: "words", status: "active" };

function execute({ function: name, input }) {
  if (!Object.hasOwn(functions, name)) return { error: { code: -32601, message: `Method not found: ${name}` } };
  try {
    return { result: functions[name](input) };
  } catch {
    return { error: { code: -32000, message: `${name} failed` } };
  }
}

function connect() {
  const socket = new WebSocket(url);
  const send = (message) => socket.send(JSON.stringify({ jsonrpc: "2.0", ...message }));
  let beats;
  socket.on("open", () => {
    send({ id: "register", method: "server.register", params: registration });
    beats = setInterval(() => send({ id: "beat", method: "agent.heartbeat", params: alive }), 60_000);
  });
  socket.on("message", (data) => {
    const { id, method, params, error } = JSON.parse(data);
    if (method === "agent.execute") send({ id, ...execute(params) });
    else if (error) console.error(`${id}: ${error.message} (${error.code})`);
  });
  socket.on("error", (error) => console.error(error.message));
  socket.on("close", () => {
    clearInterval(beats);
    setTimeout(connect, 250 + Math.random() * 1000);
  });
}

connect();
