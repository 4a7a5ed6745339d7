# shellcheck shell=sh
# Sourced by ./dev, ./test and .ci/run: finds out what the machine lacks and installs it with apt-get,
# as root or through sudo; where that is impossible, says in one line what is missing.

MISSING=""

die() {
    echo "$*" >&2
    exit 1
}

# need_command COMMAND PACKAGE
need_command() {
    PATH="$PATH:/usr/sbin:/sbin" command -v "$1" >/dev/null 2>&1 || MISSING="$MISSING $2"
}

need_postgres() {
    command -v initdb >/dev/null 2>&1 && command -v postgres >/dev/null 2>&1 && return
    for initdb in /usr/lib/postgresql/*/bin/initdb; do
        [ -x "$initdb" ] && return
    done
    MISSING="$MISSING postgresql"
}

# Of a version that the wheels of deploy_tools are for, with what makes an environment.
need_python() {
    python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        MISSING="$MISSING python3-venv"
}

# deploy_tools LIST DIR: what tests/deploy, tests/api, tests/chaos and tests/schedule call, made again when the list has changed.
deploy_tools() {
    cmp -s "$1" "$2/requirements.txt" && return
    echo "installing the tools of $1 into $2" >&2
    rm -rf "$2"
    if python3 -m venv "$2" &&
        "$2/bin/pip" install --quiet --disable-pip-version-check --no-input --require-hashes --no-deps -r "$1"; then
        cp "$1" "$2/requirements.txt"
    else
        echo "pip could not install the tools of $1: its tests will fail" >&2
    fi
}

# What the browser's driver asks for: Node.js 18 or newer.
need_node() {
    node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' 2>/dev/null || MISSING="$MISSING nodejs"
    need_command npm npm
}

# node_tools TESTS DIR: what the scripts of these tests load, made again when the list has changed.
node_tools() {
    cmp -s "$1/package-lock.json" "$2/package-lock.json" && [ -d "$2/node_modules" ] && return
    echo "installing the Node packages of $1 into $2" >&2
    rm -rf "$2"
    mkdir -p "$2"
    cp "$1/package.json" "$1/package-lock.json" "$2/"
    (cd "$2" && npm ci --ignore-scripts --no-audit --no-fund --silent) ||
        { rm -rf "$2"; echo "npm could not install the Node packages of $1: its tests will fail" >&2; }
}

# cargo_deny DIR: cargo-deny of one version in DIR/bin; without optimisation, since it is built for longer than it runs.
CARGO_DENY=0.20.2
cargo_deny() {
    "$1/bin/cargo-deny" --version 2>/dev/null | grep -qxF "cargo-deny $CARGO_DENY" && return
    echo "installing cargo-deny $CARGO_DENY into $1" >&2
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --version "$CARGO_DENY" --root "$1" cargo-deny
}

# The linker and the C compiler that the TLS library's build needs come from the system.
need_rust() {
    command -v cargo >/dev/null 2>&1 || PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
    command -v cargo >/dev/null 2>&1 || die "cargo is missing: install a Rust toolchain, see https://rustup.rs"
    need_command cc gcc
    [ -e /usr/include/stdio.h ] || MISSING="$MISSING libc6-dev"
}

apt() {
    # shellcheck disable=SC2086 # $SUDO is empty or a command with its option
    $SUDO env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0 "$@" >&2 </dev/null
}

install_missing() {
    [ -n "$MISSING" ] || return 0
    command -v apt-get >/dev/null 2>&1 ||
        die "missing:$MISSING (Debian package names), and there is no apt-get here: install them and start again"
    SUDO=""
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null 2>&1 ||
            die "missing: as root, run   apt-get install$MISSING   and start again"
        if [ -t 0 ]; then SUDO="sudo"; else SUDO="sudo -n"; fi
    fi
    echo "installing$MISSING" >&2
    trap no_services_undo EXIT
    trap 'exit 1' HUP INT TERM
    no_services
    # shellcheck disable=SC2086 # a list of packages
    apt install --no-install-recommends $MISSING 2>/dev/null ||
        { apt update && apt install --no-install-recommends $MISSING; } ||
        die "apt-get could not install$MISSING"
    no_services_undo
    trap - EXIT HUP INT TERM
    MISSING=""
}

# Programs are wanted here, not servers that run on this machine from now on: for the time of the installation
# PostgreSQL makes no cluster, and no service is started.
NO_CLUSTER=/etc/postgresql-common/createcluster.d/farmhand-setup.conf
NO_START=/usr/sbin/policy-rc.d
# Tells a file that a killed setup has left from the administrator's own.
MARK="# farmhand-setup"

no_services() {
    $SUDO mkdir -p "${NO_CLUSTER%/*}"
    echo "create_main_cluster = false" | $SUDO tee "$NO_CLUSTER" >/dev/null
    if [ -z "$NO_START" ] || { [ -e "$NO_START" ] && ! grep -qsx "$MARK" "$NO_START"; }; then
        NO_START=""
    else
        printf '#!/bin/sh\n%s\nexit 101\n' "$MARK" | $SUDO tee "$NO_START" >/dev/null
        $SUDO chmod 755 "$NO_START"
    fi
}

no_services_undo() {
    $SUDO rm -f "$NO_CLUSTER" $NO_START
}
