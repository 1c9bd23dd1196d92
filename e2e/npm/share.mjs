// Many of the official SDK's clients, each with a session of one shared server.
//
//   node share.mjs '{"command": "...", "args": [...], "env": {...}, "kind": "everything", "clients": 50, "calls": 200}'
//
// Each client makes mixed calls, some at a time, and checks that each answer is its own. The last line of output says how
// many calls were made and what went wrong. It exits without closing anything.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const order = JSON.parse(process.argv[2]);
const wrong = [];
let made = 0, progress = 0;

const text = (answer) => answer.content.map((part) => part.text ?? "").join("");
const want = (ok, what) => { if (!ok) wrong.push(what); };

// What one client does, by kind of server: a list of functions of the client, its name and the number of the call.
const kinds = {
  everything: [
    async (c, me, n) => want(text(await c.callTool({ name: "echo", arguments: { message: `${me}/${n}` } })) === `Echo: ${me}/${n}`, `echo of ${me}`),
    async (c, me, n) => want(text(await c.callTool({ name: "get-sum", arguments: { a: n, b: me } })).includes(String(n + me)), `sum of ${me}`),
    async (c, me) => want((await c.listTools()).tools.length > 5, `tools of ${me}`),
    async (c, me) => want((await c.listResources()).resources.length > 0, `resources of ${me}`),
    async (c, me) => { await c.ping(); },
    async (c, me, n) => {
      const seen = [];
      await c.callTool({ name: "trigger-long-running-operation", arguments: { duration: 0.2, steps: 2 + (me % 3) } }, undefined,
        { onprogress: (p) => seen.push(p.total) });
      want(seen.every((total) => total === 2 + (me % 3)), `progress of ${me}: ${seen}`);
      progress += seen.length;
    },
    async (c, me) => want((await c.callTool({ name: "get-tiny-image", arguments: {} })).content.some((p) => p.type === "image"), `image of ${me}`),
    async (c, me, n) => {
      const stop = new AbortController();
      const call = c.callTool({ name: "trigger-long-running-operation", arguments: { duration: 30, steps: 2 } }, undefined, { signal: stop.signal });
      setTimeout(() => stop.abort(), 5);
      await call.then(() => wrong.push(`cancelled call of ${me}`), () => {});
    },
    async (c, me) => c.callTool({ name: "no-such-tool", arguments: {} }).then((a) => want(a.isError, `unknown tool of ${me}`), () => {}),
    async (c, me) => { await c.setLoggingLevel(["debug", "error", "warning"][me % 3]); },
  ],
  filesystem: [
    async (c, me, n) => {
      const path = `${order.dir}/file-${me}-${n}`;
      await c.callTool({ name: "write_file", arguments: { path, content: `${me}/${n}` } });
      want(text(await c.callTool({ name: "read_text_file", arguments: { path } })).includes(`${me}/${n}`), `file of ${me}`);
    },
    async (c, me) => want(text(await c.callTool({ name: "list_allowed_directories", arguments: {} })).includes(order.dir), `directories of ${me}`),
  ],
  memory: [
    async (c, me, n) => {
      const name = `entity ${me}/${n}`;
      await c.callTool({ name: "create_entities", arguments: { entities: [{ name, entityType: "t", observations: [`seen by ${me}`] }] } });
    },
    async (c, me) => want(!(await c.callTool({ name: "read_graph", arguments: {} })).isError, `graph of ${me}`),
  ],
};

async function client(me) {
  const transport = new StdioClientTransport({ command: order.command, args: order.args, env: order.env, stderr: "ignore" });
  const c = new Client({ name: "mcp-tether-e2e", version: "0" });
  // The SDK forgets a call before it has told of the progress that came with the answer, also without mcp-tether.
  c.onerror = (e) => {
    const late = /unknown token: .*"total":(\d+)/.exec(`${e}`);
    if (!late || Number(late[1]) !== 2 + (me % 3)) wrong.push(`client ${me}: ${e}`);
  };
  await c.connect(transport);
  const does = kinds[order.kind];
  const atOnce = 4;
  let next = 0;
  await Promise.all(Array.from({ length: atOnce }, async () => {
    while (next < order.calls) {
      const n = next++;
      await does[(n + me) % does.length](c, me, n).catch((e) => wrong.push(`client ${me}, call ${n}: ${e}`));
      made++;
    }
  }));
}

await Promise.all(Array.from({ length: order.clients }, (_, me) => client(me).catch((e) => wrong.push(`client ${me}: ${e}`))));
process.stdout.write(JSON.stringify({ made, progress, wrong: wrong.slice(0, 10), count: wrong.length }) + "\n");
process.exit(0);
