#!/usr/bin/env node
// Finds the binary of this platform's package and becomes it. After an installation with scripts this file is the binary
// itself, and node is not started at all (install.js).
'use strict'
const path = require('path')

function binary () {
  const name = `mcp-tether-${process.platform}-${process.arch}`
  try {
    return path.join(path.dirname(require.resolve(`${name}/package.json`)), 'mcp-tether')
  } catch {
    console.error(`mcp-tether: no package ${name}: mcp-tether runs on Linux, x64 and arm64. ` +
      'If you left out optional packages, install it with them.')
    process.exit(125)
  }
}

const file = binary()
if (typeof process.execve === 'function') { // Node.js 22.15
  process.execve(file, ['mcp-tether', ...process.argv.slice(2)], process.env)
}
// An older node stays in between, and passes on signals and the exit code. When node is killed, the binary sees its parent
// go.
const { spawn } = require('child_process')
const child = spawn(file, process.argv.slice(2), { stdio: 'inherit' })
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGWINCH', 'SIGCONT']) {
  try { process.on(signal, () => child.kill(signal)) } catch { /* node keeps this one for itself */ }
}
child.on('error', (err) => { console.error(`mcp-tether: ${err.message}`); process.exit(125) })
child.on('exit', (code, signal) => { process.exit(signal ? 128 + require('os').constants.signals[signal] : code) })
