#!/usr/bin/env bash
# Trains on two "machines" that a link of limited bandwidth connects: two network namespaces of this
# machine, with one process each. Prints the time of a step for each bandwidth.
#
#     benches/link.sh [SHAPE [BANDWIDTH ...]]        e.g. benches/link.sh copy 100mbit 1gbit 10gbit
#
# SHAPE is one of the values of `train bench --shape`. If SHAPE is `fit`, a small run is trained
# across the link instead, and its losses are compared with those of one process.
#
# The script needs Linux, root, iproute2, Python and Open MPI, and a build with the feature mpi:
#
#     cargo build --release -p train --features mpi
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
train=$(realpath "${TRAIN_BIN:-$root/target/release}")/train
shape=${1:-copy}
shift || true
[ $# -gt 0 ] || set -- 100mbit 1gbit 10gbit

# Names of the namespaces, which are also the names of the machines.
a=link-a-$$ b=link-b-$$
folder=$(mktemp -d)
clean() {
  ip netns del "$a" 2>/dev/null || true
  ip netns del "$b" 2>/dev/null || true
  rm -rf "$folder"
}
trap clean EXIT
cd "$folder"

ip netns add "$a"
ip netns add "$b"
ip link add "va$$" netns "$a" type veth peer name "vb$$" netns "$b"
ip -n "$a" address add 10.77.0.1/24 dev "va$$"
ip -n "$b" address add 10.77.0.2/24 dev "vb$$"
for side in "$a va$$" "$b vb$$"; do
  read -r namespace device <<<"$side"
  ip -n "$namespace" link set lo up
  ip -n "$namespace" link set "$device" up
done

# mpirun uses this script instead of ssh to start its daemon on the other machine. The first
# argument is the address, and the others are the command.
cat >agent <<AGENT
#!/bin/sh
shift
exec ip netns exec "$b" unshare --uts sh -c "hostname $b; \$*"
AGENT
chmod +x agent

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
across() {
  ip netns exec "$a" unshare --uts sh -c 'hostname "$0"; exec mpirun "$@"' "$a" \
    --mca plm_rsh_agent "$folder/agent" --mca btl tcp,self --mca btl_tcp_if_include 10.77.0.0/24 \
    --mca oob_tcp_if_include 10.77.0.0/24 --host 10.77.0.1:1,10.77.0.2:1 --bind-to none -np 2 "$train" "$@"
}

small=(--steps 100 --dropout 0 --learning-rate 2e-4)
[ "$shape" != fit ] || "$train" "${small[@]}" --run-dir alone --quiet >/dev/null

for bandwidth; do
  for side in "$a va$$" "$b vb$$"; do
    read -r namespace device <<<"$side"
    tc -n "$namespace" qdisc replace dev "$device" root tbf rate "$bandwidth" burst 1mb latency 50ms
  done
  if [ "$shape" = fit ]; then
    across "${small[@]}" --run-dir "across-$bandwidth" --threads 1 --quiet >/dev/null
    python3 - "$bandwidth" <<'PYTHON'
import json
import sys

def losses(run):
    lines = [json.loads(line) for line in open(f"{run}/metrics.jsonl")]
    return [line["loss"] for line in lines if "loss" in line]

alone, across = losses("alone"), losses(f"across-{sys.argv[1]}")
assert len(alone) == len(across) == 100
largest = max(abs(x - y) for x, y in zip(alone, across))
summary = json.load(open(f"across-{sys.argv[1]}/summary.json"))
print(f"{sys.argv[1]}: losses differ by at most {largest:.1e}, "
      f"{summary['communication']:.0%} of the time is communication")
assert largest < 1e-5
PYTHON
  else
    across bench --what train --shape "$shape" --threads 1 --json >figures
    python3 - "$bandwidth" <<'PYTHON'
import json
import sys

figures = json.load(open("figures"))
print(f"{sys.argv[1]}: step {figures['step_ms']:.1f} ms, of which exchange {figures['exchange_ms']:.1f} ms")
PYTHON
  fi
done
