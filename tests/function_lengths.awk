# Prints "lines file:line" for every function with a body of its own lines, from its head to its closing brace. Relies on
# clang-format: the brace that closes a body stands under the first line of its head. Tables, whose head has "=" before
# its brace, or whose body begins with "static const ... {", are no functions.

# Whether there is a "=" outside of brackets and of the names of operators.
function assigns(text) {
  gsub(/operator *[^ (A-Za-z0-9_]+/, "", text)
  while (gsub(/\([^(){}]*\)|\{[^(){}]*\}/, "", text)) {}
  while (gsub(/<[^<>]*>/, "", text)) {}
  return text ~ /=/
}

BEGIN { no_head = "^ *(if|for|while|switch|else|do|catch|return|namespace|struct|class|enum|union)([^A-Za-z0-9_]|$)" }
FNR == 1 { begin = 0; head = 0 }
/^ *\/\// || /^ *$/ || /^ *#/ || /\\$/ { if (!begin) head = 0; next }
{
  sub(/  \/\/ .*/, "")
  match($0, /^ */)
  indent = RLENGTH
  if (begin) {
    if (FNR == body && /^ *static const.*\{$/) table = 1
    if (indent == at && /^ *\}/) {
      if (!table) print FNR - begin + 1, FILENAME ":" begin
      begin = head = 0
    }
    next
  }
  if (!head) {
    head = FNR
    head_indent = indent
    text = ""
  }
  text = text " " $0
  if (/\{$/) {
    if (text ~ /\(.*\)/ && text !~ no_head && text !~ /^ *(\{|\})/ && !assigns(text)) {
      begin = head
      at = head_indent
      body = FNR + 1
      table = 0
    }
    head = 0
  } else if (/[;}:,]$/ && !/,$/) {
    head = 0
  }
}
