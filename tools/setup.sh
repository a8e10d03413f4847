#!/bin/sh
# setup.sh: makes sure that this machine can build nodes and run the collection:
# the system packages, and the Python environment .venv from requirements/dev.txt.
# It does only what is missing. An argument "COMMAND PACKAGE" names one more command that is needed, and PYTHON an
# interpreter (3.11 or later) to use.
set -eu
cd "$(dirname "$0")/.."

# The commands that are needed, each with the package of Debian and Ubuntu that brings it.
needed='podman podman
runc runc
mmdebstrap mmdebstrap
ssh-keygen openssh-client
iptables iptables
rsync rsync
git git'
[ $# = 0 ] || needed="$needed
$1"

missing_packages() {
    echo "$needed" | while read -r command package; do
        command -v "$command" >/dev/null 2>&1 || echo "$package"
    done
    # hosts that are not Debian need its keys to read its archive
    [ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || echo debian-archive-keyring
    # the network of the nodes, and their names in it; podman 4 and later
    [ -e /usr/lib/podman/netavark ] || [ -e /usr/libexec/podman/netavark ] || echo netavark
    [ -e /usr/lib/podman/aardvark-dns ] || [ -e /usr/libexec/podman/aardvark-dns ] || echo aardvark-dns
}

install_packages() {
    if ! command -v apt-get >/dev/null; then
        echo "setup: this machine lacks $*, and has no apt-get." >&2
        echo "setup: install what matches them with its own package manager, then run this again" >&2
        exit 1
    elif [ "$(id -u)" = 0 ]; then
        as_root=
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        as_root="sudo -n"
    else
        echo "setup: this machine lacks $*, and this user may not install packages." >&2
        echo "setup: as root, type:  apt-get install --no-install-recommends $*" >&2
        exit 1
    fi
    echo "Installing $*"
    $as_root apt-get update -qq
    DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

pick_python() {
    # 3.12 first: ansible-core 2.21 runs on it; 3.11 gets 2.19. pyenv keeps versions that are not on PATH.
    for candidate in ${PYTHON:-} python3.12 python3.13 python3.14 "$HOME"/.pyenv/versions/3.1[234].*/bin/python python3.11 python3; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "setup: no Python 3.11 or later was found; install one, or name it: make PYTHON=/path/to/python3.12" >&2
    exit 1
}

packages=$(missing_packages)
# shellcheck disable=SC2086  # a list of packages
[ -z "$packages" ] || install_packages $packages

wanted=$(sha256sum requirements/dev.txt | cut -d' ' -f1)
if [ "$(cat .venv/.requirements 2>/dev/null)" != "$wanted" ]; then
    python=$(pick_python)
    # Debian's Python can't make environments until python3-venv is there
    if ! "$python" -c 'import ensurepip' 2>/dev/null; then
        install_packages "$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
    fi
    echo "Making .venv with $("$python" --version) from requirements/dev.txt"
    rm -rf .venv
    "$python" -m venv .venv
    # uv first, by its own hashes: it installs the rest in seconds
    awk '/^uv==/ {found = 1} found {print} found && !/\\$/ {exit}' requirements/dev.txt >.venv/uv.txt
    .venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement .venv/uv.txt
    UV_SYSTEM_CERTS=1 .venv/bin/uv pip install --quiet --no-cache --python .venv/bin/python --require-hashes \
        --requirement requirements/dev.txt
    echo "$wanted" >.venv/.requirements
fi
