# What .ci/run and .ci/proof share: what a bare Debian with Go, node and npm lacks, container engines, other users, and a look at
# what tests have left behind. It is sourced with the directory of the clone in $root.
# shellcheck shell=bash

lint_version=2.15.0
cache=${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/mcp-tether-ci
tools=$cache/bin

scratch=$(mktemp -d)
user='' leaf='' policy='' group='' tmp='' # what there is to remove; never what the environment calls so
trap clean_up EXIT
export PUPPETEER_EXECUTABLE_PATH=${PUPPETEER_EXECUTABLE_PATH:-/usr/bin/chromium}
# A clone that belongs to someone else makes git, and with it the version stamp of go build, fail.
git status >/dev/null 2>&1 || export GOFLAGS="${GOFLAGS:-} -buildvcs=false"

# shellcheck disable=SC2317 # called by the trap
clean_up() {
	local dir
	for dir in "$scratch"/{docker,podman,docker29,podman56}; do
		[[ ! -e $dir ]] || scripts/engine stop "$dir" || true
	done
	[[ -z $user ]] || remove_user || true
	[[ -z $leaf ]] || rmdir "$leaf" 2>/dev/null || true
	[[ -z $policy ]] || rm -f "$policy"
	[[ -z $group ]] || leave_group
	rm -rf "$scratch" ${tmp:+"$tmp"}
}

# enter_group moves this process into a cgroup of its own.
enter_group() {
	local mount
	mount=$(awk '$3 == "cgroup2" { print $2; exit }' /proc/self/mounts)
	above=$mount$(sed -n 's/^0:://p' /proc/self/cgroup)
	mkdir "$above/mcp-tether-ci-$$"
	group=$above/mcp-tether-ci-$$
	echo $$ >"$group/cgroup.procs"
}

# leave_group moves it out again, kills what it has left there, and removes the cgroup.
leave_group() {
	local attempt
	echo $$ >"$above/cgroup.procs"
	echo 1 >"$group/cgroup.kill" || true
	for attempt in {1..25}; do
		find "$group" -depth -type d -exec rmdir {} + 2>/dev/null && break
		sleep 0.2
	done
	group=
}

step() { printf '== %s (at %d s)\n' "$*" "$SECONDS"; }

# quietly COMMAND...: up to three attempts, as it needs the network; output is shown only if the last one fails.
quietly() {
	local attempt
	for attempt in 1 2 3; do
		"$@" >"$scratch/log" 2>&1 && return
		sleep $((attempt * 5))
	done
	cat "$scratch/log" >&2
	echo "failed three times: $*" >&2
	return 1
}

# install COMMAND:PACKAGE...: the Debian packages whose commands are not there.
install() {
	local pair missing=()
	for pair in "$@"; do
		command -v "${pair%%:*}" >/dev/null || missing+=("${pair#*:}")
	done
	((${#missing[@]})) || return 0
	step "Debian packages: ${missing[*]}"
	export DEBIAN_FRONTEND=noninteractive
	quietly apt-get -q update
	# An engine must not be started by its package: it would leave a bridge and firewall rules behind.
	policy=/usr/sbin/policy-rc.d
	[[ ! -e $policy ]] || policy= # it is not ours
	[[ -z $policy ]] || { printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy"; }
	quietly apt-get -qy install --no-install-recommends "${missing[@]}"
	[[ -z $policy ]] || rm "$policy"
	policy=
}

start_engines() {
	local kind host
	step 'container engines'
	for kind in docker podman; do
		host=$(scripts/engine start "$scratch/$kind" "$kind" $$)
		export "MCP_TETHER_TEST_${kind^^}=${host#DOCKER_HOST=}"
	done
	export MCP_TETHER_TEST_ENGINE=$MCP_TETHER_TEST_DOCKER
}

# stop_engines tells what tests have left in the engines, and ends them. Two images may stay: of the tests' own program, and of what
# holds a pod.
stop_engines() {
	local kind code=0
	for kind in "$@"; do
		export DOCKER_HOST=unix://$scratch/$kind/engine.sock
		{
			docker ps -a --format "container in $kind {{.ID}} {{.Names}} {{.Image}} {{.Status}}"
			docker network ls --format "network in $kind {{.Name}}" | grep -vE ' (none|host|bridge|podman)$' || true
			docker volume ls --format "volume in $kind {{.Name}}"
			# What podman keeps of the steps of a build whose image was removed beside another one of the same steps.
			docker image prune -f >/dev/null
			docker images --format "image in $kind {{.Repository}}:{{.Tag}}" | grep -vE ' (localhost/|docker.io/library/)?mcp-tether-(e2e|infra):' || true
		} >"$scratch/left"
		unset DOCKER_HOST
		[[ ! -s $scratch/left ]] || { echo 'LEFT IN AN ENGINE:' && cat "$scratch/left" && code=1; } >&2
		scripts/engine stop "$scratch/$kind" || code=1
	done
	return "$code"
}

install_lint() {
	export PATH=$tools:$PATH
	[[ $("$tools/golangci-lint" version --short 2>/dev/null) == "$lint_version" ]] && return
	step "golangci-lint $lint_version"
	GOBIN=$tools GOFLAGS='' quietly go install "github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v$lint_version"
	"$tools/golangci-lint" version
}

install_npm_packages() {
	step 'npm packages'
	# No install scripts: the only one there is would download a browser.
	PUPPETEER_SKIP_DOWNLOAD=1 quietly npm ci --prefix e2e/npm --ignore-scripts --no-audit --no-fund
}

# left names what this run has left. It is to be called from outside of the group.
left() {
	local pid exe goroot
	goroot=$(go env GOROOT)
	find "$group" -name cgroup.procs -exec cat {} + 2>/dev/null | while read -r pid; do
		exe=$(readlink "/proc/$pid/exe" 2>/dev/null) || continue # it is dead
		# The go command leaves a process of its own behind now and then.
		[[ $exe == "$goroot"/* ]] || echo "process $pid: $(tr '\0' ' ' <"/proc/$pid/cmdline")"
	done
	find "$group" -mindepth 1 -type d -printf 'cgroup %p\n'
	grep -F -e " $scratch/" -e " $tmp/" /proc/self/mounts | sed 's/^/mount /'
	find "$XDG_RUNTIME_DIR" ${user:+"/tmp/mcp-tether-$(id -u "$user")"} ! -type d -printf 'file %p\n' 2>/dev/null
	# t.TempDir of a test that died, and what a browser forgets.
	find "$tmp" -maxdepth 1 \( -name 'Test*' -o -name 'mcp-tether*' -o -name '*hromium*' -o -name 'puppeteer*' \) -printf 'file %p\n'
	return 0
}

# Something that is just ending gets a moment; whatever stays is a leak.
nothing_left() {
	local attempt
	echo $$ >"$above/cgroup.procs"
	for attempt in {1..25}; do
		left >"$scratch/left"
		[[ -s $scratch/left ]] || return 0
		sleep 0.2
	done
	echo 'LEFT BEHIND:' >&2
	cat "$scratch/left" >&2
	return 1
}

# as_user COMMAND...: runs it as a user made for that, in a copy of the sources, with a build cache and the modules that root has.
# The user may write to no cgroup.
as_user() {
	local home
	user=mcp-tether-ci-$$ home=$scratch/home
	mkdir -p "$home/src" "$home/mod" "$home/build" "$cache/user"
	useradd --system --no-create-home --home-dir "$home" --shell /bin/sh "$user"
	chmod 755 "$scratch"
	git -c safe.directory="$root" ls-files -z --cached --others --exclude-standard | xargs -0 tar -c --ignore-failed-read | tar -x -C "$home/src"
	chown -R "$user:" "$home" "$cache/user"
	# Where root keeps these, others may not look; in a mount namespace they are elsewhere.
	unshare --mount bash -c 'mount --bind "$1" "$3/mod" && mount --bind "$2" "$3/build" && cd "$3/src" && home=$3 user=$4 && shift 4 &&
		exec setpriv --reuid="$user" --regid="$user" --clear-groups --inh-caps=-all env -u XDG_RUNTIME_DIR -u XDG_CACHE_HOME -u MCP_TETHER_HAS HOME="$home" \
			PATH="$(dirname "$(command -v go)"):/usr/local/bin:/usr/bin:/bin" GOMODCACHE="$home/mod" GOCACHE="$home/build" GOPATH="$home" GOPROXY=off GOFLAGS=-buildvcs=false "$@"' \
		as-user "$(go env GOMODCACHE)" "$cache/user" "$home" "$user" "$@"
}

# remove_user is for after the look at what is left: a user's own processes and files are looked for by the user's name.
remove_user() {
	rm -rf "/tmp/mcp-tether-$(id -u "$user")"
	userdel "$user"
	user=
}

# All that is started here is in one cgroup, and has its files in one place: so nobody else's can be taken for ours.
enter_group
mkdir -m 700 "$scratch/run" && chmod 755 "$scratch"
tmp=$(mktemp -d /tmp/XXX) # short, for the names of sockets
chmod 1777 "$tmp"
export TMPDIR=$tmp XDG_RUNTIME_DIR=$scratch/run
