// A gateway that lives long: the official SDK's client with one stdio server, which does what it is told, line by line.
//
//   node patient.mjs '{"command": "...", "args": [...], "env": {...}, "roots": [...]}'
//
// Each line on stdin is an order: {"call": {"name": "...", "arguments": {...}}} or {"close": true}. Each is answered by a line of JSON.
// Whatever goes wrong is an error: a rejected call, and anything that the SDK complains about.

import readline from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";

const server = JSON.parse(process.argv[2]);
let complaints = [];
let closing = false;

const say = (event, text, error) => {
  const all = [...complaints, ...(error ? [String(error)] : [])];
  process.stdout.write(JSON.stringify({ event, text, error: all.length > 0, complaints: all }) + "\n");
  complaints = [];
};

const transport = new StdioClientTransport({ command: server.command, args: server.args, env: server.env });
const client = new Client({ name: "mcp-tether-e2e", version: "0" }, {
  capabilities: { roots: {}, ...(server.roots ? { sampling: {}, elicitation: {} } : {}) },
});
// A server that asks for roots while it is being closed is left without an answer: that is no error of anybody.
client.onerror = (error) => closing || complaints.push(String(error));
client.onclose = () => closing || complaints.push("the connection was closed");
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
  if (order.call) {
    const answer = await client.callTool(order.call, undefined, { timeout: 60_000 });
    if (answer.isError) throw new Error("the tool failed: " + JSON.stringify(answer.content));
    return answer.content.map((part) => part.text ?? "").join("");
  }
  closing = true;
  await client.close();
  return "closed";
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  await obey(JSON.parse(line)).then((text) => say("done", text), (error) => say("done", "", error));
}
process.exit(0);
