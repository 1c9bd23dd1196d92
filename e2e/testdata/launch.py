"""A launcher that starts its server in a container by way of the Docker SDK for Python, and passes its output on.

    launch.py IMAGE LABEL=VALUE [ARG...]
"""
import sys

import docker

image, label, *args = sys.argv[1:]
key, value = label.split("=")
container = docker.from_env().containers.run(
    image, args, detach=True, auto_remove=True, stdin_open=True, network_mode="none", labels={key: value})
for chunk in container.logs(stream=True, follow=True):
    sys.stdout.buffer.write(chunk)
    sys.stdout.buffer.flush()
