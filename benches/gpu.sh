#!/usr/bin/env bash
# Measures training and decoding on a GPU beside PyTorch, checks the parity tests there, and samples
# the memory over batches of hundreds of shapes. It needs no network and no compiler: programs that
# were built and stripped elsewhere, a driver, and a python3 with PyTorch.
#
#     cargo build --release -p train -p transformer --features vulkan --bin train --test parity
#     mkdir gpu
#     strip -o gpu/train target/release/train
#     strip -o gpu/parity target/release/deps/parity-<hash>
#     benches/gpu.sh gpu result.json
#
# The first step tunes and compiles kernels for one or two minutes, which a program spends on one core.
# On a machine without a GPU, `.ci/software-vulkan` sets up Mesa's lavapipe for a build with the
# feature `wgpu`, and SHAPES=tiny PYTORCH_DEVICE=cpu keep it short. These variables change what is
# measured:
#
# - BACKENDS: the backends, by default all GPU backends of the build.
# - SHAPES: shapes of `train bench`, by default "base copy big".
# - PRECISIONS: precisions of training, by default "f32 bf16".
# - ITEMS: the kinds of measurement, by default "train pytorch generate parity shapes".
# - LIMIT: seconds for everything, by default 480. What has no time left is recorded as skipped.
# - EACH: seconds for one program, by default 120.
# - PYTORCH_DEVICE: the device of PyTorch, by default cuda.
#
# The result is one JSON object; `measurements` has an entry for each program, with its exit status
# (124: it ran out of time), its seconds, and what it printed, as JSON where it is JSON.
set -uo pipefail

programs=$(cd "$1" && pwd)
output=$(realpath -m "$2")
root=$(cd "$(dirname "$0")/.." && pwd)
limit=${LIMIT:-480}
each=${EACH:-120}
shapes=${SHAPES:-base copy big}
items=${ITEMS:-train pytorch generate parity shapes}
precisions=${PRECISIONS:-f32 bf16}
device=${PYTORCH_DEVICE:-cuda}
backends=${BACKENDS:-$("$programs/train" backends | sed -nE 's/^(cuda|rocm|metal|vulkan|wgpu) .*built in.*/\1/p')}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Tuned and compiled kernels of earlier runs must not be found, but those of this run may be. The
# programs keep them in the user's cache if no folder above has a Cargo.toml.
export HOME=$work/home
unset XDG_CACHE_HOME
mkdir -p "$HOME"
cd "$work"
# The many candidates of a thorough tuning take minutes.
export CUBECL_AUTOTUNE_LEVEL=${CUBECL_AUTOTUNE_LEVEL:-minimal}

# Runs a program, and records the result under the name $1: run NAME COMMAND...
run() {
  local name=$1 left=$((limit - SECONDS)) begun status=skipped
  shift
  : >"$work/out"
  : >"$work/error"
  begun=$(date +%s.%N)
  if [ "$left" -gt 5 ]; then
    timeout -k 5 "$((left < each ? left : each))" "$@" >"$work/out" 2>"$work/error"
    status=$?
  fi
  python3 - "$name" "$status" "$begun" "$work" "$*" >>"$work/results" <<'PY'
import json, sys, time
name, status, begun, work, command = sys.argv[1:]
def parsed(line):
    try:
        return json.loads(line)
    except ValueError:
        return line
lines = [parsed(line) for line in open(f"{work}/out", errors="replace").read().splitlines() if line.strip()]
error = open(f"{work}/error", errors="replace").read()
status = status if status == "skipped" else int(status)
print(json.dumps({
    "name": name, "command": command.replace(work, "WORK"), "status": status,
    "seconds": round(time.time() - float(begun), 1), "output": lines[-40:],
    "errors": error[-1500:] if status != 0 else "",
}))
PY
  tail -n 1 "$work/results" | cut -c 1-400 >&2
}

# Trains on batches of one sequence whose lengths are all different, and samples the memory of the
# GPU and of the process.
memory() {
  local backend=$1 pid
  "$programs/train" fit --task copy --backend "$backend" --batch-size 1 --max-length 500 --steps 3000 \
    --d-model 64 --heads 4 --d-ff 128 --layers 1 --eval-every 100000 --run-dir "$work/run-$backend" --plain \
    >"$work/fit.out" 2>"$work/fit.error" &
  pid=$!
  # The function ends with its samples, before the time of a program is over.
  for ((sample = 1; sample < each / 2 - 2; sample++)); do
    sleep 2
    kill -0 "$pid" 2>/dev/null || break
    local gpu rss
    gpu=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits 2>/dev/null | head -n 1)
    rss=$(awk '/^VmRSS/ { print int($2 / 1024) }' "/proc/$pid/status")
    echo "{\"second\": $((2 * sample)), \"gpu_mib\": ${gpu:-null}, \"rss_mib\": ${rss:-null}}"
  done
  kill -INT "$pid" 2>/dev/null
  wait "$pid"
  tail -q -n 3 "$work/fit.out" "$work/fit.error"
}

for item in $items; do
  case $item in
    parity)
      for program in parity dropout; do
        [ ! -x "$programs/$program" ] ||
          (cd "$root/crates/transformer" && run "$program" "$programs/$program" --test-threads 4)
      done
      ;;
    train)
      for shape in $shapes; do
        for backend in $backends; do
          for precision in $precisions; do
            bench=("$programs/train" bench --what train --json --shape "$shape" --backend "$backend" --precision "$precision")
            run "train $shape $backend $precision" "${bench[@]}"
            run "train $shape $backend $precision --no-fused" "${bench[@]}" --no-fused
          done
        done
      done
      ;;
    pytorch)
      for shape in $shapes; do
        pytorch=(python3 "$root/benches/pytorch.py" --shape "$shape" --device "$device")
        for precision in $precisions; do
          for model in modules nn; do
            run "pytorch train $shape $model $precision" "${pytorch[@]}" --model $model --precision $precision
          done
          run "pytorch train $shape modules $precision --compile" "${pytorch[@]}" --precision $precision --compile
        done
        run "pytorch generate $shape" "${pytorch[@]}" --what generate
      done
      ;;
    generate)
      for shape in $shapes; do
        for backend in $backends; do
          run "generate $shape $backend" "$programs/train" bench --what generate --json --shape "$shape" --backend "$backend"
        done
      done
      ;;
    shapes)
      for backend in $backends; do
        export -f memory
        export programs work each
        run "memory over shapes, $backend" bash -c "memory $backend"
      done
      ;;
  esac
done

python3 - "$work/results" >"$output" <<'PY'
import json, platform, subprocess, sys
def first(*command):
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except OSError:
        return None
print(json.dumps({
    "gpu": first("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"),
    "machine": platform.processor() or platform.machine(),
    "cores": len(__import__("os").sched_getaffinity(0)),
    "measurements": [json.loads(line) for line in open(sys.argv[1])],
}, indent=1))
PY
echo "written: $output" >&2
