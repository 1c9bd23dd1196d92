// As patient.mjs, but by the official SDK 2.x, which speaks 2026-07-28 where the server does. It opens a subscription of its
// own for the list of tools. "protocol" may be "legacy".
//
//   node modern.mjs '{"command": "...", "args": [...], "env": {...}}'
//
// "updated" has the names of the lists that have changed.

import readline from "node:readline";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const server = JSON.parse(process.argv[2]);
let updated = [];
let complaints = [];
let closing = false;

const say = (event, text, error) => {
  const all = [...complaints, ...(error ? [String(error)] : [])];
  process.stdout.write(JSON.stringify({ event, text, error: all.length > 0, complaints: all, updated, logged: [] }) + "\n");
  updated = [];
  complaints = [];
};

const client = new Client(
  { name: "mcp-tether-e2e", version: "0" },
  {
    versionNegotiation: { mode: server.protocol ?? "auto" },
    listChanged: { tools: { debounceMs: 0, onChanged: () => void updated.push("tools") } },
  },
);
client.onerror = (error) => closing || complaints.push(String(error));
client.onclose = () => closing || complaints.push("the connection was closed");
await client.connect(new StdioClientTransport({ command: server.command, args: server.args, env: server.env }));
const { tools } = await client.listTools();
say("ready", String(tools.length));

const obey = async (order) => {
  if (order.call) {
    const answer = await client.callTool(order.call, { timeout: 60_000 });
    return answer.content.map((part) => part.text ?? "").join("");
  }
  if (order.version) return client.getNegotiatedProtocolVersion();
  closing = true;
  await client.close();
  return "closed";
};

for await (const line of readline.createInterface({ input: process.stdin })) {
  await obey(JSON.parse(line)).then((text) => say("done", text), (error) => say("done", "", error));
}
process.exit(0);
