// Puts the binary in the place of the launcher (launch.js, which the package has as mcp-tether), so that no node stays
// between a gateway and its server. Where that cannot be done, the launcher goes on to work as it is.
'use strict'
const fs = require('fs')
const path = require('path')

const launcher = path.join(__dirname, 'mcp-tether')
try {
  const name = `mcp-tether-${process.platform}-${process.arch}`
  const binary = path.join(path.dirname(require.resolve(`${name}/package.json`)), 'mcp-tether')
  const temporary = launcher + '.new'
  fs.copyFileSync(binary, temporary)
  fs.chmodSync(temporary, 0o755)
  fs.renameSync(temporary, launcher)
} catch { /* see above */ }
