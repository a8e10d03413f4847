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
    if [ -x .venv/bin/ansible-playbook ]; then
        PATH=$PWD/.venv/bin:$PATH ansible-playbook -i inventories/lab molecule/shared/destroy.yml
        # only images that no container uses, so another checkout's nodes stay as they are
        podman image prune --all --force --filter label=blackwell.inference=node
    fi
    rm -rf .lab .cache .venv inventories/lab/nodes.yml
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
