// Many clients of the official SDK, each with a stdio server of its own as far as it knows.
//
//   node crowd.mjs '{"command": "...", "args": [...], "env": {...}, "clients": 50, "calls": 200}'
//
// Each client makes its calls, several at a time, and checks every answer: what it asked for is in the question, and no
// two questions are alike. It prints one line of JSON with the number of answers and the first complaints. Then it idles
// until it reads "close" (the SDK's own shutdown of all clients), or EOF.

import readline from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import {
  CallToolResultSchema, CreateMessageRequestSchema, CreateTaskResultSchema, ElicitRequestSchema, EmptyResultSchema,
  LoggingMessageNotificationSchema, ResourceUpdatedNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";

const config = JSON.parse(process.argv[2]);
const say = (event) => process.stdout.write(JSON.stringify(event) + "\n");
const levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
const patience = { timeout: 240_000 };
const complaints = [];
const counts = { answers: 0, refused: 0, sampled: 0, elicited: 0, progress: 0, cancelled: 0, logged: 0, updated: 0 };

const complain = (member, what) => {
  if (complaints.length < 20) complaints.push(`client ${member.number}: ${what}`);
};

const text = (answer) => answer.content.map((part) => part.text ?? "").join("");

class Member {
  constructor(number) {
    this.number = number;
    this.made = 0;
    this.level = 0;
    this.watched = new Set();
    this.cancelled = new Set();
    this.updated = new Set();
    this.client = new Client({ name: `crowd-${number}`, version: "0" }, { capabilities: { sampling: {}, elicitation: {} } });
    this.client.setRequestHandler(CreateMessageRequestSchema, (request) => {
      const asked = request.params.messages[0].content.text;
      if (!asked.includes(`<${number}:`)) complain(this, `asked to sample ${asked}`);
      counts.sampled++;
      return { model: "m", role: "assistant", content: { type: "text", text: `${asked} by ${number}` } };
    });
    this.client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
      if (!params.message.includes(`<${this.number}:`)) complain(this, `asked ${params.message}`);
      counts.elicited++;
      return { action: "decline" };
    });
    this.client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
      counts.logged++;
      if (levels.indexOf(params.level) < this.level) complain(this, `log message of ${params.level}`);
    });
    this.client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => {
      counts.updated++;
      if (!this.watched.has(params.uri)) complain(this, `told of ${params.uri}`);
      this.updated.add(params.uri);
    });
    this.client.onerror = (error) => {
      // The SDK handles answers at once and notifications a moment later, so it forgets the token of a progress that was read
      // together with the answer. listen checks them.
      if (`${error}`.includes("progress notification for an unknown token")) return;
      // An answer may cross the cancellation of its call.
      const [, late] = `${error}`.match(/response for an unknown message ID: (.*)/) ?? [];
      if (late && this.cancelled.has(JSON.parse(late).id)) return;
      complain(this, `${error}`);
    };
  }

  async connect() {
    this.transport = new StdioClientTransport({ command: config.command, args: config.args, env: config.env, stderr: "inherit", maxBufferSize: 64 * 2 ** 20 });
    await this.client.connect(this.transport, patience);
    this.listen();
  }

  // listen looks at the messages themselves: the progress of a call comes in order, before its answer, and under its token.
  listen() {
    const open = new Map();
    const { onmessage } = this.transport;
    const send = this.transport.send.bind(this.transport);
    this.transport.send = (message, ...more) => {
      if (message.method === "notifications/cancelled") this.cancelled.add(message.params.requestId);
      const token = message.params?._meta?.progressToken;
      if (token !== undefined) open.set(token, { id: message.id, told: 0, steps: message.params.arguments?.steps });
      return send(message, ...more);
    };
    this.transport.onmessage = (message, ...more) => {
      if (message.method === "notifications/progress") {
        const { progress, total, progressToken } = message.params;
        const call = open.get(progressToken);
        if (!call || progress !== ++call.told || total !== call.steps) complain(this, `progress ${JSON.stringify(message.params)}`);
        counts.progress++;
      }
      if (message.result && open.get(message.id)?.id === message.id) {
        const call = open.get(message.id);
        open.delete(message.id);
        if (call.told !== call.steps) complain(this, `${call.told} of ${call.steps} steps were told`);
      }
      return onmessage(message, ...more);
    };
  }

  // mark is in the question and must be in the answer.
  mark() {
    return `<${this.number}:${++this.made}>`;
  }

  call(name, args, options = {}) {
    return this.client.callTool({ name, arguments: args }, undefined, { ...patience, ...options });
  }

  expect(got, want) {
    counts.answers++;
    if (!got.includes(want)) complain(this, `want ${want}, got ${got.slice(0, 200)}`);
  }
}

const everything = [
  async (m) => {
    const mark = m.mark();
    m.expect(text(await m.call("echo", { message: mark })), mark);
  },
  async (m) => {
    const a = m.number * 10_000 + ++m.made;
    m.expect(text(await m.call("get-sum", { a, b: 1 })), `is ${a + 1}.`);
  },
  async (m) => {
    const steps = 1 + m.number; // No two clients have as many.
    const duration = 0.01 + m.number / 10_000;
    const answer = await m.call("trigger-long-running-operation", { duration, steps }, { onprogress: () => {} });
    m.expect(text(answer), `Duration: ${duration} seconds, Steps: ${steps}.`);
  },
  async (m) => {
    const { prompts } = await m.client.listPrompts(undefined, patience);
    m.expect(prompts.map((p) => p.name).join(), "args-prompt");
  },
  async (m) => {
    const mark = m.mark();
    const { messages } = await m.client.getPrompt({ name: "args-prompt", arguments: { city: mark } }, patience);
    m.expect(messages[0].content.text, mark);
  },
  async (m) => {
    const uri = `demo://resource/dynamic/text/${m.number * 1000 + (++m.made % 1000) + 1}`;
    m.expect((await m.client.readResource({ uri }, patience)).contents[0].uri, uri);
  },
  async (m) => {
    const { tools } = await m.client.listTools(undefined, patience);
    m.expect(tools.map((t) => t.name).join(), "echo");
  },
  async (m) => {
    await m.client.ping(patience);
    counts.answers++;
  },
  async (m) => {
    const giveUp = new AbortController();
    const call = m.call("trigger-long-running-operation", { duration: 0.3, steps: 1 }, { signal: giveUp.signal });
    const gone = call.then(() => "answered", () => "cancelled");
    await m.client.ping(patience);
    giveUp.abort();
    if (await gone === "cancelled") counts.cancelled++;
  },
  async (m) => {
    const error = await m.client.request({ method: `no/such/${m.number}` }, EmptyResultSchema, patience).then(() => "accepted", (e) => e);
    m.expect(`${error.code}`, "-32601");
  },
  async (m) => {
    const uri = `demo://resource/dynamic/text/${m.made % 3 + 1}`;
    m.watched.add(uri);
    await m.client.subscribeResource({ uri }, patience);
    await m.client.unsubscribeResource({ uri }, patience);
    counts.answers += 2;
  },
  async (m) => {
    const level = (m.number + m.made) % levels.length;
    m.level = Math.min(m.level, level);
    await m.client.setLoggingLevel(levels[level], patience);
    counts.answers++;
  },
  async (m) => {
    const mark = m.mark();
    const answer = await m.call("trigger-sampling-request", { prompt: mark, maxTokens: 10 });
    counts.answers++;
    // Where others are served too, the server is refused, and says so.
    if (answer.isError) {
      counts.refused++;
      if (!text(answer).includes("is shared by clients")) complain(m, text(answer));
      return;
    }
    if (!text(answer).includes(`${mark} by ${m.number}`)) complain(m, `${mark} was sampled as ${text(answer)}`);
  },
  async (m) => {
    const giveUp = await m.client.request({ method: "no/such", params: { _meta: { progressToken: "its own" } } }, EmptyResultSchema, patience).then(() => "accepted", (e) => e);
    m.expect(`${giveUp.code}`, "-32601");
  },
];

// work makes a client's calls, several at a time.
async function work(m) {
  let left = config.calls;
  await Promise.all(Array.from({ length: 4 }, async () => {
    while (left-- > 0) {
      await everything[(left + m.number) % everything.length](m).catch((error) => complain(m, `${error}`));
    }
  }));
}

// news has each client watch one resource that is its own and one that is everybody's.
async function news(all) {
  for (const m of all) {
    m.watched = new Set([`demo://resource/dynamic/text/${1000 + m.number}`, "demo://resource/dynamic/text/999"]);
    m.updated.clear();
  }
  await Promise.all(all.map(async (m) => {
    for (const uri of m.watched) await m.client.subscribeResource({ uri }, patience);
  }));
  const told = () => all.every((m) => m.updated.size === 2);
  await all[0].call("toggle-subscriber-updates", {});
  while (!told()) await new Promise((later) => setTimeout(later, 50));
  await all[0].call("toggle-subscriber-updates", {});
}

// tasks has some clients work on a task each. The server asks back in the middle of it, and says which task that is about.
async function tasks(some) {
  await Promise.all(some.map(async (m) => {
    m.topic = m.mark();
    const params = { name: "simulate-research-query", arguments: { topic: m.topic, ambiguous: true }, task: { ttl: 300_000 } };
    m.task = (await m.client.request({ method: "tools/call", params }, CreateTaskResultSchema, patience)).task.taskId;
  }));
  await Promise.all(some.map(async (m, i) => {
    const mine = m.client.experimental.tasks;
    const { tasks } = await mine.listTasks(undefined, patience);
    if (tasks.length !== 1 || tasks[0].taskId !== m.task) complain(m, `has the task ${m.task} and sees ${JSON.stringify(tasks)}`);
    const other = some[(i + 1) % some.length];
    const error = await mine.getTask(other.task, patience).then(() => "accepted", (e) => e);
    if (other !== m) m.expect(`${error.code}`, "-32602");
    m.expect(text(await mine.getTaskResult(m.task, CallToolResultSchema, patience)), m.topic);
  }));
}

const all = Array.from({ length: config.clients }, (_, i) => new Member(i + 1));
await Promise.all(all.map((m) => m.connect()));
await Promise.all(all.map(work));
await news(all);
await tasks(all.slice(0, 8));
say({ event: "done", counts, complaints });

for await (const line of readline.createInterface({ input: process.stdin })) {
  if (line !== "close") break;
  await Promise.all(all.map((m) => m.client.close()));
  say({ event: "closed" });
}
process.exit(0);
