#!/bin/sh
# Run a command with a Docker engine at hand: the one that answers, else one started for as long as the command runs.
# Where there can be none the command runs all the same, and says itself what it had to skip.
set -u
cd "$(dirname "$0")/.." || exit 1
PATH="$PATH:/usr/sbin:/sbin"

answers() {
    .venv/bin/python -c 'import docker; docker.from_env(timeout=10).ping()' > /dev/null 2>&1
}

if answers; then exec "$@"; fi
if [ -n "${DOCKER_HOST:-}" ]; then
    echo "docker: no engine answers at DOCKER_HOST=$DOCKER_HOST" >&2
    exec "$@"
elif [ "$(id -u)" -ne 0 ] || ! command -v dockerd > /dev/null; then
    echo "docker: no engine answers, and starting one takes root and dockerd (package docker.io)" >&2
    exec "$@"
fi

log=$(mktemp -t splitbrain-dockerd.XXXXXX)
echo "docker: no engine answers; starting one (its log: $log)" >&2
# Ctrl-C is for the command: the engine is in a session of its own, and stopped below.
setsid dockerd > "$log" 2>&1 < /dev/null &
engine=$!
trap ':' INT TERM HUP

waited=0
until answers; do
    if ! kill -0 $engine 2> /dev/null || [ $waited -ge 60 ]; then
        echo "docker: the engine did not come up: $(grep 'failed to start' "$log" || tail -n 1 "$log")" >&2
        break
    fi
    sleep 1
    waited=$((waited + 1))
done

"$@"
status=$?
kill $engine 2> /dev/null && wait $engine && rm -f "$log"
exit $status
