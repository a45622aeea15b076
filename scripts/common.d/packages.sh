# What the scripts that install packages of Debian and Ubuntu share. To be sourced
# by sh and bash; whoever does so says in $me how it is called.

say()  { printf '%s: %s\n' "$me" "$*"; }
hint() { printf '%s: hint: %s\n' "$me" "$*" >&2; }
die()  { printf '%s: error: %s\n' "$me" "$1" >&2; shift; for h; do hint "$h"; done; exit 1; }

has() { command -v "$1" >/dev/null 2>&1; }

# need_root ends here if nothing can be installed.
need_root() {
    [ "$(id -u)" = 0 ] || has sudo ||
        die "root is needed to install: $*" "run scripts/$me as root once; nothing else here needs root"
}

# as_root runs a command as root, and without a terminal never waits for a password.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif [ -t 0 ]; then
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

# quietly runs a command and shows what it printed only if it failed.
quietly() {
    say "running: $*"
    log=$(mktemp)
    if "$@" >"$log" 2>&1; then
        rm -f "$log"
        return 0
    fi
    cat "$log" >&2
    rm -f "$log"
    return 1
}

update_packages() {
    quietly as_root apt-get -o APT::Update::Error-Mode=any -q update ||
        die "apt-get update failed" "is there a network? behind a proxy set http_proxy; sources are in /etc/apt"
}

install_packages() {
    has apt-get || die "missing: $*" \
        "these are Debian's names; install your distribution's equivalents and run scripts/$me again"
    need_root "$@"
    say "installing: $*"
    update_packages
    quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y --no-install-recommends install "$@" ||
        die "apt-get install failed" "install by hand and run scripts/$me again: apt-get install $*"
}
