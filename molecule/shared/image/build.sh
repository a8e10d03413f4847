#!/bin/sh
# build.sh SUITE: makes sure that the image of a bootable Debian node exists and
# prints its name. The name carries a digest of this recipe, so a changed recipe
# is a new image and an unchanged one is built once.
#
# The base is made by mmdebstrap from Debian's archive where that tool is
# installed, else it is the distribution's image of a container registry.
# NODE_BASE=archive or NODE_BASE=registry asks for one of them.
set -eu

suite=$1
here=$(cd "$(dirname "$0")" && pwd)
# CAs that this machine trusts besides the distribution's: the node needs them to reach the same indexes
cas=$(ls /usr/local/share/ca-certificates/*.crt 2>/dev/null || true)
# shellcheck disable=SC2086  # a list of files
digest=$(cat "$0" "$here"/Containerfile "$here"/customize "$here"/packages $cas | sha256sum | cut -c1-12)
image=localhost/specdecode-node:$suite-$digest

if podman image exists "$image"; then
    echo "$image"
    exit 0
fi

base=${NODE_BASE:-}
if [ -z "$base" ]; then
    base=registry
    if command -v mmdebstrap >/dev/null; then base=archive; fi
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
echo "Building $image from the distribution's $base (once, about a minute)" >&2

case $base in
archive)
    mmdebstrap --quiet --variant=apt --include="$(paste -sd, "$here"/packages)" \
        --customize-hook="$here/customize" "$suite" "$work/root.tar" >&2
    podman import --quiet --change 'CMD ["/sbin/init"]' --change 'STOPSIGNAL SIGRTMIN+3' \
        --change 'LABEL blackwell.inference=node' \
        "$work/root.tar" "$image" >&2
    ;;
registry)
    mkdir "$work/cas"
    for ca in $cas; do cp "$ca" "$work/cas/"; done
    cp "$here"/Containerfile "$here"/customize "$here"/packages "$work/"
    podman build --quiet --build-arg "SUITE=$suite" --tag "$image" "$work" >&2
    ;;
*)
    echo "build.sh: NODE_BASE is '$base'; it can be 'archive' (mmdebstrap) or 'registry'" >&2
    exit 2
    ;;
esac
# what `make destroy` may remove again
mkdir -p "$here/../../../.cache"
echo "$image" >>"$here/../../../.cache/images"
echo "$image"
