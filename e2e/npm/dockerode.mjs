// A launcher that starts its server in a container by way of dockerode, and passes its own streams on.
//
//   node dockerode.mjs hijack|plain IMAGE LABEL=VALUE [ARG...]
//
// With "hijack" dockerode asks for an upgraded connection; without, it sends a chunked body on a plain request while it
// reads the raw reply.

import Docker from "dockerode";

const [how, image, label, ...args] = process.argv.slice(2);
const [key, value] = label.split("=");
const docker = new Docker();
const container = await docker.createContainer({
  Image: image,
  Cmd: args,
  OpenStdin: true,
  StdinOnce: true,
  AttachStdin: true,
  AttachStdout: true,
  AttachStderr: true,
  Labels: { [key]: value },
  HostConfig: { NetworkMode: "none", AutoRemove: true },
});
const stream = await container.attach({ stream: true, stdin: true, stdout: true, stderr: true, hijack: how === "hijack" });
docker.modem.demuxStream(stream, process.stdout, process.stderr);
process.stdin.pipe(stream);
await container.start();
await container.wait();
