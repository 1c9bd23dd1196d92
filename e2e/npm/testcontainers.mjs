// A server that starts a container by Testcontainers, as an integration test does, in a network of its own:
//
//   node testcontainers.mjs IMAGE LABEL=VALUE [reuse]
//
// It says in a line of JSON where the container's port is, what came from there, and which Ryuk looks after it all. Then it
// rests until its stdin ends, and stops nothing.

import { connect } from "node:net";
import { GenericContainer, Network, Wait, getContainerRuntimeClient } from "testcontainers";

const [image, label, reuse] = process.argv.slice(2);
const [key, value] = label.split("=");
const port = 7000;

let container = new GenericContainer(image)
  .withCommand(["greets", `${port}`])
  .withExposedPorts(port)
  .withLabels({ [key]: value })
  .withWaitStrategy(Wait.forLogMessage("up"));
if (reuse) {
  container = container.withReuse();
} else {
  container = container.withNetwork(await new Network().start());
}
const started = await container.start();

const fetchText = () =>
  new Promise((resolve, reject) => {
    const chunks = [];
    connect(started.getMappedPort(port), started.getHost())
      .on("data", (chunk) => chunks.push(chunk))
      .on("end", () => resolve(Buffer.concat(chunks).toString()))
      .on("error", reject);
  });
// A container that was started again has said that it is up before, and docker takes connections for it at once.
let text = "";
while (text === "") {
  text = await fetchText();
}

const { info, container: containers } = await getContainerRuntimeClient();
const ryuk = (await containers.list()).filter((c) => c.Labels["org.testcontainers.ryuk"] === "true");
console.log(
  JSON.stringify({
    ready: true,
    id: started.getId(),
    host: started.getHost(),
    text,
    socket: info.containerRuntime.remoteSocketPath,
    ryuk: ryuk.map((c) => c.Id),
  }),
);
process.stdin.resume();
process.stdin.on("end", () => process.exit(0));
