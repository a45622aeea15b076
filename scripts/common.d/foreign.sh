# Packages of another architecture than this machine's. To be sourced by bash, after
# packages.sh.

# foreign_apt DIR ARCH sets the array `apt` to an apt-get that has an architecture and
# lists of its own below DIR; dpkg hears nothing of it.
foreign_apt() {
    local dir=$1 arch=$2 file
    mkdir -p "$dir/lists/partial" "$dir/cache/archives/partial" "$dir/sources"
    # Other vendors' sources have no such packages.
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
        grep -qsE '(deb\.debian\.org|security\.debian\.org|ports\.ubuntu\.com|debian)' "$file" && cp "$file" "$dir/sources/"
    done
    foreign=(-q -o "APT::Architecture=$arch" -o "APT::Architectures::=$arch" -o "Dir::State=$dir" -o "Dir::State::lists=$dir/lists"
        -o Dir::State::status=/dev/null -o "Dir::Cache=$dir/cache" -o APT::Sandbox::User=root -o Acquire::Languages=none
        -o "Dir::Etc::sourceparts=$dir/sources" -o Dir::Etc::sourcelist=/dev/null)
    apt=(apt-get "${foreign[@]}")
}
