// A server of 2026-07-28, and of the versions before, by the official SDK 2.x. Its tool "pid" answers with its own.

import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";

serveStdio(() => {
  const server = new McpServer({ name: "mcp-tether-e2e", version: "0" }, { capabilities: { tools: { listChanged: true } } });
  server.registerTool("pid", { description: "the process id" }, async () => ({
    content: [{ type: "text", text: String(process.pid) }],
  }));
  return server;
});
