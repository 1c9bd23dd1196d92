// Compares servers that sleep between the calls of a client with the same servers that do not, see run.
//
//   node hibernate.mjs MCP_TETHER [NAME...]

import { mkdtempSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ListRootsRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { servers } from "./servers.mjs";

const [tether, ...names] = process.argv.slice(2);
const here = import.meta.dirname;

// command is how a package's program is started, without npx, which would look for a newer one.
const command = (name) => {
  const dir = path.join(here, "node_modules", name);
  const pkg = JSON.parse(readFileSync(path.join(dir, "package.json")));
  const bin = typeof pkg.bin === "string" ? pkg.bin : Object.values(pkg.bin)[0];
  return { version: pkg.version, file: path.join(dir, bin) };
};

// all reads a list to its last page.
const all = async (ask, key) => {
  const found = [];
  for (let cursor; ; ) {
    const page = await ask(cursor ? { cursor } : {});
    found.push(...page[key]);
    if (!(cursor = page.nextCursor)) return found;
  }
};

const lists = async (client) => {
  const can = client.getServerCapabilities() ?? {};
  const out = { info: client.getServerVersion(), can };
  if (can.tools) out.tools = await all((p) => client.listTools(p), "tools");
  if (can.prompts) out.prompts = await all((p) => client.listPrompts(p), "prompts");
  return out;
};

// play runs a server in a directory of its own. before is called before each step; each step's answer is kept as text.
const play = async (server, flags, before, sleepy) => {
  const dir = mkdtempSync(path.join(tmpdir(), "hibernate-"));
  const work = path.join(dir, "work");
  mkdirSync(work);
  const { file } = command(server.name);
  const env = { ...server.env?.(work), PATH: process.env.PATH, HOME: dir, XDG_RUNTIME_DIR: dir, NO_COLOR: "1" };
  const transport = new StdioClientTransport({
    command: tether,
    args: ["run", "--eof-grace=500ms", "--term-grace=2s", "--log-level=debug", ...flags, "--", "node", file, ...(server.args?.(work) ?? [])],
    env, cwd: work, stderr: "pipe",
  });
  let log = "";
  transport.stderr.on("data", (b) => (log += b));
  const client = new Client({ name: "hibernate", version: "0" }, { capabilities: { roots: {} } });
  client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: "file://" + work }] }));
  const state = () => JSON.parse(execFileSync(tether, ["ps", "--json"], { env })).sessions[0] ?? {};
  const seen = [];
  const plain = (text) => text.replaceAll(dir, "DIR").replace(/\d{4}-\d\d-\d\dT[-:\d.]+/g, "TIME");
  try {
    await client.connect(transport, { timeout: 60_000 });
    seen.push(["lists", plain(JSON.stringify(await lists(client)))]);
    for (const [tool, args, fails] of server.steps?.(work) ?? []) {
      await before(state, () => log);
      const answer = await client.callTool({ name: tool, arguments: args }, undefined, { timeout: 60_000 }).catch((e) => ({ content: [], thrown: String(e) }));
      const text = answer.thrown ?? JSON.stringify(answer.content);
      if (!sleepy && !fails === Boolean(answer.thrown || answer.isError)) throw new Error(`without hibernation ${tool} gives ${text}`);
      seen.push([tool, (server.plain ?? ((t) => t))(plain(text))]);
    }
    await before(state, () => log);
    seen.push(["lists", plain(JSON.stringify(await lists(client)))]);
    const { sleeps = 0, wakes = 0 } = state();
    return { seen, sleeps, wakes };
  } catch (e) {
    if (e instanceof Awake) return { seen, awake: e.message, ...state() };
    throw new Error(`${e.message}\n${log.slice(-1500)}`);
  } finally {
    await client.close().catch(() => {});
    rmSync(dir, { recursive: true, force: true, maxRetries: 5 });
  }
};

// Awake is the error of a server that does not hibernate.
class Awake extends Error {}

// asleep waits until the server sleeps.
const asleep = async (state, log) => {
  for (const end = Date.now() + 40_000; state().state !== "asleep"; await pause(100)) {
    const last = log().trim().split("\n").at(-1);
    if (Date.now() > end) throw new Awake(last.match(/kept awake.* why="(.*)"/)?.[1] ?? `it is ${state().state}, and the last it has logged is ${last}`);
  }
};

// differ gives both texts from where they differ.
const differ = (a, b) => {
  const from = Math.max([...a].findIndex((c, i) => c !== b[i]) - 40, 0);
  return [a.slice(from, from + 300), "\n  usual: ", b.slice(from, from + 300)];
};

const plural = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;

// row compares both.
const row = async (server) => {
  const { version } = command(server.name);
  const usual = await play(server, ["--hibernate=1h"], async () => {}, false);
  const slept = await play(server, ["--hibernate=1s", "--hibernate-anyway"], asleep, true);
  if (slept.awake) slept.seen.push(["", ""]); // Its lists were not read again.
  const first = JSON.parse(slept.seen[0][1]);
  const compared = [first.tools && plural(first.tools.length, "tool"), first.prompts && plural(first.prompts.length, "prompt")].filter(Boolean);
  const steps = slept.seen.slice(1, -1).map(([tool]) => tool);
  const other = slept.seen.slice(0, slept.awake ? -1 : undefined).filter(([, text], i) => text !== usual.seen[i][1]).map(([tool]) => tool);
  if (process.env.SHOW) slept.seen.forEach(([tool, text], i) => console.error(server.name, tool, "\n  slept: ", ...differ(text, usual.seen[i][1])));
  const loses = other.length === 0 ? "nothing seen" : `${server.loses ?? "?"} (${[...new Set(other)].join(", ")})`;
  const all = slept.awake ? `never hibernates: ${slept.awake}` : loses;
  return `| ${server.name} ${version} | ${server.how ?? ""} | ${compared.join(", ")} | ${[...new Set(steps)].join(", ") || "none"} | ${slept.wakes ?? 0} | ${all} |`;
};

console.log("| server | run with | lists compared | calls compared | hibernations | what it loses |\n|---|---|---|---|---:|---|");
let failed = 0;
for (const server of servers.filter((s) => names.length === 0 || names.includes(s.name))) {
  try {
    console.log(await row(server));
  } catch (e) {
    failed++;
    console.error(`${server.name}: ${e.message}`);
  }
}
process.exit(failed > 0 ? 1 : 0);
