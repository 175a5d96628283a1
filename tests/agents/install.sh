#!/bin/sh
# Installs the pinned agents that the end-to-end tests run for real.
#
#   tests/agents/install.sh [NAME...]      without names: all of them
#
# They go to $AGENTS_POD_TEST_AGENTS, or to target/agents of this checkout. What is there already in the
# pinned version stays as it is. No install script of a package is run.
set -eu

lists=$(cd "$(dirname "$0")" && pwd)
target=${AGENTS_POD_TEST_AGENTS:-$lists/../../target/agents}

if [ $# -eq 0 ]; then
    for list in "$lists"/*/package-lock.json; do
        set -- "$@" "$(basename "$(dirname "$list")")"
    done
fi

for name in "$@"; do
    if [ ! -f "$lists/$name/package-lock.json" ]; then
        echo "error: there is no agent \`$name\` in $lists" >&2
        exit 2
    fi
    place=$target/$name
    if [ -d "$place/node_modules" ] && cmp -s "$lists/$name/package-lock.json" "$place/package-lock.json"; then
        echo "$name is installed"
        continue
    fi
    echo "installing $name"
    mkdir -p "$target"
    # Moved into place when it is complete, so that an interrupted installation is none.
    staged=$(mktemp -d -p "$target")
    cp "$lists/$name/package.json" "$lists/$name/package-lock.json" "$staged/"
    npm ci --prefix "$staged" --ignore-scripts --omit=dev --no-fund --no-audit --loglevel=error
    rm -rf "$place"
    mv "$staged" "$place"
done
