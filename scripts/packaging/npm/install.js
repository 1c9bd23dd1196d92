// Puts the binary in the place of launch.js, so that no node stays between a gateway and its server. Where that cannot be
// done, launch.js goes on to work as it is.
'use strict'
const fs = require('fs')
const path = require('path')

const launcher = path.join(__dirname, 'launch.js')
try {
  const name = `mcp-tether-${process.platform}-${process.arch}`
  const binary = path.join(path.dirname(require.resolve(`${name}/package.json`)), 'mcp-tether')
  const temporary = launcher + '.new'
  fs.copyFileSync(binary, temporary)
  fs.chmodSync(temporary, 0o755)
  fs.renameSync(temporary, launcher)
} catch { /* see above */ }
