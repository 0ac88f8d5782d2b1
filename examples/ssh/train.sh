#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Starts a program on all machines of a list, by ssh and torchrun, and ends it on all of them when this script ends.
#
#   examples/ssh/train.sh "one two" 4 examples/finetune/finetune.py --data rows.jsonl --out run
#
# The machines have the current folder at the same path, with .venv in it (or torchrun in their PATH), and reach each
# other on all ports.
set -euo pipefail

if (($# < 3)); then
  echo "usage: train.sh \"HOST...\" RANKS_PER_HOST PROGRAM [ARGUMENT...]" >&2
  exit 2
fi
read -ra hosts <<<"$1"
ranks=$2 port=${MASTER_PORT:-29500}
shift 2

jobs=()
folder=$(mktemp -d)
trap 'rm -r "$folder"; kill "${jobs[@]}" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM
# The secret of the job is not an argument, which all users of a machine could see.
key=${FCDP_JOB_KEY:-$(openssl rand -hex 16)}
for i in "${!hosts[@]}"; do
  torchrun=(torchrun --nnodes="${#hosts[@]}" --nproc-per-node="$ranks" --node-rank="$i" --master-addr="${hosts[0]}"
    --master-port="$port" "$@")
  # The connection's end, also if this script is killed, is the end of standard input there, and of torchrun.
  remote="cd $(printf %q "$PWD") && PATH=\$PWD/.venv/bin:\$PATH && read -r FCDP_JOB_KEY && export FCDP_JOB_KEY
    $(printf '%q ' "${torchrun[@]}") </dev/null & job=\$!
    { cat >/dev/null; kill \$job; sleep 15; kill -9 \$job; } <&0 2>/dev/null & watcher=\$!
    wait \$job; status=\$?; kill \$watcher; exit \$status"
  mkfifo "$folder/$i"
  ssh "${hosts[i]}" "bash -c $(printf %q "$remote")" <"$folder/$i" &
  jobs+=($!)
  exec {input}>"$folder/$i"
  echo "$key" >&"$input"
done

# If a machine fails, ranks on the others have half a minute to say what they know.
status=0 left=60
while ((${#jobs[@]} > 0 && left > 0)); do
  for i in "${!jobs[@]}"; do
    if ! kill -0 "${jobs[i]}" 2>/dev/null; then
      wait "${jobs[i]}" || status=$?
      unset "jobs[i]"
    fi
  done
  left=$((status == 0 ? left : left - 1))
  sleep 0.5
done
exit "$status"
