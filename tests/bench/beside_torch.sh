# shellcheck shell=bash
# Sourced by versus_torch.sh, versus_torch_cpu.sh and multigpu_rows.sh. Has functions for one run of Weft and one run of PyTorch
# (torch_peer.py). The output of a run goes to the folder $out, which is OUT or a new folder.
out=${OUT:-$(mktemp -d)}
mkdir -p "$out"
export COMMIT=${COMMIT:-$(git rev-parse --short HEAD 2> /dev/null || echo '?')}

# The commands that start the programs, and the command that limits the time of a run. The scripts may change them.
weft_command=(weft) peer_command=(python3 tests/bench/torch_peer.py) limit=()

# run_weft NAME CONFIG [key=value...]: trains configs/CONFIG.yaml with NAME.jsonl as the log. The output goes to NAME.weft.log.
run_weft() {
  "${limit[@]}" "${weft_command[@]}" train "configs/$2.yaml" "${@:3}" log.every=1000 log.jsonl="$out/$1.jsonl" \
    > "$out/$1.weft.log" 2>&1
}
# run_peer NAME FLAGS...: runs PyTorch with these flags. The output goes to NAME.peer.log.
run_peer() {
  "${limit[@]}" "${peer_command[@]}" "${@:2}" > "$out/$1.peer.log" 2>&1
}
