// The servers that hibernate.mjs runs, all of them without a network. steps are calls, each after a hibernation, and some
// fail as they must; loses says in words what a difference means. how is what the table says of the start.

const key = (name) => ({ how: `\`${name}\` set to anything`, env: () => ({ [name]: "none" }) });
// Numbers that differ from run to run, such as those of processes.
const withoutNumbers = (text) => text.replace(/\d+(\.\d+)?/g, "N");
const chromium = "/usr/bin/chromium";
const page = "data:text/html,<title>here</title><h1>here</h1>";

export const servers = [
  {
    name: "@modelcontextprotocol/server-everything", how: "roots",
    steps: () => [["echo", { message: "hello" }], ["toggle-simulated-logging", {}], ["toggle-simulated-logging", {}]],
    loses: "the logging that was switched on",
  },
  {
    name: "@modelcontextprotocol/server-filesystem", how: "a directory, roots", args: (dir) => [dir],
    steps: (dir) => [["write_file", { path: dir + "/a", content: "kept" }], ["read_text_file", { path: dir + "/a" }], ["list_directory", { path: dir }], ["read_text_file", { path: "/etc/passwd" }, "fails"]],
  },
  {
    name: "@modelcontextprotocol/server-memory", how: "`MEMORY_FILE_PATH`", env: (dir) => ({ MEMORY_FILE_PATH: dir + "/memory.jsonl" }),
    steps: () => [["create_entities", { entities: [{ name: "a", entityType: "b", observations: ["c"] }] }], ["read_graph", {}], ["search_nodes", { query: "c" }]],
  },
  {
    name: "@modelcontextprotocol/server-sequential-thinking",
    steps: () => [1, 2, 3].map((n) => ["sequentialthinking", { thought: "t", nextThoughtNeeded: true, thoughtNumber: n, totalThoughts: 3 }]),
    loses: "the thoughts so far: their count starts anew",
  },
  { name: "@modelcontextprotocol/server-github", ...key("GITHUB_PERSONAL_ACCESS_TOKEN") },
  { name: "@modelcontextprotocol/server-gitlab", ...key("GITLAB_PERSONAL_ACCESS_TOKEN") },
  { name: "@modelcontextprotocol/server-slack", how: "`SLACK_BOT_TOKEN`, `SLACK_TEAM_ID` set to anything", env: () => ({ SLACK_BOT_TOKEN: "none", SLACK_TEAM_ID: "none" }) },
  { name: "@modelcontextprotocol/server-brave-search", ...key("BRAVE_API_KEY") },
  { name: "@modelcontextprotocol/server-google-maps", ...key("GOOGLE_MAPS_API_KEY") },
  { name: "@modelcontextprotocol/server-everart", ...key("EVERART_API_KEY") },
  { name: "@modelcontextprotocol/server-postgres", how: "a database that is not there", args: () => ["postgresql://localhost:1/none"] },
  {
    name: "@modelcontextprotocol/server-puppeteer", how: "chromium", env: () => ({ PUPPETEER_EXECUTABLE_PATH: chromium, DOCKER_CONTAINER: "true", ALLOW_DANGEROUS: "true" }),
    steps: () => [
      ["puppeteer_navigate", { url: page, allowDangerous: true, launchOptions: { executablePath: chromium, headless: true, args: ["--no-sandbox"] } }],
      ["puppeteer_evaluate", { script: "document.title" }],
    ],
    loses: "the browser and its page",
  },
  {
    name: "@playwright/mcp", how: "chromium", args: () => ["--headless", "--no-sandbox", "--isolated", "--executable-path", chromium],
    steps: () => [["browser_navigate", { url: page }], ["browser_evaluate", { function: "() => document.title" }]],
    loses: "the browser and its page",
  },
  {
    name: "chrome-devtools-mcp", how: "chromium", args: () => ["--headless", "--isolated", "--executablePath", chromium, "--chromeArg=--no-sandbox"],
    steps: () => [["new_page", { url: page }], ["list_pages", {}]],
    loses: "the browser and its page",
  },
  {
    name: "@wonderwhy-er/desktop-commander", plain: withoutNumbers,
    steps: (dir) => [["write_file", { path: dir + "/a", content: "kept" }], ["read_file", { path: dir + "/a" }], ["start_process", { command: "cat", timeout_ms: 500 }], ["list_sessions", {}]],
    loses: "the terminals that it has opened",
  },
  {
    name: "@cyanheads/git-mcp-server", how: "git", plain: withoutNumbers, env: () => ({ MCP_TRANSPORT_TYPE: "stdio" }),
    steps: (dir) => [["git_init", { path: dir }], ["git_set_working_dir", { path: dir }], ["git_status", {}]],
    loses: "the working directory that was set",
  },
  { name: "mcp-server-kubernetes", how: "no cluster" },
  { name: "@antv/mcp-server-chart" },
  { name: "mcp-mermaid" },
  { name: "@upstash/context7-mcp" },
  { name: "@notionhq/notion-mcp-server", ...key("NOTION_TOKEN") },
  { name: "firecrawl-mcp", ...key("FIRECRAWL_API_KEY") },
  { name: "tavily-mcp", ...key("TAVILY_API_KEY") },
  { name: "exa-mcp-server", ...key("EXA_API_KEY") },
  { name: "figma-developer-mcp", how: "`--stdio`, `FIGMA_API_KEY` set to anything", args: () => ["--stdio"], env: () => ({ FIGMA_API_KEY: "none" }) },
  { name: "@sentry/mcp-server", how: "`--access-token` set to anything", args: () => ["--access-token=none"] },
];
