# What the scripts that check with programs of npm share. To be sourced, after packages.sh.

# node_tools installs what scripts/npm names, with the hashes in its lock file, below bin, and sets NODE_TOOLS
# to where it is. No program of a package runs at that.
node_tools() {
    NODE_TOOLS=$PWD/bin/npm
    export NODE_TOOLS
    npm_ci scripts/npm "$NODE_TOOLS" --omit=optional
}

# agent_programs does the same for the agents of scripts/npm/agents, and puts them on the PATH. Their programs for
# this machine are optional packages.
agent_programs() {
    npm_ci scripts/npm/agents "$PWD/bin/agents"
    export PATH="$PWD/bin/agents/node_modules/.bin:$PATH"
}

# npm_ci FROM TO [OPTION...]
npm_ci() {
    has npm || install_packages nodejs npm
    from=$1 to=$2
    shift 2
    cmp -s "$from/package-lock.json" "$to/installed.json" && return
    mkdir -p "$to"
    cp "$from/package.json" "$from/package-lock.json" "$to"
    quietly npm --prefix "$to" ci --ignore-scripts --no-audit --no-fund "$@" ||
        die "npm ci failed" "is there a network, and a registry? npm config get registry"
    cp "$from/package-lock.json" "$to/installed.json"
}
