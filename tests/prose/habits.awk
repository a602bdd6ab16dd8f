# Prints the English of files, one line each: "FILE:LINE: TEXT". In Markdown and data files that is every line except
# those of fenced blocks. In code it is comments and the contents of string literals.
FNR == 1 {
  fenced = 0
  page = FILENAME ~ /\.(md|def|yaml|txt)$/ && FILENAME !~ /CMakeLists/
  shell = FILENAME ~ /\.(sh|cmake|awk|py)$|CMakeLists|\.ci\/run$/
  mark = shell ? "(^|[ \t;])# " : "(^|[ \t;{}),])//+ "
}
page && /^```/ { fenced = !fenced; next }
page { if (!fenced) print FILENAME ":" FNR ": " $0; next }
{
  line = $0
  text = ""
  if (match(line, mark)) {
    text = substr(line, RSTART)
    line = substr(line, 1, RSTART - 1)
  } else if (help) {
    text = line  # a line of a raw string
    line = ""
  }
  if (!shell && $0 ~ /R"[a-z]*\(/) help = 1
  if (!shell && help && $0 ~ /\)[a-z]*"/) help = 0
  while (match(line, /"([^"\\]|\\.)*"/)) {
    text = text " " substr(line, RSTART, RLENGTH)
    line = substr(line, RSTART + RLENGTH)
  }
  while (shell && match(line, /'[^']*'/)) {
    text = text " " substr(line, RSTART, RLENGTH)
    line = substr(line, RSTART + RLENGTH)
  }
  if (text != "") print FILENAME ":" FNR ": " text
}
