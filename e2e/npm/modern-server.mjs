// A server of 2026-07-28, and of the versions before, by the official SDK 2.x. Its tool "pid" answers with its own, "echo"
// with a message, a moment later and out of order, and "grow" adds a tool.

import { McpServer, fromJsonSchema } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

let grown = 0;
serveStdio(() => {
  const server = new McpServer({ name: "mcp-tether-e2e", version: "0" }, { capabilities: { tools: { listChanged: true } } });
  server.registerTool("pid", { description: "the process id" }, async () => ({
    content: [{ type: "text", text: String(process.pid) }],
  }));
  const message = fromJsonSchema({ type: "object", properties: { message: { type: "string" } }, required: ["message"] });
  server.registerTool("echo", { inputSchema: message }, async (said) => {
    await new Promise((later) => setTimeout(later, Math.random() * 10));
    return { content: [{ type: "text", text: said.message }] };
  });
  server.registerTool("grow", {}, async () => {
    server.registerTool(`grown-${++grown}`, {}, async () => ({ content: [] }));
    return { content: [{ type: "text", text: String(grown) }] };
  });
  return server;
});
