#!/usr/bin/env bash
# An elementwise op is one row in one file, src/core/ir/elementwise_rows.h: this counts the files that name each op.
# Usage: elementwise_rows_test.sh ROOT. Then the rule is tried on small breaches, each of which must be found.
set -euo pipefail
export LC_ALL=C
rows=src/core/ir/elementwise_rows.h

# Each line: a file, the ops of the rows that it may name, and why. Passes and transforms are not listed:
# they look for ops.
allowed() {
  cat << 'ALLOWED'
src/core/ops/elementwise.cc Gelu GeluGrad SwiGlu  # their gradients are ops that have kernels of their own
src/kernels/cuda/elementwise/elementwise.cuh And Or  # take bool only
src/kernels/cuda/product/einsum.cc Add GeluGrad  # its kernels add the parts of a product, and multiply by GELU's derivative
ALLOWED
}

# A line for each row: table and op.
ops() {
  awk '/^#define WEFT_[A-Z_]+_OPS/ { table = $2; sub(/\(.*/, "", table) }
    table != "" && table != "WEFT_OTHER_ELEMENTWISE_OPS" {
      while (match($0, /X\([A-Z][A-Za-z0-9]*, *"/)) {
        op = substr($0, RSTART + 2, RLENGTH - 2)
        sub(/,.*/, "", op)
        print table, op
        $0 = substr($0, RSTART + RLENGTH)
      }
    }' "$rows"
}

# A line for each op and file that names it: as Op::kNAME, as a builder "Var NAME(", or as a row once more.
named() {
  local pattern
  pattern=$(ops | awk '{ printf "%s%s", separator, $2; separator = "|" }')
  grep -rnE "(^|[^A-Za-z])Op::k($pattern)\b|^Var ($pattern)\(|X\(($pattern), *\"" src launcher | grep -v "^$rows:" |
    awk -v names="$pattern" '{
      file = $0
      sub(/:.*/, "", file)
      while (match($0, "(Op::k|Var |X\\()(" names ")[^A-Za-z0-9_]")) {
        op = substr($0, RSTART, RLENGTH - 1)
        sub(/^(Op::k|Var |X\()/, "", op)
        print op, file
        $0 = substr($0, RSTART + RLENGTH - 1)
      }
    }' | sort -u
}

# Prints what breaks the rule.
check() {
  cd "$1"
  local op file expected found
  ops | awk '{ print $2 }' | sort | uniq -d | sed "s|.*|$rows: & has two rows|"
  expected=$(allowed | while read -r file found; do
    for op in ${found%%#*}; do echo "$op $file"; done
  done | sort)
  found=$(named | grep -vE ' src/core/(passes|transforms)/' || true)
  comm -13 <(echo "$expected") <(echo "$found") | sed -E '/^$/d; s|(.*) (.*)|\2: names \1, whose row is to be enough; if it cannot be, add it to the list of this file in elementwise_rows_test.sh|'
  comm -23 <(echo "$expected") <(echo "$found") | sed -E '/^$/d; s|(.*) (.*)|\2: names \1 no longer; unlist it|'
}

try_breaches() {
  local tree file line found
  tree=$(mktemp -d)
  trap 'rm -rf "$tree"' RETURN
  mkdir -p "$tree/launcher"
  while IFS='|' read -r file line; do
    cp -r src "$tree"
    mkdir -p "$tree/$(dirname "$file")"
    printf '%s\n' "$line" >> "$tree/$file"
    found=$(check "$tree")
    rm -r "$tree/src"
    [[ $found == "$file: "* ]] ||
      { echo "elementwise_rows_test: '$line' in $file was not found, got '$found'"; return 1; }
  done << 'BREACHES'
src/kernels/cpu/elementwise/tanh.cc|void AddTanh(KernelTable& table) { table.Add(Op::kTanh, {.run = &Tanh}); }
src/core/ops/erf.cc|  t[size_t(Op::kErf)] = {.op = Op::kErf, .grad = GradErf};
src/core/ops/erf.cc|Var Erf(Var x, Loc loc) { return EmitOne(Op::kErf, {}, {x}, loc); }
src/core/ir/op.def|#define WEFT_MORE_OPS(X) X(Silu, "silu")
BREACHES
  cp -r src "$tree"
  sed -i '/Op::kSwiGlu/d' "$tree/src/core/ops/elementwise.cc"
  found=$(check "$tree")
  [[ $found == *"elementwise.cc: names SwiGlu no longer"* ]] ||
    { echo "elementwise_rows_test: a line that allows nothing was not found, got '$found'"; return 1; }
}

cd "${1:?usage: elementwise_rows_test.sh ROOT}"
found=$(check .)
[ -z "$found" ] || { echo "$found"; exit 1; }
(try_breaches)
all=$(ops | wc -l) two=$(allowed | sed 's|#.*||' | awk '{ n += NF - 1 } END { print n }')
[ "$all" -ge 40 ] || { echo "elementwise_rows_test: expected at least 40 rows, got $all"; exit 1; }
echo "shown: $all elementwise ops: $((all - two)) are one row in one file, $two are named in one file more"
