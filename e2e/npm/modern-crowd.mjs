// As crowd.mjs, but by the official SDK 2.x, which speaks 2026-07-28 where the server does. Each client has a subscription to
// the list of tools. The last one may speak a version with a handshake.
//
//   node modern-crowd.mjs '{"command": "...", "args": [...], "env": {...}, "clients": 20, "calls": 50, "kind": "modern"}'
//
// "kind" is "modern", or "mixed" where the last client is to have a handshake.

import readline from "node:readline";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const config = JSON.parse(process.argv[2]);
const say = (event) => process.stdout.write(JSON.stringify(event) + "\n");
const complaints = [];
const counts = { answers: 0, updated: 0, modern: 0 };
const complain = (what) => void (complaints.length < 20 && complaints.push(what));

async function connect(number) {
  const legacy = config.kind === "mixed" && number === config.clients;
  const member = { number, legacy, updated: 0 };
  member.client = new Client(
    { name: `crowd-${number}`, version: "0" },
    {
      versionNegotiation: { mode: legacy ? "legacy" : "auto" },
      listChanged: { tools: { debounceMs: 0, autoRefresh: false, onChanged: () => { member.updated++; counts.updated++; member.told?.(); } } },
    },
  );
  member.client.onerror = (error) => complain(`client ${number}: ${error}`);
  await member.client.connect(new StdioClientTransport({ command: config.command, args: config.args, env: config.env }));
  if (member.client.getNegotiatedProtocolVersion() === "2026-07-28") counts.modern++;
  return member;
}

async function work({ number, client }) {
  let left = config.calls;
  await Promise.all(Array.from({ length: 4 }, async () => {
    while (left-- > 0) {
      const message = `<${number}:${left}>`;
      const answer = await client.callTool({ name: "echo", arguments: { message } }, { timeout: 240_000 });
      const text = answer.content.map((part) => part.text ?? "").join("");
      if (text !== message) complain(`client ${number}: want ${message}, got ${text}`);
      counts.answers++;
    }
  }));
}

// grow has all modern clients told that there is another tool.
async function grow(members) {
  const told = members.map((m) => new Promise((resolve) => { m.updated = 0; m.told = resolve; }));
  await members[0].client.callTool({ name: "grow", arguments: {} }, { timeout: 240_000 });
  await Promise.all(told);
}

const all = [];
// One after the other, so that the first one says what kind of clients the server has.
for (let n = 1; n <= config.clients; n++) all.push(await connect(n));
await Promise.all(all.map(work));
const modern = all.filter((m) => !m.legacy);
await grow(modern);
await Promise.all(modern.splice(1, Math.floor(modern.length / 2)).map((m) => m.client.close()));
await grow(modern);
say({ event: "done", counts, complaints });

for await (const line of readline.createInterface({ input: process.stdin })) {
  if (line !== "close") break;
  for (const m of all) m.client.onerror = () => {};
  await Promise.all(all.map((m) => m.client.close()));
  say({ event: "closed" });
}
process.exit(0);
