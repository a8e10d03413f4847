#!/bin/sh
# ansible_test.sh ARGS...: runs ansible-test on this checkout, wherever it lies.
# ansible-test wants a real path .../ansible_collections/blackwell/inference, outside an enclosing checkout that
# ignores it: there it would say "All targets skipped" and succeed. So what git would keep is copied.
set -eu
cd "$(dirname "$0")/.."
top=$PWD
work=${TMPDIR:-/tmp}/ansible-test-$(id -u)-$(echo "$top" | sha256sum | cut -c1-8)
copy=$work/ansible_collections/blackwell/inference
PATH=$top/.venv/bin:$PATH

mkdir -p "$copy/tests/output"
find "$copy" -mindepth 1 -maxdepth 1 ! -name tests -exec rm -rf {} +
find "$copy/tests" -mindepth 1 -maxdepth 1 ! -name output -exec rm -rf {} +
# a file that was deleted and not yet committed is listed as well: --ignore-failed-read
git ls-files -z --cached --others --exclude-standard -- . ':!.collections' ':!playbooks/collections' \
    | tar --create --null --files-from=- --ignore-failed-read --file=- 2>/dev/null \
    | tar --extract --file=- --directory="$copy"

# ansible-test looks for interpreters on PATH and clears the environment, in which pyenv's shims don't work: the versions
# themselves take their place.
PATH=$(echo "$PATH" | tr : '\n' | grep -v '/shims$' | paste -sd:)
for directory in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin; do
    [ ! -d "$directory" ] || PATH=$PATH:$directory
done

# Its virtual environments are bootstrapped by a script from a host that is no package index. The same script,
# made from pip's own wheel, is put where ansible-test caches it, so that an index is all that is needed.
cache=$HOME/.ansible/test/cache
release=$(python "$top/tools/get_pip.py" --release)
script=$cache/get_pip_$(echo "$release" | tr . _).py
if [ ! -e "$script" ]; then
    mkdir -p "$cache"
    python -m pip download --quiet --disable-pip-version-check --no-deps --dest "$cache" "pip==$release"
    cp "$top/tools/get_pip.py" "$script"
fi

cd "$copy"
exec ansible-test "$@"
