// A stand-in for an agent gateway: the official SDK's client with one stdio server, steered over its own stdin.
//
//   node client.mjs '{"command": "...", "args": [...], "env": {...}, "tool": "echo", "arguments": {...}}'
//
// It connects, lists the tools, calls the one named, and prints a line of JSON once all that has been answered. From
// then on it idles, as gateways do, until it reads "close" (the SDK's own shutdown), or "exit" or EOF (it just goes).

import readline from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const server = JSON.parse(process.argv[2]);
const say = (event) => process.stdout.write(JSON.stringify(event) + "\n");

const transport = new StdioClientTransport({ command: server.command, args: server.args, env: server.env });
const client = new Client({ name: "mcp-tether-e2e", version: "0" });
await client.connect(transport);

const { tools } = await client.listTools();
const answer = await client.callTool({ name: server.tool, arguments: server.arguments }, undefined, { timeout: 120_000 });
const text = answer.content.map((part) => part.text ?? "").join("");
say({ event: "ready", server: transport.pid, tools: tools.length, error: answer.isError ?? false, text });

for await (const line of readline.createInterface({ input: process.stdin })) {
  if (line !== "close") break;
  await client.close();
  say({ event: "closed" });
}
// Not the end of the event loop: a gateway that exits does not wait for a server that is still there.
process.exit(0);
