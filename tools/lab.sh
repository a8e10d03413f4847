#!/bin/sh
# lab.sh deploy: from a fresh machine to a real server on the embedded node.
# lab.sh destroy: removes exactly what that made.
set -eu
cd "$(dirname "$0")/.."
began=$(date +%s)
say() { printf '\n== %s (%d s)\n' "$*" "$(($(date +%s) - began))"; }

# It would slow the tools down, and on a node hide every trap of bytecode.
unset PYTHONDONTWRITEBYTECODE

destroy() {
    # Nodes of interrupted tests carry this checkout's mark in their names, as those of the lab do.
    mark=$(printf %s "$PWD" | sha256sum | cut -c1-8)
    if command -v podman >/dev/null; then
        podman ps --all --format '{{.Names}}' | grep "^specdecode-.*-$mark-" | xargs --no-run-if-empty podman rm --force --time 0
        podman network ls --format '{{.Name}}' | grep "^specdecode-.*-$mark\$" | xargs --no-run-if-empty podman network rm --force
        # An image that somebody else's node uses by now stays.
        [ ! -e .cache/images ] || sort -u .cache/images | while read -r image; do podman rmi "$image" 2>/dev/null || true; done
    fi
    rm -rf .lab .cache .venv specdecode-recap inventories/lab/nodes.yml runner/artifacts runner/env
    find plugins -name __pycache__ -type d -prune -exec rm -rf {} +
}

deploy() {
    say "Setting up: system packages and .venv"
    tools/setup.sh
    PATH=$PWD/.venv/bin:$PATH
    say "Booting the node, with the lab's tiny models"
    ansible-playbook -i inventories/lab molecule/shared/create.yml
    say "Deploying: installs the engine, patches it, starts it, measures it (3 to 5 minutes the first time)"
    ansible-playbook -i inventories/lab playbooks/deploy_specdecode.yml
    say "Serving at http://127.0.0.1:8000/v1 on the node. A completion:"
    ask="curl --silent --fail http://127.0.0.1:8000/v1/completions -H Content-Type:application/json -d"
    body='{"model": "glm4-tiny", "prompt": "speculative decoding", "max_tokens": 24, "temperature": 0}'
    # shellcheck disable=SC2029  # the node is to see these words
    ssh -F .lab/ssh_config lab "$ask '$body'"
    cat <<IN


Try it:  ssh -F .lab/ssh_config lab "$ask '$(echo "$body" | sed 's/"/\\"/g')'"
Look:    ssh -F .lab/ssh_config lab systemctl status specdecode@main
Recap:   specdecode-recap/recap.html
Remove:  make destroy
IN
}

case ${1:-} in
deploy | destroy) "$1" ;;
*)
    echo "usage: lab.sh deploy|destroy" >&2
    exit 2
    ;;
esac
