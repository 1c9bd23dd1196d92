// A gateway that keeps a client of each of its servers for each of its threads, as Codex does:
//
//   node threads.mjs '{"threads": 35, "servers": [{"command": "...", "args": [...], "call": {"name": "...", "arguments": {}}}], "env": {...}}'
//
// Each client does its handshake and lists the tools. Then those of the last thread call one tool each. It prints one line of
// JSON with the times of the first lists in milliseconds, and the answers. Then it idles until its standard input ends.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const config = JSON.parse(process.argv[2]);
const times = [];
let last = [];

const begin = async (server) => {
  const client = new Client({ name: "threads", version: "0" }, { capabilities: {} });
  await client.connect(new StdioClientTransport({ command: server.command, args: server.args, env: config.env, stderr: "ignore" }));
  const start = performance.now();
  const { tools } = await client.listTools();
  times.push(performance.now() - start);
  if (!tools.length) throw new Error(`no tools of ${server.args.join(" ")}`);
  return client;
};

for (let thread = 0; thread < config.threads; thread++) {
  last = [];
  for (const server of config.servers) last.push(await begin(server));
}
const answers = await Promise.all(
  last.map((client, i) => client.callTool(config.servers[i].call).then((answer) => !answer.isError && answer.content[0].text)),
);
times.sort((a, b) => a - b);
const quantile = (q) => times[Math.floor((times.length - 1) * q)];
process.stdout.write(JSON.stringify({ event: "done", text: JSON.stringify({ lists: times.length, p50: quantile(0.5), p99: quantile(0.99), answers }) }) + "\n");
process.stdin.on("end", () => process.exit(0)).resume();
