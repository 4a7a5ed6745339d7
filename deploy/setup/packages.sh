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
    # The server programs are wanted, not another cluster running on this machine.
    no_cluster=/etc/postgresql-common/createcluster.d/farmhand-setup.conf
    case "$MISSING" in
    *postgresql*)
        $SUDO mkdir -p "${no_cluster%/*}"
        echo "create_main_cluster = false" | $SUDO tee "$no_cluster" >/dev/null
        ;;
    esac
    # shellcheck disable=SC2086 # a list of packages
    apt install --no-install-recommends $MISSING 2>/dev/null ||
        { apt update && apt install --no-install-recommends $MISSING; } ||
        { $SUDO rm -f "$no_cluster"; die "apt-get could not install$MISSING"; }
    $SUDO rm -f "$no_cluster"
    MISSING=""
}
