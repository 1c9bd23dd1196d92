// A gateway that lives long: the official SDK's client with one stdio server, which does what it is told, line by line.
//
//   node patient.mjs '{"command": "...", "args": [...], "env": {...}, "protocol": "2024-11-05"}'
//
// Each line on stdin is an order: {"call": {"name": "...", "arguments": {...}}}, {"try": ...} for a call that may fail,
// {"level": "error"}, {"subscribe": "uri"} or {"close": true}. Each is answered by a line of JSON, with the notifications that came before it. Whatever goes wrong
// is an error: a rejected call, and anything that the SDK complains about.

import readline from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
  ResourceUpdatedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

const server = JSON.parse(process.argv[2]);
let updated = [];
let logged = [];
let complaints = [];
let closing = false;

const say = (event, text, error) => {
  const all = [...complaints, ...(error ? [String(error)] : [])];
  process.stdout.write(JSON.stringify({ event, text, error: all.length > 0, complaints: all, updated, logged }) + "\n");
  updated = [];
  logged = [];
  complaints = [];
};

const transport = new StdioClientTransport({ command: server.command, args: server.args, env: server.env });
if (server.protocol) {
  // The SDK asks for the latest version, and takes any of the earlier ones.
  const send = transport.send.bind(transport);
  transport.send = (message, ...rest) => {
    if (message.method === "initialize") message.params.protocolVersion = server.protocol;
    return send(message, ...rest);
  };
}
const client = new Client({ name: "mcp-tether-e2e", version: "0" }, {
  capabilities: { roots: {}, ...(server.roots ? { sampling: {}, elicitation: {} } : {}) },
});
// A server that asks for roots while it is being closed is left without an answer: that is no error of anybody.
client.onerror = (error) => closing || complaints.push(String(error));
client.onclose = () => closing || complaints.push("the connection was closed");
client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => void updated.push(params.uri));
client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void logged.push(String(params.data)));
client.setRequestHandler(ListRootsRequestSchema, () => ({
  roots: (server.roots ?? []).map((uri) => ({ uri })),
}));
if (server.roots) {
  client.setRequestHandler(CreateMessageRequestSchema, () => ({ model: "m", role: "assistant", content: { type: "text", text: "sampled" } }));
  client.setRequestHandler(ElicitRequestSchema, () => ({ action: "accept", content: { name: "n", check: true } }));
}
await client.connect(transport);
const { tools } = await client.listTools();
say("ready", String(tools.length));

const obey = async (order) => {
  if (order.try) {
    const answer = await client.callTool(order.try, undefined, { timeout: 60_000 });
    return answer.content.map((part) => part.text ?? "").join("");
  }
  if (order.call) {
    const answer = await client.callTool(order.call, undefined, { timeout: 60_000 });
    if (answer.isError) throw new Error("the tool failed: " + JSON.stringify(answer.content));
    return answer.content.map((part) => part.text ?? "").join("");
  }
  if (order.level) return JSON.stringify(await client.setLoggingLevel(order.level));
  if (order.subscribe) return JSON.stringify(await client.subscribeResource({ uri: order.subscribe }));
  closing = true;
  await client.close();
  return "closed";
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  await obey(JSON.parse(line)).then((text) => say("done", text), (error) => say("done", "", error));
}
process.exit(0);
