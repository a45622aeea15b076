# What the scripts that check with programs of npm share. To be sourced, after packages.sh.

# node_tools installs what scripts/npm names, with the hashes that stand in its lock file,
# below bin, and sets NODE_TOOLS to where it is. No program of a package runs at that.
node_tools() {
    has npm || install_packages nodejs npm
    NODE_TOOLS=$PWD/bin/npm
    export NODE_TOOLS
    cmp -s scripts/npm/package-lock.json "$NODE_TOOLS/installed.json" && return
    mkdir -p "$NODE_TOOLS"
    cp scripts/npm/package.json scripts/npm/package-lock.json "$NODE_TOOLS"
    quietly npm --prefix "$NODE_TOOLS" ci --ignore-scripts --omit=optional --no-audit --no-fund ||
        die "npm ci failed" "is there a network, and a registry? npm config get registry"
    cp scripts/npm/package-lock.json "$NODE_TOOLS/installed.json"
}
