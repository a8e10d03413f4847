#!/bin/sh
# test.sh PART...: the tests, each with its set-up. `all` is what CI runs.
set -eu
cd "$(dirname "$0")/.."
began=$(date +%s)
say() { printf '\n== %s (%d s)\n' "$*" "$(($(date +%s) - began))"; }

# It would hide every trap of bytecode, which is what many of the tests are about.
unset PYTHONDONTWRITEBYTECODE

lint() {
    say "Lint: ruff, mypy, shellcheck, ansible-lint, changelog, documentation"
    ruff check .
    ruff format --check .
    mypy plugins tools
    # shellcheck disable=SC2046  # a list of files
    shellcheck $(git ls-files '*.sh' .ci/run molecule/shared/image/customize)
    ansible-lint --offline --profile production
    antsibull-changelog lint
    antsibull-docs lint-collection-docs --plugin-docs --skip-rstcheck .
}

sanity() {
    say "Sanity: ansible-test"
    tools/ansible_test.sh sanity --venv
}

unit() {
    # By pytest itself: ansible-test starts a process for each test, and so builds what a session shares, such as the
    # truth table of bytecode, again for each of them.
    say "Unit tests, and what a person types in a checkout: pytest"
    # What runs on a node apart from what runs on the controller, where Ansible's warnings go another way.
    python -m pytest --numprocesses 2 tests/unit/plugins/modules tests/unit/plugins/module_utils
    python -m pytest --numprocesses 2 tests/unit tests/command \
        --ignore tests/unit/plugins/modules --ignore tests/unit/plugins/module_utils
}

upstream() {
    say "Upstream: patches on a handful of real releases"
    python -m pytest tests/upstream
}

upstream_all() {
    say "Upstream: patches on all real releases"
    python -m pytest tests/upstream --all-releases --matrix docs/reference/patch_matrix.md
}

recap() {
    say "Recap: the page in a headless Chromium"
    tools/setup.sh "chromium chromium"
    python -m pytest tests/recap
}

benchmark() {
    say "Benchmark: pyc_invalidate, as ratios"
    python -m pip install --quiet --require-hashes --requirement requirements/benchmark.txt
    # Only root can drop the caches of the machine.
    if [ "$(id -u)" = 0 ]; then set -- --cold; else set --; fi
    python tests/benchmark/bytecode/run.py "$@"
}

tarball() {
    say "Tarball: the built collection alone"
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT INT TERM
    ansible-galaxy collection build --output-path "$work"
    (
        # away from the checkout, which is a collection of the same name
        cd "$work"
        export ANSIBLE_COLLECTIONS_PATH="$work"
        ansible-galaxy collection install --offline --collections-path "$work" "$work"/*.tar.gz
        ansible-playbook --syntax-check --inventory localhost, blackwell.inference.deploy_specdecode
        ansible localhost --module-name blackwell.inference.pyc_invalidate --args "path=$work"
    )
}

scenario() {
    say "Nodes: molecule scenario $1"
    MOLECULE_GLOB='molecule/*/molecule.yml' molecule test --scenario-name "$1"
}

nodes() {
    for name in default registry_patches recordings speed; do scenario "$name"; done
}

# What takes longer than CI should: every way in which a server or an installation fails.
nodes_failing() {
    for name in failures survive ml_env; do scenario "$name"; done
}

say "Setting up: system packages and .venv"
tools/setup.sh
PATH=$PWD/.venv/bin:$PATH
[ "${1:-all}" != all ] || set -- lint sanity unit recap upstream tarball nodes
for part; do
    case $part in
    lint) lint ;;
    sanity) sanity ;;
    unit) unit ;;
    recap) recap ;;
    upstream) upstream ;;
    upstream-all) upstream_all ;;
    benchmark) benchmark ;;
    tarball) tarball ;;
    nodes) nodes ;;
    nodes-failing) nodes_failing ;;
    *)
        echo "usage: test.sh all|lint|sanity|unit|recap|upstream|upstream-all|benchmark|tarball|nodes|nodes-failing" >&2
        exit 2
        ;;
    esac
done
say "All passed: $*"
